"""What the agent reads of a pod: its cards and amounts, how they are to be held, and its containers (SPEC §2, §6).

Only the system's annotations are read (`resolved`, `effective`), never the user's keys. A pod without them, or with ones that
cannot be read, is none of ours, and is not touched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tensorfusion_iac.api.effective import Effective, from_text
from tensorfusion_iac.api.levels import Feature, Isolation, Mode, QoS
from tensorfusion_iac.api.names import key
from tensorfusion_iac.api.worker import WorkerSpec, from_json

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class CardLimits:
    """A pod's amounts on one card: compute as fractions of it, memory in bytes."""

    request: float
    limit: float
    vram_request_bytes: int
    vram_limit_bytes: int
    tflops_limit: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod on this node that holds cards. `containers`: names by container id, of those that have one."""

    uid: str
    namespace: str
    name: str
    qos: QoS
    isolation: Isolation
    cards: Mapping[str, CardLimits]
    containers: Mapping[str, str] = field(default_factory=dict)
    holds_compute: bool = True
    holds_memory: bool = True
    workload: str = ""
    cards_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Which cards each container that opens devices sees, by its name."""

    @property
    def paced(self) -> bool:
        """Whether its compute is held by the duty controller."""
        return self.isolation is Isolation.SOFT and self.holds_compute

    @property
    def memory_held(self) -> bool:
        """Whether its memory is to be held by us; a partition's is by the hardware."""
        return self.isolation in (Isolation.SOFT, Isolation.HARD) and self.holds_memory


def node_pod(pod: Mapping[str, Any]) -> NodePod | None:
    """Read a pod as the API server has it; None if it holds no card (any more)."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    annotations = metadata.get("annotations") or {}
    resolved, effective = annotations.get(key("resolved")), annotations.get(key("effective"))
    if resolved is None or effective is None or status.get("phase") in _ENDED:
        return None
    try:
        worker, amounts = from_json(resolved), from_text(effective)
    except ValueError:
        return None
    if worker.mode is Mode.REMOTE and not amounts.cards:
        return None
    return NodePod(
        metadata["uid"], metadata.get("namespace", ""), metadata["name"], worker.qos, worker.isolation,
        _cards(amounts), _containers(status),
        holds_compute=Feature.GPU_LIMITER not in worker.disable_features,
        holds_memory=Feature.MEM_MANAGER not in worker.disable_features,
        workload=worker.workload,
        cards_of=_split(annotations.get(key("container-gpus")), worker, amounts),
    )  # fmt: skip


def _cards(amounts: Effective) -> dict[str, CardLimits]:
    return {
        card.id: CardLimits(
            min(float(card.requests.percent) / 100, 1.0),
            1.0 if amounts.exclusive else min(float(card.limits.percent) / 100, 1.0),
            card.requests.vram_bytes,
            card.limits.vram_bytes,
            card.limits.tflops,
        )
        for card in amounts.cards
    }


def _split(text: str | None, worker: WorkerSpec, amounts: Effective) -> dict[str, tuple[str, ...]]:
    """The record of who sees what; where it is missing every injected container sees all."""
    try:
        found = {str(name): tuple(str(card) for card in cards) for name, cards in json.loads(text or "").items()}
    except (ValueError, AttributeError, TypeError):
        return dict.fromkeys(worker.containers, tuple(card.id for card in amounts.cards))
    return {name: cards for name, cards in found.items() if cards}


def _containers(status: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for member in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for container in status.get(member) or ():
            identifier = str(container.get("containerID") or "").rpartition("://")[2]
            if identifier:
                found[identifier] = str(container["name"])
    return found
