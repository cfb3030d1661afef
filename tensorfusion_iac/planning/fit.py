"""Which cards could take a claim, on all nodes at once, and for each node that cannot, the first reason (SPEC §7).

Facts (pool, vendor, model, index, health, ...) become a mask that is kept until a fact changes; amounts, isolation, quota
and partitions are judged anew each time. The reasons are worked out only when they are wanted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, product

import numpy as np

from tensorfusion_iac.api.catalogue import MigTemplate, matches
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.planning.cards import CardFacts
from tensorfusion_iac.planning.charge import UNBOUNDED, Budget
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.inventory import ISOLATION_CODE, NOBODY, Bools, CardKind, Ints, Inventory
from tensorfusion_iac.planning.partition import covering
from tensorfusion_iac.planning.reasons import Reason
from tensorfusion_iac.planning.shares import CardShare, share_on
from tensorfusion_iac.planning.slots import choose_slots, free_slot

_KEPT_MASKS = 64


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: its priority, what its namespace's quota leaves, and the node that is being freed for it, if any."""

    priority: int = 0
    budget: Budget = UNBOUNDED
    nominated_row: int = -1


ANYBODY = Asker()


class Masks:
    """The masks over facts of the claims seen last; one per inventory."""

    def __init__(self) -> None:
        self._version = -1
        self._kept: OrderedDict[tuple[object, ...], Bools] = OrderedDict()

    def get(self, inventory: Inventory, claim: Claim) -> Bools:
        """Cards `[node, card]` that the claim may use as far as facts go."""
        if self._version != inventory.facts_version:
            self._kept.clear()
            self._version = inventory.facts_version
        key = (
            claim.pool, claim.vendor, claim.model, claim.indices, claim.isolation, claim.whole_card, claim.template,
            (claim.compute, claim.compute_limit, claim.vram_bytes) if claim.partitioned or _mixed_units(claim) else None,
        )  # fmt: skip
        mask = self._kept.get(key)
        if mask is None:
            mask = self._kept[key] = fact_mask(inventory, claim)
            if len(self._kept) > _KEPT_MASKS:
                self._kept.popitem(last=False)
        return mask


def fact_mask(inventory: Inventory, claim: Claim) -> Bools:
    """Cards `[node, card]` that the claim may use as far as facts go."""
    mask = np.ones(inventory.shape, np.bool_, order="F")
    for _, passed in _fact_stages(inventory, claim):
        mask &= passed
    return mask


def fitting_cards(inventory: Inventory, claim: Claim, asker: Asker = ANYBODY, masks: Masks | None = None) -> Bools:
    """Cards `[node, card]` that could take one GPU of the claim, on any node; none of a node where the quota forbids it."""
    ok = (masks or Masks()).get(inventory, claim).copy(order="F")
    if claim.whole_card or (inventory.oversold and not claim.firm):  # else said by what is free
        ok &= _large_enough(inventory, claim)
    for _, passed in _amount_stages(inventory, claim, asker, ok):
        ok &= passed
    return ok


def fitting_nodes(ok: Bools, claim: Claim) -> Bools:
    """Nodes with as many fitting cards as the claim wants."""
    if claim.gpu_count == 1:
        return np.asarray(ok.any(axis=1))
    return np.asarray(np.count_nonzero(ok, axis=1) >= claim.gpu_count)


def reasons(inventory: Inventory, claim: Claim, asker: Asker = ANYBODY) -> Ints:
    """For each row the code of its `Reason`: the first stage after which too few cards are left."""
    found = np.full(inventory.shape[0], int(Reason.FITS), np.int64)
    left = np.ones(inventory.shape, np.bool_, order="F")
    size = (Reason.TOO_SMALL, _large_enough(inventory, claim))
    for reason, passed in chain(_fact_stages(inventory, claim), (size,), _amount_stages(inventory, claim, asker, left)):
        left &= passed
        found[(found == Reason.FITS) & ~fitting_nodes(left, claim)] = int(reason)
    found[(found == Reason.NO_GPUS) & inventory.present.any(axis=1)] = int(Reason.TOO_FEW_GPUS)
    return found


