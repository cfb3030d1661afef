"""What becomes of a cluster when workloads change: pods roll, scale, are preempted and wait, by the scheduler's own allocator.

Everything happens as it would in the cluster: rolling updates keep their bounds (`rolling`), pods are placed, evict others and
wait as they do there (`placing`), and objects that leave are deleted when all else is done, as Pulumi does it. CPU, memory and
taints are not known. Which of several equal pods goes, or comes, first is chance; `luck` tries others than the likeliest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log2
from random import Random

from tensorfusion_iac.api.desired import Desired
from tensorfusion_iac.planning.ledger import Ledger
from tensorfusion_iac.planning.placing import NEW, Evicted, Placing, Pod, Waiting
from tensorfusion_iac.planning.rolling import Bounds, Progress, to_create, to_remove
from tensorfusion_iac.planning.simulate import PoolUse, pool_use

_LATE = 20.0
"""The change is made up to 2**20 s (12 days) after the youngest pod of today started; when is not known."""
NO_BOUNDS = Bounds(0, 0)


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
    placing = Placing(ledger, pods, luck)
    run = _Run(placing, luck)
    run.settle(())
    before = placing.waiting()
    refused = placing.resize(resizes or {})
    rolling = [run.begin(roll) for roll in rolls]
    run.settle(rolling)
    held_up = {one.owner for one in placing.waiting()} | {one.roll.owner for one in rolling if run.is_unfinished(one)}
    for uid in leaving:
        placing.remove(uid)
    run.settle(rolling)
    waiting = placing.waiting()
    unfinished = [one for one in rolling if run.is_unfinished(one) and one.old]
    still = {one.owner for one in waiting} | {one.roll.owner for one in unfinished}
    outcome = Outcome(
        before, waiting, tuple(placing.evicted), (), tuple(sorted(held_up - still)), tuple(refused), pool_use(ledger),
        run.had_choice or placing.had_choice,
    )  # fmt: skip
    left = [(one.roll.owner, len(one.old), len(one.new)) for one in unfinished]
    hopeless = run.without_old(unfinished) if unfinished else set()
    return replace(outcome, stuck=tuple(Stuck(*each, would_fit=each[0] not in hopeless) for each in left))


class _Run:
    """The rehearsal under way: what controllers do with the pods of the workloads that change."""

    def __init__(self, placing: Placing, luck: Random | None) -> None:
        self.placing = placing
        self.had_choice = False
        self._luck = luck
        self._now_s = max((pod.started_s for pod in placing.pods.values()), default=0.0)
        if luck is not None:
            self._now_s += 2 ** luck.uniform(0, _LATE)
        self._made = 0
        self._rolling: Sequence[_Rolling] = ()

    def is_unfinished(self, one: _Rolling) -> bool:
        """Whether the rolling update has not come to its end."""
        return bool(one.old) or len(one.new) < one.count or not all(map(self.placing.is_placed, one.new))

    def begin(self, roll: Roll) -> _Rolling:
        """What happens at once when a workload is changed: the old pods are scaled."""
        one = _Rolling(roll, list(roll.kept), list(roll.old))
        self._thin(one, one.kept, len(one.kept) - roll.count)
        if roll.new is None or roll.scales_old:
            self._thin(one, one.old, len(one.old) - (0 if roll.new is None else roll.count))
        if roll.new is not None and roll.scales_old and one.old:
            model = self.placing.pods[one.old[0]]
            one.old += [self._make(model) for _ in range(roll.count - len(one.old))]
        return one

    def settle(self, rolling: Sequence[_Rolling]) -> None:
        """Let everything happen that can."""
        self._rolling = rolling
        moved = True
        while moved:
            moved = self.placing.place_all()
            for one in self._in_turn(rolling):
                moved |= self._step(one)

    def without_old(self, unfinished: Sequence[_Rolling]) -> set[str]:
        """What would still wait if the old pods of these rolling updates went first."""
        for one in unfinished:
            for uid in one.old:
                self.placing.remove(uid)
            one.old.clear()
        self.settle(self._rolling)
        return {one.roll.owner for one in unfinished if self.is_unfinished(one)}

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
        waiting = [uid for uid in one.old if not self.placing.is_placed(uid)][:unhealthy]
        for uid in waiting:
            self.placing.remove(uid)
            one.old.remove(uid)
        self._thin(one, one.old, healthy if not waiting else 0)
        return bool(waiting or healthy)

    def _progress(self, one: _Rolling) -> Progress:
        placed = self.placing.is_placed
        return Progress(len(one.old), sum(map(placed, one.old)), len(one.new), sum(map(placed, one.new)))

    def _thin(self, one: _Rolling, uids: list[str], by: int) -> None:
        """Take away so many pods as a ReplicaSet does (kubernetes pkg/controller/controller_utils.go, ActivePodsWithRanks).

        Those that wait go first, then those that share a node with most of the workload, then the newest; ages that are the
        same power of two are equal, and among equals it is chance.
        """
        self.had_choice |= 0 < by < len(uids)
        for _ in range(max(0, by)):
            related = (*one.kept, *one.old, *one.new)
            nodes = [entry.reservation.node for uid in related if (entry := self.placing.ledger.get(uid)) is not None]
            goes = max(uids, key=lambda uid: self._rank(uid, nodes))
            uids.remove(goes)
            self.placing.remove(goes)

    def _rank(self, uid: str, nodes: Sequence[str]) -> tuple[bool, int, float, float]:
        """How soon a pod is taken away, the highest first."""
        entry, started_s = self.placing.ledger.get(uid), self.placing.pods[uid].started_s
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
        self.placing.add(replace(model, uid=uid, started_s=NEW))
        return uid
