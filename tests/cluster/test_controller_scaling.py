"""Autoscaling end to end: simulated agents' histories, a real scheduler, and the controller's own rights (SPEC §8)."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest
from gpu_plane import GIB, GpuPlane, annotation, gpu_plane, pod, worker
from running_controller import ACCOUNT, access, controlled

from tensorfusion_iac.agent.simulated_load import LOAD_ANNOTATION
from tensorfusion_iac.api import names
from tensorfusion_iac.api.worker import Compute, ProfileRef, Source, Unit, WorkerSpec, canonical, to_json
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.resource import CONFIG_MAPS, PODS, TENSOR_FUSION_WORKLOADS, WORKLOAD_PROFILES
from tensorfusion_iac.local.state import NodeGroup

pytestmark = pytest.mark.cluster
GROUPS = (NodeGroup(model="A100_SXM_80G", gpus_per_node=2, nodes=1),)
PERIOD = ("--scaling-period", "2")
AT_ONCE = {"enable": True, "initialDelayPeriod": "1s", "historyDataPeriod": "1m"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuPlane]:
    with gpu_plane(tmp_path_factory.mktemp("scaling") / "plane", GROUPS, os.getpid()) as made:
        yield made


@pytest.fixture(scope="module")
def kubeconfig(plane: GpuPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return access(plane, tmp_path_factory.mktemp("access"))


@pytest.fixture
def ns(plane: GpuPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    name = plane.namespace(request.node.name.replace("_", "-")[5:60].strip("-"))
    yield name
    plane.delete(name, *(item["metadata"]["name"] for item in plane.pods(name)))
    plane.kubectl("delete", "tensorfusionworkloads", "--all", "-n", name)


def spec(**more: Any) -> WorkerSpec:
    amounts = {
        "compute_request": Compute(Unit.TFLOPS, Decimal(20)), "compute_limit": Compute(Unit.TFLOPS, Decimal(40)),
        "vram_request_bytes": 4 * GIB, "vram_limit_bytes": 8 * GIB,
    }  # fmt: skip
    return worker(workload="chat", **(amounts | more))


def load(text: str) -> dict[str, str]:
    return {LOAD_ANNOTATION: text}


def workload(namespace: str, **config: Any) -> dict[str, Any]:
    metadata = {"name": "chat", "namespace": namespace}
    return {
        "apiVersion": names.API_VERSION, "kind": "TensorFusionWorkload", "metadata": metadata,
        "spec": {"autoScalingConfig": config},
    }  # fmt: skip


def in_force(plane: GpuPlane, namespace: str, name: str, tflops: tuple[float, float], gib: tuple[float, float]) -> None:
    """Wait until the limits in force of a pod's first card are in these spans."""

    async def look(client: Client) -> bool:
        item = await client.get(PODS, name, namespace)
        limits = json.loads(annotation(item, "effective"))["cards"][0]["limits"]
        return tflops[0] <= float(limits["tflops"]) <= tflops[1] and gib[0] <= limits["vram"] / GIB <= gib[1]

    plane.until(f"limits of {tflops} TFLOPS and {gib} GiB", look)


def test_amounts_follow_use_in_place_and_the_memory_survives_a_kill(plane: GpuPlane, kubeconfig: Path, ns: str) -> None:
    plane.apply(workload(ns, autoSetResources=AT_ONCE))
    made = spec(compute_limit=Compute(Unit.TFLOPS, Decimal(200)), vram_limit_bytes=40 * GIB)
    plane.create(pod(ns, "a", made, annotations=load("mean=0.3, swing=0, vram=12Gi")))
    (bound,) = plane.bound(ns, 1)

    async def settled(client: Client) -> dict[str, Any] | None:
        status = (await client.get(TENSOR_FUSION_WORKLOADS, "chat", ns)).get("status") or {}
        return status if (status.get("recommendation") or {}).get("applied") else None

    with controlled(kubeconfig, "one", *PERIOD) as controller:
        in_force(plane, ns, "a", (105, 116), (13.8, 14.6))  # 0.3 x 312 TFLOPS x 1.15, 12 GiB x 1.15
        recommendation = plane.until("it is told as applied", settled)["recommendation"]
        assert 105 <= float(recommendation["resources"]["limits"]["tflops"]) <= 116
        controller.kill()
        with plane.agents_paused():
            plane.ask(lambda client: client.merge(TENSOR_FUSION_WORKLOADS, "chat", {"status": {"recommendation": None}}, ns,
                                                  subresource="status"))  # fmt: skip
            controller.start()
            again = plane.until("it is told again, from memory alone", settled, 90.0)["recommendation"]
        assert again["resources"]["requests"] == recommendation["resources"]["requests"]
        assert again["resources"]["limits"]["tflops"] == recommendation["resources"]["limits"]["tflops"]
        plane.kubectl("annotate", "pod", "a", "-n", ns, "--overwrite", f"{LOAD_ANNOTATION}=mean=0.5, swing=0, vram=20Gi")
        in_force(plane, ns, "a", (174, 190), (23, 24.4))
        after = plane.ask(lambda client: client.get(PODS, "a", ns))
        assert after["metadata"]["uid"] == bound["metadata"]["uid"], "the pod runs on"
        uid = plane.ask(lambda client: client.get(TENSOR_FUSION_WORKLOADS, "chat", ns))["metadata"]["uid"]
        assert f"tensor-fusion-usage-{uid}" in memories(plane)
        plane.kubectl("delete", "tensorfusionworkload", "chat", "-n", ns)

        async def forgotten(client: Client) -> bool:
            left = (await client.list(CONFIG_MAPS, names.SYSTEM_NAMESPACE)).items
            return f"tensor-fusion-usage-{uid}" not in {item["metadata"]["name"] for item in left}

        plane.until("the memory of a workload that is gone goes", forgotten)


