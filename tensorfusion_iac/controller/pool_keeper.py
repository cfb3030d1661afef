"""Keeps the status of pools, and removes the objects of cards and nodes that are gone.

One look is at the whole fleet: a pod on any node changes some pool's figures. Looks are a few seconds apart, and a look that
finds everything right writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tensorfusion_iac.controller import vanished
from tensorfusion_iac.controller.conditions import turned_true
from tensorfusion_iac.controller.fleetview import FleetView
from tensorfusion_iac.controller.podindex import PodIndex
from tensorfusion_iac.controller.pools import DEFAULT_CONFLICT, NODE_CONFLICT, Fleet, statuses
from tensorfusion_iac.controller.queue import WorkQueue
from tensorfusion_iac.controller.writing import Writer
from tensorfusion_iac.kube.client import Object
from tensorfusion_iac.kube.informer import Key
from tensorfusion_iac.kube.resource import GPU_NODES, GPU_POOLS, GPUS

PERIOD_S = 2.0
TICK_S = 30.0
"""A heartbeat that does not come changes nothing that could be watched."""
_POOLS, _GONE = "pools", "gone"
_KINDS = {GPUS.kind: GPUS, GPU_NODES.kind: GPU_NODES}


@dataclass(slots=True)
class PoolKeeper:
    """Keeps all pools."""

    writer: Writer
    fleet: FleetView
    pods: PodIndex
    now: Callable[[], str]
    clock: Callable[[], float] = time.monotonic
    queue: WorkQueue[str] = field(default_factory=lambda: WorkQueue(PERIOD_S))
    _missed: vanished.Missed = field(default_factory=lambda: vanished.Missed({}))

    def attach(self) -> None:
        """Begin to listen."""
        self.fleet.on_change(self.mark_all)
        self.pods.on_pod(self._pod_changed)

    def mark_all(self) -> None:
        """Look at everything."""
        self.queue.add(_POOLS)
        self.queue.add(_GONE)

    async def run(self) -> None:
        """Keep them, until cancelled."""
        self._missed = vanished.Missed({})  # what was missed in an earlier term may have been back since
        self.mark_all()
        await self.queue.run(self._look, looks=1)

    async def _look(self, what: str) -> None:
        await (self._look_at_pools() if what == _POOLS else self._look_for_gone())
        self.queue.later(what, TICK_S)

    async def _look_at_pools(self) -> None:
        objects = {item["metadata"]["name"]: item for item in self.fleet.pool_objects}
        stored = {name: item.get("status") or {} for name, item in objects.items()}
        fleet = Fleet(
            dict(self.fleet.pools), self.fleet.views(), list(self.fleet.cards.values()), list(self.pods.reservations()),
            self.pods.running(), self.now(),
        )  # fmt: skip
        for name, difference in list(statuses(fleet, stored)):
            await self.writer.merge(GPU_POOLS, objects[name], {"status": difference}, "status")
            for one in turned_true(stored[name].get("conditions") or (), difference.get("conditions") or ()):
                if one["type"] in (DEFAULT_CONFLICT, NODE_CONFLICT):
                    self.writer.tell(objects[name], GPU_POOLS.kind, GPU_POOLS.api_version, one["reason"], one["message"])

    async def _look_for_gone(self) -> None:
        fleet = self.fleet
        absent = list(vanished.absent(fleet.gpus, fleet.gpu_nodes, fleet.node_names(), fleet.listed()))
        self._missed, gone = self._missed.look(absent, self.clock())
        for kind, name in gone:
            item = (fleet.gpus if kind == GPUS.kind else fleet.gpu_nodes).get(name)
            if item is not None:
                await self.writer.delete(_KINDS[kind], item)

    def _pod_changed(self, pod: Object, workload: Key | None) -> None:
        if workload is not None:
            self.queue.add(_POOLS)
