"""Pods that wait, placed one after another by the scheduler's own allocator: preemption, gates and gangs as it has them.

What `rehearse` lets happen to a cluster happens here. A gang (SPEC §2) starts with as many members as it needs or with none,
and evicts nobody; neither does a pod whose priority class never preempts. A pod behind another gate is not placed at all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from tensorfusion_iac.api.desired import Desired
from tensorfusion_iac.planning.allocate import Allocator
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.explain import Explanation, explain
from tensorfusion_iac.planning.fit import Asker
from tensorfusion_iac.planning.ledger import Ledger
from tensorfusion_iac.planning.resize import resized
from tensorfusion_iac.planning.shares import reserve
from tensorfusion_iac.planning.victims import Candidate, plan

NEW = float("inf")
"""When a pod of the rehearsal started: later than any that runs."""


class Gang(NamedTuple):
    """What makes pods of a namespace start together: their workload, and how many of them it takes."""

    workload: str
    needed: int


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod with its claim. `owner`: the workload. `shielded`: it may not be evicted. `preempts`: it may evict lower ones.

    `gated`: a scheduling gate that is not its gang's holds it back, so that it is there, and is not placed.
    """

    uid: str
    owner: str
    namespace: str
    claim: Claim
    priority: int = 0
    started_s: float = 0.0
    shielded: bool = False
    preempts: bool = True
    gated: bool = False
    gang: Gang | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Pods of one workload that find no place, and why the first of them does not."""

    owner: str
    pods: int
    why: Explanation


@dataclass(frozen=True, slots=True)
class Evicted:
    """A pod that goes for another. `by`: the workload it goes for."""

    owner: str
    namespace: str
    node: str
    by: str


class _Group(NamedTuple):
    namespace: str
    gang: Gang


class Placing:
    """The books, and every pod that exists, placed or not, in the order in which they came. Without `luck` that order holds."""

    def __init__(self, ledger: Ledger, pods: Iterable[Pod], luck: Random | None) -> None:
        self.ledger = ledger
        self.pods = {pod.uid: pod for pod in pods}
        self.allocator = Allocator(ledger.inventory)
        self.evicted: list[Evicted] = []
        self.had_choice = False
        self._luck = luck
        self._started: set[_Group] = set()
        """Groups of which enough were placed at a time, and some still are: others of them start one by one."""
        self._hopeless: set[Hashable] = set()
        """What found no place since room was last freed: as long as none is, asking again is of no use."""

    def is_placed(self, uid: str) -> bool:
        """Whether the pod has its GPUs."""
        return self.ledger.get(uid) is not None

    def add(self, pod: Pod) -> None:
        """A pod comes."""
        self.pods[pod.uid] = pod

    def remove(self, uid: str) -> None:
        """The pod is gone."""
        self._release(uid)
        self.pods.pop(uid, None)

    def resize(self, resizes: Mapping[str, Desired]) -> list[tuple[str, str]]:
        """Other amounts for running pods. Those that cannot be, by workload, and why."""
        refused: dict[str, str] = {}
        for uid, desired in resizes.items():
            shares = resized(self.ledger, uid, desired)
            if isinstance(shares, str):
                refused.setdefault(self.pods[uid].owner, shares)
            else:
                self.ledger.resize(uid, tuple(share.settled() for share in shares))
                self._hopeless.clear()
        return sorted(refused.items())

    def waiting(self) -> tuple[Waiting, ...]:
        """What waits for GPUs now, by workload."""
        found: dict[str, list[Pod]] = {}
        for pod in self._unplaced(self.pods.values()):
            found.setdefault(pod.owner, []).append(pod)
        gangs = self._gangs()
        return tuple(Waiting(owner, len(pods), self._why(pods[0], gangs)) for owner, pods in sorted(found.items()))

    def place_all(self) -> bool:
        """Place what can be placed, higher priority first, then who has waited longest, or comes first by chance."""
        moved = False
        waiting, gangs = self._unplaced(self.pods.values()), self._gangs()
        kinds = {(pod.priority, pod.namespace, pod.claim, pod.gang) for pod in waiting}
        self.had_choice |= len(kinds) > len({priority for priority, *_ in kinds})
        if self._luck is not None:
            self._luck.shuffle(waiting)
        tried: set[_Group] = set()
        for pod in sorted(waiting, key=lambda one: -one.priority):
            group = _group_of(pod)
            if self.is_placed(pod.uid):
                continue  # with its gang
            if group is None or group in self._started:
                moved |= self._place_or_evict(pod)
            elif group not in tried:
                tried.add(group)
                moved |= self._start(group, gangs[group])
        return moved

    def _place_or_evict(self, pod: Pod) -> bool:
        asks = (pod.namespace, pod.claim, pod.priority, _may_evict(pod))
        if asks in self._hopeless:
            return False
        if self._place(pod) or (_may_evict(pod) and self._evict_for(pod)):
            return True
        self._hopeless.add(asks)
        return False

    def _place(self, pod: Pod) -> bool:
        chosen = self.allocator.allocate(pod.claim, self._asker(pod))
        if chosen is None:
            return False
        held = reserve(pod.claim, chosen, uid=pod.uid, namespace=pod.namespace, name=pod.uid, priority=pod.priority)
        self.ledger.hold(held, NEW)
        return True

    def _release(self, uid: str) -> None:
        if self.ledger.release(uid) is not None:
            self._hopeless.clear()

    def _evict_for(self, pod: Pod) -> bool:
        """Make room by evicting lower ones, which then wait like any other."""
        able = [
            Candidate(entry.reservation, victim.started_s)
            for entry in self.ledger
            if entry.reservation.priority < pod.priority
            and (victim := self.pods.get(entry.reservation.uid)) is not None
            and not victim.shielded
        ]
        if not able:
            return False
        found = plan(self.ledger.inventory, pod.claim, self._asker(pod), list(self.ledger.inventory.row_of), able)
        if found is None:
            return False
        for uid in found.victims:
            victim = self.pods[uid]
            self.evicted.append(Evicted(victim.owner, victim.namespace, found.node, pod.owner))
            self._release(uid)
            self.pods[uid] = self.pods.pop(uid)  # its successor comes last
        self._gangs()
        return self._place(pod)

    # Pods that start together.

    def _gangs(self) -> dict[_Group, list[Pod]]:
        """The members of every group, the longest waiting first; it is noted which groups have started."""
        found: dict[_Group, list[Pod]] = {}
        for pod in self.pods.values():
            if (group := _group_of(pod)) is not None:
                found.setdefault(group, []).append(pod)
        for group, members in found.items():
            placed = sum(1 for pod in members if self.is_placed(pod.uid))
            if placed >= group.gang.needed:
                self._started.add(group)
            elif not placed:
                self._started.discard(group)
        return found

    def _start(self, group: _Group, members: Sequence[Pod]) -> bool:
        """Place as many members as it takes, or none."""
        first, missing = self._first(group, members)
        asks = group, tuple(pod.uid for pod in first)
        if missing or asks in self._hopeless:
            return False
        placed = self._place_in_turn(first)
        if len(placed) == len(first):
            self._started.add(group)
            return True
        self._take_back(placed)
        self._hopeless.add(asks)
        return False

    def _first(self, group: _Group, members: Sequence[Pod]) -> tuple[list[Pod], int]:
        """The members that are to start the group beside those that are placed, and how many of them do not exist."""
        wanted = group.gang.needed - sum(1 for pod in members if self.is_placed(pod.uid))
        found = self._unplaced(members)[:wanted]
        return found, wanted - len(found)

    def _place_in_turn(self, pods: Iterable[Pod]) -> list[Pod]:
        """Place one after another until one finds no room; those that are placed."""
        placed: list[Pod] = []
        for pod in pods:
            if not self._place(pod):
                break
            placed.append(pod)
        return placed

    def _take_back(self, placed: Iterable[Pod]) -> None:
        for pod in placed:
            self.ledger.release(pod.uid)  # the books are as they were: nothing is freed

    # In words.

    def _why(self, pod: Pod, gangs: Mapping[_Group, Sequence[Pod]]) -> Explanation:
        group = _group_of(pod)
        if group is None or group in self._started:
            return self._explained(pod)
        first, missing = self._first(group, gangs[group])
        needed = group.gang.needed
        if missing:
            return Explanation(0, 0, (), f"{needed - missing} of the {needed} pods that start together are there")
        placed = self._place_in_turn(first)
        next_one = first[min(len(placed), len(first) - 1)]
        why = replace(self._explained(next_one), note=f"room for {len(placed)} of {len(first)} pods that start together")
        self._take_back(placed)
        return why

    def _explained(self, pod: Pod) -> Explanation:
        ledger = self.ledger
        return explain(
            ledger.inventory, pod.claim, self._asker(pod), quota=ledger.quota(pod.namespace), used=ledger.used(pod.namespace)
        )

    def _asker(self, pod: Pod) -> Asker:
        return Asker(pod.priority, self.ledger.budget(pod.namespace))

    def _unplaced(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those that are to be placed."""
        return [pod for pod in pods if not pod.gated and not self.is_placed(pod.uid)]


def _group_of(pod: Pod) -> _Group | None:
    return None if pod.gang is None else _Group(pod.namespace, pod.gang)


def _may_evict(pod: Pod) -> bool:
    return pod.preempts and pod.gang is None
