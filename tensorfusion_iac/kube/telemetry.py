"""What a program in the cluster tells of itself over HTTP: whether it lives, whether its caches are complete, and its metrics.

For the kubelet's probes and Prometheus. Whoever reaches this port can read, and change nothing: the extender, which binds pods,
listens elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest

from tensorfusion_iac.api.metrics import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Of Prometheus' text format."""


class ProgramMetrics:
    """A program's metrics, with those of its process. Each has its own registry, so that tests may run several."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)

    def watch(self, metric: Metric, read: Callable[[], float]) -> None:
        """A gauge that is read when it is asked for."""
        Gauge(metric.name, metric.help, registry=self.registry).set_function(read)

    def text(self) -> bytes:
        """All of them, in Prometheus' text format."""
        return generate_latest(self.registry)


@asynccontextmanager
async def telemetry(synced: Callable[[], bool], metrics: Callable[[], bytes], host: str, port: int) -> AsyncIterator[int]:
    """Serve for the length of the block, which gets the port (a free one for 0). OSError if it is taken.

    `metrics` gives them in Prometheus' text format. Ready is whoever has synced its caches, the lease or not: a replica that
    waits for the lease is fit to take it.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if not synced():
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text="the caches are not complete yet\n")
        return web.Response(text="ok\n")

    async def show(_: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", show)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=2.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
