"""Pods that start together: none of a group is let go until GPUs for `min_members` of them are held (SPEC §2 `gang`, §9).

The webhook puts a scheduling gate on each member, so that kube-scheduler leaves it alone. When enough members exist, holds
are taken for them, all or none; then the gates are removed, and each member finds its own hold when it is scheduled. Members
that come later are let go at once. A group that has waited longer than its timeout is told so, and waits no more.
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
from tensorfusion_iac.planning.place import best_node
from tensorfusion_iac.planning.shares import reserve
from tensorfusion_iac.scheduling.decide import Decider
from tensorfusion_iac.scheduling.metrics import Metrics
from tensorfusion_iac.scheduling.pods import GpuPod
from tensorfusion_iac.scheduling.state import ClusterState

log = logging.getLogger(__name__)

CONDITION = f"{names.PREFIX}GangReady"
HOLD_S = 60.0
"""How long a let-go group's GPUs are held for kube-scheduler to come for them."""
_SETTLE_S, _RETRY_S = 0.2, 2.0

Group = tuple[str, str, int]
"""Namespace, workload and members needed: what makes pods one group."""


@dataclass(slots=True)
class Gangs:
    """Lets groups go, while `may_write`."""

    client: Client
    state: ClusterState
    decider: Decider
    metrics: Metrics
    may_write: Callable[[], bool]
    _told: dict[str, str] = field(default_factory=dict)
    _work: asyncio.Event = field(default_factory=asyncio.Event)

    def attach(self) -> None:
        """Begin to listen."""
        self.state.on_pod(self._pod_changed)
        self.state.on_room(self._work.set)

    async def run(self) -> None:
        """Look at the groups whenever something has changed, and now and then for timeouts."""
        while True:
            try:
                async with asyncio.timeout(_RETRY_S):
                    await self._work.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(_SETTLE_S)
            self._work.clear()
            if not self.may_write():
                continue
            for group, members in self.groups().items():
                try:
                    await self._look_at(group, members)
                except KubeError as error:
                    if not (isinstance(error, ApiError) and error.not_found):
                        log.warning("gang %s/%s: %s", group[0], group[1], error)

    def groups(self) -> dict[Group, list[GpuPod]]:
        """Groups that have gated members, with all their living members, the oldest first."""
        found: dict[Group, list[GpuPod]] = {}
        for pod in self.state.pods.values():
            if pod.worker.gang is not None and not pod.terminating:
                key = pod.namespace, pod.worker.workload, pod.worker.gang.min_members
                found.setdefault(key, []).append(pod)
        return {
            group: sorted(members, key=lambda pod: (pod.created, pod.name))
            for group, members in found.items()
            if any(_is_gated(pod) for pod in members)
        }

    def _pod_changed(self, pod: GpuPod) -> None:
        if pod.worker.gang is not None:
            self._work.set()

    async def _look_at(self, group: Group, members: Sequence[GpuPod]) -> None:
        needed = group[2] - sum(1 for pod in members if not _is_gated(pod))
        gated = [pod for pod in members if _is_gated(pod)]
        problem = ""
        if needed > 0 and len(gated) < needed:
            problem = f"{len(members)} of {group[2]} members exist"
        elif needed > 0:
            problem = self.hold_all(gated[:needed])
        if not problem:
            for pod in gated:
                await self._let_go(pod)
            return
        if late := _waited_too_long(gated):
            problem = f"gave up after {late:.0f} s: {problem}"
        for pod in gated:
            await self._tell(pod, problem)

    def hold_all(self, pods: Sequence[GpuPod]) -> str:
        """Take holds for all of them, or for none; in words what is missing, empty if all are held."""
        if _waited_too_long(pods):
            return "its timeout is over"
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

    async def _let_go(self, pod: GpuPod) -> None:
        gates = [{"name": gate} for gate in pod.gates if gate != names.GANG_GATE]
        body: dict[str, Any] = {"metadata": {"uid": pod.uid}, "spec": {"schedulingGates": gates or None}}
        written = await self.client.patch(PODS, pod.name, body, PatchType.MERGE, pod.namespace)
        self.state.take_pod(written)
        self.metrics.events.labels("gang-member-let-go").inc()
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
        condition = {"type": CONDITION, "status": status, "reason": reason, "message": message[:1024], "lastTransitionTime": now}
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        await self.client.patch(PODS, pod.name, body, PatchType.STRATEGIC, pod.namespace, subresource="status")


def _is_gated(pod: GpuPod) -> bool:
    return names.GANG_GATE in pod.gates


def _waited_too_long(pods: Sequence[GpuPod]) -> float:
    """Seconds that the oldest of the pods has waited, if that is longer than its timeout; else 0."""
    for pod in pods:
        if pod.worker.gang is not None and pod.worker.gang.timeout is not None and pod.created:
            waited = (datetime.now(UTC) - datetime.fromisoformat(pod.created)).total_seconds()
            if waited > pod.worker.gang.timeout.total_seconds():
                return waited
    return 0.0
