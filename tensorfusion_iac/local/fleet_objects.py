"""The Node object of a simulated node: what a kubelet and NVIDIA's feature discovery would say of such hardware.

It says which cards the node has, from which its simulated agent makes all the rest (`agent/simulated_program`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from tensorfusion_iac.agent.simulated_cards import CARDS_ANNOTATION, SIMULATED_LABEL, cards_text
from tensorfusion_iac.api import names
from tensorfusion_iac.api.quantity import format_bytes
from tensorfusion_iac.local.fleet import FleetNode

Object = dict[str, Any]

MODEL_LABEL = f"{names.PREFIX}gpu-model"

_LEFT_OUT_OF_LISTS = ("apiVersion", "kind")
_NODE_NETWORK = ipaddress.ip_network("10.64.0.0/16")
_GIB = 2**30
_CPUS_PER_GPU, _MEMORY_PER_GPU_BYTES = 12, 128 * _GIB  # as the usual servers for these cards
_SYSTEM_CPU_MILLIS, _SYSTEM_MEMORY_BYTES = 500, 2 * _GIB
_MAX_PODS = 110


def node(fleet_node: FleetNode) -> Object:
    """The Node, with the labels that NVIDIA's feature discovery would give it; KWOK keeps it Ready."""
    cpus, memory_bytes = fleet_node.gpus * _CPUS_PER_GPU, fleet_node.gpus * _MEMORY_PER_GPU_BYTES
    storage = {"ephemeral-storage": "1Ti", "pods": str(_MAX_PODS)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": fleet_node.name,
            "annotations": {"kwok.x-k8s.io/node": "fake", CARDS_ANNOTATION: _cards(fleet_node)},
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": fleet_node.name,
                "node-role.kubernetes.io/gpu": "",
                SIMULATED_LABEL: "true",
                MODEL_LABEL: fleet_node.model.name,
                **_vendor_labels(fleet_node),
            },
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": str(_NODE_NETWORK[fleet_node.ordinal + 1])},
                {"type": "Hostname", "address": fleet_node.name},
            ],
            "capacity": {"cpu": str(cpus), "memory": format_bytes(memory_bytes), **storage},
            "allocatable": {
                "cpu": f"{cpus * 1000 - _SYSTEM_CPU_MILLIS}m",
                "memory": format_bytes(memory_bytes - _SYSTEM_MEMORY_BYTES),
                **storage,
            },
        },
    }


def covers(present: object, wanted: object) -> bool:
    """Whether `present` says everything that `wanted` says; it may say more, in mappings at any depth."""
    if isinstance(present, Mapping) and isinstance(wanted, Mapping):
        told = {key: value for key, value in wanted.items() if key not in _LEFT_OUT_OF_LISTS}
        return all(key in present and covers(present[key], value) for key, value in told.items())
    return present == wanted


def is_ready(fleet_node: FleetNode, present: Object | None) -> bool:
    """Whether a simulated node is there with its cards, Ready and open for pods. Users may edit what else it says."""
    if present is None or present["metadata"].get("annotations", {}).get(CARDS_ANNOTATION) != _cards(fleet_node):
        return False
    conditions = present["status"].get("conditions") or []
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    taints = present["spec"].get("taints") or []
    return ready and not any(taint["key"].startswith("node.kubernetes.io/") for taint in taints)


def _cards(fleet_node: FleetNode) -> str:
    return cards_text(fleet_node.gpus, fleet_node.model.name)


def _vendor_labels(fleet_node: FleetNode) -> dict[str, str]:
    model = fleet_node.model
    if model.vendor != "NVIDIA":
        return {}
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": model.name,
        "nvidia.com/gpu.count": str(fleet_node.gpus),
        "nvidia.com/gpu.memory": str(model.vram_bytes // 2**20),
    }
