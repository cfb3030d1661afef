"""What becomes of a cluster when workloads change: pods roll, scale, are preempted and wait, by the scheduler's own allocator.

Everything happens as it would in the cluster: rolling updates keep their bounds (`rolling`), higher priority evicts lower
(`victims`), and objects that leave are deleted when all else is done, as Pulumi does it. CPU, memory and taints are not known.
Which of several equal pods goes, or comes, first is chance; `luck` tries others than the likeliest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log2
from random import Random

from tensorfusion_iac.api.desired import Desired
from tensorfusion_iac.planning.allocate import Allocator
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.explain import Explanation, explain
from tensorfusion_iac.planning.fit import Asker
from tensorfusion_iac.planning.ledger import Ledger
from tensorfusion_iac.planning.resize import resized
from tensorfusion_iac.planning.rolling import Bounds, Progress, to_create, to_remove
from tensorfusion_iac.planning.shares import reserve
from tensorfusion_iac.planning.simulate import PoolUse, pool_use
from tensorfusion_iac.planning.victims import Candidate, plan

_NEW = float("inf")
"""When a pod of the rehearsal started: later than any that runs."""
_LATE = 20.0
"""The change is made up to 2**20 s (12 days) after the youngest pod of today started; when is not known."""
NO_BOUNDS = Bounds(0, 0)


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod with its claim. `owner`: the workload. `shielded`: it may not be evicted."""

    uid: str
    owner: str
    namespace: str
    claim: Claim
    priority: int = 0
    started_s: float = 0.0
    shielded: bool = False


@dataclass(frozen=True, slots=True)
class Roll:
    """A workload that is to have `count` pods like `new`: those of `kept` stay (if not too many), those of `old` are replaced.

    `scales_old`: the old pods are first made as many as `count` (a Deployment). `new` None: its pods need no GPU any more.
    """

    owner: str
    new: Pod | None
    count: int
    kept: tuple[str, ...] = ()
    old: tuple[str, ...] = ()
    bounds: Bounds = NO_BOUNDS
    scales_old: bool = False


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


@dataclass(frozen=True, slots=True)
class Stuck:
    """A rolling update that does not end. `old`: pods left as before. `would_fit`: it would if they went first."""

    owner: str
    old: int
    new: int
    would_fit: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end. `before`: what waited before the change; `held_up`: workloads that wait until others are deleted.

    `pools` is the use of the pools then. `by_chance`: whether there was a choice of which pods go, or come, first.
    """

    before: tuple[Waiting, ...]
    waiting: tuple[Waiting, ...]
    evicted: tuple[Evicted, ...]
    stuck: tuple[Stuck, ...]
    held_up: tuple[str, ...]
    refused_resizes: tuple[tuple[str, str], ...]
    pools: tuple[PoolUse, ...]
    by_chance: bool = False


@dataclass(slots=True)
class _Rolling:
    roll: Roll
    kept: list[str]
    old: list[str]
    new: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many pods are wanted beside those that stay."""
        return self.roll.count - len(self.kept)


def rehearse(
    ledger: Ledger,
    pods: Iterable[Pod],
    rolls: Sequence[Roll],
    *,
    leaving: Iterable[str] = (),
    resizes: Mapping[str, Desired] | None = None,
    luck: Random | None = None,
) -> Outcome:
    """Let the changes happen. `pods` are all that exist; the ledger holds those that are bound, and is spent afterwards.

    Without `luck` the newest of equal pods go first. With it, chance decides wherever it does in a cluster.
    """
    run = _Run(ledger, {pod.uid: pod for pod in pods}, luck)
    run.settle(())
    before = run.waiting()
    refused = run.resize(resizes or {})
    rolling = [run.begin(roll) for roll in rolls]
    run.settle(rolling)
    held_up = {one.owner for one in run.waiting()} | {one.roll.owner for one in rolling if run.is_unfinished(one)}
    for uid in leaving:
        run.remove(uid)
    run.settle(rolling)
    waiting = run.waiting()
    unfinished = [one for one in rolling if run.is_unfinished(one) and one.old]
    still = {one.owner for one in waiting} | {one.roll.owner for one in unfinished}
    outcome = Outcome(
        before, waiting, tuple(run.evicted), (), tuple(sorted(held_up - still)), tuple(refused), pool_use(run.ledger),
        run.had_choice,
    )  # fmt: skip
    left = [(one.roll.owner, len(one.old), len(one.new)) for one in unfinished]
    hopeless = run.without_old(unfinished) if unfinished else set()
    return replace(outcome, stuck=tuple(Stuck(*each, would_fit=each[0] not in hopeless) for each in left))


