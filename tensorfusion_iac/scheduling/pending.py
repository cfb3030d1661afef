"""Pods that fit nowhere: a condition and an event that say why, and a wake when they would fit (SPEC §7, ARCHITECTURE).

A refused pod is tried again by kube-scheduler at any update of it, so the condition is written only when the set of reasons
has changed, and at most each 30 s. When room was freed, the pods that would now fit, highest priority first and each
counting on what is left beside the others, are woken by a touch of their annotation `wake`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tensorfusion_iac.api import names
from tensorfusion_iac.kube.client import Client, PatchType
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import EVENTS, PODS
from tensorfusion_iac.planning.explain import Explanation
from tensorfusion_iac.planning.place import best_node
from tensorfusion_iac.planning.reasons import Reason
from tensorfusion_iac.planning.shares import reserve
from tensorfusion_iac.scheduling.decide import UNSHOWN_S, Decider, NodeSet
from tensorfusion_iac.scheduling.metrics import Metrics
from tensorfusion_iac.scheduling.pods import GpuPod
from tensorfusion_iac.scheduling.state import ClusterState
from tensorfusion_iac.scheduling.waking import wake

log = logging.getLogger(__name__)

SETTLE_S = 0.2
"""How long freed room is gathered before pods are woken."""
REPEAT_S = 30.0
REWAKE_S = 5.0
"""A pod is not woken again sooner: kube-scheduler's own pause after a refusal is up to that long."""
MOST_WOKEN = 200
MESSAGE_MOST = 1024


@dataclass(slots=True)
class Waiting:
    """One refused pod."""

    pod: GpuPod
    explanation: Explanation
    nodes: NodeSet
    refused_at: float
    told: frozenset[Reason] = frozenset()
    told_at: float = float("-inf")
    woken_at: float = float("-inf")


