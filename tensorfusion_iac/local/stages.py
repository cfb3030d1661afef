"""What KWOK plays for its nodes and pods: the least that makes a scheduler, controllers and `kubectl wait` content.

A node turns Ready and stays so; a pod that is bound runs at once; a pod of a Job ends well after a while; a deleted pod
is gone. The stages are in KWOK's own words (its Stage API, v1alpha1), in the file that `kwok --config` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

HEARTBEAT_S = 20
"""How often a node reports its conditions; the node controller gives up on it after 50 s."""

RUN_FOR_ANNOTATION = "kwok.x-k8s.io/run-for"
"""On a pod of a Job: how long it runs before it ends, as a Go duration."""

JOB_POD_RUNS_S = 1

_READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'

_OWNER_KIND = ".metadata.ownerReferences.[].kind"

_CONDITIONS = """\
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ Now | Quote }}
  lastTransitionTime: {{ or $.metadata.creationTimestamp Now | Quote }}
{{ end }}
"""

_NODE_INFO = """\
nodeInfo:
  architecture: amd64
  operatingSystem: linux
  osImage: ""
  bootID: ""
  machineID: ""
  systemUUID: ""
  kernelVersion: {{ printf "kwok-%s" Version }}
  kubeletVersion: {{ printf "kwok-%s" Version }}
  kubeProxyVersion: {{ printf "kwok-%s" Version }}
  containerRuntimeVersion: {{ printf "kwok-%s" Version }}
phase: Running
"""

_RUNNING = """\
phase: Running
startTime: {{ Now | Quote }}
hostIP: {{ index ( NodeIPsWith .spec.nodeName ) 0 | Quote }}
{{ $address := index ( PodIPsWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) \
( or .metadata.name "" ) ( or .metadata.namespace "" ) ) 0 }}
podIP: {{ $address | Quote }}
podIPs:
- ip: {{ $address | Quote }}
conditions:
{{ range $type := list "PodReadyToStartContainers" "Initialized" "ContainersReady" "Ready" }}
- type: {{ $type }}
  status: "True"
  lastTransitionTime: {{ Now | Quote }}
{{ end }}
{{ range .spec.readinessGates }}
- type: {{ .conditionType | Quote }}
  status: "True"
  lastTransitionTime: {{ Now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state:
    running:
      startedAt: {{ Now | Quote }}
{{ end }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
  {{ if eq .restartPolicy "Always" }}
  started: true
  state:
    running:
      startedAt: {{ Now | Quote }}
  {{ else }}
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ Now | Quote }}
      finishedAt: {{ Now | Quote }}
  {{ end }}
{{ end }}
"""

_SUCCEEDED = """\
phase: Succeeded
conditions:
{{ range $type := list "ContainersReady" "Ready" }}
- type: {{ $type }}
  status: "False"
  reason: PodCompleted
  lastTransitionTime: {{ Now | Quote }}
{{ end }}
containerStatuses:
{{ $started := .status.startTime }}
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $started | Quote }}
      finishedAt: {{ Now | Quote }}
{{ end }}
"""


def render() -> str:
    """All stages as YAML documents."""
    return yaml.safe_dump_all(_stages(), sort_keys=False, default_flow_style=False)


def _stages() -> list[dict[str, Any]]:
    absent = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
    return [
        _stage("node-initialize", "Node", [_where(_READY, "NotIn", "True")], _status(_CONDITIONS + _NODE_INFO)),
        _stage(
            "node-heartbeat", "Node", [_where(".status.phase", "In", "Running"), _where(_READY, "In", "True")],
            _status(_CONDITIONS),
            delay={"durationMilliseconds": HEARTBEAT_S * 1000, "jitterDurationMilliseconds": (HEARTBEAT_S + 5) * 1000},
        ),
        _stage(
            "pod-ready", "Pod",
            [absent, _where(".status.phase", "In", "Pending"), _where(_READY, "NotIn", "True")], _status(_RUNNING),
        ),
        _stage(
            "pod-complete", "Pod",
            [absent, _where(".status.phase", "In", "Running"), _where(_OWNER_KIND, "In", "Job")],
            _status(_SUCCEEDED),
            delay={
                "durationMilliseconds": JOB_POD_RUNS_S * 1000,
                "durationFrom": {"expressionFrom": f'.metadata.annotations["{RUN_FOR_ANNOTATION}"]'},
            },
        ),
        _stage(
            "pod-delete", "Pod", [{"key": ".metadata.deletionTimestamp", "operator": "Exists"}],
            {"delete": True},  # finalizers are others' business: Jobs count by one
        ),
    ]  # fmt: skip


def _stage(
    name: str,
    kind: str,
    expressions: list[dict[str, Any]],
    following: Mapping[str, Any],
    delay: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": expressions},
        "next": dict(following),
    }
    if delay:
        spec["delay"] = dict(delay)
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def _where(key: str, operator: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": [value]}


def _status(template: str) -> dict[str, Any]:
    return {"statusTemplate": template}
