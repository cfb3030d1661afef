"""P6: admission of pods over HTTPS, against an echo handler on the same stack that reads and answers the same bodies.

Ours is the webhook's own server with its caches filled, without an API server; the baseline parses the review and answers
with bytes as long as ours. Each is a process of its own, and so is the client, so that the server has a core to itself.
Two loads: replicas of 16 templates, as workloads are, of which the webhook decides each once; and pods of which no two are
alike, so that what it remembers only costs. Latency is measured at 200 requests a second (from when a request was due, so
that a stall counts in full); the highest rate with 16 connections that never pause.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import ssl
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from typing import Any

import orjson
import uvloop
from aiohttp import web
from measure import Pair, Row, Series, describe, percentile, quick, repeats, report

from tensorfusion_iac.admission.authority import Pair as KeyPair
from tensorfusion_iac.admission.authority import new_authority, new_serving
from tensorfusion_iac.admission.certificates import load_pair
from tensorfusion_iac.admission.cluster import Cluster
from tensorfusion_iac.admission.grey import GreyRelease
from tensorfusion_iac.admission.metrics import Metrics
from tensorfusion_iac.admission.server import MUTATE_PATH, Server, serving
from tensorfusion_iac.admission.webhook import Webhook
from tensorfusion_iac.api import ENABLED_LABEL, key
from tensorfusion_iac.kube.client import Event, Listing
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.informer import running
from tensorfusion_iac.kube.memory import settle_memory
from tensorfusion_iac.kube.resource import Resource

RATE = 200
CONNECTIONS = 16
GOAL_P50_MS, GOAL_P99_MS, GOAL_RATE, GOAL_RATIO = 2.0, 10.0, 1500.0, 2.0

DEFAULT = {"tensor-fusion.ai/is-default-pool": "true"}
POOL = {
    "metadata": {"name": "default", "uid": "1", "resourceVersion": "1", "annotations": DEFAULT},
    "spec": {"defaultUsingLocalGPU": True, "componentConfig": {"client": {"runtimeClassName": "nvidia"}}},
}  # fmt: skip
PROFILE = {
    "metadata": {"name": "inference", "namespace": "ml", "uid": "2", "resourceVersion": "1", "generation": 3},
    "spec": {"resources": {"requests": {"tflops": "10", "vram": "4Gi"}, "limits": {"tflops": "20"}}, "qos": "high"},
}
NAMESPACE = {"metadata": {"name": "ml", "uid": "3", "resourceVersion": "1", "labels": {"team": "a"}}}
REPLICA_SET = {
    "metadata": {
        "name": "chat-5d9f", "namespace": "ml", "uid": "4", "resourceVersion": "1",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat", "uid": "5", "controller": True}],
    }
}  # fmt: skip
OBJECTS = {"gpupools": POOL, "workloadprofiles": PROFILE, "namespaces": NAMESPACE, "replicasets": REPLICA_SET}


class StillClient:
    """A cluster in which nothing happens."""

    async def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> Listing:
        return Listing([json.loads(json.dumps(OBJECTS[resource.plural]))] if resource.plural in OBJECTS else [], "1")

    async def watch(self, resource: Resource, namespace: str | None = None, **options: Any) -> AsyncIterator[Event]:
        await asyncio.Event().wait()
        yield Event("BOOKMARK", {})

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        raise ApiError(404, "NotFound", f"{resource.plural} {name} not found")


LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def review(number: int, *, alike: bool) -> bytes:
    """A pod of a ReplicaSet, as an API server sends it: defaults filled in, the token's volume mounted."""
    annotations = {
        "workload-profile": "inference",
        "vram-request": f"{number % 16 + 1}Gi",
        "gpu-model": "A100",
        "inject-container": "main",
    }
    volume = "kube-api-access-" + "".join(LETTERS[number // 27**place % 27] for place in range(5))
    token = {"name": volume, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    value = "some value" if alike else f"value {number}"
    container = {
        "image": "registry.example/app:1", "imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File", "volumeMounts": [token],
        "resources": {"limits": {"cpu": "2", "memory": "8Gi"}, "requests": {"cpu": "1", "memory": "4Gi"}},
        "env": [{"name": f"SETTING_{index}", "value": value} for index in range(8)],
    }  # fmt: skip
    pod = {
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "generateName": "chat-5d9f-", "labels": {ENABLED_LABEL: "true", "app": "chat", "pod-template-hash": "5d9f"},
            "annotations": {key(name): text for name, text in annotations.items()},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat-5d9f", "uid": "4",
                "controller": True, "blockOwnerDeletion": True,
            }],
        },
        "spec": {
            "containers": [{"name": "main", **container}, {"name": "proxy", **container}], "restartPolicy": "Always",
            "volumes": [{"name": volume, "projected": {"sources": [], "defaultMode": 420}}],
            "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "serviceAccountName": "default",
            "securityContext": {}, "schedulerName": "default-scheduler", "priority": 0, "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": [
                {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                for what in ("not-ready", "unreachable")
            ],
        },
    }  # fmt: skip
    request = {
        "uid": f"705ab4f5-6393-11e8-b7cc-{number:012d}", "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "namespace": "ml", "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller", "groups": ["system:authenticated"]},
        "object": pod, "oldObject": None, "dryRun": False, "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }  # fmt: skip
    return orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})


