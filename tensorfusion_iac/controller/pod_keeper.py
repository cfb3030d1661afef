"""Tells pods what the agents say of their cards: the annotation `enforced-by`, and conditions when something is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tensorfusion_iac.controller.enforced import reconcile
from tensorfusion_iac.controller.fleetview import FleetView
from tensorfusion_iac.controller.podindex import PodIndex
from tensorfusion_iac.controller.pods import ENFORCED_BY
from tensorfusion_iac.controller.queue import WorkQueue
from tensorfusion_iac.controller.writing import Writer
from tensorfusion_iac.kube.client import Object
from tensorfusion_iac.kube.informer import Change, Informer, Key, key_of
from tensorfusion_iac.kube.resource import PODS


@dataclass(slots=True)
class PodKeeper:
    """Keeps all bound GPU pods informed."""

    writer: Writer
    fleet: FleetView
    pods: PodIndex
    stored: Informer
    now: Callable[[], str]
    queue: WorkQueue[Key] = field(default_factory=WorkQueue)
    _on_card: dict[str, set[Key]] = field(default_factory=dict)
    _cards_of: dict[Key, frozenset[str]] = field(default_factory=dict)

    def attach(self) -> None:
        """Begin to listen."""
        self.pods.on_pod(self._pod_changed)
        self.fleet.gpus.on_change(self._gpu_changed)

    def mark_all(self) -> None:
        """Look at everything."""
        for key in self._cards_of:
            self.queue.add(key)

    async def run(self) -> None:
        """Keep them, until cancelled."""
        self.mark_all()
        await self.queue.run(self._look)

    async def _look(self, key: Key) -> None:
        pod = self.stored.get(key[1], key[0])
        if pod is None:
            return
        cards = [gpu for uuid in self._cards_of.get(key, ()) if (gpu := self.fleet.gpu(uuid)) is not None]
        changes = reconcile(pod, cards, self.now())
        if changes.annotation is not None:
            await self.writer.merge(PODS, pod, {"metadata": {"annotations": {ENFORCED_BY: changes.annotation}}})
        if changes.conditions:
            await self.writer.conditions(PODS, pod, list(changes.conditions))

    def _pod_changed(self, pod: Object, workload: Key | None) -> None:
        key = key_of(pod)
        held = self.pods.reservation(key)
        cards = frozenset(share.uuid for share in held.shares) if held is not None else frozenset()
        before = self._cards_of.get(key, frozenset())
        for uuid in before - cards:
            self._on_card[uuid].discard(key)
            if not self._on_card[uuid]:
                del self._on_card[uuid]
        for uuid in cards - before:
            self._on_card.setdefault(uuid, set()).add(key)
        if cards:
            self._cards_of[key] = cards
            self.queue.add(key)
        else:
            self._cards_of.pop(key, None)

    def _gpu_changed(self, change: Change) -> None:
        uuid = (change.object.get("status") or {}).get("uuid")
        if uuid is None or (change.old is not None and _told(change.old) == _told(change.object)):
            return  # most changes are the scheduler's mirror
        for key in self._on_card.get(uuid, ()):
            self.queue.add(key)


def _told(gpu: Object) -> tuple[object, ...]:
    status = gpu.get("status") or {}
    return status.get("pods"), status.get("health"), status.get("message")
