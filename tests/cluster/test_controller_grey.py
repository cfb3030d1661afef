"""A grey release that a deletion left one short is made exact again by the controller, beside the real webhook (SPEC §5, R4)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from running_controller import access, controlled
from running_plane import ControlPlane
from running_webhook import apply

from tensorfusion_iac.api import ENABLED_LABEL, key
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.resource import PODS

pytestmark = pytest.mark.cluster
SPACE = "grey-upkeep"
PATIENCE_S = 150.0


def deployment(replicas: int, wanted: int) -> dict[str, Any]:
    annotations = {key("vram-request"): "1Gi", key("enabled-replicas"): str(wanted)}
    template = {
        "metadata": {"labels": {ENABLED_LABEL: "true", "app": "grey"}, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "app"}], "terminationGracePeriodSeconds": 0},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "grey"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "grey", "namespace": SPACE}, "spec": spec}


def live(plane: ControlPlane) -> tuple[list[str], list[str]]:
    """Names of the live enabled pods, and of the others."""

    async def of_space(client: Client) -> list[dict[str, Any]]:
        return (await client.list(PODS, SPACE)).items

    pods = [item for item in plane.ask(of_space) if "deletionTimestamp" not in item["metadata"]]
    enabled = [item["metadata"]["name"] for item in pods if key("resolved") in item["metadata"]["annotations"]]
    return enabled, [item["metadata"]["name"] for item in pods if item["metadata"]["name"] not in enabled]


def until(plane: ControlPlane, enabled: int, others: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = live(plane)
        if (len(found[0]), len(found[1])) == (enabled, others):
            return
        time.sleep(0.3)
    raise AssertionError(f"{live(plane)} and not {enabled} enabled and {others} others")


def test_a_release_that_is_one_short_is_made_exact_again(admission: ControlPlane, tmp_path: Path) -> None:
    apply(admission, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    try:
        with controlled(access(admission, tmp_path)) as controller:
            apply(admission, deployment(2, 2))
            until(admission, 2, 0)
            # Its claim is young, so its slot is held: a pod that takes its place within half a minute runs as written.
            newest = sorted(live(admission)[0])
            admission.kubectl("delete", "pod", "-n", SPACE, *newest)
            time.sleep(1.0)
            short = live(admission)
            until(admission, 2, 0)
            evicted = controller.writes().get("Eviction", 0)
            assert evicted == len(short[1]), "as many evictions as pods that ran as written"
            assert evicted >= 1, "the test did not get the release out of balance"
    finally:
        admission.kubectl("delete", "namespace", SPACE, "--wait=false")