def context_of(pair: KeyPair) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_pair(context, pair.certificate, pair.key)
    return context


async def serve_ours(pair: KeyPair, ready: Connection) -> None:
    client: Any = StillClient()
    cluster = Cluster(client)
    server = Server(Webhook(cluster, GreyRelease(client)), Metrics())
    async with running(*cluster.informers), serving(server, "127.0.0.1", 0, context_of(pair)) as port:
        settle_memory()
        ready.send(port)
        await asyncio.Event().wait()


async def serve_echo(pair: KeyPair, ready: Connection) -> None:
    answers: dict[int, bytes] = {}

    async def echo(request: web.Request) -> web.Response:
        body = await request.read()
        orjson.loads(body)
        size = int(request.headers["X-Answer-Size"])
        return web.Response(body=answers.setdefault(size, b"x" * size), content_type="application/json")

    app = web.Application()
    app.router.add_post(MUTATE_PATH, echo)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context_of(pair))
    await site.start()
    settle_memory()
    ready.send(runner.addresses[0][1])
    await asyncio.Event().wait()


def run_server(which: str, pair: KeyPair, ready: Connection) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as `tensorfusion serve webhook`
        runner.run(serve_ours(pair, ready) if which == "ours" else serve_echo(pair, ready))


@contextmanager
def server(which: str, pair: KeyPair) -> Iterator[int]:
    """A server process; its port."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=run_server, args=(which, pair, there), daemon=True)
    process.start()
    try:
        if not here.poll(60):
            raise SystemExit(f"the server {which} does not start")
        yield here.recv()
    finally:
        process.terminate()
        process.join()


class Caller:
    """One connection that is kept open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer_size: int) -> None:
        self._reader, self._writer, self._size = reader, writer, answer_size

    async def ask(self, body: bytes) -> bytes:
        head = (
            f"POST {MUTATE_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"X-Answer-Size: {self._size}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"an answer is not 200: {answer[:100]!r}")
        length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return await self._reader.readexactly(length)


async def callers(port: int, bundle: str, count: int, answer_size: int) -> list[Caller]:
    context = ssl.create_default_context(cadata=bundle)
    opened = [await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=2**20) for _ in range(count)]
    return [Caller(reader, writer, answer_size) for reader, writer in opened]


async def latencies_ms(every: list[Caller], bodies: Iterator[bytes], seconds: float) -> list[float]:
    """Latency at RATE requests a second, from the moment when each was due."""
    found: list[float] = []
    free: asyncio.Queue[Caller] = asyncio.Queue()
    for caller in every:
        free.put_nowait(caller)
    begin = time.perf_counter()

    async def one(due: float, body: bytes) -> None:
        caller = await free.get()
        await caller.ask(body)
        found.append((time.perf_counter() - due) * 1000)
        free.put_nowait(caller)

    tasks = []
    for number in range(int(RATE * seconds)):
        due = begin + number / RATE
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(due, next(bodies))))
    await asyncio.gather(*tasks)
    return found


