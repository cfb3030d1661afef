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
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from tensorfusion_iac.admission.decision import Decision
from tensorfusion_iac.admission.metrics import Metrics
from tensorfusion_iac.admission.review import MalformedReviewError, Request, answer, read_review
from tensorfusion_iac.admission.webhook import Webhook
from tensorfusion_iac.api.metrics import ADMISSION_GREY_CONFLICTS
from tensorfusion_iac.kube.telemetry import CONTENT_TYPE

log = logging.getLogger(__name__)

MUTATE_PATH, VALIDATE_PATH = "/mutate-pods", "/validate"
MAX_BODY_BYTES = 8 * 1024 * 1024  # an object is at most 3 MiB for the API server, and a review holds two
DRAIN_S = 5.0  # how long the Service may still send us requests after we said that we are not ready

KEEP_ALIVE_S = 3600.0
"""Longer than the API server keeps an idle connection, so that we never close one on which it is about to ask."""

_JSON = {"Content-Type": "application/json"}

Decide = Callable[[Request], Awaitable[Decision]]
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Server:
    """Answers the API server. `ready` is what `/readyz` says beside the caches: false while it starts and while it drains."""

    def __init__(self, webhook: Webhook, metrics: Metrics) -> None:
        self.ready = False
        self._webhook, self._metrics = webhook, metrics
        metrics.watch_count(ADMISSION_GREY_CONFLICTS, lambda: webhook.grey.conflicts)

        async def validate(request: Request) -> Decision:
            return webhook.validate(request)

        self._routes: dict[tuple[str, str], Handler] = {
            ("POST", MUTATE_PATH): self._decides(MUTATE_PATH, webhook.mutate),
            ("POST", VALIDATE_PATH): self._decides(VALIDATE_PATH, validate),
            ("GET", "/healthz"): self._healthz,
            ("GET", "/readyz"): self._readyz,
            ("GET", "/metrics"): self._show_metrics,
        }
        self._paths = {path for _, path in self._routes}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One HTTP request. (Five routes need no router, which would cost as much as a quarter of the answer.)"""
        handler = self._routes.get((request.method, request.path))
        if handler is None:
            known = request.path in self._paths
            return web.Response(status=HTTPStatus.METHOD_NOT_ALLOWED if known else HTTPStatus.NOT_FOUND)
        return await handler(request)

    def _decides(self, path: str, decide: Decide) -> Handler:
        results = {name: self._metrics.decisions.labels(path, name) for name in ("patched", "allowed", "refused", "malformed")}
        duration = self._metrics.duration.labels(path)

        async def handle(request: web.BaseRequest) -> web.Response:
            began = time.perf_counter()
            try:
                asked = read_review(await _body(request))
            except MalformedReviewError as error:
                results["malformed"].inc()
                return web.Response(status=HTTPStatus.BAD_REQUEST, text=f"{error}\n")
            decision = await decide(asked)
            body = answer(asked.uid, decision)
            results["refused" if not decision.allowed else "patched" if decision.patch else "allowed"].inc()
            duration.observe(time.perf_counter() - began)
            if not decision.allowed:
                log.info("refused: %s", decision.message)
            return web.Response(body=body, headers=_JSON)

        return handle

    async def _healthz(self, request: web.BaseRequest) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.BaseRequest) -> web.Response:
        if not self.ready:
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text="starting or stopping\n")
        if not self._webhook.cluster.ready:
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text="caches are not synced\n")
        return web.Response(text="ok\n")

    async def _show_metrics(self, request: web.BaseRequest) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})


async def _body(request: web.BaseRequest) -> bytes:
    """All of the body. Raises MalformedReviewError if it is not encoded as it says, or its sender leaves before its end."""
    try:
        return await request.read()
    except (web.RequestPayloadError, HttpProcessingError, ConnectionError) as error:
        # Else aiohttp, after the answer, looks for the rest, and logs as its own failure that there is none.
        request.content.feed_eof()
        request.protocol.close()
        raise MalformedReviewError("the body cannot be read to its end, in the encoding that its headers name") from error


@asynccontextmanager
async def serving(server: Server, host: str, port: int, tls: ssl.SSLContext, drain_s: float = DRAIN_S) -> AsyncIterator[int]:
    """Serve for the length of the block, which gets the port. At the end, say not ready first, and answer what still comes."""
    loop = asyncio.get_running_loop()

    def bounded(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES)

    http = web.Server(server.handle, request_factory=bounded, access_log=None, keepalive_timeout=KEEP_ALIVE_S)
    runner = web.ServerRunner(http, handle_signals=False, shutdown_timeout=drain_s)
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
