"""Amounts of running pods: `desired` by the controller becomes `effective`, if books and quota allow it (SPEC §8).

The books change before the annotation does, so that nobody else is promised the room meanwhile; a write that fails takes
them back. What cannot be now waits for room, with the condition `ResizePending`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tensorfusion_iac.api import names
from tensorfusion_iac.api.desired import from_text
from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.quantity import parse_quantity
from tensorfusion_iac.kube.client import Client, Object, PatchType
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import PODS
from tensorfusion_iac.planning.ledger import State
from tensorfusion_iac.planning.record import effective_text
from tensorfusion_iac.planning.resize import Applied, acknowledged, is_in_force, larger_held, resized, settled
from tensorfusion_iac.planning.shares import CardShare, Reservation
from tensorfusion_iac.planning.units import mflops_up
from tensorfusion_iac.scheduling.metrics import Metrics
from tensorfusion_iac.scheduling.pods import DESIRED, EFFECTIVE, GpuPod
from tensorfusion_iac.scheduling.state import ClusterState

log = logging.getLogger(__name__)

_RETRY_S = 1.0
_UNACKNOWLEDGED = "the node's agent has not applied the amounts in force yet"
_REASONS = {"": "Resized", _UNACKNOWLEDGED: "NotApplied"}


@dataclass(slots=True)
class Resizes:
    """Carries out resizes, while `may_write`."""

    client: Client
    state: ClusterState
    metrics: Metrics
    may_write: Callable[[], bool]
    _work: set[str] = field(default_factory=set)
    _waiting: dict[str, str] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def attach(self) -> None:
        """Begin to listen."""
        self.state.on_pod(self._pod_changed)
        self.state.on_card(self._card_changed)
        self.state.on_room(self._room)

    async def run(self) -> None:
        """Work off what has changed, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not self.may_write():
                await asyncio.sleep(_RETRY_S)
                self._wake.set()
                continue
            work, self._work = self._work, set()
            for uid in sorted(work):
                try:
                    await self._look_at(uid)
                except KubeError as error:
                    if not (isinstance(error, ApiError) and error.not_found):
                        log.warning("resize of pod %s: %s", uid, error)
                        self._work.add(uid)
            if self._work:
                asyncio.get_running_loop().call_later(_RETRY_S, self._wake.set)

    def _pod_changed(self, pod: GpuPod) -> None:
        if pod.node and (DESIRED in pod.annotations or pod.uid in self._waiting):
            self._add(pod.uid)

    def _card_changed(self, uuid: str) -> None:
        for uid, (share, _) in self.state.inventory.holders(uuid).items():
            if not share.is_settled or self._waiting.get(uid) == _UNACKNOWLEDGED:
                self._add(uid)

    def _room(self) -> None:
        for uid in self._waiting:
            self._add(uid)

    def _add(self, uid: str) -> None:
        self._work.add(uid)
        self._wake.set()

    async def _look_at(self, uid: str) -> None:
        pod, entry = self.state.pods.get(uid), self.state.ledger.get(uid)
        if pod is None or entry is None or entry.state is not State.CONFIRMED:
            self._waiting.pop(uid, None)
            return
        applied = self._applied_by(entry.reservation)
        freed = settled(entry.reservation, applied)
        if freed is not None:
            await self._write(pod, freed)
        await self._grow_or_shrink(pod)

    async def _grow_or_shrink(self, pod: GpuPod) -> None:
        text, entry = pod.annotations.get(DESIRED), self.state.ledger.get(pod.uid)
        if text is None or entry is None:
            await self._tell(pod, "")
            return
        try:
            desired = from_text(text)
        except ValueError as error:
            await self._tell(pod, str(error))
            return
        if is_in_force(entry.reservation.shares, desired):
            await self._tell(pod, "")
            return
        if not acknowledged(entry.reservation, self._applied_by(entry.reservation)):
            await self._tell(pod, _UNACKNOWLEDGED)
            return
        shares = resized(self.state.ledger, pod.uid, desired)
        if isinstance(shares, str):
            await self._tell(pod, shares)
            return
        await self._write(pod, shares)
        await self._tell(pod, "")

    async def _write(self, pod: GpuPod, shares: tuple[CardShare, ...]) -> None:
        """Change the books, then the annotation; take the books back if the server refuses."""
        entry = self.state.ledger.get(pod.uid)
        if entry is None:
            return
        before = entry.reservation
        self.state.ledger.resize(pod.uid, shares)
        self.state.unsettled.add(pod.uid)
        text = effective_text(replace(before, shares=shares))
        body = {"metadata": {"uid": pod.uid, "annotations": {EFFECTIVE: text}}}
        try:
            written = await self.client.patch(PODS, pod.name, body, PatchType.MERGE, pod.namespace)
        except KubeError:
            self.state.unsettled.discard(pod.uid)
            await self._after_failure(pod, before.shares)
            raise
        self.state.unsettled.discard(pod.uid)
        self.state.take_pod(written)
        self.metrics.events.labels("resized").inc()
        self.state.tell_cards(pod.uid)
        self.state.tell_room()

    async def _after_failure(self, pod: GpuPod, before: tuple[CardShare, ...]) -> None:
        """The truth is on the pod: look, and if that cannot be done, keep the larger of both until the watch tells."""
        entry = self.state.ledger.get(pod.uid)
        if entry is None:
            return
        try:
            self.state.take_pod(await self.client.get(PODS, pod.name, pod.namespace))
        except KubeError:
            both = tuple(larger_held(was, now) for now, was in zip(entry.reservation.shares, before, strict=True))
            self.state.ledger.resize(pod.uid, both)

    async def _tell(self, pod: GpuPod, problem: str) -> None:
        """Set or clear the condition, if that is news."""
        if problem == self._waiting.get(pod.uid, ""):
            return
        if problem:
            self._waiting[pod.uid] = problem
        else:
            del self._waiting[pod.uid]
        condition = {
            "type": names.RESIZE_PENDING_CONDITION, "status": "True" if problem else "False",
            "reason": _REASONS.get(problem, "NoRoom"), "message": problem,
            "lastTransitionTime": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        }  # fmt: skip
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        await self.client.patch(PODS, pod.name, body, PatchType.STRATEGIC, pod.namespace, subresource="status")

    def _applied_by(self, reservation: Reservation) -> dict[str, Applied]:
        return {share.uuid: found for share in reservation.shares if (found := self._applied(share, reservation.uid))}

    def _applied(self, share: CardShare, uid: str) -> Applied | None:
        """What the agent says of a pod on a card: the highest of its containers; None if it says nothing."""
        gpu: Object | None = self.state.gpus.get(share.uuid)
        found = [one for one in ((gpu or {}).get("status") or {}).get("pods") or () if one.get("uid") == uid]
        if not found:
            return None
        try:
            limits = [_limits(one.get("applied") or {}, share) for one in found]
        except Fault:
            return None
        return Applied(max(one.mflops for one in limits), max(one.vram_bytes for one in limits))


def _limits(applied: Mapping[str, Any], share: CardShare) -> Applied:
    """A side that the agent does not hold has nothing to apply."""
    tflops, vram = applied.get("tflops"), applied.get("vram")
    return Applied(
        share.limit_mflops if tflops is None else mflops_up(parse_quantity(str(tflops))),
        share.limit_vram_bytes if vram is None else int(parse_quantity(str(vram))),
    )
