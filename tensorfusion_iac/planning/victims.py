"""Whom to evict so that a pod fits: the fewest, lowest, newest pods of lower priority that really free enough on one node.

Equal priority never goes (SPEC §7), nor a pod that its eviction protection or a disruption budget shields. Every set is tried
on the books of that node, so that evicting it is known to be enough (of GPUs, partitions, isolation and quota alike). Pods that
are ending already count as gone: where they are enough, nobody is evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np

from tensorfusion_iac.planning.allocate import Allocator
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.fit import Asker, reasons
from tensorfusion_iac.planning.inventory import Inventory, on_node
from tensorfusion_iac.planning.reasons import PASSING, Reason
from tensorfusion_iac.planning.shares import Reservation

MOST_NODES = 48
"""Nodes that are tried in full, those with the lowest victims first."""
_ALL_PAIRS = 12
"""Up to so many candidates on a node, every pair is tried; beyond, sets are put together card by card."""
_SETS_OF_A_CARD, _CHOICES_OF_CARDS = 60, 500
"""How many sets are tried on one card, and how many choices of cards are compared."""

Cost = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may be evicted. `started_s`: when it began to run, in seconds of any clock; later is newer."""

    reservation: Reservation
    started_s: float = 0.0

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.reservation.uid


@dataclass(frozen=True, slots=True)
class Plan:
    """Evicting these pods (UIDs) frees enough on that node; none, where those that are ending are enough."""

    node: str
    victims: tuple[str, ...]


def plan(
    inventory: Inventory,
    claim: Claim,
    asker: Asker,
    nodes: Iterable[str],
    candidates: Iterable[Candidate],
    ending: Iterable[Reservation] = (),
) -> Plan | None:
    """The best set of victims on one of the nodes, None if none is enough.

    `candidates` are the pods that may be evicted, `ending` what pods hold that are going anyway.
    """
    best = None
    for so_far in search(inventory, claim, asker, nodes, candidates, ending):
        best = so_far
    return best


def search(
    inventory: Inventory,
    claim: Claim,
    asker: Asker,
    nodes: Iterable[str],
    candidates: Iterable[Candidate],
    ending: Iterable[Reservation] = (),
) -> Iterator[Plan | None]:
    """`plan`, node by node: the best so far, so that other work can be done in between."""
    by_node: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        if candidate.reservation.priority < asker.priority:
            by_node.setdefault(candidate.reservation.node, []).append(candidate)
    going: dict[str, list[str]] = {}
    for held in ending:
        going.setdefault(held.node, []).append(held.uid)
    best: tuple[Cost, Plan] | None = None
    for node in _nodes_worth_trying(inventory, claim, asker, nodes, by_node, going)[:MOST_NODES]:
        if node in inventory.row_of:  # it may have gone in between
            found = enough(
                inventory, claim, asker, node, by_node.get(node, ()), gone=going.get(node, ()), below=best[0] if best else None
            )
            if found or (found is not None and node in going):
                best = _cost(found), Plan(node, tuple(victim.uid for victim in found))
        yield best[1] if best else None
        if best is not None and not best[1].victims:
            return


def enough(
    inventory: Inventory,
    claim: Claim,
    asker: Asker,
    node: str,
    candidates: Sequence[Candidate],
    *,
    gone: Iterable[str] = (),
    below: Cost | None = None,
) -> list[Candidate] | None:
    """The cheapest set of candidates on one node without which the claim fits there; empty if it needs none.

    `gone`: pods (UIDs) that will not be there anyway. None if not even all are enough, or none costs less than `below`.
    """
    gone = tuple(gone)
    ordered = sorted(candidates, key=lambda one: (one.reservation.priority, -one.started_s, one.uid))
    if below is not None and below[0] == 1 and not gone:
        ordered = [one for one in ordered if _cost([one]) < below]  # one pod is enough elsewhere: here it must be a better one
        if not ordered:
            return None
    books = _Books(inventory, node, claim, asker, gone)
    if not books.fits_without(ordered):
        return None
    if books.fits_without(()):
        return []
    found = _one(books, ordered)
    if found is None:
        found = _several(books, ordered) if below is None or below[0] != 1 else None
    return None if found is None or (below is not None and not _cost(found) < below) else found


class _Books:
    """The books of one node, as they would be if some of its pods were not there."""

    def __init__(self, inventory: Inventory, node: str, claim: Claim, asker: Asker, gone: Iterable[str]) -> None:
        self.claim, self.inventory = claim, on_node(inventory, node, gone)
        self._allocator, self._asker = Allocator(self.inventory), Asker(asker.priority, asker.budget, 0)
        self._held: dict[str, Reservation] = {}
        self.column_of: dict[str, int] = {}
        for card in self.inventory.cards():
            place = self.inventory.place_of(card.uuid)
            if place is not None:
                self.column_of[card.uuid] = place[1]
            self._held |= {uid: reservation for uid, (_, reservation) in self.inventory.holders(card.uuid).items()}
        self._out: set[str] = set()

    def fits_without(self, victims: Iterable[Candidate]) -> bool:
        """Whether the claim fits without them."""
        self._take_out(victims)
        fit = self._allocator.fit(self.claim, self._asker)
        return bool(fit.nodes[0]) and self._allocator.choose(self.claim, self._asker, fit, 0) is not None

    @cached_property
    def free(self) -> frozenset[int]:
        """The columns of the cards that one GPU of the claim fits on as it is."""
        return self.cards_without(())

    def cards_without(self, victims: Iterable[Candidate]) -> frozenset[int]:
        """The columns of the cards that one GPU of the claim fits on without them."""
        self._take_out(victims)
        return frozenset(np.flatnonzero(self._allocator.fit(self.claim, self._asker).cards[0]).tolist())

    def columns(self, victim: Candidate) -> frozenset[int]:
        """The columns of the cards that a pod holds something of."""
        return frozenset(self.column_of[share.uuid] for share in victim.reservation.shares if share.uuid in self.column_of)

    def _take_out(self, victims: Iterable[Candidate]) -> None:
        wanted = {victim.uid for victim in victims if victim.uid in self._held}
        for uid in self._out - wanted:
            self.inventory.charge(self._held[uid])
        for uid in wanted - self._out:
            self.inventory.discharge(self._held[uid])
        self._out = wanted


