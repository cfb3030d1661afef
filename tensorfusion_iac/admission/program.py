"""The webhook as a program: client, caches, certificates, server and lease, started in order and stopped in reverse."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorfusion_iac.admission.certificates import CertificateFiles, Certificates, Place, hosts_of_service
from tensorfusion_iac.admission.cluster import Cluster
from tensorfusion_iac.admission.configuration import CONFIGURATION
from tensorfusion_iac.admission.grey import GreyRelease
from tensorfusion_iac.admission.metrics import Metrics
from tensorfusion_iac.admission.server import DRAIN_S, Server, serving
from tensorfusion_iac.admission.webhook import Webhook
from tensorfusion_iac.api.metrics import ADMISSION_CERTIFICATE_EXPIRY
from tensorfusion_iac.api.names import SYSTEM_NAMESPACE
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.informer import running
from tensorfusion_iac.kube.lease import Lease
from tensorfusion_iac.kube.memory import settle_memory

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """How one replica runs. `hosts` are names and addresses beside the Service's; `tls_folder` holds a certificate that
    something else renews (tls.crt, tls.key), and none means our own.
    """

    host: str = "0.0.0.0"  # noqa: S104 - the API server comes from another machine
    port: int = 9443
    namespace: str = SYSTEM_NAMESPACE
    hosts: tuple[str, ...] = ()
    tls_folder: Path | None = None
    identity: str = ""
    drain_s: float = DRAIN_S


async def run(client: Client, settings: Settings, on_ready: Callable[[int], None] = lambda port: None) -> None:
    """Serve until SIGTERM or SIGINT. `client` is entered here. Raises KubeError and OSError for what cannot be begun."""
    identity = settings.identity or socket.gethostname().lower()
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(client)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        stack.enter_context(_cancelled_at_end(background := []))

        def start(work: Coroutine[Any, Any, None]) -> None:
            background.append(tasks.create_task(work))

        cluster, grey = Cluster(client), GreyRelease(client, settings.namespace)
        metrics = Metrics()
        lease = Lease(client, CONFIGURATION, settings.namespace, identity)
        if settings.tls_folder is None:
            place = Place(hosts_of_service(CONFIGURATION, settings.namespace, settings.hosts), identity, settings.namespace)
            certificates = Certificates(client, place)
            await stack.enter_async_context(running(*certificates.informers))
            start(certificates.report())
            start(lease.run(lambda: _lead(certificates.keep(), grey)))
            await certificates.loaded.wait()
            serving_with: Certificates | CertificateFiles = certificates
        else:
            serving_with = files = CertificateFiles(settings.tls_folder)
            start(files.keep())
            start(lease.run(grey.keep))
        metrics.watch(ADMISSION_CERTIFICATE_EXPIRY, lambda: serving_with.expires_at)
        for informer in cluster.informers:  # not waited for: until they are synced, /readyz says so
            start(informer.run())
        server = Server(Webhook(cluster, grey), metrics)
        with _signals(stop):
            port = await stack.enter_async_context(
                serving(server, settings.host, settings.port, serving_with.context, settings.drain_s)
            )
            await _either(stop, *(informer.synced for informer in cluster.informers))
            settle_memory()
            if not stop.is_set():
                log.info("ready on port %d", port)
                on_ready(port)
            await stop.wait()
            log.info("stopping")


async def _lead(keep: Coroutine[Any, Any, None], grey: GreyRelease) -> None:
    """What only the holder of the lease does."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(keep)
        tasks.create_task(grey.keep())


async def _either(stop: asyncio.Event, *awaited: asyncio.Event) -> None:
    """Wait until all of `awaited` are set, or `stop` is."""
    stopping: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
    all_set: asyncio.Future[Any] = asyncio.gather(*(event.wait() for event in awaited))
    await asyncio.wait({stopping, all_set}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    all_set.cancel()


@contextmanager
def _cancelled_at_end(background: list[asyncio.Task[None]]) -> Iterator[None]:
    try:
        yield
    finally:
        for task in background:
            task.cancel()


@contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    try:
        yield
    finally:
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(name)
