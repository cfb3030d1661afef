"""Facts of a card and of its node that placement goes by: values, read from the agents' `GPU` and `GPUNode` objects (SPEC §4).

What an agent did not say is taken for the usual case (healthy, ours, able), so that objects of the public operator work;
what it did say is believed. A sick card, or one that another system uses, stays in the books and takes nothing new (SPEC §7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.api.catalogue import MigGeometry, find, model_of
from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.quantity import parse_quantity
from tensorfusion_iac.api.vendors import Vendor, parse_vendor
from tensorfusion_iac.planning.units import mflops_down

_OURS, _RUNNING, _HEALTHY = "tensor-fusion", "Running", "Healthy"


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance that exists on a card, or that is wanted there: template, first memory slot, slots, UUID if it exists."""

    template: str
    start: int
    size: int
    uuid: str = ""
    pod_uid: str = ""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """One card. `uuid` is the driver's, verbatim; `index` the driver's, -1 if not told; `peers` are linked by NVLink."""

    uuid: str
    node: str
    model: str
    vendor: Vendor
    capacity_mflops: int
    capacity_vram_bytes: int
    index: int = -1
    numa_node: int = -1
    healthy: bool = True
    ours: bool = True
    geometry: MigGeometry | None = None
    hard: bool = True
    vram_seen: bool = False
    """Whether a container sees its memory limit as the card's total (the driver holds it)."""
    peers: frozenset[str] = frozenset()
    instances: tuple[Instance, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node: its pool, whether devices can reach containers there, and whether its agent is alive."""

    pool: str | None = None
    injection: bool = True
    live: bool = True


def read_card(gpu: Mapping[str, Any]) -> CardFacts | None:
    """A card from a `GPU` object; None if the object does not say yet which card, of what size, on which node it is."""
    status = gpu.get("status") or {}
    uuid, node, capacity = status.get("uuid"), status.get("nodeName"), status.get("capacity") or {}
    if not uuid or not node:
        return None
    try:
        mflops = mflops_down(parse_quantity(str(capacity["tflops"])))
        vram = int(parse_quantity(str(capacity["vram"])))
    except (KeyError, Fault):
        return None
    model = status.get("model") or status.get("gpuModel") or ""
    able = status.get("capabilities") or {}
    return CardFacts(
        uuid=uuid,
        node=node,
        model=model,
        vendor=parse_vendor(status.get("vendor") or "") or Vendor.NVIDIA,
        capacity_mflops=mflops,
        capacity_vram_bytes=vram,
        index=status.get("index", -1),
        numa_node=status.get("numaNode", -1),
        healthy=status.get("phase", _RUNNING) == _RUNNING and status.get("health", _HEALTHY) == _HEALTHY,
        ours=status.get("usedBy", _OURS) == _OURS,
        geometry=None if able.get("mig") is False else geometry_of(model),
        hard=able.get("mps") is not False and able.get("computeLimit") != "none",
        vram_seen=able.get("vramLimit") == "driver",
        peers=_peers(status.get("nvLink")),
        instances=tuple(_instances(status.get("partitions"))),
    )


def geometry_of(model: str) -> MigGeometry | None:
    """How a card of that model can be cut; None if it cannot, or is not in the catalogue."""
    known = model_of(model)
    return known.mig if known else None


def cards_named(gpu_model: str | None) -> tuple[CardFacts, ...]:
    """A card of each model that `gpu-model` may mean, of the catalogue's size; none without a model, or of an unknown one."""
    return tuple(
        CardFacts("", "", model.name, model.vendor, mflops_down(model.fp16_tflops), model.nominal_vram_bytes, geometry=model.mig)
        for model in (find(gpu_model) if gpu_model else ())
    )


def _peers(links: object) -> frozenset[str]:
    """UUIDs at the other ends of a card's NVLinks, from `GPU.status.nvLink`."""
    peers = links.get("peers") if isinstance(links, Mapping) else None
    return frozenset(peer["peerUUID"] for peer in peers or () if isinstance(peer, Mapping) and peer.get("peerUUID"))


def _instances(partitions: Iterable[Mapping[str, Any]] | None) -> Iterable[Instance]:
    for part in partitions or ():
        yield Instance(
            part.get("template", ""),
            part.get("start", 0),
            part.get("size", 1),
            part.get("uuid", ""),
            part.get("podUID", "") or "",
        )