def _fact_stages(inventory: Inventory, claim: Claim) -> Iterator[tuple[Reason, Bools]]:
    """What is judged by facts, in the order of the reasons."""
    yield Reason.NO_GPUS, inventory.present
    if claim.pool is not None:
        yield Reason.OTHER_POOL, _column(inventory.pool == inventory.pools.known(claim.pool), inventory)
    yield Reason.NO_INJECTION, _column(inventory.injection, inventory)
    yield Reason.NO_AGENT, _column(inventory.live, inventory)
    yield Reason.OTHER_VENDOR, _kinds(inventory, lambda kind: kind.vendor is claim.vendor)
    if (wanted := claim.model) is not None:
        yield Reason.OTHER_MODEL, _kinds(inventory, lambda kind: matches(wanted, kind.model))
    if claim.indices is not None:
        yield Reason.OTHER_INDEX, np.isin(inventory.index, claim.indices)
    yield Reason.IN_USE_BY_OTHERS, inventory.ours
    yield Reason.SICK, inventory.healthy
    if claim.partitioned:
        yield Reason.NO_PARTITIONS, _kinds(inventory, lambda kind: bool(_templates(claim, kind)))
    elif claim.isolation is Isolation.HARD:
        yield Reason.NO_HARD_LIMIT, inventory.hard
    if _mixed_units(claim):
        yield (
            Reason.LIMIT_BELOW_REQUEST,
            _kinds(
                inventory,
                lambda kind: claim.limit_mflops_on(kind.capacity_mflops) >= claim.mflops_on(kind.capacity_mflops),
            ),
        )


def _amount_stages(inventory: Inventory, claim: Claim, asker: Asker, left: Bools) -> Iterator[tuple[Reason, Bools]]:
    """What is judged by amounts. `left` are the cards that have passed until then, updated by the caller."""
    code = ISOLATION_CODE[claim.isolation]
    yield Reason.OTHER_ISOLATION, (inventory.isolation == 0) | (inventory.isolation == code)
    if claim.whole_card:
        yield Reason.NOT_IDLE, (inventory.workers == 0) & (inventory.slots == 0)
    else:
        yield Reason.NOT_IDLE, ~inventory.exclusive
        if claim.partitioned:
            yield Reason.NO_SLOT, _with_slots(inventory, claim, asker.budget, left)
        else:
            yield Reason.COMPUTE, _enough_compute(inventory, claim)
            yield Reason.VRAM, inventory.free_vram >= claim.vram_bytes
    if not asker.budget.unlimited:
        yield Reason.QUOTA, _within_budget(inventory, claim, asker.budget, left)
    if int(inventory.nominated.max()) != NOBODY:
        yield Reason.NOMINATED, _column(_not_nominated(inventory, asker), inventory)


def _column(of_nodes: Bools, inventory: Inventory) -> Bools:
    return np.broadcast_to(of_nodes[:, None], inventory.shape)


def _kinds(inventory: Inventory, passes: Callable[[CardKind], bool]) -> Bools:
    """Cards whose kind passes."""
    verdicts = np.array([kind.vendor is not None and passes(kind) for kind in inventory.kinds.values], np.bool_)
    return verdicts[inventory.kind]


def _mixed_units(claim: Claim) -> bool:
    """Whether request and limit are in different units, and so must be judged on each card (SPEC §2)."""
    request, limit = claim.compute, claim.compute_limit
    return request is not None and limit is not None and (request.mflops is None) != (limit.mflops is None)


def _templates(claim: Claim, kind: CardKind) -> tuple[MigTemplate, ...]:
    return covering(kind.geometry, claim, kind.capacity_mflops, kind.capacity_vram_bytes) if kind.geometry else ()


def _large_enough(inventory: Inventory, claim: Claim) -> Bools:
    return _kinds(inventory, lambda kind: _is_large_enough(claim, kind))


def _is_large_enough(claim: Claim, kind: CardKind) -> bool:
    """Whether one card could take one GPU's amounts when it is empty; oversell makes no card larger for one worker."""
    if claim.whole_card:
        return kind.capacity_mflops > 0
    if claim.partitioned:
        return True  # said by its templates
    return kind.capacity_mflops >= claim.mflops_on(kind.capacity_mflops) and kind.capacity_vram_bytes >= claim.vram_bytes


