"""Pools, quotas and pods kept true beside a real scheduler, and one writer among the replicas (SPEC §4, §9, R10)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_plane import GpuPlane, cards_of, gpu_plane, percent, pod, vram
from running_controller import Controller, access, controlled

from tensorfusion_iac.api import names
from tensorfusion_iac.api.quantity import parse_quantity
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.resource import (
    EVENTS,
    GPU_NODES,
    GPU_POOLS,
    GPU_RESOURCE_QUOTAS,
    GPUS,
    NODES,
    PODS,
    TENSOR_FUSION_WORKLOADS,
)
from tensorfusion_iac.local.state import NodeGroup

pytestmark = pytest.mark.cluster
GROUPS = (NodeGroup(model="A100_SXM_80G", gpus_per_node=4, nodes=2),)
GHOST_S = 150.0


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuPlane]:
    with gpu_plane(tmp_path_factory.mktemp("status") / "plane", GROUPS, os.getpid()) as made:
        yield made


@pytest.fixture(scope="module")
def kubeconfig(plane: GpuPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return access(plane, tmp_path_factory.mktemp("access"))


@pytest.fixture
def controller(kubeconfig: Path) -> Iterator[Controller]:
    with controlled(kubeconfig) as made:
        yield made


@pytest.fixture
def ns(plane: GpuPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    name = plane.namespace(request.node.name.replace("_", "-")[5:60].strip("-"))
    yield name
    plane.delete(name, *(item["metadata"]["name"] for item in plane.pods(name)))


def status_of(
    plane: GpuPlane, what: str, resource: Any, name: str, namespace: str | None = None, **status: Any
) -> dict[str, Any]:
    """The status of an object, once it says so."""

    async def look(client: Client) -> dict[str, Any] | None:
        found = (await client.get(resource, name, namespace)).get("status") or {}
        return found if all(found.get(key) == value for key, value in status.items()) else None

    return plane.until(what, look)


def reasons(status: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["reason"] for one in status.get("conditions") or ()}


@pytest.mark.usefixtures("controller")
def test_a_pool_shows_what_it_has_and_what_is_free(plane: GpuPlane, ns: str) -> None:
    free = status_of(
        plane, "an idle pool", GPU_POOLS, "p", phase="Running", totalNodes=2, readyNodes=2, totalGPUs=8, runningAppsCnt=0,
        availableVRAM="640Gi",
    )  # fmt: skip
    assert (free["totalVRAM"], free["vendors"], reasons(free)["Ready"]) == ("640Gi", ["NVIDIA"], "NodesReady")
    plane.create(pod(ns, "a", vram(30, workload="a")), pod(ns, "b", vram(10, workload="b", gpu_count=2)))
    plane.bound(ns, 2)
    used = status_of(plane, "a used pool", GPU_POOLS, "p", availableVRAM="590Gi", runningAppsCnt=2)
    assert parse_quantity(str(used["totalTFlops"])) == 8 * 312

    plane.kubectl("cordon", "a100-sxm-80g-0")
    status_of(plane, "a cordoned node", GPU_POOLS, "p", readyNodes=1, notReadyNodes=1)
    plane.kubectl("uncordon", "a100-sxm-80g-0")
    plane.delete(ns, "a", "b")
    status_of(plane, "an idle pool again", GPU_POOLS, "p", availableVRAM="640Gi", readyNodes=2, runningAppsCnt=0)


@pytest.mark.usefixtures("controller")
def test_a_second_default_pool_is_told_on_both_and_in_an_event(plane: GpuPlane) -> None:
    marks = {names.DEFAULT_POOL_ANNOTATION: "true"}
    plane.apply({"apiVersion": names.API_VERSION, "kind": "GPUPool", "metadata": {"name": "q", "annotations": marks}, "spec": {}})

    async def conflict(client: Client) -> bool:
        pools = [await client.get(GPU_POOLS, name) for name in ("p", "q")]
        return all("DefaultConflict" in reasons(one.get("status") or {}) for one in pools)

    async def told(client: Client) -> bool:
        return "SeveralDefaults" in {item["reason"] for item in (await client.list(EVENTS, "default")).items}

    plane.until("the conflict", conflict)
    plane.until("its event", told)
    plane.kubectl("delete", "gpupool", "q")

    async def over(client: Client) -> bool:
        return "DefaultConflict" not in reasons((await client.get(GPU_POOLS, "p")).get("status") or {})

    plane.until("no conflict", over)


@pytest.mark.usefixtures("controller")
def test_a_quota_shows_what_the_scheduler_charges_and_warns(plane: GpuPlane, ns: str) -> None:
    def quota(name: str) -> dict[str, Any]:
        total = {"requests": {"vram": "100Gi", "compute": 200}, "maxWorkers": 3}
        metadata = {"name": name, "namespace": ns}
        return {"apiVersion": names.API_VERSION, "kind": "GPUResourceQuota", "metadata": metadata, "spec": {"total": total}}

    plane.apply(quota("first"))
    status_of(plane, "an unused quota", GPU_RESOURCE_QUOTAS, "first", ns, availablePercent={"vram": "100", "compute": "100"})
    time.sleep(1.1)  # the oldest holds, to the second
    plane.apply(quota("second"))
    plane.create(pod(ns, "a", vram(60)), pod(ns, "b", percent(25, gpu_count=2)))
    plane.bound(ns, 2)
    used = status_of(plane, "a used quota", GPU_RESOURCE_QUOTAS, "first", ns, availablePercent={"vram": "40", "compute": "75"})
    assert used["used"]["workers"] == 2

    async def mirrored(client: Client) -> bool:
        gpus = (await client.list(GPUS)).items
        rows = [row for gpu in gpus for row in gpu["status"].get("allocations") or () if row["namespace"] == ns]
        sums = {what: sum(parse_quantity(row[what]) for row in rows) for what in ("tflops", "vram")}
        return sums == {what: parse_quantity(used["used"]["requests"][what]) for what in ("tflops", "vram")}

    plane.until("the scheduler's own count is the same", mirrored)
    plane.create(pod(ns, "c", vram(37)))
    plane.bound(ns, 3)
    near = status_of(
        plane, "a quota nearly used", GPU_RESOURCE_QUOTAS, "first", ns, availablePercent={"vram": "3", "compute": "75"}
    )
    assert reasons(near)["NearlyUsed"] == "AboveThreshold"
    assert reasons(status_of(plane, "the second", GPU_RESOURCE_QUOTAS, "second", ns))["InForce"] == "AnotherHolds"
    events = plane.ask(lambda client: client.list(EVENTS, ns)).items
    assert "AboveThreshold" in {item["reason"] for item in events}
    plane.delete(ns, "a", "c")
    left = status_of(plane, "room again", GPU_RESOURCE_QUOTAS, "first", ns, availablePercent={"vram": "100", "compute": "75"})
    assert "NearlyUsed" not in reasons(left)


@pytest.mark.usefixtures("controller")
def test_a_pod_is_told_what_enforces_its_limits_and_that_its_card_is_sick(plane: GpuPlane, ns: str) -> None:
    plane.create(pod(ns, "a", vram(1)))
    (bound,) = plane.bound(ns, 1)
    (uuid,) = cards_of(bound)

    def say(**status: Any) -> None:
        plane.ask(lambda client: client.merge(GPUS, uuid.lower(), {"status": status}, subresource="status"))

    async def told(client: Client) -> bool:
        item = await client.get(PODS, "a", ns)
        return bool(item["metadata"]["annotations"].get(f"{names.PREFIX}enforced-by") == "vram=driver,compute=freezer")

    plane.until("enforced-by", told)
    say(health="Unhealthy", message="XID 79")

    def healthy(status: str) -> None:
        async def look(client: Client) -> bool:
            found = (await client.get(PODS, "a", ns))["status"]["conditions"]
            return any(one["type"] == f"{names.PREFIX}GPUHealthy" and one["status"] == status for one in found)

        plane.until(f"GPUHealthy {status}", look)

    healthy("False")
    say(health="Healthy", message=None)
    healthy("True")


def test_objects_of_a_node_that_is_gone_go_and_all_others_stay(plane: GpuPlane, controller: Controller) -> None:
    before = {item["metadata"]["name"] for item in plane.ask(lambda client: client.list(GPUS)).items}
    spec = {"apiVersion": names.API_VERSION, "kind": "GPU", "metadata": {"name": "gpu-ghost"}}
    plane.apply(spec, {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": {"name": "ghost"}, "spec": {}})
    status = {"uuid": "GPU-ghost", "nodeName": "ghost", "capacity": {"tflops": 1, "vram": "1Gi"}}
    plane.ask(lambda client: client.merge(GPUS, "gpu-ghost", {"status": status}, subresource="status"))

    async def gone(client: Client) -> bool:
        gpus = {item["metadata"]["name"] for item in (await client.list(GPUS)).items}
        nodes = {item["metadata"]["name"] for item in (await client.list(GPU_NODES)).items}
        return "gpu-ghost" not in gpus and "ghost" not in nodes

    plane.until("the ghosts are gone", gone, GHOST_S)
    assert {item["metadata"]["name"] for item in plane.ask(lambda client: client.list(GPUS)).items} == before
    assert len(plane.ask(lambda client: client.list(NODES)).items) == 2


# Replicas.


def leader(*replicas: Controller) -> str:
    held = [
        (index, replica.identity) for replica in replicas for index, line in enumerate(replica.log) if "is the holder" in line
    ]
    return held[-1][1] if held else ""


def test_one_replica_writes_and_the_other_takes_over_when_it_is_killed(plane: GpuPlane, kubeconfig: Path, ns: str) -> None:
    with controlled(kubeconfig, "a") as one:
        plane.until("a leads", lambda client: _is(leader(one), "a"))
        with controlled(kubeconfig, "b") as two:
            plane.create(*(pod(ns, f"w{at}", vram(1, workload=f"w{at}")) for at in range(6)))
            plane.until("six workloads", lambda client: _running(client, ns, 6))
            assert two.writes() == {}, "the one that waits has written"
            assert one.writes()["tensorfusionworkloads"] >= 6
            one.kill()
            plane.create(*(pod(ns, f"x{at}", vram(1, workload=f"x{at}")) for at in range(4)))
            plane.until("ten workloads", lambda client: _running(client, ns, 10), 90.0)
            written = two.writes()["tensorfusionworkloads"]
            one.start()
            assert one.port
            plane.delete(ns, *(f"w{at}" for at in range(6)))
            plane.until("four workloads", lambda client: _running(client, ns, 4))
            assert one.writes() == {}
            two.stop()  # gives the lease back
            plane.create(pod(ns, "last", vram(1, workload="last")))
            plane.until("five workloads", lambda client: _running(client, ns, 5))
            assert one.writes()["tensorfusionworkloads"] >= 1
            assert written >= 4
        holders = {
            entry["manager"]
            for item in plane.ask(lambda client: client.list(TENSOR_FUSION_WORKLOADS, ns)).items
            for entry in item["metadata"]["managedFields"]
        }
        assert holders == {"tensor-fusion-controller"}


async def _is(found: str, wanted: str) -> bool:
    return found == wanted


async def _running(client: Client, namespace: str, count: int) -> bool:
    items = (await client.list(TENSOR_FUSION_WORKLOADS, namespace)).items
    return len(items) == count and all((item.get("status") or {}).get("phase") == "Running" for item in items)
