"""`tensorfusion import` of what `kubectl get -o yaml` gives: the program is the one that the manifest itself makes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from running_plane import ControlPlane
from typer.testing import CliRunner

from tensorfusion_iac.api import ENABLED_LABEL, key
from tensorfusion_iac.cli import app

pytestmark = pytest.mark.cluster

SPACE = "imported"
PROBE = {"httpGet": {"path": "/", "port": 8000}}
CONTAINER: dict[str, Any] = {
    "name": "main", "image": "registry.example/app:1", "ports": [{"containerPort": 8000}], "livenessProbe": PROBE,
    "startupProbe": {"grpc": {"port": 8000}}, "lifecycle": {"preStop": PROBE},
    "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}, {"name": "A", "value": "b"}],
    "volumeMounts": [{"name": "configured", "mountPath": "/etc/a"}],
}  # fmt: skip
VOLUMES: list[dict[str, Any]] = [
    {"name": "configured", "configMap": {"name": "a"}},
    {"name": "hidden", "secret": {"secretName": "a", "defaultMode": 256}},
    {"name": "host", "hostPath": {"path": "/mnt"}},
    {"name": "scratch", "emptyDir": {}},
    {"name": "about", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
]


def template(image: str = "registry.example/app:1", **spec: Any) -> dict[str, Any]:
    containers = [{**CONTAINER, "image": image}, {"name": "side", "image": "side", "imagePullPolicy": "IfNotPresent"}]
    return {
        "metadata": {
            "labels": {"app": "it", ENABLED_LABEL: "true"},
            "annotations": {key("vram-request"): "1Gi", key("inject-container"): "main"},
        },
        "spec": {"containers": containers, "volumes": VOLUMES, "serviceAccountName": "runs", **spec},
    }


def item(api_version: str, kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": SPACE}, "spec": spec}


SELECTOR = {"matchLabels": {"app": "it"}}
CLAIM = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
OBJECTS = [
    item("apps/v1", "Deployment", "plain", replicas=0, selector=SELECTOR, template=template()),
    item("apps/v1", "Deployment", "chosen", replicas=0, selector=SELECTOR, revisionHistoryLimit=2, progressDeadlineSeconds=60,
         strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
         template=template("registry.example/app", dnsPolicy="Default", terminationGracePeriodSeconds=0,
                           securityContext={"runAsUser": 7})),
    item("apps/v1", "StatefulSet", "held", replicas=0, selector=SELECTOR, serviceName="held", volumeClaimTemplates=[CLAIM],
         template=template()),
    item("apps/v1", "DaemonSet", "everywhere", selector=SELECTOR, template=template(nodeSelector={"no": "such-node"})),
    item("batch/v1", "Job", "single", suspend=True, template=template(restartPolicy="Never")),
    item("batch/v1", "Job", "queue", suspend=True, parallelism=1, template=template(restartPolicy="Never")),
    item("batch/v1", "Job", "many", suspend=True, completions=3, template=template(restartPolicy="OnFailure")),
    item("batch/v1", "CronJob", "nightly", schedule="0 3 * * *", suspend=True,
         jobTemplate={"spec": {"backoffLimit": 2, "template": template(restartPolicy="Never")}}),
]  # fmt: skip


def imported(manifest: str) -> str:
    """The program, without the comments on what is left out."""
    result = CliRunner().invoke(app, ["import", "-f", "-"], input=manifest)
    assert result.exit_code == 0, result.output
    return "".join(line for line in result.stdout.splitlines(keepends=True) if not line.startswith("#"))


def test_what_the_server_fills_in_is_left_out(control_plane: ControlPlane) -> None:
    control_plane.kubectl("create", "namespace", SPACE)
    try:
        control_plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(OBJECTS))
        for written in OBJECTS:
            kind, name = written["kind"], written["metadata"]["name"]
            given = control_plane.kubectl("get", kind, name, "-n", SPACE, "-o", "yaml", "--show-managed-fields")
            assert imported(given) == imported(yaml.safe_dump(written)), f"{kind} {name}"
    finally:
        control_plane.kubectl("delete", "namespace", SPACE, "--wait=false")