def _enough_compute(inventory: Inventory, claim: Claim) -> Bools:
    needs: Ints | int
    if claim.compute is None or claim.compute.mflops is not None:
        needs = claim.mflops_on(0)
    else:
        of_kind = [claim.mflops_on(kind.capacity_mflops) for kind in inventory.kinds.values if kind.vendor is not None]
        needs = of_kind[0] if len(set(of_kind)) == 1 else np.array([0, *of_kind], np.int64)[inventory.kind]
    enough = np.asarray(inventory.free_mflops >= needs)
    return enough & (inventory.free_firm_mflops >= needs) if claim.firm else enough


def _with_slots(inventory: Inventory, claim: Claim, budget: Budget, ok: Bools) -> Bools:
    """Of the cards in `ok`, those with a free slot. Cards in the same state are judged once."""
    able = np.zeros(inventory.shape, np.bool_, order="F")
    rows, columns = np.nonzero(ok)
    states = (inventory.kind[ok].astype(np.int64) << 40) | (inventory.slices[ok].astype(np.int64) << 32) | inventory.slots[ok]
    if claim.template is not None:  # the number of instances counts too, and only the card's holders tell it
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            able[row, column] = free_slot(inventory, claim, budget, row, column) is not None
        return able
    _, first, which = np.unique(states, return_index=True, return_inverse=True)
    verdicts = [free_slot(inventory, claim, budget, int(rows[at]), int(columns[at])) is not None for at in first]
    able[rows, columns] = np.array(verdicts, np.bool_)[which] if verdicts else False
    return able


def _within_budget(inventory: Inventory, claim: Claim, budget: Budget, ok: Bools) -> Bools:
    """Cards that the budget allows, each beside as many others of its kind as are wanted.

    On nodes with cards of several kinds the claim may need a mixture: there all affordable mixtures are tried.
    """
    if budget.gpus is not None and claim.gpu_count > budget.gpus:
        return np.zeros(inventory.shape, np.bool_)
    if claim.partitioned:
        return ok & _column(_nodes_with_affordable_slots(inventory, claim, budget, ok), inventory)
    able = _kinds(inventory, lambda kind: budget.allows((_share(claim, kind),) * claim.gpu_count))
    if claim.gpu_count > 1 and inventory.mixed.any():
        for row in np.flatnonzero(inventory.mixed & fitting_nodes(ok, claim)).tolist():
            able[row] = ok[row] & _affordable_mixture(inventory, claim, budget, row, np.flatnonzero(ok[row]).tolist())
    return able


def _nodes_with_affordable_slots(inventory: Inventory, claim: Claim, budget: Budget, ok: Bools) -> Bools:
    fits = fitting_nodes(ok, claim)
    if claim.gpu_count > 1:  # one slot was judged with its card
        for row in np.flatnonzero(fits).tolist():
            fits[row] = choose_slots(inventory, claim, budget, row, np.flatnonzero(ok[row]).tolist()) is not None
    return fits


def _affordable_mixture(inventory: Inventory, claim: Claim, budget: Budget, row: int, columns: list[int]) -> Bools:
    """The cards of a node with mixed cards that are in any affordable choice of `gpu_count` among `columns`."""
    by_kind: dict[int, list[int]] = {}
    for column in columns:
        by_kind.setdefault(int(inventory.kind[row, column]), []).append(column)
    able = np.zeros(inventory.shape[1], np.bool_)
    for counts in product(*(range(min(len(cards), claim.gpu_count) + 1) for cards in by_kind.values())):
        if sum(counts) != claim.gpu_count:
            continue
        shares = [(_share(claim, inventory.kinds.values[code]),) * n for code, n in zip(by_kind, counts, strict=True)]
        if budget.allows(tuple(chain.from_iterable(shares))):
            for cards, count in zip(by_kind.values(), counts, strict=True):
                able[cards] |= count > 0
    return able


def _share(claim: Claim, kind: CardKind) -> CardShare:
    """What the claim would hold of any card of a kind."""
    card = CardFacts("", "", kind.model, claim.vendor, kind.capacity_mflops, kind.capacity_vram_bytes)
    return share_on(claim, card)


def _not_nominated(inventory: Inventory, asker: Asker) -> Bools:
    free: Bools = inventory.nominated < asker.priority
    if asker.nominated_row >= 0:
        free[asker.nominated_row] = True
    return free
