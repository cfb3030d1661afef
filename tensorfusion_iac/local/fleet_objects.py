"""What stands in the API server for a simulated node: the Node, its GPUNode and GPUs, and the heartbeat of its agent.

They say what a real node's kubelet and agent would say of such hardware (SPEC §4, §9). Facts are written apart from
what the scheduler owns (`available`), so that neither takes the other's fields.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tensorfusion_iac.api import names
from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.local.fleet import Card, FleetNode

Object = dict[str, Any]

SIMULATED_LABEL = f"{names.PREFIX}simulated"
MODEL_LABEL = f"{names.PREFIX}gpu-model"
CARDS_ANNOTATION = f"{names.PREFIX}simulated-cards"
"""Which cards a Node was last written for; by it a change of the fleet is seen to have arrived."""


SELECTOR = f"{SIMULATED_LABEL}=true"
"""Selects the objects that are made here."""

LEASE_NAMESPACE = names.AGENT_LEASE_NAMESPACE
HEARTBEAT_S = 30
LEASE_LIFE_S = 3 * HEARTBEAT_S
"""An agent that missed three heartbeats is taken for dead."""

AGENT_VERSION = "simulated"
INJECTION_TIER = "env"

_LEFT_OUT_OF_LISTS = ("apiVersion", "kind")
_NODE_NETWORK = ipaddress.ip_network("10.64.0.0/16")
_GIB = 2**30
_CPUS_PER_GPU, _MEMORY_PER_GPU_BYTES = 12, 128 * _GIB  # as the usual servers for these cards
_SYSTEM_CPU_MILLIS, _SYSTEM_MEMORY_BYTES = 500, 2 * _GIB
_MAX_PODS = 110


def node(fleet_node: FleetNode) -> Object:
    """The Node, with the labels that NVIDIA's feature discovery would give it; KWOK keeps it Ready."""
    cards = len(fleet_node.cards)
    cpus, memory_bytes = cards * _CPUS_PER_GPU, cards * _MEMORY_PER_GPU_BYTES
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


def gpu_node(fleet_node: FleetNode) -> Object:
    """The GPUNode with its status."""
    cards, model = fleet_node.cards, fleet_node.model
    capacity = {
        "tflops": format_decimal(model.tflops * len(cards)),
        "vram": format_bytes(model.vram_bytes * len(cards)),
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": "GPUNode",
        "metadata": {"name": fleet_node.name, "labels": {SIMULATED_LABEL: "true"}},
        "spec": {"manageMode": "AutoSelect"},
        "status": {
            "phase": "Running",
            "agentVersion": AGENT_VERSION,
            "injectionTier": INJECTION_TIER,
            "capacity": capacity,
            "totalGPUs": len(cards),
            "managedGPUs": len(cards),
            "managedGPUDeviceIDs": [card.uuid for card in cards],
            "totalTFlops": capacity["tflops"],
            "totalVRAM": capacity["vram"],
        },
    }


def gpu(fleet_node: FleetNode, card: Card) -> Object:
    """The GPU of one card, with the facts of its status. Its name is its UUID in lower case (SPEC §9)."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "GPU",
        "metadata": {"name": card.uuid.lower(), "labels": {SIMULATED_LABEL: "true"}},
        "status": {
            "phase": "Running",
            "health": "Healthy",
            "usedBy": "tensor-fusion",
            "uuid": card.uuid,
            "vendor": card.model.vendor,
            "model": card.model.name,
            "index": card.index,
            "numaNode": card.numa_node,
            "nodeName": fleet_node.name,
            "capacity": amounts(card),
        },
    }


def amounts(card: Card) -> dict[str, str]:
    """A whole card's compute and memory, as quantities."""
    return {"tflops": format_decimal(card.model.tflops), "vram": format_bytes(card.model.vram_bytes)}


def lease(fleet_node: FleetNode, node_uid: str, now: datetime) -> Object:
    """The heartbeat of the node's agent; it goes when the Node goes."""
    name = f"tensor-fusion-agent-{fleet_node.name}"
    owner = {"apiVersion": "v1", "kind": "Node", "name": fleet_node.name, "uid": node_uid}
    return {
        "metadata": {
            "name": name,
            "namespace": LEASE_NAMESPACE,
            "labels": {names.COMPONENT_LABEL: "agent", SIMULATED_LABEL: "true"},
            "ownerReferences": [owner],
        },
        "spec": {
            "holderIdentity": fleet_node.name,
            "leaseDurationSeconds": LEASE_LIFE_S,
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
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
    return f"{len(fleet_node.cards)} x {fleet_node.model.name}"


def _vendor_labels(fleet_node: FleetNode) -> dict[str, str]:
    model = fleet_node.model
    if model.vendor != "NVIDIA":
        return {}
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": model.name,
        "nvidia.com/gpu.count": str(len(fleet_node.cards)),
        "nvidia.com/gpu.memory": str(model.vram_bytes // 2**20),
    }