def _one(books: _Books, ordered: Sequence[Candidate]) -> list[Candidate] | None:
    """The first that is enough by itself."""
    short = books.claim.gpu_count - len(books.free)
    for victim in ordered:
        if len(books.columns(victim)) >= short and books.fits_without([victim]):
            return [victim]
    return None


def _several(books: _Books, ordered: Sequence[Candidate]) -> list[Candidate]:
    """The cheapest set that was found. All of them together are enough, and no one is by itself."""
    found = _by_cards(books, ordered) or _pruned(ordered, books.fits_without)
    if len(ordered) <= _ALL_PAIRS:
        for pair in sorted(map(list, combinations(ordered, 2)), key=_cost):
            if not _cost(pair) < _cost(found):
                break
            if books.fits_without(pair):
                return pair
    return found


def _by_cards(books: _Books, ordered: Sequence[Candidate]) -> list[Candidate] | None:
    """The cheapest set that frees as many cards as are short, from the cheapest one for each card; None if that is not enough."""
    short = books.claim.gpu_count - len(books.free)
    options = []
    for column in sorted(set(books.column_of.values()) - books.free):
        on_it = [victim for victim in ordered if column in books.columns(victim)]
        if on_it and column in books.cards_without(on_it):
            options.append(_of_a_card(books, column, on_it))
    if short <= 0 or len(options) < short:
        return None
    if comb(len(options), short) <= _CHOICES_OF_CARDS:
        chosen = min((_union(some) for some in combinations(options, short)), key=_cost)
    else:
        chosen = []
        for _ in range(short):
            cheapest = min(options, key=lambda option: _cost(_union((chosen, option))))
            options.remove(cheapest)
            chosen = _union((chosen, cheapest))
    in_order = [victim for victim in ordered if victim in chosen]
    if not books.fits_without(in_order):
        return None
    overlap = any(len(books.columns(victim)) > 1 for victim in in_order)  # else each card needs all of its own
    return _pruned(in_order, books.fits_without) if overlap else in_order


def _of_a_card(books: _Books, column: int, on_it: Sequence[Candidate]) -> list[Candidate]:
    """The fewest, lowest and newest of a card's pods without which it has room; all of them together are enough."""

    def has_room(victims: Collection[Candidate]) -> bool:
        return column in books.cards_without(victims)

    if books.claim.whole_card:
        return list(on_it)
    found, tried = _pruned(on_it, has_room), 0
    for size in range(1, len(found) + 1):
        for some in sorted(map(list, combinations(on_it, size)), key=_cost):
            if not _cost(some) < _cost(found) or tried >= _SETS_OF_A_CARD:
                break
            tried += 1
            if has_room(some):
                return some
    return found


def _pruned(ordered: Sequence[Candidate], is_enough: Callable[[Collection[Candidate]], bool]) -> list[Candidate]:
    """What remains when everyone is spared who can be, the highest and oldest first."""
    needed = list(ordered)
    for spared in reversed(ordered):
        fewer = [victim for victim in needed if victim is not spared]
        if is_enough(fewer):
            needed = fewer
    return needed


def _union(sets: Iterable[Sequence[Candidate]]) -> list[Candidate]:
    return list({victim.uid: victim for some in sets for victim in some}.values())


def _cost(victims: Sequence[Candidate]) -> Cost:
    """Fewer is better, then a lower highest priority, then lower ones in all, then newer ones."""
    priorities = [victim.reservation.priority for victim in victims]
    return (
        len(victims),
        max(priorities, default=0),
        sum(priorities),
        tuple(sorted(-victim.started_s for victim in victims)),
    )


def _nodes_worth_trying(
    inventory: Inventory,
    claim: Claim,
    asker: Asker,
    nodes: Iterable[str],
    by_node: dict[str, list[Candidate]],
    going: dict[str, list[str]],
) -> list[str]:
    """Nodes that are refused for a passing reason and have pods that end or may be evicted: those that end, then the lowest."""
    found = reasons(inventory, claim, asker)
    passing = {int(reason) for reason in PASSING} | {int(Reason.FITS)}
    able = [
        node for node in nodes
        if (node in by_node or node in going) and (row := inventory.row_of.get(node)) is not None
        and int(found[row]) in passing and np.any(inventory.present[row])
    ]  # fmt: skip

    def key(node: str) -> tuple[object, ...]:
        victims = by_node.get(node, ())
        newest = max((one.started_s for one in victims), default=0.0)
        return node not in going, min((one.reservation.priority for one in victims), default=0), len(victims), -newest, node

    return sorted(able, key=key)
