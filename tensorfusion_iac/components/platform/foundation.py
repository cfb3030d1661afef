"""What stands in a cluster before any program of ours: namespaces, priority classes, the runtime class (SPEC §2, §9). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorfusion_iac.api.levels import PRIORITY
from tensorfusion_iac.api.names import AGENT_NAMESPACE, PRIORITY_CLASS_PREFIX, SYSTEM_NAMESPACE

Manifest = dict[str, Any]

PART_OF = "app.kubernetes.io/part-of"
LABELS = {PART_OF: "tensor-fusion"}
RUNTIME_CLASS = "tensor-fusion-nvidia"
"""The runtime class of the agents, and of pools that name it. Not `nvidia`, which NVIDIA's operator owns."""
_LEVEL = "pod-security.kubernetes.io"


def namespaces(system_level: str = "restricted") -> Iterator[Manifest]:
    """The two namespaces and their Pod Security levels; audits and warnings of ours stay at `restricted`.

    `system_level` is what ours enforces: a webhook in the host's network needs `privileged`.
    """
    for name, enforced, told in (
        (SYSTEM_NAMESPACE, system_level, "restricted"),
        (AGENT_NAMESPACE, "privileged", "privileged"),
    ):
        levels = {f"{_LEVEL}/enforce": enforced, f"{_LEVEL}/audit": told, f"{_LEVEL}/warn": told}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": LABELS | levels}}


def priority_classes() -> Iterator[Manifest]:
    """A priority class per QoS."""
    for qos, value in PRIORITY.items():
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": PRIORITY_CLASS_PREFIX + qos.value, "labels": LABELS},
            "value": value,
            "description": f"vGPU pods of QoS {qos.value}.",
        }


def runtime_class(handler: str) -> Manifest:
    """The container runtime that brings NVIDIA's devices into a container; `handler` is containerd's name for it."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": RUNTIME_CLASS, "labels": LABELS},
        "handler": handler,
    }
