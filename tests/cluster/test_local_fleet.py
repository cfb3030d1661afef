"""The simulated nodes on a real API server: before our CRDs are there, when they come and go, and when the fleet changes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from running_plane import ControlPlane, tools
from waiting import eventually

from tensorfusion_iac.api.crd import crds
from tensorfusion_iac.api.resources.gpu import GPU, GPUNode
from tensorfusion_iac.kube.client import Object
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import CRDS, GPU_NODES, GPUS, NODES, Resource
from tensorfusion_iac.local import control_plane as door
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.state import NodeGroup

pytestmark = pytest.mark.cluster


def wish(*groups: tuple[str, int, int]) -> door.Wish:
    return door.Wish(tuple(NodeGroup(model=model, gpus_per_node=gpus, nodes=nodes) for model, gpus, nodes in groups))


FIRST = wish(("L40S", 2, 2))


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    layout = Layout.at(tmp_path_factory.mktemp("fleet"))
    door.up(layout, FIRST, tools, lambda line: None, owner_pid=os.getpid())
    yield ControlPlane(layout)
    door.purge(layout, lambda line: None)


def change(plane: ControlPlane, to: door.Wish) -> door.Up:
    return door.up(plane.layout, to, tools, lambda line: None, owner_pid=os.getpid())


def install_crds(plane: ControlPlane) -> None:
    for crd in crds():
        plane.ask(lambda client, crd=crd: client.apply(CRDS, crd, "test"))


def listed(plane: ControlPlane, resource: Resource) -> dict[str, Object]:
    """All objects of a kind by name; none if the kind is not served."""
    try:
        items = plane.ask(lambda client: client.list(resource)).items
    except ApiError as error:
        if not error.not_found:
            raise
        return {}
    return {item["metadata"]["name"]: item for item in items}


def settled(plane: ControlPlane, gpus: int) -> dict[str, Object]:
    """The GPUs, once there are so many and each has its status."""
    eventually(lambda: sum("capacity" in gpu.get("status", {}) for gpu in listed(plane, GPUS).values()) == gpus)
    return listed(plane, GPUS)


def test_gpus_appear_when_their_crds_are_installed(plane: ControlPlane) -> None:
    assert listed(plane, GPUS) == {}
    install_crds(plane)
    gpus = settled(plane, 4)
    for item in gpus.values():
        gpu = GPU.model_validate(item)
        assert gpu.status is not None
        assert gpu.status.uuid is not None
        assert gpu.metadata.name == gpu.status.uuid.lower()
        assert gpu.status.capacity is not None
        assert (gpu.status.model, gpu.status.used_by, gpu.status.phase) == ("L40S", "tensor-fusion", "Running")
    eventually(lambda: len(listed(plane, GPU_NODES)) == 2)
    for item in listed(plane, GPU_NODES).values():
        gpu_node = GPUNode.model_validate(item)
        assert gpu_node.status is not None
        assert (gpu_node.status.injection_tier, gpu_node.status.total_gpus) == ("env", 2)


def test_kubectl_shows_them(plane: ControlPlane) -> None:
    install_crds(plane)
    settled(plane, 4)
    lines = plane.kubectl("get", "gpus", "--no-headers").splitlines()
    assert len(lines) == 4
    assert all({"Running", "Healthy", "L40S", "48Gi"} <= set(line.split()) for line in lines)


def test_a_deleted_gpu_comes_back_the_same_and_the_others_are_not_touched(plane: ControlPlane) -> None:
    install_crds(plane)
    before = settled(plane, 4)
    gone = min(before)
    plane.ask(lambda client: client.delete(GPUS, gone))
    eventually(lambda: gone in listed(plane, GPUS))
    after = settled(plane, 4)
    assert after[gone]["metadata"]["uid"] != before[gone]["metadata"]["uid"]
    assert after[gone]["status"] == before[gone]["status"]
    assert all(after[name] == before[name] for name in before if name != gone)


def test_what_the_scheduler_wrote_stays(plane: ControlPlane) -> None:
    install_crds(plane)
    name, other = sorted(settled(plane, 4))[:2]
    body = {"status": {"available": {"tflops": "1", "vram": "1Gi"}}}
    plane.ask(lambda client: client.merge(GPUS, name, body, subresource="status"))
    plane.ask(lambda client: client.delete(GPUS, other))
    eventually(lambda: other in settled(plane, 4))
    assert settled(plane, 4)[name]["status"]["available"] == {"tflops": "1", "vram": "1Gi"}


def test_a_deleted_node_comes_back(plane: ControlPlane) -> None:
    uid = listed(plane, NODES)["l40s-1"]["metadata"]["uid"]
    plane.ask(lambda client: client.delete(NODES, "l40s-1"))
    eventually(lambda: listed(plane, NODES).get("l40s-1", {"metadata": {"uid": uid}})["metadata"]["uid"] != uid)
    assert not change(plane, FIRST).started  # returns when its nodes are ready


def test_gpus_come_back_after_their_crd_was_deleted(plane: ControlPlane) -> None:
    install_crds(plane)
    settled(plane, 4)
    plane.ask(lambda client: client.delete(CRDS, "gpus.tensor-fusion.ai"))
    eventually(lambda: not listed(plane, GPUS))
    eventually(lambda: "gpus.tensor-fusion.ai" not in listed(plane, CRDS))
    install_crds(plane)
    settled(plane, 4)


def test_another_fleet_replaces_the_old_one_and_a_third_up_is_a_no_op(plane: ControlPlane) -> None:
    install_crds(plane)
    kept = settled(plane, 4)
    changed = change(plane, wish(("L40S", 2, 1), ("H100_SXM", 1, 1)))
    try:
        assert not changed.started
        assert listed(plane, NODES).keys() == {"l40s-0", "h100-sxm-0"}
        gpus = settled(plane, 3)
        assert sum(kept[name]["metadata"]["uid"] == gpu["metadata"]["uid"] for name, gpu in gpus.items() if name in kept) == 2
        eventually(lambda: listed(plane, GPU_NODES).keys() == {"l40s-0", "h100-sxm-0"})
        assert change(plane, door.Wish()).nodes == 2
    finally:
        change(plane, FIRST)


def test_a_node_that_grows_says_so(plane: ControlPlane) -> None:
    change(plane, wish(("L40S", 4, 2)))
    try:
        node = listed(plane, NODES)["l40s-0"]
        assert node["metadata"]["labels"]["nvidia.com/gpu.count"] == "4"
        assert node["status"]["capacity"]["cpu"] == "48"
    finally:
        change(plane, FIRST)
