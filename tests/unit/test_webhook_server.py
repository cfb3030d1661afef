"""The webhook's HTTPS server, real on a socket: no body makes it fail, and it says when it is ready."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from admission_objects import json_values, junk_pods, pod, pods
from cli_runs import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorfusion_iac.admission import apply
from tensorfusion_iac.admission.authority import new_authority, new_serving
from tensorfusion_iac.admission.certificates import load_pair
from tensorfusion_iac.admission.cluster import Cluster
from tensorfusion_iac.admission.grey import GreyRelease
from tensorfusion_iac.admission.metrics import Metrics
from tensorfusion_iac.admission.server import MUTATE_PATH, VALIDATE_PATH, Server, serving
from tensorfusion_iac.admission.templates import TEMPLATE_KINDS
from tensorfusion_iac.admission.webhook import Webhook
from tensorfusion_iac.kube.client import Event, Listing
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.informer import running
from tensorfusion_iac.kube.resource import Resource

DEFAULT = {"tensor-fusion.ai/is-default-pool": "true"}
POOL = {
    "apiVersion": "tensor-fusion.ai/v1",
    "kind": "GPUPool",
    "metadata": {"name": "default", "uid": "1", "resourceVersion": "1", "annotations": DEFAULT},
    "spec": {"defaultUsingLocalGPU": True},
}


class StillClient:
    """A cluster with one pool, in which nothing happens."""

    async def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> Listing:
        return Listing([json.loads(json.dumps(POOL))] if resource.plural == "gpupools" else [], "1")

    async def watch(self, resource: Resource, namespace: str | None = None, **options: Any) -> AsyncIterator[Event]:
        await asyncio.Event().wait()
        yield Event("BOOKMARK", {})

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        raise ApiError(404, "NotFound", f"{resource.plural} {name} not found")


@dataclass
class Running:
    """A server on a thread of its own."""

    bundle: str
    context: ssl.SSLContext
    loop: asyncio.AbstractEventLoop
    port: int = 0
    up: threading.Event = field(default_factory=threading.Event)
    connection: http.client.HTTPSConnection | None = None

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """One request, over a connection that is kept as long as the server keeps it."""
        for attempt in (1, 2):
            if self.connection is None:
                context = ssl.create_default_context(cadata=self.bundle)
                self.connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=10)
            try:
                self.connection.request(method, path, body, {"Content-Type": "application/json"})
                answer = self.connection.getresponse()
                return answer.status, answer.read()
            except (http.client.HTTPException, OSError):
                self.connection.close()
                self.connection = None
                if attempt == 2:
                    raise
        raise AssertionError

    def raw(self) -> ssl.SSLSocket:
        """A connection on which a test writes what no client library would."""
        context = ssl.create_default_context(cadata=self.bundle)
        return context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), 10), server_hostname="127.0.0.1")


def start(*, synced: bool) -> Iterator[Running]:
    now = datetime.now(UTC)
    authority = new_authority(now, timedelta(days=1))
    pair = new_serving(authority, ["127.0.0.1"], now, timedelta(days=1))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_pair(context, pair.certificate, pair.key)
    loop = asyncio.new_event_loop()
    found = Running(authority.certificate, context, loop)
    stop = asyncio.Event()

    async def serve() -> None:
        client: Any = StillClient()
        cluster = Cluster(client)
        server = Server(Webhook(cluster, GreyRelease(client)), Metrics())
        async with running(*(cluster.informers if synced else ())), serving(server, "127.0.0.1", 0, context, drain_s=0) as port:
            found.port = port
            found.up.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert found.up.wait(10)
    yield found
    if found.connection is not None:
        found.connection.close()
    loop.call_soon_threadsafe(stop.set)
    thread.join(20)
    loop.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    yield from start(synced=True)


@pytest.fixture
def unsynced() -> Iterator[Running]:
    yield from start(synced=False)


def review(item: Any, **request: Any) -> bytes:
    asked = {
        "uid": "u1",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": "ml",
        "object": item,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked | request}).encode()


def response(server: Running, path: str, body: bytes) -> dict[str, Any]:
    status, text = server.ask("POST", path, body)
    assert status == 200, text
    found: dict[str, Any] = json.loads(text)["response"]
    return found


def test_a_pod_is_patched(server: Running) -> None:
    found = response(server, MUTATE_PATH, review(pod()))
    assert (found["uid"], found["allowed"], found["patchType"]) == ("u1", True, "JSONPatch")
    changed = apply(pod(), json.loads(base64.b64decode(found["patch"])))
    assert changed["spec"]["schedulerName"] == "tensor-fusion-scheduler"


def test_a_refusal_says_every_field(server: Running) -> None:
    found = response(server, MUTATE_PATH, review(pod({"vram-request": "4 Gi", "qos": "urgent"})))
    assert not found["allowed"]
    assert (found["status"]["code"], found["status"]["reason"]) == (422, "Invalid")
    fields = [cause["field"] for cause in found["status"]["details"]["causes"]]
    assert fields == ["tensor-fusion.ai/vram-request", "tensor-fusion.ai/qos"]


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"{}", b"[]", b"3", b'"text"', b"\xff\xfe", b"{" * 10_000, review(pod())[:-40],
     b'{"kind":"AdmissionReview"}', b'{"kind":"AdmissionReview","request":null}', b'{"kind":"AdmissionReview","request":{}}',
     b'{"kind":"AdmissionReview","request":{"uid":1,"kind":{}}}', b'{"kind":"AdmissionReview","request":{"uid":"","kind":{}}}',
     b'{"kind":"Pod","request":{"uid":"a","kind":{}}}', b'{"a":"\\ud800"}'],
)  # fmt: skip
@pytest.mark.parametrize("path", [MUTATE_PATH, VALIDATE_PATH])
def test_what_is_no_review_is_the_callers_fault(server: Running, path: str, body: bytes) -> None:
    status, text = server.ask("POST", path, body)
    assert status == 400
    assert text.strip()


@pytest.mark.parametrize("path", [MUTATE_PATH, VALIDATE_PATH])
def test_a_body_of_20_mb_is_too_large(server: Running, path: str) -> None:
    status, _ = server.ask("POST", path, review(pod({"vram-request": "4Gi", "note/x": "x" * 20_000_000})))
    assert status == 413
    assert server.ask("GET", "/healthz")[0] == 200


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("path", [MUTATE_PATH, VALIDATE_PATH])
def test_a_body_in_another_encoding_than_it_says_is_the_callers_fault(
    server: Running, path: str, encoding: str, caplog: pytest.LogCaptureFixture
) -> None:
    with server.raw() as sender:
        body = review(pod())
        head = f"POST {path} HTTP/1.1\r\nHost: webhook\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n"
        sender.sendall(head.encode() + body)
        assert sender.recv(4096).startswith(b"HTTP/1.1 400 ")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_caller_that_leaves_in_the_middle_of_its_body_is_no_fault_of_ours(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    before = malformed(server)
    with server.raw() as sender:
        sender.sendall(f"POST {MUTATE_PATH} HTTP/1.1\r\nHost: webhook\r\nContent-Length: 500\r\n\r\n".encode() + b"{")
    deadline = time.monotonic() + 10
    while malformed(server) == before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert malformed(server) == before + 1
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def malformed(server: Running) -> float:
    """How many requests were no reviews, as the metrics say."""
    _, text = server.ask("GET", "/metrics")
    head = b'tensor_fusion_admission_decisions_total{path="/mutate-pods",result="malformed"} '
    return next(float(line.removeprefix(head)) for line in text.splitlines() if line.startswith(head))


def test_other_methods_and_paths_are_refused(server: Running) -> None:
    assert server.ask("GET", MUTATE_PATH)[0] == 405
    assert server.ask("POST", "/elsewhere", b"{}")[0] == 404


SLOW = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@given(item=junk_pods() | pods() | json_values)
@SLOW
def test_no_pod_makes_the_server_fail(server: Running, item: Any) -> None:
    found = response(server, MUTATE_PATH, review(item))
    if found["allowed"]:
        apply(item, json.loads(base64.b64decode(found.get("patch", "W10="))))
    else:
        assert found["status"]["code"] in (403, 422)
        assert found["status"]["message"]


KINDS = st.sampled_from([*TEMPLATE_KINDS, "WorkloadProfile", "GPUPool", "GPUResourceQuota", "TensorFusionWorkload", "Pod"])


@given(item=json_values | junk_pods(), old=json_values, kind=KINDS, inside=st.booleans())
@SLOW
def test_no_object_makes_the_validation_fail(server: Running, item: Any, old: Any, kind: str, inside: bool) -> None:
    group = "" if kind in (*TEMPLATE_KINDS, "Pod") else "tensor-fusion.ai"
    if inside:
        item, old = {"metadata": {"name": "a"}, "spec": {"template": item}}, {"spec": old}
    found = response(server, VALIDATE_PATH, review(item, kind={"group": group, "version": "v1", "kind": kind}, oldObject=old))
    assert found["allowed"] or found["status"]["code"] == 422
    assert "patch" not in found


@given(
    request=st.dictionaries(
        st.sampled_from(["uid", "operation", "kind", "namespace", "object", "oldObject", "dryRun"]), json_values
    )
)
@SLOW
def test_no_request_makes_the_server_fail(server: Running, request: dict[str, Any]) -> None:
    body = json.dumps({"kind": "AdmissionReview", "request": request}).encode()
    for path in (MUTATE_PATH, VALIDATE_PATH):
        assert server.ask("POST", path, body)[0] in (200, 400)


@given(body=st.binary(max_size=200))
@SLOW
def test_no_bytes_make_the_server_fail(server: Running, body: bytes) -> None:
    assert server.ask("POST", MUTATE_PATH, body)[0] in (200, 400)


def test_the_other_side_of_a_grey_release_is_left_alone_when_it_is_asked_about_again(server: Running) -> None:
    """Another webhook has added a container meanwhile, so that nothing says any more which one is meant."""
    item = pod({"vram-request": "1Gi", "enabled-replicas": "1", "grey": "off"}, {"name": "main"}, {"name": "proxy"})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat-5d9f", "uid": "4", "controller": True}
    item["metadata"]["ownerReferences"] = [owner]
    found = response(server, MUTATE_PATH, review(item))
    assert found["allowed"]
    assert "patch" not in found
    del item["metadata"]["annotations"]["tensor-fusion.ai/grey"]
    assert response(server, MUTATE_PATH, review(item))["status"]["code"] == 422


@pytest.fixture(scope="module")
def pool_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pool") / "pool.json"
    path.write_text(json.dumps(POOL))
    return path


@given(item=pods())
@settings(SLOW, max_examples=250)
def test_the_command_line_gives_the_same_patch_byte_for_byte(server: Running, pool_file: Path, item: dict[str, Any]) -> None:
    item = {"apiVersion": "v1", "kind": "Pod", **item}
    sent = response(server, MUTATE_PATH, review(item))
    off = item["metadata"]["annotations"].get("tensor-fusion.ai/enabled-replicas") == "0"
    words = ["resolve", "-f", "-", "--pool", pool_file, "-n", "ml", "--grey", "off" if off else "on", "-o", "patch"]
    result = run(*words, stdin=json.dumps(item))
    assert (result.exit_code == 0) == sent["allowed"]
    if sent["allowed"]:
        assert result.stdout.encode() == base64.b64decode(sent.get("patch", "W10=")) + b"\n"
    elif not off:
        assert sent["status"]["message"] in result.stderr


def test_it_says_what_it_did(server: Running) -> None:
    response(server, MUTATE_PATH, review(pod()))
    status, text = server.ask("GET", "/metrics")
    assert status == 200
    assert b'tensor_fusion_admission_decisions_total{path="/mutate-pods",result="patched"}' in text


def test_it_is_ready_when_the_caches_are(server: Running, unsynced: Running) -> None:
    assert (server.ask("GET", "/readyz")[0], unsynced.ask("GET", "/readyz")[0]) == (200, 503)
    assert (server.ask("GET", "/healthz")[0], unsynced.ask("GET", "/healthz")[0]) == (200, 200)


def test_a_pod_that_comes_too_early_is_refused_for_now_and_others_are_not(unsynced: Running) -> None:
    found = response(unsynced, MUTATE_PATH, review(pod()))
    assert (found["allowed"], found["status"]["code"]) == (False, 503)
    assert response(unsynced, MUTATE_PATH, review({"metadata": {}, "spec": {}}))["allowed"]


REQUESTS = 300


def test_certificates_change_while_requests_come_and_none_is_lost(unsynced: Running, capsys: pytest.CaptureFixture[str]) -> None:
    """R5 without an API server: connections that are kept and new ones, certificates of the same authority and of another."""
    now = datetime.now(UTC)
    authority = new_authority(now, timedelta(days=1))
    trusted = ssl.create_default_context(cadata=unsynced.bundle + authority.certificate)
    body, statuses = review({"metadata": {}, "spec": {}}), list[int]()
    began = time.monotonic()

    async def ask(session: aiohttp.ClientSession) -> None:
        async with session.post(f"https://127.0.0.1:{unsynced.port}{MUTATE_PATH}", data=body) as answer:
            statuses.append(answer.status)
            await answer.read()

    async def run() -> None:
        kept, new = aiohttp.TCPConnector(ssl=trusted), aiohttp.TCPConnector(ssl=trusted, force_close=True)
        async with (
            aiohttp.ClientSession(connector=kept) as one,
            aiohttp.ClientSession(connector=new) as other,
            asyncio.TaskGroup() as under_way,
        ):
            for number in range(REQUESTS):
                await asyncio.sleep(max(0.0, began + number / 100 - time.monotonic()))
                if number % 50 == 25:
                    pair = new_serving(authority, ["127.0.0.1"], now, timedelta(days=1))
                    # By the server's own thread, as the webhook does it.
                    unsynced.loop.call_soon_threadsafe(load_pair, unsynced.context, pair.certificate, pair.key)
                under_way.create_task(ask(one if number % 2 else other))

    asyncio.run(run())
    rate = REQUESTS / (time.monotonic() - began)
    with capsys.disabled():
        print(f"\nR5  certificate changed {REQUESTS // 50} times under {rate:.0f} requests/s, without an API server")  # noqa: T201
    assert statuses == [200] * REQUESTS