class _Run:
    """The rehearsal under way: the books, and every pod that exists, placed or not, in the order in which they came."""

    def __init__(self, ledger: Ledger, pods: dict[str, Pod], luck: Random | None) -> None:
        self.ledger, self.pods = ledger, pods
        self.allocator = Allocator(ledger.inventory)
        self.evicted: list[Evicted] = []
        self.had_choice = False
        self._luck = luck
        self._now_s = max((pod.started_s for pod in pods.values()), default=0.0)
        if luck is not None:
            self._now_s += 2 ** luck.uniform(0, _LATE)
        self._made = 0
        self._rolling: Sequence[_Rolling] = ()

    def is_placed(self, uid: str) -> bool:
        return self.ledger.get(uid) is not None

    def is_unfinished(self, one: _Rolling) -> bool:
        """Whether the rolling update has not come to its end."""
        return bool(one.old) or len(one.new) < one.count or not all(map(self.is_placed, one.new))

    def begin(self, roll: Roll) -> _Rolling:
        """What happens at once when a workload is changed: the old pods are scaled."""
        one = _Rolling(roll, list(roll.kept), list(roll.old))
        self._thin(one, one.kept, len(one.kept) - roll.count)
        if roll.new is None or roll.scales_old:
            self._thin(one, one.old, len(one.old) - (0 if roll.new is None else roll.count))
        if roll.new is not None and roll.scales_old and one.old:
            model = self.pods[one.old[0]]
            one.old += [self._make(model) for _ in range(roll.count - len(one.old))]
        return one

    def settle(self, rolling: Sequence[_Rolling]) -> None:
        """Let everything happen that can."""
        self._rolling = rolling
        moved = True
        while moved:
            moved = self._place_all()
            for one in self._in_turn(rolling):
                moved |= self._step(one)

    def resize(self, resizes: Mapping[str, Desired]) -> list[tuple[str, str]]:
        """Other amounts for running pods. Those that cannot be, by workload, and why."""
        refused: dict[str, str] = {}
        for uid, desired in resizes.items():
            shares = resized(self.ledger, uid, desired)
            if isinstance(shares, str):
                refused.setdefault(self.pods[uid].owner, shares)
            else:
                self.ledger.resize(uid, tuple(share.settled() for share in shares))
        return sorted(refused.items())

    def remove(self, uid: str) -> None:
        """The pod is gone."""
        self.ledger.release(uid)
        self.pods.pop(uid, None)

    def waiting(self) -> tuple[Waiting, ...]:
        """What waits now, by workload."""
        found: dict[str, list[Pod]] = {}
        for pod in self.pods.values():
            if not self.is_placed(pod.uid):
                found.setdefault(pod.owner, []).append(pod)
        return tuple(Waiting(owner, len(pods), self._explained(pods[0])) for owner, pods in sorted(found.items()))

    def without_old(self, unfinished: Sequence[_Rolling]) -> set[str]:
        """What would still wait if the old pods of these rolling updates went first."""
        for one in unfinished:
            for uid in one.old:
                self.remove(uid)
            one.old.clear()
        self.settle(self._rolling)
        return {one.roll.owner for one in unfinished if self.is_unfinished(one)}

    def _place_all(self) -> bool:
        """Place what can be placed, higher priority first, then who has waited longest, or comes first by chance."""
        moved = False
        hopeless: set[tuple[str, Claim, int]] = set()
        waiting = [pod for pod in self.pods.values() if not self.is_placed(pod.uid)]
        kinds = {(pod.priority, pod.namespace, pod.claim) for pod in waiting}
        self.had_choice |= len(kinds) > len({priority for priority, *_ in kinds})
        if self._luck is not None:
            self._luck.shuffle(waiting)
        for pod in sorted(waiting, key=lambda one: -one.priority):
            kind = (pod.namespace, pod.claim, pod.priority)
            if pod.uid not in self.pods or kind in hopeless:
                continue
            if self._place(pod):
                moved = True
            elif self._evict_for(pod):
                moved, hopeless = True, set()
            else:
                hopeless.add(kind)
        return moved

    def _place(self, pod: Pod) -> bool:
        chosen = self.allocator.allocate(pod.claim, self._asker(pod))
        if chosen is None:
            return False
        held = reserve(pod.claim, chosen, uid=pod.uid, namespace=pod.namespace, name=pod.uid, priority=pod.priority)
        self.ledger.hold(held, _NEW)
        return True

    def _evict_for(self, pod: Pod) -> bool:
        """Make room by evicting lower ones, which then wait like any other."""
        able = [
            Candidate(entry.reservation, victim.started_s)
            for entry in self.ledger
            if (victim := self.pods.get(entry.reservation.uid)) is not None and not victim.shielded
        ]
        found = plan(self.ledger.inventory, pod.claim, self._asker(pod), list(self.ledger.inventory.row_of), able)
        if found is None:
            return False
        for uid in found.victims:
            victim = self.pods[uid]
            self.evicted.append(Evicted(victim.owner, victim.namespace, found.node, pod.owner))
            self.ledger.release(uid)
            self.pods[uid] = self.pods.pop(uid)  # its successor comes last
        return self._place(pod)

    def _step(self, one: _Rolling) -> bool:
        """One look of the controller at a rolling update. Whether it did something."""
        roll = one.roll
        if roll.new is None:
            return False
        created = to_create(one.count, roll.bounds, self._progress(one))
        one.new += [self._make(roll.new) for _ in range(created)]
        if created:
            return True
        unhealthy, healthy = to_remove(one.count, roll.bounds, self._progress(one))
        waiting = [uid for uid in one.old if not self.is_placed(uid)][:unhealthy]
        for uid in waiting:
            self.remove(uid)
            one.old.remove(uid)
        self._thin(one, one.old, healthy if not waiting else 0)
        return bool(waiting or healthy)

    def _progress(self, one: _Rolling) -> Progress:
        placed = self.is_placed
        return Progress(len(one.old), sum(map(placed, one.old)), len(one.new), sum(map(placed, one.new)))

    def _thin(self, one: _Rolling, uids: list[str], by: int) -> None:
        """Take away so many pods as a ReplicaSet does (kubernetes pkg/controller/controller_utils.go, ActivePodsWithRanks).

        Those that wait go first, then those that share a node with most of the workload, then the newest; ages that are the
        same power of two are equal, and among equals it is chance.
        """
        self.had_choice |= 0 < by < len(uids)
        for _ in range(max(0, by)):
            related = (*one.kept, *one.old, *one.new)
            nodes = [entry.reservation.node for uid in related if (entry := self.ledger.get(uid)) is not None]
            goes = max(uids, key=lambda uid: self._rank(uid, nodes))
            uids.remove(goes)
            self.remove(goes)

    def _rank(self, uid: str, nodes: Sequence[str]) -> tuple[bool, int, float, float]:
        """How soon a pod is taken away, the highest first."""
        entry, started_s = self.ledger.get(uid), self.pods[uid].started_s
        sharing = nodes.count(entry.reservation.node) if entry else 0
        if self._luck is None:
            return entry is None, sharing, started_s, 0.0
        return entry is None, sharing, -int(log2(max(1.0, self._now_s - started_s))), self._luck.random()

    def _in_turn(self, rolling: Sequence[_Rolling]) -> Sequence[_Rolling]:
        """Rolling updates that go on at once, in the order of this round."""
        return rolling if self._luck is None else self._luck.sample(rolling, len(rolling))

    def _make(self, model: Pod) -> str:
        self._made += 1
        uid = f"{model.owner}#{self._made}"
        self.pods[uid] = replace(model, uid=uid, started_s=_NEW)
        return uid

    def _asker(self, pod: Pod) -> Asker:
        return Asker(pod.priority, self.ledger.budget(pod.namespace))

    def _explained(self, pod: Pod) -> Explanation:
        ledger = self.ledger
        return explain(
            ledger.inventory, pod.claim, self._asker(pod), quota=ledger.quota(pod.namespace), used=ledger.used(pod.namespace)
        )
