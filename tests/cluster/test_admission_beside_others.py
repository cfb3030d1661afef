"""Another webhook changes pods after ours, and the API server asks ours again: nothing is lost, and what is new is seen."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from foreign_webhook import LABEL, sidecars
from running_plane import ControlPlane
from running_webhook import apply, pod, resolved, tried

from tensorfusion_iac.api import ENABLED_LABEL, key
from tensorfusion_iac.kube.errors import ApiError

pytestmark = pytest.mark.cluster

SPACE = "beside-tests"
GPUS = {"name": "main", "image": "app:1", "resources": {"limits": {"nvidia.com/gpu": 2}}}


@pytest.fixture(scope="module")
def plane(admission: ControlPlane) -> Iterator[ControlPlane]:
    apply(admission, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    with sidecars(admission):
        time.sleep(1)  # the API server has to see the configuration
        yield admission
    admission.kubectl("delete", "namespace", SPACE, "--wait=false")


def labelled(annotations: dict[str, str], *containers: dict[str, Any]) -> dict[str, Any]:
    item = pod(annotations, *containers, namespace=SPACE)
    item["metadata"]["labels"][LABEL] = "true"
    return item


@pytest.mark.parametrize(
    "annotations",
    [
        {"vram-request": "1Gi"},
        {"vram-request": "1Gi", "isolation": "hard"},
        {"vram-request": "1Gi", "gpupool": "images", "standalone-worker-mode": "true"},
        {"vram-request": "1Gi", "gpupool": "images", "is-local-gpu": "false"},
    ],
    ids=["local", "hard", "standalone", "remote"],
)
def test_the_sidecar_of_another_webhook_sees_no_device(plane: ControlPlane, annotations: dict[str, str]) -> None:
    found = plane.ask(lambda client: tried(client, labelled(annotations, GPUS)))
    worker = resolved(found)
    assert not isinstance(found, ApiError)
    assert (worker["containers"], worker["gpuCount"], worker["sources"]["gpu-count"]) == (["main"], 2, "pod")
    main, proxy = found["spec"]["containers"]
    assert proxy["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, {"name": "MODE", "value": "mesh"}]
    assert "nvidia.com/gpu" not in json.dumps(main)


def test_a_grey_release_takes_one_slot_for_a_pod_that_is_asked_about_twice(plane: ControlPlane) -> None:
    marks = {ENABLED_LABEL: "true", LABEL: "true", "app": "twice"}
    template = {
        "metadata": {"labels": marks, "annotations": {key("vram-request"): "1Gi", key("enabled-replicas"): "3"}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}], "terminationGracePeriodSeconds": 0},
    }
    spec = {"replicas": 6, "selector": {"matchLabels": {"app": "twice"}}, "template": template}
    apply(plane, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "twice", "namespace": SPACE}, "spec": spec})
    end = time.monotonic() + 30
    while time.monotonic() < end:
        pods = json.loads(plane.kubectl("get", "pods", "-n", SPACE, "-l", "app=twice", "-o", "json"))["items"]
        if len(pods) == 6:
            break
        time.sleep(0.3)
    on = [item for item in pods if key("resolved") in item["metadata"]["annotations"]]
    assert len(pods) == 6
    assert len(on) == 3
    assert all(len(item["spec"]["containers"]) == 2 for item in pods)
    assert len({item["metadata"]["annotations"][key("grey")] for item in on}) == 3
