"""Every card of the cluster as numpy arrays `[node, card]`, beside what is reserved of it; changed by deltas, never rebuilt.

A decision reads the arrays in one vectorised pass. A card's reserved amounts are summed anew from its own holders at each
change, so that they cannot drift, and so that a card which vanishes and comes back has its holders again. The arrays are
in Fortran order: reductions over the few cards of each node then run along the many nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tensorfusion_iac.api.catalogue import MigGeometry
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.planning.cards import CardFacts, NodeFacts
from tensorfusion_iac.planning.shares import CardShare, Reservation

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Floats = NDArray[np.float64]

ISOLATION_CODE = {isolation: code for code, isolation in enumerate(Isolation, 1)}
"""Kinds of isolation as small numbers; 0 is a card that serves none yet."""

NOBODY = np.iinfo(np.int64).min
"""Priority of a nomination that is none."""

VRAM_WEIGHT, COMPUTE_WEIGHT = 0.7, 0.3
"""What memory and compute count in the fullness of a card (research/upstream.md §2)."""


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """What placement goes by in a pool: percent of the cards' compute that may be reserved, and the placement mode."""

    oversell_percent: int = 100
    mode: str = "NodeCompactGPULowLoad"


DEFAULT_POOL_FACTS = PoolFacts()


class CardKind(NamedTuple):
    """What cards of one kind have in common. There are few kinds, so what follows from these is worked out once for each."""

    vendor: Vendor | None = None
    model: str = ""
    capacity_mflops: int = 0
    capacity_vram_bytes: int = 0
    geometry: MigGeometry | None = None


NO_CARD = CardKind()
T = TypeVar("T", bound=Hashable)


class Codes(Generic[T]):
    """Small numbers for values that repeat, in order of their first mention."""

    def __init__(self, *first: T) -> None:
        self.values: list[T] = []
        self._codes: dict[T, int] = {}
        for value in first:
            self.of(value)

    def of(self, value: T) -> int:
        """The number of a value, a new one if it is new."""
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def known(self, value: T) -> int:
        """The number of a value, or -1 if it has none."""
        return self._codes.get(value, -1)


