"""The webhook's HTTPS server: `/mutate-pods`, `/validate`, `/healthz`, `/readyz` and `/metrics`.

Ready means that the caches are synced and a certificate is loaded. A body that is no AdmissionReview is the caller's fault
(400, or 413 if it is too large), never ours; what a review says is answered inside a review, with status 200.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web

from tensorfusion_iac.admission.decision import Decision
from tensorfusion_iac.admission.metrics import CONTENT_TYPE, Metrics
from tensorfusion_iac.admission.review import MalformedReviewError, Request, answer, read_review
from tensorfusion_iac.admission.webhook import Webhook

log = logging.getLogger(__name__)

MUTATE_PATH, VALIDATE_PATH = "/mutate-pods", "/validate"
MAX_BODY_BYTES = 8 * 1024 * 1024  # an object is at most 3 MiB for the API server, and a review holds two
DRAIN_S = 5.0  # how long the Service may still send us requests after we said that we are not ready

KEEP_ALIVE_S = 3600.0
"""Longer than the API server keeps an idle connection, so that we never close one on which it is about to ask."""

Decide = Callable[[Request], Awaitable[Decision]]


class Server:
    """Answers the API server. `ready` is what `/readyz` says beside the caches: false while it starts and while it drains."""

    def __init__(self, webhook: Webhook, metrics: Metrics) -> None:
        self.ready = False
        self._webhook, self._metrics = webhook, metrics
        metrics.watch(
            "tensor_fusion_grey_conflicts", "Claims that another replica was faster with.", lambda: webhook.grey.conflicts
        )

    def application(self) -> web.Application:
        """The routes."""

        async def validate(request: Request) -> Decision:
            return self._webhook.validate(request)

        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post(MUTATE_PATH, self._handler(MUTATE_PATH, self._webhook.mutate))
        app.router.add_post(VALIDATE_PATH, self._handler(VALIDATE_PATH, validate))
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._show_metrics)
        return app

    def _handler(self, path: str, decide: Decide) -> Callable[[web.Request], Awaitable[web.Response]]:
        results = {name: self._metrics.decisions.labels(path, name) for name in ("patched", "allowed", "refused", "malformed")}
        duration = self._metrics.duration.labels(path)

        async def handle(request: web.Request) -> web.Response:
            began = time.perf_counter()
            try:
                asked = read_review(await request.read())
            except MalformedReviewError as error:
                results["malformed"].inc()
                return web.Response(status=HTTPStatus.BAD_REQUEST, text=f"{error}\n")
            decision = await decide(asked)
            body = answer(asked.uid, decision)
            results["refused" if not decision.allowed else "patched" if decision.patch else "allowed"].inc()
            duration.observe(time.perf_counter() - began)
            if not decision.allowed:
                log.info("refused: %s", decision.message)
            return web.Response(body=body, content_type="application/json")

        return handle

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        if not self.ready:
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text="starting or stopping\n")
        if not self._webhook.cluster.ready:
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text="caches are not synced\n")
        return web.Response(text="ok\n")

    async def _show_metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})


@asynccontextmanager
async def serving(server: Server, host: str, port: int, tls: ssl.SSLContext, drain_s: float = DRAIN_S) -> AsyncIterator[int]:
    """Serve for the length of the block, which gets the port. At the end, say not ready first, and answer what still comes."""
    runner = web.AppRunner(
        server.application(),
        access_log=None,
        handle_signals=False,
        shutdown_timeout=drain_s,
        keepalive_timeout=KEEP_ALIVE_S,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls, backlog=1024)
        await site.start()
        server.ready = True
        yield runner.addresses[0][1]
        server.ready = False
        await asyncio.sleep(drain_s)
    finally:
        server.ready = False
        await runner.cleanup()
