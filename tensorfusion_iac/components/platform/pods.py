"""The pods of our programs: what is the same in all of them (R9). Pure.

Non-root, no capability, a root file system that nobody can write, the runtime's seccomp profile: the Pod Security level
`restricted`, which their namespace enforces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorfusion_iac.api.names import SYSTEM_NAMESPACE
from tensorfusion_iac.components.platform.foundation import LABELS, Manifest
from tensorfusion_iac.components.platform.settings import Settings

NAME = "app.kubernetes.io/name"
USER = 65532
"""The user of the image (Dockerfile), and of everybody else's who says `nonroot`."""
TEMPORARY: Manifest = {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}
"""Private keys pass through a file there on their way into OpenSSL."""


def labels_of(program: str) -> dict[str, str]:
    """The labels of a program's pods; by the first they are found."""
    return {NAME: program, **LABELS}


def selector_of(program: str) -> Manifest:
    """Finds a program's pods."""
    return {"matchLabels": {NAME: program}}


def container(
    name: str, settings: Settings, arguments: Sequence[str], *, ports: Mapping[str, int], probes: Manifest,
    environment: Sequence[Manifest] = (), mounts: Sequence[Manifest] = (),
) -> Manifest:  # fmt: skip
    """A container of our image that runs `tensorfusion` with these arguments."""
    return {
        "name": name,
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "args": list(arguments),
        "env": [{"name": "LOG_LEVEL", "value": settings.log_level}, of_pod("POD_NAME", "metadata.name"), *environment],
        "ports": [{"name": port, "containerPort": number, "protocol": "TCP"} for port, number in ports.items()],
        **probes,
        "resources": settings.resources_of(name),
        "securityContext": locked(),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *mounts],  # noqa: S108 - the pod's own
    }


def locked(**more: Any) -> Manifest:
    """The security context of a container that may nothing; `more` goes over it."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
    } | more


def probes(scheme: str, port: str | int, ready: str = "/readyz", alive: str = "/healthz") -> Manifest:
    """Ready as the program says itself; two minutes to start, a minute of silence until it is started again."""

    def ask(path: str, period_s: int, failures: int) -> Manifest:
        return {
            "httpGet": {"path": path, "port": port, "scheme": scheme},
            "periodSeconds": period_s, "failureThreshold": failures, "timeoutSeconds": 5,
        }  # fmt: skip

    return {"startupProbe": ask(alive, 2, 60), "readinessProbe": ask(ready, 5, 2), "livenessProbe": ask(alive, 15, 4)}


def deployment(
    program: str, settings: Settings, replicas: int, containers: Sequence[Manifest], *, volumes: Sequence[Manifest] = (),
    annotations: Mapping[str, str] | None = None, host_network: bool = False,
) -> Manifest:  # fmt: skip
    """A Deployment of ours, whose service account has its name. Pods keep apart, and are replaced one by one."""
    # In the host's network two pods of one node want the same port, so that the old one has to go first.
    update = {"maxSurge": 0, "maxUnavailable": 1} if host_network else {"maxSurge": 1, "maxUnavailable": 0}
    spread = {
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector_of(program), "matchLabelKeys": ["pod-template-hash"],
    }  # fmt: skip
    pod: Manifest = {
        "serviceAccountName": program,
        "automountServiceAccountToken": True,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [spread],
        "containers": list(containers),
        "volumes": [TEMPORARY, *volumes],
        **shared_spec(settings, settings.node_selector, settings.tolerations),
    }  # fmt: skip
    if host_network:
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": program, "namespace": SYSTEM_NAMESPACE, "labels": labels_of(program)},
        "spec": {
            "replicas": replicas,
            "selector": selector_of(program),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": update},
            "template": {
                "metadata": {"labels": labels_of(program)} | ({"annotations": dict(annotations)} if annotations else {}),
                "spec": pod,
            },
        },
    }


def shared_spec(settings: Settings, nodes: Mapping[str, str], tolerations: Sequence[Mapping[str, Any]]) -> Manifest:
    """Where pods run, and by which Secrets their images are pulled."""
    spec: Manifest = {"nodeSelector": {"kubernetes.io/os": "linux", **nodes}}
    if tolerations:
        spec["tolerations"] = [dict(item) for item in tolerations]
    if settings.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    return spec


def disruption_budget(program: str) -> Manifest:
    """A drain takes one pod at a time, and is never held up by a Deployment of one replica."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": program, "namespace": SYSTEM_NAMESPACE, "labels": labels_of(program)},
        "spec": {"maxUnavailable": 1, "selector": selector_of(program), "unhealthyPodEvictionPolicy": "AlwaysAllow"},
    }


def of_pod(variable: str, path: str) -> Manifest:
    """An environment variable from a field of the pod."""
    return {"name": variable, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