def test_deleted_in_whatever_order_nothing_is_left(plane: GpuPlane, kubeconfig: Path, ns: str) -> None:
    kinds = {"pod": "a", "tensorfusionworkload": "chat", "workloadprofile": "small", "gpuresourcequota": "q"}
    random = Random(os.getpid())
    with controlled(kubeconfig, "one", *PERIOD):
        for _ in range(2):
            plane.apply(
                workload(ns, autoSetResources=AT_ONCE),
                {"apiVersion": names.API_VERSION, "kind": "WorkloadProfile", "metadata": {"name": "small", "namespace": ns}},
                {"apiVersion": names.API_VERSION, "kind": "GPUResourceQuota", "metadata": {"name": "q", "namespace": ns}},
            )
            plane.create(pod(ns, "a", spec(), annotations=load("mean=0.1, swing=0, vram=2Gi")))
            plane.bound(ns, 1)
            uid = plane.ask(lambda client: client.get(TENSOR_FUSION_WORKLOADS, "chat", ns))["metadata"]["uid"]

            async def remembered(client: Client, uid: str = uid) -> bool:
                maps = (await client.list(CONFIG_MAPS, names.SYSTEM_NAMESPACE)).items
                return any(item["metadata"]["name"].endswith(uid) for item in maps)

            plane.until("its use is remembered", remembered)
            order = random.sample(sorted(kinds.items()), len(kinds))
            for kind, name in order:
                plane.kubectl("delete", kind, name, "-n", ns, "--ignore-not-found", "--timeout=20s")

            async def nothing(client: Client, uid: str = uid) -> bool:
                left = (await client.list(TENSOR_FUSION_WORKLOADS, ns)).items
                return not left and not await remembered(client, uid)

            plane.until(f"nothing is left after {order}", nothing)


def memories(plane: GpuPlane) -> set[str]:
    maps = plane.ask(lambda client: client.list(CONFIG_MAPS, names.SYSTEM_NAMESPACE)).items
    return {item["metadata"]["name"] for item in maps if item["metadata"]["name"].startswith("tensor-fusion-usage-")}


def test_a_cron_rule_comes_into_force_and_its_end_takes_it_back(plane: GpuPlane, kubeconfig: Path, ns: str) -> None:
    always = {"name": "busy", "start": "0 0 1 1 *", "end": "59 23 31 12 *"}
    amounts = {"requests": {"tflops": 100, "vram": "20Gi"}, "limits": {"tflops": 200, "vram": "30Gi"}}
    plane.apply(workload(ns, cronScalingRules=[always | {"desiredResources": amounts}]))
    plane.create(pod(ns, "a", spec()))
    plane.bound(ns, 1)
    with controlled(kubeconfig, "one", *PERIOD):
        in_force(plane, ns, "a", (200, 200), (30, 30))

        async def named(client: Client) -> bool:
            status = (await client.get(TENSOR_FUSION_WORKLOADS, "chat", ns)).get("status") or {}
            return status.get("activeCronScalingRule") == "busy"

        plane.until("the rule's name", named)
        never = {"name": "busy", "start": "0 0 29 2 *", "end": "1 0 29 2 *"}
        plane.apply(workload(ns, cronScalingRules=[never | {"desiredResources": amounts}]))
        in_force(plane, ns, "a", (40, 40), (8, 8))


