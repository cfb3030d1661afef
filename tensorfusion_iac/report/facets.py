"""What a worker asks for as named texts, which a report compares; and which of them an unknown annotation leaves open."""

from __future__ import annotations

from collections.abc import Mapping

from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.api.worker import Compute, Unit, WorkerSpec

AMOUNTS = ("compute request", "compute limit", "VRAM request", "VRAM limit")
_COMPUTE_KEYS = tuple(f"{unit}-{side}" for unit in ("tflops", "compute-percent") for side in ("request", "limit"))
_FACET_OF = {
    **dict.fromkeys(_COMPUTE_KEYS, ("compute request", "compute limit")),
    **dict.fromkeys(("vram-request", "vram-limit"), ("VRAM request", "VRAM limit")),
    "gpu-count": ("GPUs",), "container-gpu-count": ("GPUs",), "gpu-indices": ("GPUs", "device indices"),
    "gpupool": ("pool",), "qos": ("QoS",), "gpu-model": ("GPU model",), "isolation": ("isolation",), "vendor": ("vendor",),
    "dedicated-gpu": ("whole cards", *AMOUNTS), "partition-template": ("MIG profile",), "autoscale": ("autoscaling",),
    "enabled-replicas": ("enabled replicas",), "is-local-gpu": ("GPUs are",), "standalone-worker-mode": ("GPUs are",),
}  # fmt: skip
"""Which facets an unknown annotation leaves open; an annotation that is not here leaves all of them open."""


def facets(worker: WorkerSpec) -> dict[str, str]:
    """What a worker asks for, by name, in the report's order."""
    whole = worker.whole_card
    return {
        "compute request": "the whole card" if whole else _compute(worker.compute_request, "none"),
        "compute limit": _compute(None if whole else worker.compute_limit, "the whole card"),
        "VRAM request": "the whole card" if whole else _bytes(worker.vram_request_bytes, "none"),
        "VRAM limit": _bytes(None if whole else worker.vram_limit_bytes, "the whole card"),
        "GPUs": str(worker.gpu_count),
        "pool": worker.pool or "(default)",
        "QoS": worker.qos.value,
        "GPU model": worker.gpu_model or "any",
        "whole cards": "yes" if whole else "no",
        "isolation": worker.isolation.value,
        "MIG profile": worker.partition_template or "any",
        "vendor": worker.vendor.value,
        "GPUs are": worker.mode.value,
        "device indices": "any" if worker.gpu_indices is None else ", ".join(map(str, worker.gpu_indices)),
        "autoscaling": worker.autoscale.value if worker.autoscale else "off",
        "enabled replicas": "all" if worker.enabled_replicas is None else str(worker.enabled_replicas),
        "features off": ", ".join(feature.value for feature in worker.disable_features) or "none",
        "eviction protection": str(worker.eviction_protection or "none"),
        "gang": f"{worker.gang.min_members} members" if worker.gang else "none",
        "shares workers of": worker.workload,
    }


def open_facets(unknown: tuple[str, ...], names: Mapping[str, str]) -> set[str]:
    """The facets that cannot be told as long as these annotations are unknown."""
    found: set[str] = set()
    for name in unknown:
        found |= set() if name in ("replicas", "parallelism") else set(_FACET_OF.get(name, tuple(names)))
    return found


def _compute(compute: Compute | None, without: str) -> str:
    if compute is None:
        return without
    unit = "TFLOPS" if compute.unit is Unit.TFLOPS else "% of a card"
    return f"{format_decimal(compute.value)}{'' if compute.unit is Unit.PERCENT else ' '}{unit}"


def _bytes(size: int | None, without: str) -> str:
    return without if size is None else format_bytes(size)
