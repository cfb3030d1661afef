"""Hardware partitions for a claim on the cards of one node: what each card offers, and a choice that the quota allows.

Alone, a card offers the least wasteful template that has a place. Where a quota binds and several GPUs are wanted, the
dearer ones have to leave room for the others, so choices are tried one after the other until one is affordable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorfusion_iac.planning.charge import Budget
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.inventory import Inventory
from tensorfusion_iac.planning.partition import covering, place
from tensorfusion_iac.planning.shares import CardShare, Slot, share_on

Offer = tuple[int, Slot]
"""A card's column, and where on it the partition goes."""


def free_slot(inventory: Inventory, claim: Claim, budget: Budget, row: int, column: int) -> Slot | None:
    """Where on one card a partition for one GPU of the claim goes, within the budget; None if nowhere."""
    return next((slot for slot, _ in _offers(inventory, claim, budget, row, column)), None)


def choose_slots(
    inventory: Inventory, claim: Claim, budget: Budget, row: int, columns: Sequence[int]
) -> tuple[Offer, ...] | None:
    """Slots on `gpu_count` of a node's cards: the smallest partitions on the fullest cards. None if there is no choice."""
    offers = {column: tuple(_offers(inventory, claim, budget, row, column)) for column in columns}
    able = [column for column in columns if offers[column]]
    if len(able) < claim.gpu_count:
        return None
    used, index = inventory.used[row], inventory.index[row]
    able.sort(key=lambda column: (offers[column][0][0].size, -float(used[column]), int(index[column]), column))
    if budget.unlimited:
        return tuple((column, offers[column][0][0]) for column in able[: claim.gpu_count])
    return _affordable(able, [offers[column] for column in able], claim.gpu_count, budget, ())


def _affordable(
    columns: Sequence[int],
    offers: Sequence[tuple[tuple[Slot, CardShare], ...]],
    count: int,
    budget: Budget,
    taken: tuple[CardShare, ...],
) -> tuple[Offer, ...] | None:
    """The first affordable choice in depth; what is over the budget already is not followed further."""
    if count == 0:
        return ()
    for at in range(len(columns) - count + 1):
        for slot, share in offers[at]:
            if budget.allows((*taken, share)):
                rest = _affordable(columns[at + 1 :], offers[at + 1 :], count - 1, budget, (*taken, share))
                if rest is not None:
                    return (columns[at], slot), *rest
    return None


def _offers(inventory: Inventory, claim: Claim, budget: Budget, row: int, column: int) -> Iterator[tuple[Slot, CardShare]]:
    card = inventory.card_at(row, column)
    if card.geometry is None:
        return
    taken, slices = int(inventory.slots[row, column]), int(inventory.slices[row, column])
    held = [share.slot.template for share, _ in inventory.holders(card.uuid).values() if share.slot]
    for template in covering(card.geometry, claim, card.capacity_mflops, card.capacity_vram_bytes):
        if held.count(template.name) >= template.max_instances:
            continue
        slot = place(card.geometry, template, taken, slices)
        if slot is not None:
            share = share_on(claim, card, slot)
            if budget.allows((share,)):
                yield slot, share
