"""Pods that start together: none of a group starts until `needed` of them can (SPEC §2 `gang`, §9).

The webhook puts a scheduling gate on each member, so that kube-scheduler leaves it alone. When enough members exist, GPUs are
held for them, all or none; then the gates are removed, and each member finds its own hold when it is scheduled. A Binding
waits until enough members have come to be bound, so that a shortage of CPU keeps the whole group back, not a part of it.
A group whose time is over gives its holds back, and is tried again after a pause that grows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tensorfusion_iac.api import names
from tensorfusion_iac.kube.client import Client, PatchType
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import PODS
from tensorfusion_iac.planning.ledger import State
from tensorfusion_iac.planning.place import best_node
from tensorfusion_iac.planning.shares import reserve
from tensorfusion_iac.scheduling.decide import Decider
from tensorfusion_iac.scheduling.groups import Group, Standing, group_of, is_gated, standings
from tensorfusion_iac.scheduling.metrics import Metrics
from tensorfusion_iac.scheduling.pods import GANG_READY, GpuPod
from tensorfusion_iac.scheduling.state import ClusterState
from tensorfusion_iac.scheduling.waking import wake

log = logging.getLogger(__name__)

HOLD_S, LEAST_HOLD_S = 60.0, 10.0
"""How long a let-go group's GPUs are held for kube-scheduler to place all of it: its timeout, within these bounds."""
MEET_S, MEET_PARTITIONED_S = 25.0, 8.0
"""How long a Binding waits for the others: less than kube-scheduler waits for an answer (30 s), of which making partitions may
take 20 s."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 300.0
_SETTLE_S, _RETRY_S = 0.2, 2.0
_NEVER = float("-inf")


@dataclass(slots=True)
class Attempt:
    """How a group's attempt to start stands, by the state's clock."""

    began: float
    known: frozenset[str]
    """Members that it counts on (UIDs): when others come, the pause is over."""
    held_since: float | None = None
    failed: int = 0
    not_before: float = _NEVER
    why: str = ""


@dataclass(slots=True)
class Meeting:
    """Members whose Bindings wait for each other; the outcome is empty if they may go on."""

    outcome: asyncio.Future[str]
    there: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Gangs:
    """Lets groups go, while `may_write`."""

    client: Client
    state: ClusterState
    decider: Decider
    metrics: Metrics
    may_write: Callable[[], bool]
    _known: set[str] = field(default_factory=set)
    _attempts: dict[Group, Attempt] = field(default_factory=dict)
    _meetings: dict[Group, Meeting] = field(default_factory=dict)
    _met_until: dict[Group, float] = field(default_factory=dict)
    _started: set[Group] = field(default_factory=set)
    """Groups of which enough were bound at a time: of some, members have finished since."""
    _refused: set[str] = field(default_factory=set)
    _told: dict[str, str] = field(default_factory=dict)
    _work: asyncio.Event = field(default_factory=asyncio.Event)

    def attach(self) -> None:
        """Begin to listen."""
        self.state.on_pod(self._pod_changed)
        self.state.on_room(self._work.set)
        self.decider.holds_back = self.refusal

    def forget(self) -> None:
        """Begin anew: holds of an earlier term of office mean nothing."""
        self._attempts.clear()
        self._met_until.clear()

    async def run(self) -> None:
        """Look at the groups whenever something has changed, and now and then for what is over by time."""
        while True:
            try:
                async with asyncio.timeout(_RETRY_S):
                    await self._work.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(_SETTLE_S)
            self._work.clear()
            if self.may_write():
                await self.look()

    async def look(self) -> None:
        """Let go, wake or tell every group that has members which wait."""
        found = self.groups()
        self._forget_what_is_gone(found)
        for group, standing in found.items():
            try:
                await self._look_at(standing)
            except KubeError as error:
                if not (isinstance(error, ApiError) and error.not_found):
                    log.warning("gang %s/%s: %s", group.namespace, group.workload, error)

    def groups(self) -> dict[Group, Standing]:
        """Groups that have members which wait."""
        self._known &= self.state.pods.keys()
        found = standings(self.state, (self.state.pods[uid] for uid in self._known))
        self._started = {group for group in self._started if group in found and found[group].bound}
        self._started |= {group for group, standing in found.items() if standing.started}
        return {group: standing for group, standing in found.items() if standing.waiting}

    def refusal(self, pod: GpuPod) -> str:
        """Why kube-scheduler may not place a member now; empty if it may."""
        standing = self._standing(pod)
        problem = standing if isinstance(standing, str) else self.problem(standing)
        (self._refused.add if problem else self._refused.discard)(pod.uid)
        return problem

    async def meet(self, pod: GpuPod) -> str:
        """Wait until enough members have come to be bound; in words if they don't come in time, empty if they are there."""
        standing = self._standing(pod)
        if isinstance(standing, str):
            return standing
        if self._goes_on(standing):
            return ""
        if why := self.problem(standing):
            return why
        group = standing.group
        meeting = self._meetings.get(group)
        if meeting is None:
            meeting = self._meetings[group] = Meeting(asyncio.get_running_loop().create_future())
        meeting.there.add(pod.uid)
        wait_s = MEET_PARTITIONED_S if pod.claim.partitioned else MEET_S
        self.state.ledger.extend(pod.uid, self.state.clock() + wait_s + _RETRY_S)
        if len(standing.bound | meeting.there) >= group.needed:
            self._met_until[group] = self.state.clock() + HOLD_S
            self._close(group, "")
        try:
            async with asyncio.timeout(wait_s):
                return await asyncio.shield(meeting.outcome)
        except TimeoutError:
            if meeting.outcome.done():
                return meeting.outcome.result()
            there = len(standing.bound | meeting.there)
            return self._fail(standing, f"{there} of {group.needed} members found a node with room")
        finally:
            meeting.there.discard(pod.uid)

    def problem(self, standing: Standing) -> str:
        """Why a group may not go now; empty if it may: then GPUs are held for as many as start together."""
        attempt, now = self._attempt(standing), self.state.clock()
        if self._goes_on(standing):
            return ""
        if attempt.held_since is not None:
            if now - attempt.held_since < min(HOLD_S, max(_timeout_s(standing) or HOLD_S, LEAST_HOLD_S)):
                return ""
            meeting = self._meetings.get(standing.group)
            there = len(standing.bound | meeting.there) if meeting else len(standing.bound)
            return self._fail(standing, f"{there} of {standing.group.needed} members found a node with room")
        if now < attempt.not_before:
            return attempt.why
        attempt.began = max(attempt.began, attempt.not_before)
        problem = standing.missing or self.hold_all(standing.waiting[: standing.group.needed - len(standing.bound)])
        if not problem:
            attempt.held_since = now
            return ""
        timeout_s = _timeout_s(standing)
        return self._fail(standing, problem) if timeout_s and now - attempt.began > timeout_s else problem

    def hold_all(self, pods: Sequence[GpuPod]) -> str:
        """Take holds for all of them, or for none; in words what is missing, empty if all are held."""
        state = self.state
        until, held = state.clock() + HOLD_S, list[str]()
        for pod in pods:
            if state.ledger.get(pod.uid) is not None:
                continue  # held since an earlier look
            asker = self.decider.asker(pod)
            fit = state.allocator.fit(pod.claim, asker)
            row = best_node(fit.scores, fit.nodes)
            chosen = None if row is None else state.allocator.choose(pod.claim, asker, fit, row)
            if chosen is None:
                text = self.decider.explain(pod).text()
                for uid in held:
                    state.ledger.release(uid)
                return f"{len(held)} of {len(pods)} members can be placed; the next: {text}"
            state.ledger.hold(
                reserve(pod.claim, chosen, uid=pod.uid, namespace=pod.namespace, name=pod.name, priority=pod.priority), until
            )
            held.append(pod.uid)
        return ""

    def _pod_changed(self, pod: GpuPod) -> None:
        if pod.worker.gang is not None:
            self._known.add(pod.uid)
            self._work.set()

    def _standing(self, pod: GpuPod) -> Standing | str:
        """How the group of a member that waits stands; in words if the watch has not shown the pod yet."""
        group = group_of(pod)
        standing = self.groups().get(group) if group else None
        return standing or "the pod is not known as a member of its group yet"

    def _goes_on(self, standing: Standing) -> bool:
        """Whether it has started, or enough members met a moment ago."""
        return standing.group in self._started or self._met_until.get(standing.group, _NEVER) > self.state.clock()

    def _forget_what_is_gone(self, found: dict[Group, Standing]) -> None:
        now, pods = self.state.clock(), self.state.pods.keys()
        self._attempts = {group: attempt for group, attempt in self._attempts.items() if group in found}
        self._met_until = {group: until for group, until in self._met_until.items() if until > now}
        self._refused &= pods
        self._told = {uid: told for uid, told in self._told.items() if uid in pods}

    def _attempt(self, standing: Standing) -> Attempt:
        members = frozenset(pod.uid for pod in standing.members)
        attempt = self._attempts.get(standing.group)
        if attempt is None:
            began = self.state.clock() - _age_s(standing.waiting[0])
            attempt = self._attempts[standing.group] = Attempt(began, members)
        if not members <= attempt.known:
            attempt.not_before = _NEVER
        attempt.known = members
        return attempt

    def _fail(self, standing: Standing, problem: str) -> str:
        """The attempt is over: what is held is given back, and the group pauses. What is told of it."""
        attempt, now = self._attempt(standing), self.state.clock()
        began = attempt.began if attempt.held_since is None else attempt.held_since
        pause_s = min(FIRST_PAUSE_S * 2.0**attempt.failed, LONGEST_PAUSE_S)
        attempt.why = f"gave up after {max(now - began, 0.0):.0f} s: {problem}; tried again after {pause_s:.0f} s"
        attempt.held_since, attempt.failed, attempt.not_before = None, attempt.failed + 1, now + pause_s
        for pod in standing.waiting:
            entry = self.state.ledger.get(pod.uid)
            if entry is not None and entry.state is State.HELD:
                self.state.release(pod.uid)
        self._close(standing.group, attempt.why)
        self._work.set()
        return attempt.why

    def _close(self, group: Group, outcome: str) -> None:
        meeting = self._meetings.pop(group, None)
        if meeting is not None and not meeting.outcome.done():
            meeting.outcome.set_result(outcome)

    async def _look_at(self, standing: Standing) -> None:
        problem = self.problem(standing)
        for pod in standing.waiting:
            if problem:
                await self._tell(pod, problem)
            elif is_gated(pod):
                await self._let_go(pod)
            elif pod.uid in self._refused:
                self._refused.discard(pod.uid)
                await self._tell_ready(pod)
                await wake(self.client, self.metrics, pod)

    async def _let_go(self, pod: GpuPod) -> None:
        gates = [{"name": gate} for gate in pod.gates if gate != names.GANG_GATE]
        body: dict[str, Any] = {"metadata": {"uid": pod.uid}, "spec": {"schedulingGates": gates or None}}
        written = await self.client.patch(PODS, pod.name, body, PatchType.MERGE, pod.namespace)
        self.state.take_pod(written)
        self.metrics.events.labels("gang-member-let-go").inc()
        await self._tell_ready(pod)

    async def _tell_ready(self, pod: GpuPod) -> None:
        if self._told.pop(pod.uid, ""):
            await self._write_condition(pod, "True", "Ready", "GPUs are held for the whole group")

    async def _tell(self, pod: GpuPod, problem: str) -> None:
        kind = problem.partition(";")[0]
        if self._told.get(pod.uid) == kind:
            return
        self._told[pod.uid] = kind
        await self._write_condition(pod, "False", "TimedOut" if problem.startswith("gave up") else "Waiting", problem)

    async def _write_condition(self, pod: GpuPod, status: str, reason: str, message: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        condition = {"type": GANG_READY, "status": status, "reason": reason, "message": message[:1024], "lastTransitionTime": now}
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        await self.client.patch(PODS, pod.name, body, PatchType.STRATEGIC, pod.namespace, subresource="status")


def _timeout_s(standing: Standing) -> float | None:
    """How long the group may wait; None: for ever."""
    gang = standing.members[0].worker.gang
    return None if gang is None or not gang.timeout else gang.timeout.total_seconds()


def _age_s(pod: GpuPod) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(pod.created)).total_seconds() if pod.created else 0.0
