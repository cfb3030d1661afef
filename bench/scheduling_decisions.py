"""P1 and P2: the extender's filter call over HTTP, with every node a candidate, on clusters that hold thousands of pods.

Server and client are two processes. The server's state is filled without an API server; everything from the socket to the
answer's last byte is the program's own. A repeat is a few hundred calls of ours, then of the baseline.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import multiprocessing
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import uvloop
from aiohttp import web
from measure import Row, percentile, quick, repeats

from tensorfusion_iac.api import names
from tensorfusion_iac.api.levels import Isolation, Mode, QoS
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.worker import Compute, Unit, WorkerSpec, canonical, to_json
from tensorfusion_iac.kube.memory import settle_memory
from tensorfusion_iac.planning.cards import CardFacts, NodeFacts
from tensorfusion_iac.planning.fit import ANYBODY
from tensorfusion_iac.planning.inventory import PoolFacts
from tensorfusion_iac.planning.shares import reserve
from tensorfusion_iac.scheduling.decide import MOST_NAMED, Decider
from tensorfusion_iac.scheduling.explaining import Explaining
from tensorfusion_iac.scheduling.extender import Extender, serving
from tensorfusion_iac.scheduling.metrics import Metrics
from tensorfusion_iac.scheduling.pods import read_pod
from tensorfusion_iac.scheduling.state import ClusterState

GPUS_PER_NODE = 8
GIB = 2**30
SHAPES = ((10, 4), (20, 8), (30, 20), (50, 40), (80, 60))
"""Percent of a card's compute, and GiB of its 80."""
GOALS_MS = {100: (2.0, 5.0), 1000: (2.0, 5.0), 5000: (5.0, 15.0)}


class Always:
    """Stands for a lease that is ours."""

    def refusal(self) -> str | None:
        return None


def pod(uid: str, shape: tuple[int, int]) -> dict[str, Any]:
    """A pod as kube-scheduler sends it, of a usual size."""
    from decimal import Decimal

    percent, gib = shape
    spec = WorkerSpec(
        Mode.LOCAL, "p", "w", QoS.MEDIUM, "tensor-fusion-medium", Isolation.SOFT, Vendor.NVIDIA, 1, ("app",),
        compute_request=Compute(Unit.PERCENT, Decimal(percent)), vram_request_bytes=gib * GIB, vram_limit_bytes=gib * GIB,
        gpu_model="A100",
    )  # fmt: skip
    env = [{"name": f"SETTING_{at}", "value": "x" * 40} for at in range(20)]
    return {
        "metadata": {
            "name": f"pod-{uid}", "namespace": "bench", "uid": uid, "resourceVersion": "1",
            "annotations": {names.key("resolved"): canonical(to_json(spec, {}))}, "labels": {names.ENABLED_LABEL: "true"},
        },
        "spec": {"containers": [{"name": "app", "image": "registry.example/app:1", "env": env}], "priority": 0},
        "status": {"phase": "Pending"},
    }  # fmt: skip


