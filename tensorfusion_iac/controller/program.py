"""The controller as a program: watch caches, the keepers, the lease and a small server, put together.

Every replica keeps its caches warm; only the holder of the lease runs the keepers, and only it writes (`writing`).
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tensorfusion_iac.api import metrics, names
from tensorfusion_iac.controller.allowed_hosts import AllowedHosts
from tensorfusion_iac.controller.checkpoints import Checkpoints
from tensorfusion_iac.controller.external import ExternalScalers
from tensorfusion_iac.controller.fleetview import FleetView
from tensorfusion_iac.controller.grey import QUIET_S
from tensorfusion_iac.controller.grey_keeper import GreyKeeper
from tensorfusion_iac.controller.metrics import Metrics, Statuses
from tensorfusion_iac.controller.pod_keeper import PodKeeper
from tensorfusion_iac.controller.podindex import PodIndex
from tensorfusion_iac.controller.pods import kept
from tensorfusion_iac.controller.pool_keeper import PoolKeeper
from tensorfusion_iac.controller.queue import WorkQueue
from tensorfusion_iac.controller.quota_keeper import QuotaKeeper
from tensorfusion_iac.controller.scaler import ROUND_S, Scaler
from tensorfusion_iac.controller.usage import Usage
from tensorfusion_iac.controller.workload_keeper import WorkloadKeeper
from tensorfusion_iac.controller.writing import Writer
from tensorfusion_iac.kube.client import Client, Object
from tensorfusion_iac.kube.informer import Informer
from tensorfusion_iac.kube.lease import Lease, Terms
from tensorfusion_iac.kube.resource import (
    GPU_RESOURCE_QUOTAS,
    JOBS,
    PODS,
    REPLICA_SETS,
    TENSOR_FUSION_WORKLOADS,
    WORKLOAD_PROFILES,
)
from tensorfusion_iac.kube.telemetry import telemetry

log = logging.getLogger(__name__)

LEASE_NAME = "tensor-fusion-controller"
PORT = 9480


@dataclass(frozen=True, slots=True)
class Settings:
    """How one replica runs. `identity`: its name as a holder of the lease, unique among the replicas; `external_hosts`: where
    external scalers may be, none by default.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    namespace: str = names.SYSTEM_NAMESPACE
    identity: str = ""
    terms: Terms = field(default_factory=Terms)
    round_s: float = ROUND_S
    external_hosts: tuple[str, ...] = ()
    grey_quiet_s: float = QUIET_S


class Controller:
    """All parts of one controller, wired. `run` serves until it is cancelled."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        identity = settings.identity or f"{socket.gethostname().lower()}-{uuid.uuid4().hex[:8]}"
        self.lease = Lease(client, LEASE_NAME, settings.namespace, identity, settings.terms)
        writer = Writer(client, lambda: self.lease.held, self.metrics)
        pods = Informer(client, PODS, label_selector=f"{names.ENABLED_LABEL}=true", keep=kept)
        middle = {kind.kind: Informer(client, kind, keep=_owners_only) for kind in (REPLICA_SETS, JOBS)}
        workloads, profiles = Informer(client, TENSOR_FUSION_WORKLOADS), Informer(client, WORKLOAD_PROFILES)
        quotas, fleet, index = Informer(client, GPU_RESOURCE_QUOTAS), FleetView(client), PodIndex(pods, middle)
        self._informers = (pods, *middle.values(), workloads, profiles, quotas, *fleet.informers)
        quota_keeper = QuotaKeeper(writer, index, quotas, _now)
        usage, checkpoints = Usage(client, settings.namespace), Checkpoints(client, writer, settings.namespace)
        external = ExternalScalers(client, AllowedHosts.of(settings.external_hosts))
        workload_keeper = WorkloadKeeper(writer, index, workloads, profiles, fleet.pool_objects, _now)
        pod_keeper, pool_keeper = PodKeeper(writer, fleet, index, pods, _now), PoolKeeper(writer, fleet, index, _now)
        self._keepers = (
            workload_keeper, pod_keeper, GreyKeeper(writer, pods, settings.grey_quiet_s), quota_keeper, pool_keeper,
            Scaler(writer, usage, checkpoints, fleet, index, workloads, pods, quota_keeper, profiles, external, settings.round_s),
        )  # fmt: skip
        queues: tuple[WorkQueue[Any], ...] = (workload_keeper.queue, pod_keeper.queue, quota_keeper.queue, pool_keeper.queue)
        for keeper in self._keepers:
            keeper.attach()
        self.metrics.watch(metrics.CONTROLLER_LEADER, lambda: float(self.lease.held))
        self.metrics.watch(metrics.CONTROLLER_WAITING, lambda: sum(one.due for one in queues))
        self.metrics.watch(metrics.CONTROLLER_PODS, lambda: float(len(pods)))
        self.metrics.watch_statuses(Statuses(fleet.pool_objects, workloads, quotas))

    @property
    def ready(self) -> bool:
        """Whether every cache holds the cluster as it was at some moment since the start."""
        return all(informer.synced.is_set() for informer in self._informers)

    async def run(self, ready: Callable[[int], None]) -> None:
        """Serve until cancelled; `ready` gets the port once the caches are complete."""
        async with (
            telemetry(lambda: self.ready, self.metrics.text, self.settings.host, self.settings.port) as port,
            asyncio.TaskGroup() as tasks,
        ):
            for informer in self._informers:
                tasks.create_task(informer.run())
            await asyncio.gather(*(informer.synced.wait() for informer in self._informers))
            ready(port)
            await self.lease.run(self._lead)

    async def _lead(self) -> None:
        """What only the holder of the lease does."""
        async with asyncio.TaskGroup() as tasks:
            for keeper in self._keepers:
                tasks.create_task(keeper.run())


async def run(client: Client, settings: Settings, ready: Callable[[int], None] = lambda port: None) -> None:
    """Serve until the process is asked to end (SIGTERM, SIGINT). `client` is entered here."""
    async with client:
        work = asyncio.ensure_future(Controller(client, settings).run(ready))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, work.cancel)
        with suppress(asyncio.CancelledError):
            await work


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _owners_only(item: Object) -> Object:
    metadata: dict[str, Any] = item["metadata"]
    members = ("name", "namespace", "uid", "resourceVersion", "ownerReferences")
    return {"metadata": {key: metadata[key] for key in members if key in metadata}}
