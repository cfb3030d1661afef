"""What the agent says of its node: `GPU`, `GPUNode` and the Lease, from facts (SPEC §4, §9). Nothing that changes by the second.

Only the agent's own fields are in them: `available`, `isolationMode`, `allocations` and `spec.partitions` are the scheduler's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from tensorfusion_iac.agent.capabilities import CardCapabilities, Injection
from tensorfusion_iac.agent.driver import Card
from tensorfusion_iac.agent.health import Health
from tensorfusion_iac.agent.pacing import Place
from tensorfusion_iac.agent.partitions import Partitioned
from tensorfusion_iac.agent.pods import NodePod
from tensorfusion_iac.api import names
from tensorfusion_iac.api.catalogue import GpuModel, by_driver_name, find
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.quantity import format_bytes, format_decimal

Object = dict[str, Any]

MANAGER = "tensor-fusion-agent"
NODE_LABEL = f"{names.PREFIX}node"
"""On each GPU object: its node's name (bounded to 63 characters), by which an agent watches its own."""
LEASE_NAMESPACE, HEARTBEAT_S, LEASE_LIFE_S = "kube-node-lease", 30, 90
ENDPOINT, CERTIFICATE = f"{names.PREFIX}agent-endpoint", f"{names.PREFIX}agent-certificate"
"""Annotations of the Lease: where the agent answers, and the certificate that it will show there (docs/decisions)."""

_POD_ROWS, _TEXT = 1024, 1024


@dataclass(frozen=True, slots=True)
class Held:
    """How pods are held now: confirmed memory limits in bytes, compute limits that cannot be kept, pods that MPS serves."""

    memory: Mapping[Place, int]
    unreachable: frozenset[Place] = frozenset()
    mps: frozenset[str] = frozenset()


def gpu_name(uuid: str) -> str:
    """The name of a card's object."""
    return uuid.lower()


def known_model(card: Card) -> GpuModel | None:
    """The catalogue's model of a card, by its driver's product name (a simulated card's is the model's own)."""
    found = by_driver_name(card.product)
    return found or next((model for model in find(card.product) if model.name == card.product), None)


def model_of(card: Card) -> tuple[str, Decimal, str]:
    """Model, FP16 TFLOPS and a warning ("" if none); a product that is not in the catalogue keeps its name, without TFLOPS."""
    known = known_model(card)
    if known is not None:
        return known.name, known.fp16_tflops, ""
    return (
        card.product,
        Decimal(0),
        f"{card.product} is not in the catalogue: its TFLOPS are not known, so no compute is given of it",
    )


def gpu_status(
    card: Card, node: str, *, health: Health, used_by: str, capabilities: CardCapabilities, partitioned: Partitioned,
    pods: Mapping[str, NodePod], held: Held,
) -> Object:  # fmt: skip
    """The agent's part of a GPU's status."""
    model, tflops, warning = model_of(card)
    message = "; ".join(text for text in (health.message, partitioned.message, warning) if text)
    status: Object = {
        "phase": "Running",
        "health": health.state.value,
        "usedBy": used_by,
        "uuid": card.uuid,
        "vendor": known.vendor.value if (known := known_model(card)) else "NVIDIA",
        "model": model[:_TEXT],
        "index": card.index,
        "nodeName": node,
        "capacity": {"tflops": format_decimal(tflops), "vram": format_bytes(card.usable_bytes)},
        "capabilities": capabilities.as_status(),
        "partitions": [
            {"template": each.template, "start": each.start, "size": each.size, "uuid": each.uuid}
            | ({"podUID": uid} if uid else {})
            for each, uid in partitioned.instances
        ],
        "pods": [
            row
            for pod in sorted(pods.values(), key=lambda each: each.uid)
            if card.uuid in pod.cards
            for row in _pod_rows(pod, card.uuid, capabilities, held)
        ][:_POD_ROWS],
        "message": message[:_TEXT],
    }  # fmt: skip
    if card.numa_node is not None:
        status["numaNode"] = card.numa_node
    if card.peers:
        status["nvLink"] = {"peers": [{"peerUUID": uuid, "linkCount": count} for uuid, count in card.peers]}
    return status


