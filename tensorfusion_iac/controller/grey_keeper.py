"""Keeps grey releases exact at rest: one eviction at a time, half a minute after the last change (SPEC §5)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tensorfusion_iac.controller.grey import QUIET_S, GreyPod, grey_pod, to_evict
from tensorfusion_iac.controller.queue import WorkQueue
from tensorfusion_iac.controller.writing import Writer
from tensorfusion_iac.kube.informer import Change, ChangeType, Informer, Key


@dataclass(slots=True)
class GreyKeeper:
    """Keeps the grey releases of all owners."""

    writer: Writer
    stored: Informer
    quiet_s: float = QUIET_S
    clock: Callable[[], float] = time.monotonic
    queue: WorkQueue[str] = field(default_factory=WorkQueue)
    _pods: dict[str, dict[Key, GreyPod]] = field(default_factory=dict)
    _owner_of: dict[Key, str] = field(default_factory=dict)
    _changed_s: dict[str, float] = field(default_factory=dict)

    def attach(self) -> None:
        """Begin to listen."""
        self.stored.on_change(self._changed)

    async def run(self) -> None:
        """Keep them, until cancelled."""
        for owner in self._pods:
            self._mark(owner)
        await self.queue.run(self._look)

    async def _look(self, owner: str) -> None:
        quiet_s = self.clock() - self._changed_s.get(owner, self.clock())
        if quiet_s < self.quiet_s:
            self.queue.later(owner, self.quiet_s - quiet_s)
            return
        victim = to_evict(self._pods.get(owner, {}).values())
        if victim is not None:
            self._changed_s[owner] = self.clock()
            await self.writer.evict(victim.namespace, victim.name, victim.uid)
            self.queue.later(owner, self.quiet_s)

    def _changed(self, change: Change) -> None:
        found = None if change.type is ChangeType.DELETED else grey_pod(change.object)
        before = self._owner_of.get(change.key)
        if before is not None and (found is None or found.owner != before):
            del self._owner_of[change.key]
            self._pods[before].pop(change.key)
            if self._pods[before]:
                self._mark(before)
            else:
                del self._pods[before]
                self._changed_s.pop(before, None)
        if found is None:
            return
        pods = self._pods.setdefault(found.owner, {})
        if pods.get(change.key) != found:
            pods[change.key] = found
            self._owner_of[change.key] = found.owner
            self._mark(found.owner)

    def _mark(self, owner: str) -> None:
        self._changed_s[owner] = self.clock()
        if to_evict(self._pods[owner].values()) is not None:
            self.queue.add(owner)
