"""Pods on GPUs under the real kube-scheduler: what is bound, where, with which annotations, and why something waits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from gpu_plane import GIB, GpuPlane, annotation, cards_of, gpu_plane, percent, pod, pool, promised, vram, worker

from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.resource import GPUS
from tensorfusion_iac.local.state import NodeGroup

pytestmark = pytest.mark.cluster
GROUPS = (NodeGroup(model="A100_SXM_80G", gpus_per_node=4, nodes=2), NodeGroup(model="T4", gpus_per_node=2, nodes=1))


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuPlane]:
    with gpu_plane(tmp_path_factory.mktemp("gpus") / "plane", GROUPS, os.getpid()) as made:
        yield made


@pytest.fixture
def ns(plane: GpuPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    name = plane.namespace(request.node.name.replace("_", "-")[5:60].strip("-"))
    yield name
    plane.delete(name, *(item["metadata"]["name"] for item in plane.pods(name)))


def test_one_binding_carries_the_node_and_all_annotations(plane: GpuPlane, ns: str) -> None:
    spec = vram(20, gpu_count=2, containers=("one", "two"), container_gpus={"one": 1, "two": 1}, gpu_model="A100")
    plane.create(pod(ns, "split", spec))
    (found,) = plane.bound(ns, 1)
    first, second = cards_of(found)
    assert first != second
    assert found["spec"]["nodeName"].startswith("a100")
    assert annotation(found, "visible-devices.one") == first
    assert annotation(found, "visible-devices.two") == second
    assert annotation(found, "vram-fraction.one") == "1"  # the simulated driver shows a container its limit as the whole
    assert annotation(found, "vram-limit-mib.two") == "20480"
    assert json.loads(annotation(found, "container-gpus")) == {"one": [first], "two": [second]}


def test_sixteen_halves_make_two_on_each_of_eight_cards_and_no_more(plane: GpuPlane, ns: str) -> None:
    plane.create(*(pod(ns, f"half-{at}", percent(50, gpu_model="A100")) for at in range(17)))
    bound = plane.bound(ns, 16)
    used = [card for item in bound for card in cards_of(item)]
    assert len(set(used)) == 8
    assert all(used.count(card) == 2 for card in used)
    (waiting,) = {item["metadata"]["name"] for item in plane.pods(ns)} - {item["metadata"]["name"] for item in bound}
    message = plane.refused(ns, waiting)
    assert "2 nodes: compute 50% of a card asked, most free is 0 TFLOPS" in message
    assert "1 node: GPU model is not A100" in message


def test_freed_room_is_used_within_seconds(plane: GpuPlane, ns: str) -> None:
    plane.create(*(pod(ns, f"full-{at}", percent(100, gpu_model="A100")) for at in range(8)))
    plane.bound(ns, 8)
    plane.create(pod(ns, "next", percent(100, gpu_model="A100")))
    plane.refused(ns, "next")
    plane.delete(ns, "full-3")
    names = {item["metadata"]["name"] for item in plane.bound(ns, 8, patience_s=20)}
    assert "next" in names


def test_a_finished_pod_gives_its_card_back(plane: GpuPlane, ns: str) -> None:
    plane.create(pod(ns, "job", worker(dedicated=True, gpu_model="T4", gpu_count=2)))
    plane.bound(ns, 1)
    plane.kubectl(
        "patch", "pod", "job", "-n", ns, "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Succeeded"}}'
    )
    plane.create(pod(ns, "after", worker(dedicated=True, gpu_model="T4", gpu_count=2)))
    assert len(plane.bound(ns, 2)) == 2


def test_forty_pods_of_one_node_are_bound_without_waiting_for_each_other(plane: GpuPlane, ns: str) -> None:
    plane.create(*(pod(ns, f"small-{at}", vram(0.5, gpu_model="T4")) for at in range(40)))
    bound = plane.bound(ns, 40)
    assert {item["spec"]["nodeName"] for item in bound} == {"t4-0"}
    assert max(promised(bound).values()) <= 16 * GIB


def test_no_card_is_promised_twice_in_a_burst(plane: GpuPlane, ns: str) -> None:
    plane.create(*(pod(ns, f"third-{at}", vram(30)) for at in range(20)))
    bound = plane.bound(ns, 16)
    assert max(promised(plane.pods(ns)).values()) <= 80 * GIB
    assert len(bound) == 16


def test_a_quota_of_the_namespace_is_kept_in_a_burst(plane: GpuPlane, ns: str) -> None:
    plane.apply({
        "apiVersion": "tensor-fusion.ai/v1", "kind": "GPUResourceQuota", "metadata": {"name": "team", "namespace": ns},
        "spec": {"total": {"requests": {"vram": "24Gi"}}},
    })  # fmt: skip
    plane.create(*(pod(ns, f"gpu-{at}", vram(4, gpu_count=2)) for at in range(6)))
    bound = plane.bound(ns, 3)
    waiting = sorted({item["metadata"]["name"] for item in plane.pods(ns)} - {item["metadata"]["name"] for item in bound})
    assert "quota team: 24Gi of 24Gi VRAM (requests) used, 8Gi asked" in plane.refused(ns, waiting[0])
    assert len(plane.bound(ns, 3)) == 3


def test_every_way_to_ask_counts_in_the_quota(plane: GpuPlane, ns: str) -> None:
    plane.apply({
        "apiVersion": "tensor-fusion.ai/v1", "kind": "GPUResourceQuota", "metadata": {"name": "team", "namespace": ns},
        "spec": {"total": {"requests": {"vram": "24Gi", "tflops": "312"}}},
    })  # fmt: skip
    plane.create(pod(ns, "first", vram(16)))
    plane.bound(ns, 1)
    chores = [{"name": "chores", "image": "app"}]
    plane.create(
        pod(ns, "with-init", vram(16), initContainers=chores),
        pod(ns, "two-gpus", vram(5, gpu_count=2)),
        pod(ns, "whole-card", worker(dedicated=True, gpu_model="A100")),
    )
    for name in ("with-init", "two-gpus", "whole-card"):
        assert "quota team: 16Gi of 24Gi VRAM (requests) used" in plane.refused(ns, name)
    plane.create(pod(ns, "percent", percent(100, gpu_model="A100")))
    plane.bound(ns, 2)
    plane.create(pod(ns, "one-percent", percent(1, gpu_model="A100")))
    assert "quota team: 312 of 312 TFLOPS (requests) used" in plane.refused(ns, "one-percent")


def test_a_pool_whose_nodes_belong_to_another_says_to_which(plane: GpuPlane, ns: str) -> None:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}
    for name in ("overlap-a", "overlap-b"):
        overlapping = pool(name, nodeManagerConfig={"nodeSelector": {"nodeSelectorTerms": [term]}})
        plane.apply(overlapping | {"metadata": {"name": name}})
    try:
        plane.create(pod(ns, "waits", vram(1, pool="overlap-b")))
        told = plane.refused(ns, "waits")
    finally:
        plane.kubectl("delete", "gpupool", "overlap-a", "overlap-b")
    assert "pool overlap-b has no nodes: of the nodes that it selects 3 belong to pool overlap-a" in told


def test_a_pod_without_our_scheduler_is_left_alone(plane: GpuPlane, ns: str) -> None:
    plain = {"metadata": {"name": "plain", "namespace": ns}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    plane.create(plain)
    (found,) = plane.bound(ns, 1)
    assert not found["metadata"].get("annotations")


def test_the_mirror_shows_who_holds_what_of_a_card(plane: GpuPlane, ns: str) -> None:
    plane.create(pod(ns, "seen", vram(4, gpu_model="T4")))
    (found,) = plane.bound(ns, 1)
    (uuid,) = cards_of(found)

    async def look(client: Client) -> dict[str, Any] | None:
        status = (await client.get(GPUS, uuid.lower()))["status"]
        return status if [one["namespace"] for one in status.get("allocations") or ()] == [ns] else None  # no earlier test's

    status = plane.until("the allocation in the GPU's status", look)
    assert status["available"] == {"tflops": "65", "vram": "12Gi"}
    assert status["isolationMode"] == "soft"
    assert [(one["namespace"], one["name"], one["vram"]) for one in status["allocations"]] == [(ns, "seen", "4Gi")]
