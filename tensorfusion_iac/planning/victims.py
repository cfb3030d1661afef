"""Whom to evict so that a pod fits: the fewest, lowest, newest pods of lower priority that really free enough on one node.

Equal priority never goes (SPEC §7), nor a pod that its eviction protection or a disruption budget shields. Every set is tried
on the books of that node, so that evicting it is known to be enough (of GPUs, partitions, isolation and quota alike).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tensorfusion_iac.planning.allocate import Allocator
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.fit import Asker, reasons
from tensorfusion_iac.planning.inventory import Inventory, on_node
from tensorfusion_iac.planning.reasons import PASSING, Reason
from tensorfusion_iac.planning.shares import Reservation

MOST_NODES = 48
"""Nodes that are tried in full, those with the lowest victims first: a plan must not hold up other decisions."""
_EXHAUSTIVE = 16
"""Up to so many candidates on a node, every set of one and of two is tried; beyond, the whole set is made smaller."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may be evicted. `started_s`: when it began to run, in seconds of any clock; later is newer."""

    reservation: Reservation
    started_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Evicting these pods (UIDs) frees enough on that node."""

    node: str
    victims: tuple[str, ...]


def plan(
    inventory: Inventory,
    claim: Claim,
    asker: Asker,
    nodes: Iterable[str],
    candidates: Iterable[Candidate],
) -> Plan | None:
    """The best set of victims on one of the nodes, None if none is enough. `candidates` are the pods that may be evicted."""
    by_node: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        if candidate.reservation.priority < asker.priority:
            by_node.setdefault(candidate.reservation.node, []).append(candidate)
    worth_it = _nodes_worth_trying(inventory, claim, asker, nodes, by_node)
    best: tuple[tuple[object, ...], Plan] | None = None
    for node in worth_it[:MOST_NODES]:
        victims = enough(inventory, claim, asker, node, by_node[node], most=len(best[1].victims) if best else None)
        if not victims:
            continue
        cost = _cost(victims)
        if best is None or cost < best[0]:
            best = cost, Plan(node, tuple(victim.reservation.uid for victim in victims))
    return best[1] if best else None


def enough(
    inventory: Inventory,
    claim: Claim,
    asker: Asker,
    node: str,
    candidates: Sequence[Candidate],
    *,
    gone: Iterable[str] = (),
    most: int | None = None,
) -> list[Candidate] | None:
    """The cheapest set of candidates on one node without which the claim fits there; empty if it needs none.

    `gone`: pods (UIDs) that will not be there anyway. None if not even all are enough, or if it takes more than `most`.
    """
    leaving = tuple(gone)

    def fits_without(victims: Iterable[Candidate]) -> bool:
        alone = on_node(inventory, node, [*leaving, *(victim.reservation.uid for victim in victims)])
        here = Asker(asker.priority, asker.budget, 0)
        return Allocator(alone).allocate(claim, here) is not None

    if not fits_without(candidates):
        return None
    if fits_without(()):
        return []
    ordered = sorted(candidates, key=lambda one: (one.reservation.priority, -one.started_s, one.reservation.uid))
    if len(ordered) <= _EXHAUSTIVE:
        for size in (1, 2):
            for victims in sorted((list(victims) for victims in combinations(ordered, size)), key=_cost):
                if (most is None or size <= most) and fits_without(victims):
                    return victims
        if most is not None and most <= 2:
            return None
    needed = list(ordered)
    for spared in reversed(ordered):  # the highest and oldest are spared first
        fewer = [victim for victim in needed if victim is not spared]
        if fits_without(fewer):
            needed = fewer
    return needed if most is None or len(needed) <= most else None


def _cost(victims: Sequence[Candidate]) -> tuple[object, ...]:
    """Fewer is better, then a lower highest priority, then lower ones in all, then newer ones."""
    priorities = [victim.reservation.priority for victim in victims]
    return (
        len(victims),
        max(priorities, default=0),
        sum(priorities),
        tuple(sorted(-victim.started_s for victim in victims)),
    )


def _nodes_worth_trying(
    inventory: Inventory, claim: Claim, asker: Asker, nodes: Iterable[str], by_node: dict[str, list[Candidate]]
) -> list[str]:
    """Nodes that are refused for a passing reason, and have victims; the lowest and fewest victims first."""
    found = reasons(inventory, claim, asker)
    passing = {int(reason) for reason in PASSING} | {int(Reason.FITS)}
    rows = {node: inventory.row_of[node] for node in nodes if node in inventory.row_of and node in by_node}
    able = [node for node, row in rows.items() if int(found[row]) in passing and np.any(inventory.present[row])]
    return sorted(able, key=lambda node: (min(one.reservation.priority for one in by_node[node]), len(by_node[node]), node))
