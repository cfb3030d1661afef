"""The policy pack run by the real engine: a preview that every rule blocks, one that passes, and the configuration's word."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pulumi_project import Project, new_project, prepare
from running_plane import ControlPlane

import tensorfusion_iac.policy
from tensorfusion_iac.policy.rules import OBJECT_RULES, WORKLOAD_RULES

pytestmark = pytest.mark.cluster

PACK = str(Path(tensorfusion_iac.policy.__file__).parent)
RULES = {rule.name for rule in (*OBJECT_RULES, *WORKLOAD_RULES)}

HEAD = """
import pulumi_kubernetes as k8s
import pulumi
import tensorfusion_iac as tfi

k8s.core.v1.Namespace("policies-prod", metadata={"name": "policies-prod"})
place = {"namespace": "policies-prod"}
FRACTION = {"tflops_request": 10, "tflops_limit": 20, "vram_request": "4Gi", "vram_limit": "8Gi"}

def chat(image="chat:1", **asked):
    tfi.AnnotatedDeployment("chat", **place, image=image, replicas=2, wait=False, vgpu=tfi.VGPU(**(FRACTION | asked)))
"""
BAD = """
chat("chat:2", qos="critical", gpu_model="A100", vram_limit="80Gi")
tfi.AnnotatedDeployment("train", **place, image="train:1", wait=False, vgpu=tfi.VGPU(dedicated_gpu=True, gpu_model="A100"),
    workload_profile="nowhere")
tfi.AnnotatedDeployment("open", **place, image="open:1", wait=False, vgpu=tfi.VGPU(vram_request="1Gi", isolation="shared"))
by_hand = {"labels": {"app": "raw", "tensor-fusion.ai/enabled": "true"}, "annotations": {"tensor-fusion.ai/qos": "urgent"}}
k8s.apps.v1.Deployment("raw", metadata=place, spec={"selector": {"match_labels": {"app": "raw"}}, "template": {
    "metadata": by_hand, "spec": {"containers": [
        {"name": "main", "image": "i:1", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]}}})
k8s.apiextensions.v1.CustomResourceDefinition("pools", metadata={"name": "gpupools.tensor-fusion.ai"}, spec={
    "group": "tensor-fusion.ai", "names": {"kind": "GPUPool", "plural": "gpupools"}, "scope": "Cluster", "versions": [
        {"name": "v1", "served": True, "storage": True, "schema": {"open_apiv3_schema": {"type": "object"}}}]})
"""
UNKNOWN = """
late = k8s.core.v1.ConfigMap("late", metadata=place)
chat(qos=late.id.apply(lambda uid: "high"))
"""
LIMITS = {
    "max-tflops": {"max": 19}, "max-vram": {"max": "7Gi"}, "max-gpus": {"max": 1}, "max-burst": {"max_ratio": 4},
    "max-cost-per-month": {"max_usd": 100}, "critical-only-in": {"namespaces": ["batch"]},
}  # fmt: skip
WIDE = {
    "max-tflops": {"max": 20}, "max-vram": {"max": "8Gi"}, "max-gpus": {"max": 2}, "max-burst": {"max_ratio": 4},
    "grey-image-changes": "disabled",
}  # fmt: skip


@pytest.fixture(scope="module")
def project(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A stack that has deployed the first image."""
    prepare(control_plane)
    made = new_project(control_plane, tmp_path_factory.mktemp("policies"), "policies")
    made.write(HEAD + "chat()\n")
    made.up()
    return made


def preview(project: Project, program: str, settings: dict[str, object]) -> tuple[int, str]:
    """Exit code and output of a preview with the pack."""
    project.write(HEAD + program)
    path = project.folder / "policies.json"
    path.write_text(json.dumps(settings))
    run = project.pulumi("preview", "--policy-pack", PACK, "--policy-pack-config", str(path))
    return run.returncode, run.stdout + run.stderr


def test_every_rule_blocks_a_preview(project: Project) -> None:
    code, shown = preview(project, BAD, LIMITS)
    assert code != 0
    assert set(re.findall(r"\[mandatory\]\s+(\S+)", shown)) == RULES, shown
    assert "Deployment policies-prod/chat: changes its image in production (chat:1 -> chat:2)" in shown
    assert "Traceback" not in shown


def test_a_good_program_passes_and_the_configuration_is_read(project: Project) -> None:
    code, shown = preview(project, 'chat("chat:2")\n', WIDE)
    assert code == 0, shown
    assert "[mandatory]" not in shown
    code, shown = preview(project, 'chat("chat:2")\n', WIDE | {"max-tflops": {"max": 19}})
    assert code != 0
    assert set(re.findall(r"\[mandatory\]\s+(\S+)", shown)) == {"max-tflops"}
    assert "asks for 20 TFLOPS (10 x 1 GPU x 2 workers), above 19" in shown


def test_a_wrong_configuration_is_refused(project: Project) -> None:
    code, shown = preview(project, "chat()\n", {"max-tflops": {"max": "many"}})
    assert code != 0
    assert "max-tflops" in shown


def test_what_is_not_known_yet_is_said_and_not_judged(project: Project) -> None:
    code, shown = preview(project, UNKNOWN, {})
    assert code == 0, shown
    assert "can't be known during preview" in shown
    assert "[advisory]" in shown
