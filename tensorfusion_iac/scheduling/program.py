"""The scheduler as a program: watch caches, books, the extender's server, and the loops beside it, put together.

One of these runs beside each kube-scheduler; only the one whose kube-scheduler holds the lease answers and writes.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

from tensorfusion_iac.api import metrics
from tensorfusion_iac.api.names import COMPONENT_LABEL, SCHEDULER_NAME
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.informer import Change, Informer
from tensorfusion_iac.kube.memory import settle_memory
from tensorfusion_iac.kube.resource import GPU_NODES, GPU_POOLS, GPU_RESOURCE_QUOTAS, GPUS, LEASES, NODES, PODS
from tensorfusion_iac.kube.telemetry import telemetry
from tensorfusion_iac.scheduling import liveness
from tensorfusion_iac.scheduling.binds import PodBinds
from tensorfusion_iac.scheduling.decide import Decider
from tensorfusion_iac.scheduling.explaining import Explaining
from tensorfusion_iac.scheduling.extender import Extender, serving
from tensorfusion_iac.scheduling.gangs import Gangs
from tensorfusion_iac.scheduling.leadership import Leadership
from tensorfusion_iac.scheduling.metrics import Metrics
from tensorfusion_iac.scheduling.mirror import Mirror
from tensorfusion_iac.scheduling.partitions import Partitions
from tensorfusion_iac.scheduling.pending import Pending
from tensorfusion_iac.scheduling.preemption import PDBS, Preemption
from tensorfusion_iac.scheduling.profile import DEFAULT_LEASE, EXTENDER_PORT
from tensorfusion_iac.scheduling.resizes import Resizes
from tensorfusion_iac.scheduling.state import ClusterState

log = logging.getLogger(__name__)

TICK_S = 1.0
FRESH_S = 90.0
"""A watch that is silent longer is not believed about what it does not show; bookmarks come about once a minute."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where to listen, and whose lease to live by: the pod's name, or in `local` the host's. `telemetry_port`: for metrics
    and health alone, on every address; none unless given.
    """

    identity_prefix: str
    host: str = "127.0.0.1"
    port: int = EXTENDER_PORT
    lease: str = DEFAULT_LEASE
    telemetry_port: int | None = None


class Scheduler:
    """All parts of one scheduler, wired. `run` serves until it is cancelled."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self.settings = settings
        self.state = ClusterState()
        self.metrics = Metrics()
        self.leadership = Leadership(settings.identity_prefix, settings.lease, self._rebuild)
        self.decider = Decider(self.state)
        self.partitions = Partitions(client, self.state, self._may_write)
        self.mirror = Mirror(client, self.state, self._may_write)
        self.pending = Pending(client, self.state, self.decider, self.metrics, self._may_write)
        self.preemption = Preemption(client, self.state, self.decider, self.metrics, self._may_write)
        self.resizes = Resizes(client, self.state, self.metrics, self._may_write)
        self.gangs = Gangs(client, self.state, self.decider, self.metrics, self._may_write)
        binds = PodBinds(client, self.state, self.decider, self.leadership, self.partitions, self.gangs.meet)
        explaining = Explaining(self.state, self.decider)
        self.extender = Extender(self.decider, self.leadership, binds, self.preemption, explaining, self.metrics)
        self._changes = asyncio.Event()
        self._relisted = asyncio.Event()
        self._informers = self._watch(client)
        for part in (self.pending, self.preemption, self.resizes, self.gangs):
            part.attach()
        self.decider.on_placed(lambda uid: self.mirror.placed())
        self.metrics.watch(metrics.SCHEDULER_PODS, lambda: len(self.state.ledger))
        self.metrics.watch(metrics.SCHEDULER_WAITING, lambda: len(self.pending.waiting))
        self.metrics.watch(metrics.SCHEDULER_LEADER, lambda: float(self._may_write()))

    async def run(self, ready: Callable[[int], None]) -> None:
        """Serve until cancelled; `ready` gets the port. Ends with an error if one of the loops does."""
        loops = [
            *(informer.run() for informer in self._informers),
            self.partitions.run(), self.mirror.run(), self.pending.run(), self.preemption.run(), self.resizes.run(),
            self.gangs.run(), self._tick(), self._wake_binds(),
        ]  # fmt: skip
        async with AsyncExitStack() as stack:
            port = await stack.enter_async_context(serving(self.extender, self.settings.host, self.settings.port))
            if self.settings.telemetry_port is not None:
                told = telemetry(lambda: self.synced, self.metrics.text, "0.0.0.0", self.settings.telemetry_port)  # noqa: S104
                await stack.enter_async_context(told)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            for loop in loops:
                tasks.create_task(loop)
            ready(port)

    @property
    def synced(self) -> bool:
        """Whether every cache holds the cluster as it was at some moment since the start."""
        return all(informer.synced.is_set() for informer in self._informers)

    def _watch(self, client: Client) -> tuple[Informer, ...]:
        state = self.state
        self._pods = Informer(client, PODS, field_selector=f"spec.schedulerName={SCHEDULER_NAME}")
        self._pods.after_list(lambda objects: self._relisted.set())
        gpus = Informer(client, GPUS)
        leases = Informer(client, LEASES, namespace=liveness.LEASE_NAMESPACE, label_selector=f"{COMPONENT_LABEL}=agent")
        namespace, _, name = self.settings.lease.partition("/")
        own = Informer(client, LEASES, namespace=namespace, field_selector=f"metadata.name={name}")
        table = {
            Informer(client, GPU_POOLS): state.pool_changed,
            Informer(client, NODES): state.node_changed,
            Informer(client, GPU_NODES): state.gpu_node_changed,
            leases: state.lease_changed,
            gpus: self._gpu_changed,
            Informer(client, GPU_RESOURCE_QUOTAS): state.quota_changed,
            Informer(client, PDBS): self.preemption.budget_changed,
            self._pods: state.pod_changed,
            own: self.leadership.take,
        }
        for informer, handler in table.items():
            informer.on_change(handler)
        return tuple(table)

    def _gpu_changed(self, change: Change) -> None:
        self.state.gpu_changed(change)
        self._changes.set()

    async def _wake_binds(self) -> None:
        while True:
            await self._changes.wait()
            self._changes.clear()
            await self.partitions.status_changed()

    def _may_write(self) -> bool:
        return self.leadership.refusal() is None

    async def _rebuild(self) -> None:
        """The books from the pods as they are now: a list that begins after the lease was taken."""
        await asyncio.gather(*(informer.synced.wait() for informer in self._informers))
        self.state.drop_holds()
        self.gangs.forget()
        self._relisted.clear()
        self._pods.relist()
        await self._relisted.wait()
        self.mirror.mark_all()
        self.partitions.mark_all()
        settle_memory()

    async def _tick(self) -> None:
        """What is over by time: holds, and agents that fell silent."""
        while True:
            await asyncio.sleep(TICK_S)
            self.state.liveness.check()
            self.state.expire(watch_is_fresh=self._pods.silent_s() < FRESH_S)


async def run(client: Client, settings: Settings, ready: Callable[[int], None]) -> None:
    """Serve until the process is asked to end (SIGTERM, SIGINT)."""
    async with client:
        serving_task = asyncio.ensure_future(Scheduler(client, settings).run(ready))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving_task.cancel)
        with suppress(asyncio.CancelledError):
            await serving_task