class Inventory:
    """Nodes and cards, and who holds what of each card. Rows and columns are stable as long as a node or card exists."""

    def __init__(self, nodes: int = 16, cards: int = 8) -> None:
        self.row_of: dict[str, int] = {}
        self.node_names: list[str] = []
        """By row; empty where the row is free."""
        self.facts_version = 0
        """Grows when a fact changes that is no amount, so that masks over facts can be kept until then."""
        self.oversold = False
        """Whether any pool promises more compute than its cards have."""
        self.pools: Codes[str | None] = Codes(None)
        self.kinds: Codes[CardKind] = Codes(NO_CARD)
        self._free_rows: list[int] = []
        self._place_of: dict[str, tuple[int, int]] = {}
        self._cards: dict[str, CardFacts] = {}
        self._by_place: dict[tuple[int, int], str] = {}
        self._nodes: dict[str, NodeFacts] = {}
        self._pool_facts: dict[str, PoolFacts] = {}
        self._held: dict[str, dict[str, tuple[CardShare, Reservation]]] = {}
        self._shape(nodes, cards)

    # What there is.

    def cards(self) -> Iterator[CardFacts]:
        """All cards."""
        return iter(self._cards.values())

    def card(self, uuid: str) -> CardFacts | None:
        """A card by its UUID."""
        return self._cards.get(uuid)

    def card_at(self, row: int, column: int) -> CardFacts:
        """The card at a place. KeyError if there is none."""
        return self._cards[self._by_place[row, column]]

    def place_of(self, uuid: str) -> tuple[int, int] | None:
        """Row and column of a card; None if it is not there."""
        return self._place_of.get(uuid)

    def node_facts(self, node: str) -> NodeFacts:
        """The facts of a node; those of an unknown one are that it is in no pool."""
        return self._nodes.get(node, NodeFacts())

    def pool_facts(self, pool: str | None) -> PoolFacts:
        """The facts of a pool."""
        return self._pool_facts.get(pool, DEFAULT_POOL_FACTS) if pool is not None else DEFAULT_POOL_FACTS

    def holders(self, uuid: str) -> Mapping[str, tuple[CardShare, Reservation]]:
        """By pod UID, who holds what of a card, be it there or not."""
        return self._held.get(uuid, {})

    # Changes of facts.

    def set_pool(self, pool: str, facts: PoolFacts | None) -> None:
        """Add or change a pool; None removes it."""
        if self._pool_facts.get(pool) == facts:
            return
        if facts is None:
            del self._pool_facts[pool]
        else:
            self._pool_facts[pool] = facts
        self.oversold = any(each.oversell_percent > 100 for each in self._pool_facts.values())
        code = self.pools.of(pool)
        for row in np.flatnonzero(self.pool == code).tolist():
            self._write_row(row)

    def set_node(self, node: str, facts: NodeFacts) -> None:
        """Add or change a node."""
        row = self._row(node)
        if self._nodes.get(node) == facts:
            return
        self._nodes[node] = facts
        self.facts_version += 1
        self.pool[row] = self.pools.of(facts.pool)
        self.injection[row], self.live[row] = facts.injection, facts.live
        self._write_row(row)

    def drop_node(self, node: str) -> None:
        """Forget a node's facts; its row goes when its last card does."""
        if self._nodes.pop(node, None) is not None:
            self.facts_version += 1
            row = self.row_of[node]
            self.pool[row] = 0
            self.injection[row] = self.live[row] = True
            self._write_row(row)
            self._drop_row_if_bare(row)

    def set_card(self, facts: CardFacts) -> None:
        """Add a card, or change its facts; it may have moved to another node."""
        before = self._cards.get(facts.uuid)
        if before == facts:
            return
        if before is not None and before.node != facts.node:
            self.drop_card(facts.uuid)
        place = self._place_of.get(facts.uuid)
        if place is None:
            row = self._row(facts.node)
            place = row, self._free_column(row)
            self._place_of[facts.uuid] = place
            self._by_place[place] = facts.uuid
        self._cards[facts.uuid] = facts
        self.facts_version += 1
        self._write_facts(place, facts)
        self._write(place)

    def drop_card(self, uuid: str) -> None:
        """Forget a card. Who held it still does, should it come back."""
        place = self._place_of.pop(uuid, None)
        if place is None:
            return
        del self._by_place[place], self._cards[uuid]
        self.facts_version += 1
        self._clear(place)
        self._count_row(place[0])
        self._sum_row(place[0])
        self._drop_row_if_bare(place[0])

    def nominate(self, node: str, priority: int | None) -> None:
        """Keep a node for a preemptor of that priority: lower and equal ones are refused there. None ends it."""
        row = self.row_of.get(node)
        if row is not None:
            self.nominated[row] = NOBODY if priority is None else priority

    # Changes of what is held.

    def charge(self, reservation: Reservation) -> None:
        """Take the shares of a pod from its cards, in place of those that it held before."""
        for share in reservation.shares:
            self._held.setdefault(share.uuid, {})[reservation.uid] = (share, reservation)
            self._write_if_there(share.uuid)

    def discharge(self, reservation: Reservation) -> None:
        """Give the shares of a pod back."""
        for share in reservation.shares:
            holders = self._held.get(share.uuid)
            if holders is not None:
                holders.pop(reservation.uid, None)
                if not holders:
                    del self._held[share.uuid]
                self._write_if_there(share.uuid)

    # Arrays.

    def _shape(self, rows: int, columns: int) -> None:
        def cells(kind: Any, fill: Any = 0) -> Any:
            return np.full((rows, columns), fill, dtype=kind, order="F")

        self.present: Bools = cells(np.bool_)
        self.ours: Bools = cells(np.bool_)
        self.healthy: Bools = cells(np.bool_)
        self.hard: Bools = cells(np.bool_)
        self.kind: Small = cells(np.int32)
        """Index into `kinds`; 0 where no card is."""
        self.index: Small = cells(np.int32, -1)
        self.capacity_mflops: Ints = cells(np.int64)
        self.capacity_vram: Ints = cells(np.int64)
        self.free_mflops: Ints = cells(np.int64)
        """Capacity x oversell, less everything that is held."""
        self.free_firm_mflops: Ints = cells(np.int64)
        """Capacity, less what is held by those that use no oversold compute."""
        self.free_vram: Ints = cells(np.int64)
        self.workers: Small = cells(np.int32)
        self.isolation = cells(np.int8)
        self.exclusive: Bools = cells(np.bool_)
        self.slots: Ints = cells(np.int64)
        """Memory slots of partitions that are taken, as bits."""
        self.slices = cells(np.int16)
        """Compute slices of partitions that are taken."""
        self.used: Floats = cells(np.float64)
        """Fullness of each card, 0 to 1."""
        self.pool: Small = np.zeros(rows, np.int32)
        """Index into `pools`."""
        self.injection: Bools = np.ones(rows, np.bool_)
        self.live: Bools = np.ones(rows, np.bool_)
        self.nominated: Ints = np.full(rows, NOBODY, np.int64)
        self.fullness: Floats = np.zeros(rows, np.float64)
        """Mean fullness of the cards of each node."""
        self.cards_on: Small = np.zeros(rows, np.int32)
        self.mixed: Bools = np.zeros(rows, np.bool_)
        """Nodes with cards of several kinds."""

    _CELLS = (
        "present", "ours", "healthy", "hard", "kind", "index", "capacity_mflops", "capacity_vram",
        "free_mflops", "free_firm_mflops", "free_vram", "workers", "isolation", "exclusive", "slots", "slices", "used",
    )  # fmt: skip
    _ROWS = ("pool", "injection", "live", "nominated", "fullness", "cards_on", "mixed")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the arrays; rows at the end may be free."""
        rows, columns = self.present.shape
        return rows, columns

    def _grow(self, rows: int, columns: int) -> None:
        old = {name: getattr(self, name) for name in (*self._CELLS, *self._ROWS)}
        had = self.shape
        self._shape(rows, columns)
        for name in self._CELLS:
            getattr(self, name)[: had[0], : had[1]] = old[name]
        for name in self._ROWS:
            getattr(self, name)[: had[0]] = old[name]
        self.facts_version += 1

    def _row(self, node: str) -> int:
        row = self.row_of.get(node)
        if row is not None:
            return row
        if self._free_rows:
            row = self._free_rows.pop()
            self.node_names[row] = node
        else:
            row = len(self.node_names)
            self.node_names.append(node)
            rows, columns = self.shape
            if row >= rows:
                self._grow(rows * 2, columns)
        self.row_of[node] = row
        return row

    def _free_column(self, row: int) -> int:
        rows, columns = self.shape
        for column in range(columns):
            if (row, column) not in self._by_place:
                return column
        self._grow(rows, columns * 2)
        return columns

    def _drop_row_if_bare(self, row: int) -> None:
        node = self.node_names[row]
        if self.cards_on[row] == 0 and node not in self._nodes:
            del self.row_of[node]
            self.node_names[row] = ""
            self.nominated[row] = NOBODY
            self._free_rows.append(row)

    def _write_facts(self, place: tuple[int, int], card: CardFacts) -> None:
        self.present[place] = True
        self.ours[place], self.healthy[place], self.hard[place] = card.ours, card.healthy, card.hard
        self.kind[place] = self.kinds.of(
            CardKind(card.vendor, card.model, card.capacity_mflops, card.capacity_vram_bytes, card.geometry)
        )
        self.index[place] = card.index
        self.capacity_mflops[place] = card.capacity_mflops
        self.capacity_vram[place] = card.capacity_vram_bytes
        self._count_row(place[0])

    def _clear(self, place: tuple[int, int]) -> None:
        for name in self._CELLS:
            getattr(self, name)[place] = -1 if name == "index" else 0

    def _write_if_there(self, uuid: str) -> None:
        place = self._place_of.get(uuid)
        if place is not None:
            self._write(place)

    def _write_row(self, row: int) -> None:
        for column in range(self.shape[1]):
            if (row, column) in self._by_place:
                self._write((row, column))

    def _write(self, place: tuple[int, int]) -> None:
        """Sum a card's holders into its cells."""
        uuid = self._by_place[place]
        card, holders = self._cards[uuid], self._held.get(uuid, {})
        mflops = firm = vram = slots = slices = isolation = 0
        exclusive = False
        for share, reservation in holders.values():
            mflops += share.held_mflops
            vram += share.held_vram_bytes
            if reservation.firm:
                firm += share.held_mflops
            if share.slot is not None:
                slots |= share.slot.mask
                slices += share.slot.compute_slices
            exclusive = exclusive or reservation.exclusive
            isolation = ISOLATION_CODE[reservation.isolation]
        foreign = self._foreign_slots(card, holders)
        if foreign:
            slots |= foreign
            isolation = ISOLATION_CODE[Isolation.PARTITIONED]
        ratio = self.pool_facts(self.node_facts(card.node).pool).oversell_percent
        self.free_mflops[place] = card.capacity_mflops * ratio // 100 - mflops
        self.free_firm_mflops[place] = card.capacity_mflops - firm
        self.free_vram[place] = card.capacity_vram_bytes - vram
        self.workers[place] = len(holders)
        self.isolation[place], self.exclusive[place] = isolation, exclusive
        self.slots[place], self.slices[place] = slots, slices
        self.used[place] = _fullness(card, mflops, vram) if not exclusive else 1.0
        self._sum_row(place[0])

    @staticmethod
    def _foreign_slots(card: CardFacts, holders: Mapping[str, Any]) -> int:
        """Slots of instances that exist for a pod which holds nothing here: never to be touched while they live."""
        slots = 0
        for instance in card.instances:
            if instance.pod_uid and instance.pod_uid not in holders:
                slots |= ((1 << instance.size) - 1) << instance.start
        return slots

    def _sum_row(self, row: int) -> None:
        count = int(self.cards_on[row])
        self.fullness[row] = sum(self.used[row].tolist()) / count if count else 0.0

    def _count_row(self, row: int) -> None:
        kinds = self.kind[row][self.present[row]]
        self.cards_on[row], self.mixed[row] = kinds.size, np.unique(kinds).size > 1


def _fullness(card: CardFacts, mflops: int, vram: int) -> float:
    compute = min(mflops / card.capacity_mflops, 1.0) if card.capacity_mflops else 1.0
    memory = min(vram / card.capacity_vram_bytes, 1.0) if card.capacity_vram_bytes else 1.0
    return VRAM_WEIGHT * memory + COMPUTE_WEIGHT * compute


def on_node(inventory: Inventory, node: str, without: Iterable[str] = ()) -> Inventory:
    """An inventory of one node alone, with its holders except the pods `without` (UIDs): for asking what would be if."""
    alone, gone = Inventory(nodes=1), set(without)
    facts = inventory.node_facts(node)
    if facts.pool is not None:
        alone.set_pool(facts.pool, inventory.pool_facts(facts.pool))
    alone.set_node(node, facts)
    row = inventory.row_of[node]
    held: dict[str, Reservation] = {}
    for column in np.flatnonzero(inventory.present[row]).tolist():
        card = inventory.card_at(row, column)
        alone.set_card(card)
        held |= {uid: reservation for uid, (_, reservation) in inventory.holders(card.uuid).items()}
    for uid, reservation in held.items():
        if uid not in gone:
            alone.charge(reservation)
    return alone
