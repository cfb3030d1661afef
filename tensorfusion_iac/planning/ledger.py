"""The books: who holds what of which card, and what each namespace has used; every change is exact and undoable.

A reservation is first a hold with an end, made when a node is being chosen; then committed when the pod is bound, and
confirmed when the watch has shown it. Truth is on the pods (SPEC §7): what the watch shows of a bound pod is taken over as
it is, even where it is more than a card has. Everything here is arithmetic; time comes in as a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tensorfusion_iac.planning.charge import UNBOUNDED, Budget, Charge, Quota, charge
from tensorfusion_iac.planning.inventory import Inventory
from tensorfusion_iac.planning.shares import CardShare, Reservation


class State(StrEnum):
    """How sure a reservation is."""

    HELD = "held"
    COMMITTED = "committed"
    CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True)
class Entry:
    """A reservation in the books. `until`: when it ends unless something confirms it; infinite for confirmed ones."""

    reservation: Reservation
    state: State
    until: float


NOTHING = Charge()
_NEVER = float("inf")


class Ledger:
    """The books over one inventory. All methods are synchronous and leave them balanced."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._entries: dict[str, Entry] = {}
        self._used: dict[str, Charge] = {}
        self._quotas: dict[str, Quota] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, uid: str) -> Entry | None:
        """The entry of a pod."""
        return self._entries.get(uid)

    def used(self, namespace: str) -> Charge:
        """What a namespace has used of its quota: holds included."""
        return self._used.get(namespace, NOTHING)

    def quota(self, namespace: str) -> Quota | None:
        """The quota of a namespace."""
        return self._quotas.get(namespace)

    def budget(self, namespace: str) -> Budget:
        """What a further worker of the namespace may take."""
        quota = self._quotas.get(namespace)
        return UNBOUNDED if quota is None else quota.left(self.used(namespace))

    def set_quota(self, namespace: str, quota: Quota | None) -> None:
        """Set, change or remove a namespace's quota. What is used already stays, even if it is above."""
        if quota is None:
            self._quotas.pop(namespace, None)
        else:
            self._quotas[namespace] = quota

    def hold(self, reservation: Reservation, until: float) -> None:
        """Keep the shares for a pod until then. In place of an earlier hold of the same pod, never of a commitment."""
        before = self._entries.get(reservation.uid)
        if before is not None and before.state is not State.HELD:
            raise ValueError(f"{reservation.uid} is {before.state} already")
        self._put(Entry(reservation, State.HELD, until))

    def extend(self, uid: str, until: float) -> None:
        """Let a hold last longer."""
        entry = self._entries[uid]
        self._entries[uid] = replace(entry, until=max(entry.until, until))

    def commit(self, uid: str, until: float) -> None:
        """The pod is bound, or may be: the hold becomes a commitment, which the watch confirms or time ends."""
        self._entries[uid] = replace(self._entries[uid], state=State.COMMITTED, until=until)

    def adopt(self, reservation: Reservation) -> None:
        """The watch shows the pod bound with these shares: so it is, whatever the books said."""
        before = self._entries.get(reservation.uid)
        if before is not None and before.reservation == reservation:
            self._entries[reservation.uid] = Entry(before.reservation, State.CONFIRMED, _NEVER)
        else:
            self._put(Entry(reservation, State.CONFIRMED, _NEVER))

    def resize(self, uid: str, shares: tuple[CardShare, ...]) -> None:
        """Other amounts on the same cards."""
        entry = self._entries[uid]
        if [share.uuid for share in shares] != [share.uuid for share in entry.reservation.shares]:
            raise ValueError(f"{uid}: a resize changes amounts, never cards")
        self._put(replace(entry, reservation=replace(entry.reservation, shares=shares)))

    def release(self, uid: str) -> Reservation | None:
        """Give everything of a pod back; None if it held nothing, so that a second release changes nothing."""
        entry = self._entries.pop(uid, None)
        if entry is None:
            return None
        self.inventory.discharge(entry.reservation)
        self._count(entry.reservation.namespace, NOTHING, charge(entry.reservation))
        return entry.reservation

    def restore(self, entries: Iterable[Entry]) -> None:
        """Have exactly these entries again: those that were there at an earlier moment."""
        wanted = {entry.reservation.uid: entry for entry in entries}
        for uid in [uid for uid, entry in self._entries.items() if wanted.get(uid) != entry]:
            self.release(uid)
        for uid, entry in wanted.items():
            if uid not in self._entries:
                self._put(entry)

    def overdue(self, now: float) -> list[Entry]:
        """Holds and commitments whose time is over."""
        return [entry for entry in self._entries.values() if entry.until <= now]

    def fits(self, shares: Mapping[str, CardShare], uid: str) -> str | None:
        """Whether the pod may hold these shares (by card) in place of its own: None, or in words what is missing."""
        entry = self._entries[uid]
        for share in entry.reservation.shares:
            wanted = shares[share.uuid]
            place = self.inventory.place_of(share.uuid)
            if place is None:
                return f"card {share.uuid} is not there"
            room = self.inventory.free_vram[place] + share.held_vram_bytes - wanted.held_vram_bytes
            if room < 0 and wanted.held_vram_bytes > share.held_vram_bytes:
                return f"card {share.uuid} lacks {-int(room)} bytes of free memory"
            if wanted.held_mflops <= share.held_mflops:
                continue
            free = int(self.inventory.free_mflops[place])
            if entry.reservation.firm:
                free = min(free, int(self.inventory.free_firm_mflops[place]))
            if free + share.held_mflops < wanted.held_mflops:
                return f"card {share.uuid} lacks {wanted.held_mflops - free - share.held_mflops} MFLOPS of free compute"
        return None

    def _put(self, entry: Entry) -> None:
        reservation = entry.reservation
        before = self._entries.get(reservation.uid)
        if before is not None:
            self.inventory.discharge(before.reservation)
            self._count(before.reservation.namespace, NOTHING, charge(before.reservation))
        self._entries[reservation.uid] = entry
        self.inventory.charge(reservation)
        self._count(reservation.namespace, charge(reservation), NOTHING)

    def _count(self, namespace: str, more: Charge, less: Charge) -> None:
        used = self.used(namespace).plus(more).minus(less)
        if used == NOTHING:
            self._used.pop(namespace, None)
        else:
            self._used[namespace] = used