def filled(nodes: int, pods: int) -> ClusterState:
    """A cluster's state with that many pods placed, spread over it."""
    state, rng = ClusterState(), random.Random(1)
    state.inventory.set_pool("p", PoolFacts())
    for node in range(nodes):
        name = f"node-{node:05d}"
        state.inventory.set_node(name, NodeFacts("p"))
        for index in range(GPUS_PER_NODE):
            uuid = f"GPU-{node:05d}-{index}"
            state.inventory.set_card(
                CardFacts(uuid, name, "A100_SXM_80G", Vendor.NVIDIA, 312_000_000, 80 * GIB, index, index // 4)
            )
    placed = 0
    while placed < pods:
        one = read_pod(pod(f"placed-{placed}", rng.choice(SHAPES)))
        row = rng.randrange(nodes)
        fit = state.allocator.fit(one.claim, ANYBODY)
        if not fit.nodes[row]:
            row = int(rng.choice(fit.nodes.nonzero()[0].tolist()))
        chosen = state.allocator.choose(one.claim, ANYBODY, fit, row)
        if chosen is None:
            continue
        state.ledger.hold(
            reserve(one.claim, chosen, uid=one.uid, namespace=one.namespace, name=one.name, priority=0), float("inf")
        )
        state.ledger.commit(one.uid, float("inf"))
        placed += 1
    return state


def _serve(nodes: int, pods: int, ports: Any) -> None:
    """In the server's process: ours on one port, the baseline on another, until it is ended."""

    async def run() -> None:
        state = filled(nodes, pods)
        decider = Decider(state)
        unused: Any = None
        extender = Extender(decider, Always(), unused, unused, Explaining(state, decider), Metrics())  # type: ignore[arg-type]
        async with serving(extender, "127.0.0.1", 0) as ours, _baseline() as bare:
            settle_memory()
            ports.put((ours, bare))
            await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as `tensorfusion serve scheduler`
        runner.run(run())


class _baseline:  # noqa: N801 - used as a function
    """A bare handler that parses the request, and answers with as many names as ours."""

    async def __aenter__(self) -> int:
        async def handle(request: web.Request) -> web.Response:
            asked = orjson.loads(await request.read())
            answer = {
                "NodeNames": asked["NodeNames"][:MOST_NAMED],
                "FailedNodes": {},
                "FailedAndUnresolvableNodes": {},
                "Error": "",
            }
            return web.Response(body=orjson.dumps(answer), content_type="application/json")

        app = web.Application(client_max_size=16 * 2**20)
        app.router.add_post("/filter", handle)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return int(self._runner.addresses[0][1])

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()


@contextmanager
def server(nodes: int, pods: int) -> Iterator[tuple[int, int]]:
    """The server's process; gives the two ports."""
    context = multiprocessing.get_context("spawn")
    ports = context.Queue()
    process = context.Process(target=_serve, args=(nodes, pods, ports), daemon=True)
    process.start()
    try:
        yield ports.get(timeout=300)
    finally:
        process.terminate()
        process.join(timeout=30)


def bodies(nodes: int, verb_nodes: list[str] | None = None) -> list[bytes]:
    """Requests of different pods, each with all nodes in an order of its own."""
    rng, found = random.Random(2), []
    every = verb_nodes or [f"node-{node:05d}" for node in range(nodes)]
    for at in range(20):
        order = every[:]
        rng.shuffle(order)
        asks = pod(f"asks-{at}", SHAPES[at % len(SHAPES)])
        asks["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet"}]  # for others a single node is named, which is cheaper
        found.append(json.dumps({"Pod": asks, "Nodes": None, "NodeNames": order}).encode())
    return found


def latencies(connection: http.client.HTTPConnection, verb: str, requests: list[bytes], calls: int) -> list[float]:
    """Seconds of each call, one after the other on one connection."""
    found = []
    for at in range(calls):
        begin = time.perf_counter()
        connection.request("POST", f"/{verb}", requests[at % len(requests)], {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        found.append(time.perf_counter() - begin)
        assert answer.status == 200, body
    return found


def measured(nodes: int, pods: int) -> tuple[list[float], list[float], list[float]]:
    """Filter, baseline and prioritize: all latencies in seconds, taken in turns."""
    calls, requests, named = (100 if quick() else 200), bodies(nodes), bodies(min(nodes, MOST_NAMED))
    ours: list[float] = []
    bare: list[float] = []
    scored: list[float] = []
    with server(nodes, pods) as ports:
        first, second = (http.client.HTTPConnection("127.0.0.1", port) for port in ports)
        latencies(first, "filter", requests, 20)
        latencies(second, "filter", requests, 20)
        for _ in range(repeats(5)):
            ours += latencies(first, "filter", requests, calls)
            bare += latencies(second, "filter", requests, calls)
            scored += latencies(first, "prioritize", named, calls // 4)
    return ours, bare, scored


def decisions() -> list[Row]:
    """Rows of P1 and P2."""
    found: list[Row] = []
    p50: dict[tuple[int, int], float] = {}
    for nodes, pods in ((100, 400), (1000, 4000), (5000, 4000), (1000, 16000), (5000, 16000)):
        ours, bare, scored = measured(nodes, pods)
        middle, high = percentile(ours, 50) * 1e3, percentile(ours, 99) * 1e3
        base, base_high = percentile(bare, 50) * 1e3, percentile(bare, 99) * 1e3
        p50[nodes, pods] = middle
        if pods == 16000:
            ratio = middle / p50[nodes, 4000]
            what = f"filter p50, {nodes} nodes, 16,000 pods placed instead of 4,000"
            found.append(Row("P2", what, middle, "ms", p50[nodes, 4000], ratio, "<= 1.2 x", ratio <= 1.2))
            continue
        goal50, goal99 = GOALS_MS[nodes]
        what = f"filter, {nodes} nodes x 8, {pods} pods placed"
        ok = middle <= goal50 and middle <= 4 * base
        found += [
            Row("P1", f"{what}, p50", middle, "ms", base, middle / base, f"<= {goal50} ms and <= 4 x", ok),
            Row("P1", f"{what}, p99", high, "ms", base_high, high / base_high, f"<= {goal99} ms", high <= goal99),
            Row("P1", f"prioritize, {nodes} nodes, p50", percentile(scored, 50) * 1e3, "ms"),
        ]
    return found
