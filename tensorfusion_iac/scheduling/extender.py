"""The extender's HTTP server: `/filter`, `/prioritize`, `/preempt`, `/bind`; `/explain`, `/healthz`, `/readyz`, `/metrics`.

It listens on the loopback interface, for the kube-scheduler in the same pod (ARCHITECTURE). While it may not answer (another
holds the lease, the books are being rebuilt) every call is refused with the reason, and the pod is tried again. A body that
is not of the protocol is the caller's fault: 400, or 413 if it is too large.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Protocol

from aiohttp import web

from tensorfusion_iac.kube.telemetry import CONTENT_TYPE
from tensorfusion_iac.planning.explain import Explanation
from tensorfusion_iac.scheduling import wire
from tensorfusion_iac.scheduling.decide import Decider
from tensorfusion_iac.scheduling.leadership import Leadership
from tensorfusion_iac.scheduling.metrics import Metrics
from tensorfusion_iac.scheduling.pods import GpuPod, NotOurPodError, read_pod

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 16 * 1024 * 1024  # a pod is at most 3 MiB, 50,000 names are 13 MiB
KEEP_ALIVE_S = 3600.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Binds(Protocol):
    """Carries out bind calls."""

    async def bind(self, request: wire.BindRequest) -> str:
        """Bind a pod; in words why it could not be, empty if it was."""
        ...


class Preempts(Protocol):
    """Judges kube-scheduler's own candidates for preemption."""

    def judge(self, pod: GpuPod, victims: wire.PreemptRequest) -> dict[str, tuple[list[str], int]]:
        """The candidates where the GPUs would suffice, with GPU victims added."""
        ...


class Explains(Protocol):
    """Finds a pod, and says why it is where it is."""

    def explain(self, kind: str, namespace: str, name: str) -> dict[str, object] | None:
        """What there is to say, as JSON values; None if there is no such pod."""
        ...


class Extender:
    """Answers kube-scheduler."""

    def __init__(
        self,
        decider: Decider,
        leadership: Leadership,
        binds: Binds,
        preempts: Preempts,
        explains: Explains,
        metrics: Metrics,
    ) -> None:
        self._decider, self._leadership, self._metrics = decider, leadership, metrics
        self._binds, self._preempts, self._explains = binds, preempts, explains
        decider.on_refused(self._count_refusal)

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        for verb, answer in {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "preempt": self._preempt,
            "bind": self._bind,
        }.items():
            app.router.add_post(f"/{verb}", self._measured(verb, answer))
        app.router.add_get("/explain/{kind}/{namespace}/{name}", self._explain)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._show_metrics)
        return app

    def _measured(self, verb: str, answer: Callable[[bytes], Awaitable[tuple[str, bytes]]]) -> Handler:
        duration = self._metrics.duration.labels(verb)

        async def handle(request: web.Request) -> web.StreamResponse:
            began = time.perf_counter()
            try:
                result, body = await answer(await request.read())
            except wire.MalformedRequestError as error:
                self._metrics.answers.labels(verb, "malformed").inc()
                return web.Response(status=HTTPStatus.BAD_REQUEST, text=f"{error}\n")
            self._metrics.answers.labels(verb, result).inc()
            duration.observe(time.perf_counter() - began)
            return web.Response(body=body, content_type="application/json")

        return handle

    async def _filter(self, body: bytes) -> tuple[str, bytes]:
        request = wire.read_nodes(body)
        if refusal := self._leadership.refusal():
            return "not-ready", wire.filter_error(refusal)
        try:
            pod = read_pod(request.pod)
        except NotOurPodError as error:
            return "not-ours", wire.filter_answer([], dict.fromkeys(request.nodes, str(error)))
        verdict = self._decider.filter(pod, request.nodes)
        return "fits" if verdict.nodes else "refused", wire.filter_answer(verdict.nodes, verdict.failed)

    async def _prioritize(self, body: bytes) -> tuple[str, bytes]:
        request = wire.read_nodes(body)
        try:
            scores = self._decider.scores(read_pod(request.pod), request.nodes)
        except NotOurPodError:
            return "not-ours", wire.prioritize_answer([])
        return "scored", wire.prioritize_answer(scores)

    async def _preempt(self, body: bytes) -> tuple[str, bytes]:
        request = wire.read_preempt(body)
        if self._leadership.refusal():
            return "not-ready", wire.preempt_answer({})
        try:
            return "judged", wire.preempt_answer(self._preempts.judge(read_pod(request.pod), request))
        except NotOurPodError:
            return "not-ours", wire.preempt_answer(request.victims)

    async def _bind(self, body: bytes) -> tuple[str, bytes]:
        request = wire.read_bind(body)
        error = self._leadership.refusal() or await self._binds.bind(request)
        if error:
            log.warning("pod %s/%s is not bound to %s: %s", request.namespace, request.name, request.node, error)
        return "refused" if error else "bound", wire.bind_answer(error)

    async def _explain(self, request: web.Request) -> web.Response:
        where = request.match_info
        found = self._explains.explain(where["kind"], where["namespace"], where["name"])
        if found is None:
            text = f"{where['kind']} {where['namespace']}/{where['name']} has no pod that is scheduled here\n"
            return web.Response(status=HTTPStatus.NOT_FOUND, text=text)
        return web.json_response(found)

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        refusal = self._leadership.refusal()
        if refusal:
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=f"{refusal}\n")
        return web.Response(text="ok\n")

    async def _show_metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    def _count_refusal(self, pod: GpuPod, explanation: Explanation, candidates: object) -> None:
        for finding in explanation.findings:
            self._metrics.refusals.labels(finding.reason.name.lower()).inc(finding.nodes)


@asynccontextmanager
async def serving(extender: Extender, host: str, port: int) -> AsyncIterator[int]:
    """Serve for the length of the block, which gets the port."""
    runner = web.AppRunner(
        extender.application(), access_log=None, handle_signals=False, shutdown_timeout=2.0, keepalive_timeout=KEEP_ALIVE_S
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=1024)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
