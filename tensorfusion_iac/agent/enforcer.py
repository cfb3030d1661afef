"""Holds the pods of a node to their amounts: reads the cards, paces what is to be paced, watches memory (ENFORCEMENT.md).

Three rounds of different pace, each a method, so that a test can make them one by one: `sample` each 125 ms, `look` (who is on
which card) and `control` twice a second. `EnforcerThread` makes them in time. It reads one value from the API side, the pods,
and leaves one for it, what was observed; neither waits for the other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tensorfusion_iac.agent.driver import Card, CardProcess, Driver, DriverError
from tensorfusion_iac.agent.freezer import DutyGroup
from tensorfusion_iac.agent.overuse import End, OveruseWatch, Warn
from tensorfusion_iac.agent.pacing import Pacing, Place
from tensorfusion_iac.agent.pods import NodePod
from tensorfusion_iac.agent.processes import Process, ProcessTable
from tensorfusion_iac.agent.pulser import Pulser
from tensorfusion_iac.agent.samples import UseMeter

log = logging.getLogger(__name__)

SAMPLE_S = 0.125
"""Well below NVML's shortest sample window, 1/6 s: a driver gives only the newest sample of each process."""
CONTROL_EACH = 4
"""Rounds of `sample` for one of `look` and `control`."""


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """What one container uses of one card. `compute` is a fraction of the card; `sample_age_s` None: it never had a sample."""

    pod_uid: str
    container: str
    card: str
    compute: float
    vram_bytes: int
    sample_age_s: float | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen lately: per container, per card, and how the pods are held."""

    containers: Sequence[ContainerUse] = ()
    busy: Mapping[str, int | None] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()
    unreachable: frozenset[Place] = frozenset()
    ran: Mapping[str, float] = field(default_factory=dict)
    targets: Mapping[Place, float] = field(default_factory=dict)
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Notice:
    """An event for a pod's owner."""

    pod: NodePod
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _OnCard:
    """A process of one of our pods on a card."""

    process: Process
    pod_uid: str
    container: str
    used_bytes: int


class _Joined(NamedTuple):
    """A process that was moved into a child of ours."""

    start_time: int
    pod_uid: str
    group: str


