"""The choice among what fits: nodes by the pool's placement mode, then the cards of a node, near each other (SPEC §7).

CompactFirst fills nodes and cards one after the other; LowLoadFirst spreads over both; NodeCompactGPULowLoad (the default)
fills nodes and spreads over the cards within. Several GPUs of one worker are taken from one NVLink group if it has enough,
else from one NUMA node, else anywhere on the node. Partitions go where they waste least, on cards that are cut already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tensorfusion_iac.planning.cards import CardFacts
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.fit import Asker
from tensorfusion_iac.planning.inventory import Bools, Floats, Inventory
from tensorfusion_iac.planning.shares import Slot, share_on
from tensorfusion_iac.planning.slots import choose_slots

COMPACT, SPREAD, NODE_COMPACT = "CompactFirst", "LowLoadFirst", "NodeCompactGPULowLoad"

Chosen = tuple[tuple[CardFacts, Slot | None], ...]


def node_scores(inventory: Inventory, claim: Claim) -> Floats:
    """How much each node is wanted by the pool's mode, 0 to 1: its fullness, or its emptiness."""
    mode = inventory.pool_facts(claim.pool).mode
    return 1.0 - inventory.fullness if mode == SPREAD else inventory.fullness


def best_node(scores: Floats, fits: Bools) -> int | None:
    """The row with the highest score among those that fit; the first of equals. None if none fits."""
    if not fits.any():
        return None
    return int(np.argmax(np.where(fits, scores, -1.0)))


def most_wanted(scores: Floats, fits: Bools, most: int) -> Bools:
    """Of the rows that fit, the `most` with the highest scores; of equals, the first."""
    rows = np.flatnonzero(fits)
    if rows.size <= most:
        return fits.copy()
    found = np.zeros(fits.shape, np.bool_)
    found[rows[np.argsort(-scores[rows], kind="stable")[:most]]] = True
    return found


def choose_cards(inventory: Inventory, claim: Claim, asker: Asker, row: int, ok: Sequence[bool]) -> Chosen | None:
    """The cards of one node that the claim gets, in the order of the driver's indices; `ok` tells which may be taken.

    None if there are too few, or if no choice of them is within the budget.
    """
    columns = [column for column, able in enumerate(ok) if able]
    if len(columns) < claim.gpu_count:
        return None
    if claim.partitioned:
        slots = choose_slots(inventory, claim, asker.budget, row, columns)
        return None if slots is None else _with_facts(inventory, row, dict(slots))
    ordered = _in_order(inventory, claim, row, columns)
    for group in _groups(inventory, row, ordered):
        if len(group) >= claim.gpu_count:
            chosen = _affordable(inventory, claim, asker, row, group)
            if chosen is not None:
                return _with_facts(inventory, row, dict.fromkeys(chosen))
    return None


def _in_order(inventory: Inventory, claim: Claim, row: int, columns: list[int]) -> list[int]:
    """Columns by preference: where the least is left over and wasted, or the emptiest, by the mode; then by the index."""
    used, index = inventory.used[row], inventory.index[row]
    if inventory.pool_facts(claim.pool).mode == COMPACT:
        return sorted(columns, key=lambda column: (*_waste(inventory, claim, row, column), int(index[column]), column))
    return sorted(columns, key=lambda column: (float(used[column]), int(index[column]), column))


def _waste(inventory: Inventory, claim: Claim, row: int, column: int) -> tuple[float, float]:
    """By how much a card gets more out of step, compute against memory, beside the claim; and what it has left then.

    Compute without memory, or memory without compute, is of little use to the next pod. (On random orders of mixed shapes this
    places about three points more than the fullest card first, as much as a rule that knows the shapes that will come.)
    """
    card = inventory.card_at(row, column)
    mflops, vram = float(inventory.free_mflops[row, column]), float(inventory.free_vram[row, column])
    in_percent = 100 / max(card.capacity_mflops, 1), 100 / max(card.capacity_vram_bytes, 1)
    before = mflops * in_percent[0], vram * in_percent[1]
    left = (mflops - claim.mflops_on(card.capacity_mflops)) * in_percent[0], (vram - claim.vram_bytes) * in_percent[1]
    return _out_of_step(*left) - _out_of_step(*before), sum(left)


def _out_of_step(compute: float, memory: float) -> float:
    """How much is left of one without the other, in percent of a card; it weighs more where little is left."""
    return (compute - memory) ** 2 / (1 + max(compute + memory, 0.0))


def _groups(inventory: Inventory, row: int, ordered: list[int]) -> list[list[int]]:
    """Sets of near cards in order of nearness, each in the order given: NVLink groups, NUMA nodes, the whole node.

    Among groups of the same kind the smaller comes first, so that large ones stay whole.
    """
    cards = {column: inventory.card_at(row, column) for column in ordered}
    linked = _linked(cards)
    numa: dict[int, list[int]] = {}
    for column in ordered:
        if cards[column].numa_node >= 0:
            numa.setdefault(cards[column].numa_node, []).append(column)
    return [*sorted(linked, key=len), *sorted(numa.values(), key=len), ordered]


def _linked(cards: dict[int, CardFacts]) -> list[list[int]]:
    """Cards that are joined by NVLink, directly or through others."""
    column_of = {card.uuid: column for column, card in cards.items()}
    groups: list[list[int]] = []
    seen: set[int] = set()
    for start in cards:
        if start in seen or not cards[start].peers:
            continue
        group, frontier = {start}, [start]
        while frontier:
            for peer in cards[frontier.pop()].peers:
                column = column_of.get(peer)
                if column is not None and column not in group:
                    group.add(column)
                    frontier.append(column)
        seen |= group
        groups.append([column for column in cards if column in group])
    return groups


def _affordable(inventory: Inventory, claim: Claim, asker: Asker, row: int, group: list[int]) -> list[int] | None:
    """The first `gpu_count` of the group; where cards differ in size and a quota binds, the first that it allows."""
    first = group[: claim.gpu_count]
    if asker.budget.unlimited or _within(inventory, claim, asker, row, first):
        return first
    kinds: dict[int, list[int]] = {}
    for column in group:
        kinds.setdefault(int(inventory.kind[row, column]), []).append(column)
    for counts in _splits(claim.gpu_count, [len(cards) for cards in kinds.values()]):
        chosen = [column for cards, count in zip(kinds.values(), counts, strict=True) for column in cards[:count]]
        if _within(inventory, claim, asker, row, chosen):
            return chosen
    return None


def _within(inventory: Inventory, claim: Claim, asker: Asker, row: int, columns: list[int]) -> bool:
    return asker.budget.allows(tuple(share_on(claim, inventory.card_at(row, column)) for column in columns))


def _splits(total: int, most: list[int]) -> Iterable[tuple[int, ...]]:
    """All ways to take `total` from heaps of at most these sizes."""
    if not most:
        if total == 0:
            yield ()
        return
    for count in range(min(total, most[0]), -1, -1):
        for rest in _splits(total - count, most[1:]):
            yield (count, *rest)


def _with_facts(inventory: Inventory, row: int, chosen: Mapping[int, Slot | None]) -> Chosen:
    """The chosen columns as cards, in the order of the driver's indices."""
    ordered = sorted(chosen, key=lambda column: _rank(inventory, row, column))
    return tuple((inventory.card_at(row, column), chosen[column]) for column in ordered)


def _rank(inventory: Inventory, row: int, column: int) -> tuple[int, str]:
    return int(inventory.index[row, column]), inventory.card_at(row, column).uuid