def _pod_rows(pod: NodePod, card: str, capabilities: CardCapabilities, held: Held) -> Sequence[Object]:
    limits, place = pod.cards[card], (pod.uid, card)
    vram, compute = _means(pod, place, capabilities, held)
    applied: Object = {}
    if pod.paced or compute == "mps":
        applied["tflops"] = format_decimal(limits.tflops_limit)
    if vram != "none":
        applied["vram"] = format_bytes(held.memory.get(place, limits.vram_limit_bytes))
    row: Object = {"uid": pod.uid, "enforcedBy": f"vram={vram},compute={compute}"}
    if applied:
        row["applied"] = applied
    if pod.paced:
        row["computeLimit"] = "Unreachable" if place in held.unreachable else "Held"
    names_of = [name for name, cards in pod.cards_of.items() if card in cards] or [""]
    return [row | {"container": name} for name in names_of]


def _means(pod: NodePod, place: Place, capabilities: CardCapabilities, held: Held) -> tuple[str, str]:
    """By what memory and compute are held."""
    if pod.isolation is Isolation.PARTITIONED:
        return "mig", "mig"
    vram = "none"
    if pod.memory_held:
        by_driver = capabilities.vram_limit == "driver"
        vram = ("driver" if place in held.memory else "none") if by_driver else "watch"
    if pod.paced:
        return vram, capabilities.compute_limit
    if pod.isolation is Isolation.HARD and pod.holds_compute:
        return vram, "mps" if pod.uid in held.mps else "none"
    return vram, "none"


def gpu_metadata(card: Card, node: str, node_uid: str) -> Object:
    """Name, label and owner of a card's object: it goes when its Node goes."""
    return {
        "name": gpu_name(card.uuid),
        "labels": {NODE_LABEL: names.bounded(node)},
        "ownerReferences": _owner(node, node_uid),
    }  # fmt: skip


def gpu_node_metadata(node: str, node_uid: str) -> Object:
    """Name and owner of the node's object."""
    return {"name": node, "ownerReferences": _owner(node, node_uid)}


def gpu_node_status(
    cards: Sequence[Card], used_by: Mapping[str, str], injection: Injection, version: str, cgroups: str = ""
) -> Object:
    """The status of the node's object. `cgroups`: as `describe_cgroups` has it; empty if there are none to speak of."""
    tflops = format_decimal(sum((model_of(card)[1] for card in cards), Decimal(0)))
    vram = format_bytes(sum(card.usable_bytes for card in cards))
    return {
        "phase": "Running",
        "agentVersion": version,
        "injectionTier": injection.tier,
        **({"cgroups": cgroups} if cgroups else {}),
        "capacity": {"tflops": tflops, "vram": vram},
        "totalGPUs": len(cards),
        "managedGPUs": sum(used_by.get(card.uuid) == "tensor-fusion" for card in cards),
        "managedGPUDeviceIDs": [card.uuid for card in cards],
        "totalTFlops": tflops,
        "totalVRAM": vram,
        "message": injection.advice[:_TEXT],
    }


def lease(node: str, node_uid: str, now: datetime, annotations: Mapping[str, str]) -> Object:
    """The heartbeat."""
    return {
        "metadata": {
            "name": f"{names.AGENT_LEASE_PREFIX}{node}",
            "namespace": LEASE_NAMESPACE,
            "labels": {names.COMPONENT_LABEL: "agent"},
            "annotations": dict(annotations),
            "ownerReferences": _owner(node, node_uid),
        },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": LEASE_LIFE_S,
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }


def _owner(node: str, node_uid: str) -> list[Object]:
    return [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}]
