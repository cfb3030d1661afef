"""What the agent answers over HTTP: metrics for anybody on the node's network, the usage history for the controller alone.

The history is asked for with a token of the controller's service account, made for this audience, which the API server
reviews; the agent's side is proven by the certificate in its Lease (docs/decisions/0010-agent-endpoint.md).
"""

from __future__ import annotations

import hashlib
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from tensorfusion_iac.agent.history import UsageHistory
from tensorfusion_iac.api.names import AGENT_AUDIENCE, SYSTEM_NAMESPACE
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import KubeError
from tensorfusion_iac.kube.resource import Resource

CONTROLLER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:tensor-fusion-controller"
HISTORY_PATH = "/v1/usage"

_TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview")
_TRUSTED_S = 60.0


class Gatekeeper:
    """Whether a request's token is the controller's; an answer holds for a minute."""

    def __init__(self, client: Client, allowed: frozenset[str] = frozenset({CONTROLLER})) -> None:
        self._client, self._allowed = client, allowed
        self._known: dict[bytes, tuple[bool, float]] = {}

    async def admits(self, request: web.Request) -> bool:
        """Ask the API server who the token's owner is."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return False
        digest, now_s = hashlib.sha256(token.encode()).digest(), time.monotonic()
        known = self._known.get(digest)
        if known is not None and known[1] > now_s:
            return known[0]
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [AGENT_AUDIENCE]},
        }
        status = (await self._client.create(_TOKEN_REVIEWS, body)).get("status") or {}
        user = (status.get("user") or {}).get("username")
        admitted = (
            status.get("authenticated") is True and AGENT_AUDIENCE in (status.get("audiences") or ()) and user in self._allowed
        )
        self._known = {key: value for key, value in self._known.items() if value[1] > now_s}
        self._known[digest] = (admitted, now_s + _TRUSTED_S)
        return admitted


def history_app(histories: Callable[[str], UsageHistory | None], gatekeeper: Gatekeeper) -> web.Application:
    """`GET /v1/usage?since=SECONDS`: the rows of UsageHistory.since, and how many seconds each is of, as JSON.

    `histories` gives the history of `?node=NAME`, None for a node that is not served; an agent of one node has only one.
    """

    async def usage(request: web.Request) -> web.Response:
        try:
            if not await gatekeeper.admits(request):
                return web.json_response({"error": "a token of the controller, for this audience, is needed"}, status=401)
        except KubeError as error:
            return web.json_response({"error": f"the token could not be reviewed: {error}"}, status=503)
        try:
            since_s = float(request.query.get("since", "0"))
        except ValueError:
            return web.json_response({"error": "since: seconds since the epoch are needed"}, status=400)
        history = histories(request.query.get("node", ""))
        if history is None:
            return web.json_response({"error": "node: there is no such node here"}, status=404)
        return web.json_response({"bucketSeconds": history.bucket_s, "usage": history.since(since_s)})

    app = web.Application()
    app.router.add_get(HISTORY_PATH, usage)
    return app


def metrics_app(metrics: Collector) -> web.Application:
    """`GET /metrics` and `GET /healthz`."""
    registry = CollectorRegistry()
    registry.register(metrics)
    ProcessCollector(registry=registry)

    async def show(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthy(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/metrics", show)
    app.router.add_get("/healthz", healthy)
    return app


@asynccontextmanager
async def served(app: web.Application, address: str, port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve for the length of the block. Gives the port, which is a free one for 0. OSError if it is taken."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address, port, ssl_context=tls)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