@dataclass(slots=True)
class Pending:
    """Keeps the refused pods, tells why, wakes them."""

    client: Client
    state: ClusterState
    decider: Decider
    metrics: Metrics
    may_write: Callable[[], bool]
    waiting: dict[str, Waiting] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _bypassing: set[str] = field(default_factory=set)
    _room: asyncio.Event = field(default_factory=asyncio.Event)
    _tell: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    def attach(self) -> None:
        """Begin to listen."""
        self.decider.on_refused(self._refused)
        self.decider.on_placed(self._placed)
        self.state.on_pod(self._changed)
        self.state.on_room(self._room.set)

    def _placed(self, uid: str) -> None:
        self.waiting.pop(uid, None)

    def _changed(self, pod: GpuPod) -> None:
        if pod.bypassed_us and not pod.terminating and pod.uid not in self._bypassing:
            self._bypassing.add(pod.uid)
            self._told.discard(pod.uid)
            self._tell.put_nowait(pod.uid)
        elif pod.node and pod.uid in self._told:
            self._tell.put_nowait(pod.uid)

    def _refused(self, pod: GpuPod, explanation: Explanation, nodes: NodeSet) -> None:
        now = self.state.clock()
        waiting = self.waiting.setdefault(pod.uid, Waiting(pod, explanation, nodes, now))
        waiting.pod, waiting.explanation, waiting.nodes, waiting.refused_at = pod, explanation, nodes, now
        if waiting.told != explanation.kinds and self.state.clock() - waiting.told_at >= REPEAT_S:
            waiting.told, waiting.told_at = explanation.kinds, self.state.clock()
            self._tell.put_nowait(pod.uid)

    async def run(self) -> None:
        """Tell and wake, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_telling())
            tasks.create_task(self._keep_waking())

    async def _keep_telling(self) -> None:
        while True:
            uid = await self._tell.get()
            if self.may_write():
                try:
                    await self._tell_of(uid)
                except KubeError as error:
                    if not (isinstance(error, ApiError) and error.not_found):
                        log.warning("pod %s: %s", uid, error)

    async def _tell_of(self, uid: str) -> None:
        waiting, pod = self.waiting.get(uid), self.state.pods.get(uid)
        if waiting is not None and (pod is None or not pod.node):
            self._told.add(uid)
            await self._write_condition(waiting.pod, _why_not(waiting.explanation))
            await self._write_event(waiting.pod, "GPUsNotAllocated", _message(waiting.explanation))
        elif pod is not None and pod.bypassed_us:
            text = f"bound to {pod.node} without {names.SCHEDULER_NAME}'s extender, so it has no GPUs; delete it"
            await self._write_condition(pod, _condition("False", "BoundWithoutGPUs", text))
            await self._write_event(pod, "BoundWithoutGPUs", text)
        elif pod is not None and pod.node and uid in self._told:
            self._told.discard(uid)
            await self._write_condition(pod, _allocated(pod))

    async def _keep_waking(self) -> None:
        while True:
            await self._room.wait()
            await asyncio.sleep(SETTLE_S)
            self._room.clear()
            if not self.may_write() or not self.waiting:
                continue
            woken = self.would_fit()
            for pod in woken:
                await wake(self.client, self.metrics, pod)
            if any(self.state.clock() - waiting.woken_at < REWAKE_S for waiting in self.waiting.values()):
                asyncio.get_running_loop().call_later(REWAKE_S, self._room.set)

    def would_fit(self) -> list[GpuPod]:
        """The refused pods that would fit now, all of them together, highest priority and longest waiting first."""
        state, holds = self.state, list[str]()
        found: list[GpuPod] = []
        now = state.clock()
        self._forget_what_is_over(now)
        shown = (waiting for waiting in self.waiting.values() if waiting.pod.uid in state.pods)
        ordered = sorted(shown, key=lambda waiting: (-waiting.pod.priority, waiting.pod.created, waiting.pod.uid))
        seen_full: set[object] = set()
        for waiting in ordered:
            pod = state.pods[waiting.pod.uid]
            asker = self.decider.asker(pod)
            asks = (pod.claim, pod.namespace, pod.priority, asker.nominated_row, waiting.nodes)
            if asks in seen_full or len(found) >= MOST_WOKEN:
                continue
            fit = state.allocator.fit(pod.claim, asker)
            row = best_node(fit.scores, fit.nodes & self.decider.mask_of(waiting.nodes))
            chosen = None if row is None else state.allocator.choose(pod.claim, asker, fit, row)
            if chosen is None:
                seen_full.add(asks)
                continue
            hold = reserve(
                pod.claim, chosen, uid=f"wake/{pod.uid}", namespace=pod.namespace, name=pod.name, priority=pod.priority
            )
            state.ledger.hold(hold, now)
            holds.append(hold.uid)
            if now - waiting.woken_at >= REWAKE_S:
                waiting.woken_at = now
                found.append(pod)
        for uid in holds:
            state.ledger.release(uid)
        return found

    def _forget_what_is_over(self, now: float) -> None:
        self.waiting = {uid: waiting for uid, waiting in self.waiting.items() if not self._is_over(waiting, now)}
        self._told &= self.state.pods.keys() | self.waiting.keys()
        self._bypassing &= self.state.pods.keys()

    def _is_over(self, waiting: Waiting, now: float) -> bool:
        """Whether a refused pod is bound, going or gone; one that the watch has not shown yet may still come."""
        uid = waiting.pod.uid
        pod = self.state.pods.get(uid)
        if pod is None:
            return uid in self.state.gone or now - waiting.refused_at > UNSHOWN_S
        return pod.settled

    async def _write_condition(self, pod: GpuPod, condition: dict[str, Any]) -> None:
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        await self.client.patch(PODS, pod.name, body, PatchType.STRATEGIC, pod.namespace, subresource="status")

    async def _write_event(self, pod: GpuPod, reason: str, message: str) -> None:
        now = _now()
        await self.client.create(EVENTS, {
            "metadata": {"generateName": f"{pod.name[:200]}.", "namespace": pod.namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "type": "Warning", "reason": reason, "message": message,
            "source": {"component": names.SCHEDULER_NAME}, "reportingComponent": names.SCHEDULER_NAME,
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        }, pod.namespace)  # fmt: skip


def _why_not(explanation: Explanation) -> dict[str, Any]:
    main = explanation.findings[0].reason.name.title().replace("_", "") if explanation.findings else "NoNodes"
    return _condition("False", main, _message(explanation))


def _allocated(pod: GpuPod) -> dict[str, Any]:
    return _condition("True", "Allocated", f"GPUs {pod.annotations.get(names.key('gpu-ids'), '')} of {pod.node}")


def _condition(status: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "type": names.ALLOCATED_CONDITION,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": _now(),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _message(explanation: Explanation) -> str:
    text = explanation.text()
    return text if len(text) <= MESSAGE_MOST else f"{text[: MESSAGE_MOST - 3]}..."
