"""The component plugin on a real API server: a program in Pulumi YAML deploys every component, and the same objects as the
equal Python program (stacks/yaml, same_as_yaml.py).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi_project import Project, new_project, prepare
from running_plane import ControlPlane, tools

from tensorfusion_iac.local import control_plane as door
from tensorfusion_iac.local import pulumi_home
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.toolchain import ensure, link

pytestmark = pytest.mark.cluster

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAM = CHECKOUT / "stacks" / "yaml" / "Pulumi.yaml"

NAMESPACED = ("deployments", "statefulsets", "jobs", "cronjobs", "configmaps", "workloadprofiles", "tensorfusionworkloads",
              "serviceaccounts", "roles", "rolebindings")  # fmt: skip
CLUSTER_WIDE = (
    "customresourcedefinitions", "gpupools", "priorityclasses", "clusterroles", "clusterrolebindings", "namespaces",
    "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
)  # fmt: skip
REMOVED = ("deployment/chat", "statefulset/search", "job/train", "cronjob/nightly", "workloadprofile/inference",
           "tensorfusionworkload/shared", "gpupool/pool")  # fmt: skip


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own, with pulumi and the host of YAML programs."""
    layout = Layout.at(tmp_path_factory.mktemp("languages") / "plane")
    door.up(layout, door.Wish(), tools, lambda line: None, owner_pid=os.getpid())
    try:
        prepare(ControlPlane(layout))
        link(pulumi_home.bin_dir(layout), ensure(["pulumi-language-yaml"]))
        yield ControlPlane(layout)
    finally:
        door.purge(layout, lambda line: None)


@pytest.fixture(scope="module")
def components(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin as in a checkout whose `make setup` made the Python that runs these tests."""
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(CHECKOUT / "components", root / "components", ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".venv").symlink_to(sys.prefix)
    return root / "components"


def in_yaml(project: Project, components: Path, resources: Mapping[str, Any] | None = None) -> None:
    """Make the project one in YAML: that of stacks/yaml, or these resources."""
    program = yaml.safe_load(PROGRAM.read_text())
    if resources is not None:
        program = {"runtime": "yaml", "resources": resources}
    program |= {"name": project.folder.name, "packages": {"tensorfusion": str(components)}}
    (project.folder / "Pulumi.yaml").write_text(yaml.safe_dump(program, sort_keys=False))


def in_python(project: Project, program: Path) -> None:
    (project.folder / "Pulumi.yaml").write_text(f"name: {project.folder.name}\nruntime: python\n")
    project.write(program.read_text())


def objects(plane: ControlPlane) -> dict[str, Any]:
    """What pulumi declared on the server, by kind, namespace and name: without what the server or a controller wrote."""
    listed = [
        *json.loads(plane.kubectl("get", ",".join(NAMESPACED), "--all-namespaces", *_WHOLE))["items"],
        *json.loads(plane.kubectl("get", ",".join(CLUSTER_WIDE), *_WHOLE))["items"],
    ]
    return {
        "/".join((item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])): _declared(item)
        for item in listed
        if any(entry["manager"].startswith("pulumi") for entry in item["metadata"].get("managedFields", []))
    }


_WHOLE = ("--show-managed-fields", "-o", "json")


def _declared(item: dict[str, Any]) -> dict[str, Any]:
    metadata = item["metadata"]
    for written in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        metadata.pop(written, None)
    metadata.get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
    item.pop("status", None)
    if item["kind"] == "Job":  # the server makes a selector of the object's uid
        item["spec"].pop("selector")
        for labels in (metadata.get("labels", {}), item["spec"]["template"]["metadata"]["labels"]):
            labels.pop("controller-uid", None)
            labels.pop("batch.kubernetes.io/controller-uid", None)
    return item


def test_yaml_deploys_every_component_and_the_same_objects_as_python(
    plane: ControlPlane, components: Path, tmp_path: Path
) -> None:
    webhook_url = door.up(plane.layout, door.Wish(), tools, lambda line: None).webhook_url
    project = new_project(plane, tmp_path, "languages")
    in_yaml(project, components)
    project.ok("config", "set", "webhookUrl", webhook_url)
    project.up()
    by_yaml = objects(plane)
    kinds = {name.partition("/")[0] for name in by_yaml}
    assert {"GPUPool", "WorkloadProfile", "TensorFusionWorkload", "Deployment", "StatefulSet", "Job", "CronJob"} <= kinds
    assert {"MutatingWebhookConfiguration", "CustomResourceDefinition", "ValidatingAdmissionPolicy"} <= kinds
    assert project.outputs()["chat"] == {"workers": 1, "gpuModel": "L40S", "qos": "high", "workloadProfile": "inference"}
    annotations = by_yaml["Job/default/train"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["tensor-fusion.ai/tflops-request"] == "62.5"
    assert json.loads(annotations["tensor-fusion.ai/container-gpu-count"]) == {"trainer": 3, "evaluator": 1}

    in_python(project, CHECKOUT / "tests" / "cluster" / "same_as_yaml.py")
    project.ok("preview", "--expect-no-changes")  # the engine itself finds the same resources with the same inputs
    plane.kubectl("delete", "--namespace", "default", "--wait", *REMOVED)
    assert not {"Deployment/default/chat", "Job/default/train", "GPUPool//pool"} & set(objects(plane))
    project.ok("up", "--yes", "--skip-preview", "--refresh")
    by_python = objects(plane)
    assert set(by_python) == set(by_yaml)
    assert by_python == by_yaml


def test_a_mistake_in_another_language_is_refused_under_that_language_s_names(
    plane: ControlPlane, components: Path, tmp_path: Path
) -> None:
    project = new_project(plane, tmp_path, "mistakes")
    vgpu = {"vramRequest": "4Gi", "vramLimit": "2Gi", "qos": "urgent"}
    chat = {"type": "tensorfusion:AnnotatedDeployment", "properties": {"image": "app:1", "vgpu": vgpu}}
    in_yaml(project, components, {"chat": chat})
    shown = project.refused("preview")
    assert "warning" not in shown
    assert shown.count("2Gi is below vramRequest 4Gi; give at least 4Gi, or leave it out") == 1
    assert "property vgpu.vramLimit" in shown
    assert 'property vgpu.qos with value "urgent" has a problem: "urgent" is not one of low, medium, high, critical' in shown

    vgpu = {"vramRequest": "4Gi", "vramLimit": {"fn::secret": "2Gi"}}
    in_yaml(project, components, {"chat": {**chat, "properties": {"image": "app:1", "vgpu": vgpu}}})
    shown = project.refused("preview")
    assert "property vgpu.vramLimit with value <secret> has a problem" in shown
    assert "2Gi" not in shown


def test_the_pulumi_command_reads_the_golden_schema(plane: ControlPlane, components: Path, tmp_path: Path) -> None:
    project = new_project(plane, tmp_path, "schema")
    served = json.loads(project.ok("package", "get-schema", str(components)))
    golden = json.loads((CHECKOUT / "tests" / "golden" / "schema.json").read_text())
    assert served["types"] == golden["types"]
    assert set(served["resources"]) == set(golden["resources"])
    for token, resource in golden["resources"].items():
        assert served["resources"][token].get("inputProperties", {}) == resource["inputProperties"], token