class Enforcer:
    """One node. `pods` is replaced as a whole by whoever watches them; `seen` by us."""

    def __init__(
        self, driver: Driver, table: ProcessTable, pulser: Pulser, *,
        notice: Callable[[Notice], None] = lambda notice: None, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.pods: Mapping[str, NodePod] = {}
        self.seen = Seen()
        self.lost: set[str] = set()
        """Cards that a call said are lost, for the health probe to look at; it clears them."""
        self._driver, self._table, self._pulser = driver, table, pulser
        self._notice, self._clock = notice, clock
        self._pacing, self._overuse = Pacing(), OveruseWatch()
        self._meters: defaultdict[str, UseMeter] = defaultdict(UseMeter)
        self._on_card: dict[str, dict[int, _OnCard]] = {}
        self._foreign: set[str] = set()
        self._busy: dict[str, int | None] = {}
        self._groups: dict[str, dict[str, DutyGroup]] = {}
        self._joined: dict[int, _Joined] = {}  # by pid, those in a child of ours
        self._controlled_s = clock()

    def sample(self) -> None:
        """Read new utilisation samples of every card."""
        now_us = time.time_ns() // 1000
        for card in self._driver.cards():
            meter = self._meters[card.uuid]
            try:
                busy = self._driver.busy_percent(card.uuid)
                samples = self._driver.samples(card.uuid, meter.newest_us) if not card.partitioned else ()
            except DriverError as error:
                self._failed(card, error)
                continue
            self._busy[card.uuid] = busy
            meter.add(samples, now_us, busy)

    def look(self) -> None:
        """See which processes are on which card, of which pods; move those that are paced into their child cgroup."""
        pods, pids = self.pods, set()
        for card in self._driver.cards():
            try:
                processes = self._driver.processes(card.uuid)
            except DriverError as error:
                self._failed(card, error)
                continue
            pids |= {process.pid for process in processes}
            self._sort(card, processes, pods)
        self._table.keep_only(pids)
        self._joined = {pid: joined for pid, joined in self._joined.items() if pid in pids}
        self._join(pods)
        self._watch_memory(pods)

    def control(self) -> None:
        """Decide the pulses anew, and tell what was seen."""
        pods, now_s = self.pods, self._clock()
        elapsed_s = max(now_s - self._controlled_s, 0.001)
        self._controlled_s = now_s
        use = self._take_use(elapsed_s)
        by_place: defaultdict[Place, float] = defaultdict(float)
        for (uid, _, card), fraction in use.items():
            by_place[uid, card] += fraction
        ran = {uid: self._pulser.ran(uid) for uid in pods}
        pulses = self._pacing.step(pods, by_place, ran, elapsed_s)
        for uid, pulse in pulses.items():
            self._pulser.hold(uid, pulse, self._groups.get(uid, {}).values())
        for uid in self._pulser.keys() - pulses.keys():
            self._release(uid)
        self._pulser.tell()
        self._publish(use, ran, now_s)

    def release_all(self) -> None:
        """Let everything run, for good."""
        for uid in list(self._groups):
            self._release(uid)

    def _failed(self, card: Card, error: DriverError) -> None:
        if error.lost and card.uuid not in self.lost:
            log.warning("card %d %s: %s", card.index, card.uuid, error)
            self.lost.add(card.uuid)

    def _sort(self, card: Card, processes: Sequence[CardProcess], pods: Mapping[str, NodePod]) -> None:
        before, meter = self._on_card.get(card.uuid, {}), self._meters[card.uuid]
        found: dict[int, _OnCard] = {}
        foreign = False
        for each in processes:
            process = self._table.look_up(each.pid)
            if process is None:
                # One that has just ended is no stranger; the driver lists it for a moment longer.
                foreign = foreign or (self._table.start_time(each.pid) is not None and not self._table.is_mps(each.pid))
                continue
            if each.pid in before and before[each.pid].process.start_time != process.start_time:
                meter.forget(each.pid)
            pod = pods.get(process.place.pod_uid)
            if pod is None:
                foreign = True
                continue
            container = pod.containers.get(process.place.container_id, process.place.container_id[:12])
            found[each.pid] = _OnCard(process, pod.uid, container, each.used_bytes or 0)
        for pid in before.keys() - found.keys():
            meter.forget(pid)
        self._on_card[card.uuid] = found
        (self._foreign.add if foreign else self._foreign.discard)(card.uuid)

    def _join(self, pods: Mapping[str, NodePod]) -> None:
        for on_card in self._on_card.values():
            for pid, each in on_card.items():
                pod, joined = pods.get(each.pod_uid), self._joined.get(pid)
                if pod is None or not pod.paced:
                    continue
                if joined is not None and joined[:2] == (each.process.start_time, each.pod_uid):
                    continue
                group = self._group_of(each.pod_uid, each.process)
                if group is None:
                    continue
                try:
                    group.add(pid)
                except OSError:
                    continue  # it ended
                self._joined[pid] = _Joined(each.process.start_time, each.pod_uid, str(group.path))
        self._forget_groups()

    def _forget_groups(self) -> None:
        """Groups stay while their container lives: its next process may come back to them."""
        used = {joined.group for joined in self._joined.values()}
        for groups in self._groups.values():
            for path in [path for path, group in groups.items() if path not in used and not group.path.is_dir()]:
                del groups[path]  # the pulser, which may be about to use it, closes it

    def _group_of(self, uid: str, process: Process) -> DutyGroup | None:
        known = self._groups.get(uid, {}).get(str(process.parent / "tf-duty"))
        if known is not None:
            return known
        try:
            group = DutyGroup.open(process.parent, process.hierarchy.version)
        except OSError:
            return None
        self._groups.setdefault(uid, {})[str(group.path)] = group
        return group

    def _release(self, uid: str) -> None:
        self._pulser.drop(uid)
        for group in self._groups.pop(uid, {}).values():
            group.dissolve()
        self._joined = {pid: joined for pid, joined in self._joined.items() if joined.pod_uid != uid}

    def _take_use(self, elapsed_s: float) -> dict[tuple[str, str, str], float]:
        """The use of the last `elapsed_s` by pod, container and card, as a fraction of the card."""
        found: defaultdict[tuple[str, str, str], float] = defaultdict(float)
        for card, meter in self._meters.items():
            on_card = self._on_card.get(card, {})
            for pid, used_s in meter.take().items():
                if (each := on_card.get(pid)) is not None:
                    found[each.pod_uid, each.container, card] += used_s / elapsed_s
        return found

    def _watch_memory(self, pods: Mapping[str, NodePod]) -> None:
        used: defaultdict[Place, dict[int, int]] = defaultdict(dict)
        limits: dict[Place, int] = {}
        for card, on_card in self._on_card.items():
            if self._driver.can_limit_memory(card):
                continue
            for pid, each in on_card.items():
                pod = pods.get(each.pod_uid)
                if pod is not None and pod.memory_held and card in pod.cards:
                    used[pod.uid, card][pid] = each.used_bytes
                    limits[pod.uid, card] = pod.cards[card].vram_limit_bytes
        for action in self._overuse.look(self._clock(), used, limits):
            self._act(action, pods[action.place[0]])

    def _act(self, action: Warn | End, pod: NodePod) -> None:
        what = f"{action.used_bytes} bytes of {action.place[1]} in use, the limit is {action.limit_bytes}"
        if isinstance(action, Warn):
            self._notice(Notice(pod, "VRAMLimitExceeded", f"{what}; its largest process is ended if this goes on"))
            return
        each = self._on_card[action.place[1]].get(action.pid)
        if each is None:
            return
        self._notice(Notice(pod, "VRAMLimitEnforced", f"{what}; process {action.pid} of container {each.container} is ended"))
        self._release(pod.uid)  # a frozen process of a v1 cgroup cannot die
        self._table.end(each.process)

    def _publish(self, use: Mapping[tuple[str, str, str], float], ran: Mapping[str, float], now_s: float) -> None:
        now_us = time.time_ns() // 1000
        memory: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        ages: dict[tuple[str, str, str], float] = {}
        for card, on_card in self._on_card.items():
            for pid, each in on_card.items():
                place = (each.pod_uid, each.container, card)
                memory[place] += each.used_bytes
                if (age_s := self._meters[card].age_s(pid, now_us)) is not None:
                    ages[place] = min(age_s, ages.get(place, age_s))
        self.seen = Seen(
            tuple(ContainerUse(*place, use.get(place, 0.0), used, ages.get(place)) for place, used in memory.items()),
            dict(self._busy), frozenset(self._foreign),
            frozenset(place for place in self._pacing.duties if self._pacing.unreachable(place)),
            dict(ran), dict(self._pacing.targets), now_s,
        )  # fmt: skip


class EnforcerThread(threading.Thread):
    """Makes the rounds in time until `end`. A round that fails is logged; the pulser frees everything if that goes on."""

    def __init__(self, enforcer: Enforcer) -> None:
        super().__init__(name="enforcer", daemon=True)
        self._enforcer = enforcer
        self._ended = threading.Event()

    def run(self) -> None:
        """Rounds until `end`."""
        number, due_s = 0, time.monotonic()
        while True:
            due_s = max(due_s + SAMPLE_S, time.monotonic() - SAMPLE_S)  # by the clock, and no rush after a stall
            if self._ended.wait(max(due_s - time.monotonic(), 0.0)):
                return
            number += 1
            try:
                self._enforcer.sample()
                if number % CONTROL_EACH == 0:
                    self._enforcer.look()
                    self._enforcer.control()
            except Exception:  # one strange answer must not end the enforcement of all others
                log.exception("a round failed")

    def end(self) -> None:
        """End the thread, and let everything run."""
        self._ended.set()
        if self.is_alive():
            self.join()
        self._enforcer.release_all()
