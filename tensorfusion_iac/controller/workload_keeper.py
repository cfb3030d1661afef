"""Keeps TensorFusionWorkload objects: looks at what has changed, and writes what `workloads.reconcile` says.

An object that is right costs no write. One that somebody deleted comes back while its pods live.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tensorfusion_iac.controller.conditions import turned_true
from tensorfusion_iac.controller.owners import owner_of
from tensorfusion_iac.controller.podindex import PodIndex
from tensorfusion_iac.controller.queue import WorkQueue
from tensorfusion_iac.controller.workloads import NAME_CONFLICT, POOL_GONE, SPEC_CONFLICT, Changes, Observed, reconcile
from tensorfusion_iac.controller.writing import Writer
from tensorfusion_iac.kube.client import Object
from tensorfusion_iac.kube.informer import Change, ChangeType, Informer, Key
from tensorfusion_iac.kube.resource import TENSOR_FUSION_WORKLOADS

_NEWS = (NAME_CONFLICT, SPEC_CONFLICT, POOL_GONE)


@dataclass(slots=True)
class WorkloadKeeper:
    """Keeps the workloads of all namespaces."""

    writer: Writer
    pods: PodIndex
    stored: Informer
    profiles: Informer
    pools: Informer
    now: Callable[[], str]
    queue: WorkQueue[Key] = field(default_factory=WorkQueue)
    _owned: dict[str, set[Key]] = field(default_factory=dict)

    def attach(self) -> None:
        """Begin to listen."""
        self.pods.on_pod(self._pod_changed)
        self.stored.on_change(self._stored_changed)
        self.profiles.on_change(self._profile_changed)
        self.pools.on_change(self._pool_changed)

    def mark_all(self) -> None:
        """Look at everything: after the lease was taken."""
        for key in {*self.pods.workloads(), *((item["metadata"]["namespace"], item["metadata"]["name"]) for item in self.stored)}:
            self.queue.add(key)

    async def run(self) -> None:
        """Keep them, until cancelled."""
        self.mark_all()
        await self.queue.run(self._look)

    async def _look(self, key: Key) -> None:
        seen = self._observe(key)
        changes = reconcile(seen)
        for owner in {member.owner.uid for member in seen.members if member.live}:
            for other in self._owned.get(owner, set()) - {key}:
                if not self.pods.members(other):
                    self.queue.add(other)  # its owner's pods name this workload now
        if changes:
            await self._write(seen, changes)

    def _observe(self, key: Key) -> Observed:
        namespace, name = key
        stored, members = self.stored.get(name, namespace), self.pods.members(key)
        here = {member.owner.uid for member in members}
        recorded = [owner_of(entry).uid for entry in ((stored or {}).get("metadata") or {}).get("ownerReferences") or ()]
        moved = frozenset(uid for uid in recorded if uid not in here and self.pods.has_live_pods(namespace, uid))
        newest = max(members, key=lambda one: (one.live, one.created, one.uid), default=None)
        profile: dict[str, Any] = {}
        if newest is not None and newest.worker.profile is not None:
            found = self.profiles.get(newest.worker.profile.name, namespace)
            profile = (found or {}).get("spec") or {}
        pools = frozenset(item["metadata"]["name"] for item in self.pools)
        return Observed(namespace, name, self.now(), stored, members, moved, profile, pools)

    async def _write(self, seen: Observed, changes: Changes) -> None:
        stored: Any = seen.stored
        if changes.delete:
            await self.writer.delete(TENSOR_FUSION_WORKLOADS, stored)
            return
        if changes.create is not None:
            stored = await self.writer.create(TENSOR_FUSION_WORKLOADS, changes.create)
            if stored is None:
                return
        if changes.patch is not None:
            await self.writer.merge(TENSOR_FUSION_WORKLOADS, stored, changes.patch)
        if changes.status is not None:
            before = (stored.get("status") or {}).get("conditions") or ()
            await self.writer.merge(TENSOR_FUSION_WORKLOADS, stored, {"status": changes.status}, "status")
            self._tell(stored, turned_true(before, changes.status.get("conditions") or ()))

    def _tell(self, stored: Object, turned: list[Any]) -> None:
        for one in turned:
            if one["type"] in _NEWS:
                kind = TENSOR_FUSION_WORKLOADS
                self.writer.tell(stored, kind.kind, kind.api_version, one["reason"], one["message"])

    def _pod_changed(self, pod: Object, workload: Key | None) -> None:
        if workload is not None:
            self.queue.add(workload)

    def _stored_changed(self, change: Change) -> None:
        for item in (change.old, change.object):
            for entry in ((item or {}).get("metadata") or {}).get("ownerReferences") or ():
                self._owned.setdefault(entry["uid"], set()).discard(change.key)
                if not self._owned[entry["uid"]]:
                    del self._owned[entry["uid"]]
        if change.type is not ChangeType.DELETED:
            for entry in change.object["metadata"].get("ownerReferences") or ():
                self._owned.setdefault(entry["uid"], set()).add(change.key)
        self.queue.add(change.key)

    def _profile_changed(self, change: Change) -> None:
        for key in self.pods.of_profile(change.key):
            self.queue.add(key)

    def _pool_changed(self, change: Change) -> None:
        """A pool came or went: its workloads are told."""
        if change.type is not ChangeType.MODIFIED:
            for item in self.stored:
                if (item.get("spec") or {}).get("poolName") == change.key[1]:
                    self.queue.add((item["metadata"]["namespace"], item["metadata"]["name"]))