async def highest_rate(every: list[Caller], bodies: Iterator[bytes], seconds: float) -> float:
    """Answers in a second, with all connections busy."""
    begin = time.perf_counter()
    end = begin + seconds
    answered = 0

    async def busy(caller: Caller) -> None:
        nonlocal answered
        while time.perf_counter() < end:
            await caller.ask(next(bodies))
            answered += 1

    await asyncio.gather(*(busy(caller) for caller in every))
    return answered / (time.perf_counter() - begin)


async def measure(ports: dict[str, int], bundle: str) -> list[Row]:
    seconds, rounds = (1.2, repeats(5)) if quick() else (5.0, repeats(9))
    loads = {
        "replicas": itertools.cycle([review(number, alike=True) for number in range(1024)]),
        "all different": itertools.cycle([review(number, alike=False) for number in range(8192)]),
    }
    (first,) = await callers(ports["ours"], bundle, 1, 0)
    body = next(loads["replicas"])
    answer = orjson.loads(await first.ask(body))
    if not answer["response"]["allowed"] or "patch" not in answer["response"]:
        raise SystemExit(f"the pod is not patched: {answer}")
    size = len(orjson.dumps(answer))
    print(f"a review of {len(body)} bytes, an answer of {size}")
    every = {which: await callers(port, bundle, CONNECTIONS, size) for which, port in ports.items()}
    rows: list[Row] = []
    for load, bodies in loads.items():
        figures: dict[str, dict[str, list[float]]] = {which: {"p50": [], "p99": [], "rate": []} for which in ports}
        for number in range(rounds + 1):
            for which in list(ports) if number % 2 else list(reversed(ports)):
                found = await latencies_ms(every[which], bodies, seconds)
                rate = await highest_rate(every[which], bodies, seconds)
                if number:  # the first round warms up
                    for name, value in (("p50", percentile(found, 50)), ("p99", percentile(found, 99)), ("rate", rate)):
                        figures[which][name].append(value)
        rows += rows_of(
            load, {which: {name: Series(tuple(values)) for name, values in by.items()} for which, by in figures.items()}
        )
    return rows


def rows_of(load: str, series: dict[str, dict[str, Series]]) -> list[Row]:
    """The rows of one load. The goals are for replicas; the other load is reported."""
    for which, by in series.items():
        texts = (describe(f"{which} {name}", found, "/s" if name == "rate" else "ms") for name, found in by.items())
        print(f"{load}: {'; '.join(texts)}")
    ours, echo = series["ours"], series["echo"]
    ratio = {name: Pair(ours[name], echo[name]).ratio.median for name in ours}
    slower = Pair(echo["rate"], ours["rate"]).ratio.median  # time for a request, in units of the baseline's
    p50, p99, rate = (ours[name].median for name in ("p50", "p99", "rate"))
    rows = [
        Row("P6", f"admission p50 at {RATE}/s, {load}", p50, "ms", echo["p50"].median, ratio["p50"],
            f"<= {GOAL_P50_MS:g} ms", p50 <= GOAL_P50_MS),
        Row("P6", f"admission p99 at {RATE}/s, {load}", p99, "ms", echo["p99"].median, ratio["p99"],
            f"<= {GOAL_P99_MS:g} ms", p99 <= GOAL_P99_MS),
        Row("P6", f"highest rate on one core, {load}", rate, "/s", echo["rate"].median, slower,
            f">= {GOAL_RATE:g}/s, <= {GOAL_RATIO:g} x echo's time", rate >= GOAL_RATE and slower <= GOAL_RATIO),
    ]  # fmt: skip
    return rows if load == "replicas" else [replace(row, goal=None, ok=None) for row in rows]


def main() -> int:
    now = datetime.now(UTC)
    authority = new_authority(now, timedelta(days=1))
    pair = new_serving(authority, ["127.0.0.1"], now, timedelta(days=1))
    with server("ours", pair) as ours, server("echo", pair) as echo:
        rows = asyncio.run(measure({"ours": ours, "echo": echo}, authority.certificate))
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