def test_nothing_is_asked_for_beyond_the_quota(plane: GpuPlane, kubeconfig: Path, ns: str) -> None:
    total = {"requests": {"vram": "10Gi"}, "limits": {"vram": "12Gi", "tflops": 60}}
    metadata = {"name": "q", "namespace": ns}
    plane.apply(
        {"apiVersion": names.API_VERSION, "kind": "GPUResourceQuota", "metadata": metadata, "spec": {"total": total}},
        workload(ns, autoSetResources=AT_ONCE),
    )
    plane.create(pod(ns, "a", spec(), annotations=load("mean=0.9, vram=70Gi")))
    plane.bound(ns, 1)
    with controlled(kubeconfig, "one", *PERIOD):
        in_force(plane, ns, "a", (54.5, 60), (10.9, 12))  # what is within a tenth of the quota is near enough
        item = plane.ask(lambda client: client.get(PODS, "a", ns))
        pending = [one for one in item["status"]["conditions"] if one["type"].endswith("ResizePending")]
        assert all(one["status"] == "False" for one in pending)


def test_an_edited_profile_reaches_running_pods_in_place(plane: GpuPlane, kubeconfig: Path, ns: str) -> None:
    def profile(tflops: int, gib: int) -> dict[str, Any]:
        amounts = {"tflops": tflops, "vram": f"{gib}Gi"}
        metadata = {"name": "small", "namespace": ns}
        return {
            "apiVersion": names.API_VERSION, "kind": "WorkloadProfile", "metadata": metadata,
            "spec": {"resources": {"requests": amounts, "limits": amounts}},
        }  # fmt: skip

    plane.apply(profile(20, 4))
    generation = plane.ask(lambda client: client.get(WORKLOAD_PROFILES, "small", ns))["metadata"]["generation"]
    made = spec(profile=ProfileRef("small", generation))
    fields = ("tflops-request", "tflops-limit", "vram-request", "vram-limit")
    marks = {f"{names.PREFIX}resolved": canonical(to_json(made, dict.fromkeys(fields, Source.PROFILE)))}
    plane.create(pod(ns, "a", made, annotations=marks))
    (bound,) = plane.bound(ns, 1)
    with controlled(kubeconfig, "one", *PERIOD):
        plane.apply(profile(33, 7))
        in_force(plane, ns, "a", (33, 33), (7, 7))

        async def told(client: Client) -> bool:
            status = (await client.get(TENSOR_FUSION_WORKLOADS, "chat", ns)).get("status") or {}
            return any(one["type"] == "ProfileApplied" and one["status"] == "True" for one in status.get("conditions") or ())

        plane.until("ProfileApplied", told)
    assert plane.ask(lambda client: client.get(PODS, "a", ns))["metadata"]["uid"] == bound["metadata"]["uid"]


@contextmanager
def scaler(answer: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """An external scaler: its URL, and the Authorization headers that it was shown."""
    shown: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            shown.append(self.headers.get("Authorization", ""))
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}", shown
    finally:
        server.shutdown()
        server.server_close()


def test_an_external_scaler_is_heard_once_its_secret_is_shared(plane: GpuPlane, kubeconfig: Path, ns: str) -> None:
    amounts = {"requests": {"tflops": 50, "vram": "10Gi"}, "limits": {"tflops": 70, "vram": "12Gi"}}
    plane.kubectl("create", "secret", "generic", "key", "-n", ns, "--from-literal=token=s3cret")
    with scaler({"needScaleUp": True, "recommendedResources": amounts, "reason": "long queue"}) as (host, shown):
        asked = {"enable": True, "url": f"http://{host}/", "apiKeySecretRef": {"name": "key"}, "interval": "2s"}
        plane.apply(workload(ns, externalScaler=asked))
        plane.create(pod(ns, "a", spec()))
        plane.bound(ns, 1)

        def told(part: str) -> None:
            async def look(client: Client) -> bool:
                status = (await client.get(TENSOR_FUSION_WORKLOADS, "chat", ns)).get("status") or {}
                return part in (status.get("recommendation") or {}).get("reason", "")

            plane.until(part, look)

        with controlled(kubeconfig, "one", *PERIOD):
            told(f"host {host} is not allowed")
        with controlled(kubeconfig, "one", *PERIOD, "--external-scaler-host", host):
            told(f"Secret {ns}/key is not shared: a RoleBinding has to let service account")
            assert not shown
            account = f"{names.SYSTEM_NAMESPACE}:{ACCOUNT}"
            plane.kubectl("create", "role", "shared", "-n", ns, "--verb=get", "--resource=secrets", "--resource-name=key")
            plane.kubectl("create", "rolebinding", "shared", "-n", ns, "--role=shared", f"--serviceaccount={account}")
            in_force(plane, ns, "a", (70, 70), (12, 12))
            assert set(shown) == {"Bearer s3cret"}
            told("by the external scaler: long queue")
