"""The whole platform as real pods on a real node: installed by one `pulumi up`, mutating, placing and enforcing (Part 6).

Image, kubelet, container runtime, service network and Pod Security are real; the cards are simulated below NVIDIA's interface.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pulumi_project import Project, new_project
from real_node import JOB_IMAGE, POOL, RealNodePlane
from waiting import eventually

from tensorfusion_iac.api.names import AGENT_NAMESPACE, SYSTEM_NAMESPACE, key

pytestmark = pytest.mark.cluster

PATIENCE_S = 120.0
NAMESPACE = "real-ml"
PROGRAM = f"""
import pulumi
import pulumi_kubernetes as k8s
import tensorfusion_iac as tfi

ml = k8s.core.v1.Namespace("{NAMESPACE}", metadata={{"name": "{NAMESPACE}"}})
ns = ml.metadata["name"]
inference = tfi.WorkloadProfile("inference", namespace=ns, gpupool="{POOL}",
    vgpu=tfi.VGPU(tflops_request=10, tflops_limit=80, vram_request="4Gi", qos="medium"))
chat = tfi.AnnotatedDeployment("chat", namespace=ns, image="{JOB_IMAGE}", replicas=2, workload_profile=inference,
    vgpu=tfi.VGPU(gpu_model="A100", vram_request="20Gi"), timeout_s=180)
"""


@pytest.fixture(scope="module")
def installed(real_node: RealNodePlane, real_platform: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A workload on the platform; it is gone afterwards."""
    project = new_project(real_node, tmp_path_factory.mktemp("real-workload"), "real-workload")
    project.write(PROGRAM)
    try:
        project.up()
        yield project
    finally:
        real_node.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def running(project: Project, namespace: str) -> dict[str, dict[str, Any]]:
    """The pods of a namespace that are ready and stay, by name."""
    return {
        item["metadata"]["name"]: item
        for item in project.objects("pods", namespace)
        if "deletionTimestamp" not in item["metadata"]
        and any(each["type"] == "Ready" and each["status"] == "True" for each in item["status"].get("conditions", []))
    }


def test_every_program_is_a_ready_pod_on_the_real_node(installed: Project) -> None:
    pods = {
        **running(installed, SYSTEM_NAMESPACE),
        **eventually(lambda: running(installed, AGENT_NAMESPACE), "the agent", PATIENCE_S),
    }
    programs = {item["metadata"]["labels"]["app.kubernetes.io/name"] for item in pods.values()}
    assert programs == {f"tensor-fusion-{name}" for name in ("agent", "controller", "scheduler", "webhook")}
    assert {item["spec"]["nodeName"] for item in pods.values()} == {"real-0"}


def test_the_agent_tells_of_the_nodes_cards(installed: Project, real_node: RealNodePlane) -> None:
    listed = json.loads(real_node.kubectl("get", "gpus", "-o", "json"))["items"]
    cards = [item for item in listed if item.get("status", {}).get("nodeName") == "real-0"]
    assert len(cards) == 2
    assert {item["status"]["model"] for item in cards} == {"A100_SXM_80G"}


def test_the_workload_was_mutated_placed_and_is_enforced(installed: Project) -> None:
    pods = running(installed, NAMESPACE)
    assert len(pods) == 2
    for item in pods.values():
        annotations = item["metadata"]["annotations"]
        assert item["spec"]["schedulerName"] == "tensor-fusion-scheduler"
        assert json.loads(annotations[key("resolved")])["pool"] == POOL
        assert annotations[key("gpu-ids")].startswith("GPU-")
    eventually(
        lambda: {means(installed, name) for name in pods} == {"vram=driver,compute=freezer"}, "what holds the pods", PATIENCE_S
    )


def means(project: Project, pod: str) -> str:
    annotations: dict[str, str] = project.object("pod", pod, NAMESPACE)["metadata"]["annotations"]
    return annotations.get(key("enforced-by"), "")


@pytest.mark.parametrize("program", ["webhook", "scheduler", "controller", "agent"])
def test_a_program_whose_pod_is_killed_is_back_and_works(installed: Project, real_node: RealNodePlane, program: str) -> None:
    namespace = AGENT_NAMESPACE if program == "agent" else SYSTEM_NAMESPACE
    label = f"app.kubernetes.io/name=tensor-fusion-{program}"
    before = set(running(installed, namespace))
    real_node.kubectl("delete", "pod", "-n", namespace, "-l", label, "--force", "--grace-period=0")
    eventually(
        lambda: [name for name in set(running(installed, namespace)) - before if name.startswith(f"tensor-fusion-{program}")],
        f"another {program}", PATIENCE_S,
    )  # fmt: skip


def test_after_all_that_a_new_pod_is_mutated_placed_and_runs(installed: Project, real_node: RealNodePlane) -> None:
    old = set(running(installed, NAMESPACE))
    real_node.kubectl("delete", "pod", "-n", NAMESPACE, "--all", "--wait=false")
    new = eventually(
        lambda: (found := running(installed, NAMESPACE)).keys() - old and len(found) == 2 and found, "new pods", PATIENCE_S
    )
    for item in new.values():
        assert item["metadata"]["annotations"][key("gpu-ids")].startswith("GPU-")
