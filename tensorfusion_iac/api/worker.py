"""`WorkerSpec`: what one vGPU worker is, after every source has been asked; and its canonical JSON (SPEC §2, `resolved`).

Scheduler, agent and controller read only this, never the user's annotations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

from tensorfusion_iac.api.levels import AutoscaleTarget, Feature, Isolation, Mode, QoS
from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.quantity import format_decimal, parse_quantity
from tensorfusion_iac.api.vendors import Vendor

RESOLVED_VERSION = 1
"""Version of the JSON in the annotation `resolved`; readers refuse a higher one."""


class Source(StrEnum):
    """Where a value came from."""

    ANNOTATION = "annotation"
    PROFILE = "profile"
    QUOTA = "quota"
    POOL = "pool"
    POD = "pod"
    OWNER = "owner"
    DERIVED = "derived"  # follows from another field: a request from its limit, a count from a list
    DEFAULT = "default"


class Unit(StrEnum):
    """What an amount of compute is counted in."""

    TFLOPS = "tflops"
    PERCENT = "percent"


class Compute(NamedTuple):
    """An amount of compute per GPU: FP16 TFLOPS, or percent of whatever card it will be."""

    unit: Unit
    value: Decimal

    def tflops_on(self, card_tflops: Decimal) -> Decimal:
        """The same amount in TFLOPS on a card with `card_tflops` (SPEC §3: percent x card / 100)."""
        return self.value if self.unit is Unit.TFLOPS else self.value * card_tflops / 100


class Gang(NamedTuple):
    """Pods that start together: how many, and how long they may wait (None: forever)."""

    min_members: int
    timeout: timedelta | None


class ProfileRef(NamedTuple):
    """The profile that was read, and its generation then."""

    name: str
    generation: int


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A resolved vGPU worker. Amounts are per GPU; `vram_*` in bytes; None means no bound (or nothing asked).

    `containers` are the injected ones, in pod order. `container_gpus` has an entry for each injected app container and
    native sidecar, in the order in which they get GPUs; None means that they share all of them.
    """

    mode: Mode
    pool: str | None
    workload: str
    qos: QoS
    priority_class: str
    isolation: Isolation
    vendor: Vendor
    gpu_count: int
    containers: tuple[str, ...]
    compute_request: Compute | None = None
    compute_limit: Compute | None = None
    vram_request_bytes: int | None = None
    vram_limit_bytes: int | None = None
    container_gpus: Mapping[str, int] | None = None
    gpu_model: str | None = None
    gpu_indices: tuple[int, ...] | None = None
    dedicated: bool = False
    partition_template: str | None = None
    profile: ProfileRef | None = None
    enabled_replicas: int | None = None
    autoscale: AutoscaleTarget | None = None
    disable_features: tuple[Feature, ...] = ()
    eviction_protection: timedelta | None = None
    gang: Gang | None = None

    @property
    def whole_card(self) -> bool:
        """Whether each GPU is charged in full: dedicated, or shared without amounts (a request of 0 asks for nothing)."""
        asks_compute = self.compute_request is not None and self.compute_request.value > 0
        asks = asks_compute or self.vram_request_bytes is not None
        return self.dedicated or (self.isolation is Isolation.SHARED and not asks)


def to_json(worker: WorkerSpec, sources: Mapping[str, Source]) -> dict[str, Any]:
    """The worker as plain JSON values; members without a value are left out."""
    document: dict[str, Any] = {
        "version": RESOLVED_VERSION,
        "mode": worker.mode.value,
        "pool": worker.pool,
        "workload": worker.workload,
        "qos": worker.qos.value,
        "priorityClass": worker.priority_class,
        "isolation": worker.isolation.value,
        "vendor": worker.vendor.value,
        "gpuCount": worker.gpu_count,
        "containers": list(worker.containers),
        "requests": _amounts(worker.compute_request, worker.vram_request_bytes),
        "limits": _amounts(worker.compute_limit, worker.vram_limit_bytes),
        "containerGPUs": None if worker.container_gpus is None else [list(pair) for pair in worker.container_gpus.items()],
        "gpuModel": worker.gpu_model,
        "gpuIndices": None if worker.gpu_indices is None else list(worker.gpu_indices),
        "dedicated": worker.dedicated or None,
        "partitionTemplate": worker.partition_template,
        "profile": {"name": worker.profile.name, "generation": worker.profile.generation} if worker.profile else None,
        "enabledReplicas": worker.enabled_replicas,
        "autoscale": worker.autoscale.value if worker.autoscale else None,
        "disableFeatures": [feature.value for feature in worker.disable_features] or None,
        "evictionProtectionSeconds": _seconds(worker.eviction_protection),
        "gang": {"minMembers": worker.gang.min_members, "timeoutSeconds": _seconds(worker.gang.timeout)} if worker.gang else None,
        "sources": {key: source.value for key, source in sources.items()},
    }
    return {key: value for key, value in document.items() if value is not None}


def canonical(document: Mapping[str, Any]) -> str:
    """Canonical JSON: sorted keys, no spaces, ASCII. Equal values give equal bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def from_json(text: str) -> WorkerSpec:
    """Read the annotation `resolved` back. Raises ValueError if it is not one, or of another version."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict) or document.get("version") != RESOLVED_VERSION:
            raise ValueError(f"not a worker spec of version {RESOLVED_VERSION}")
        return _worker(document)
    except (KeyError, TypeError, AttributeError, ArithmeticError, RecursionError, Fault) as error:
        raise ValueError(f"not a worker spec: {type(error).__name__} {error}") from error


def _worker(document: Mapping[str, Any]) -> WorkerSpec:
    requests, limits = document.get("requests", {}), document.get("limits", {})
    profile, gang, split = document.get("profile"), document.get("gang"), document.get("containerGPUs")
    autoscale, indices = document.get("autoscale"), document.get("gpuIndices")
    return WorkerSpec(
        mode=Mode(document["mode"]),
        pool=_text_or_none(document.get("pool")),
        workload=_text(document["workload"]),
        qos=QoS(document["qos"]),
        priority_class=_text(document["priorityClass"]),
        isolation=Isolation(document["isolation"]),
        vendor=Vendor(document["vendor"]),
        gpu_count=_whole(document["gpuCount"]),
        containers=tuple(_text(name) for name in _list(document["containers"])),
        compute_request=_compute(requests),
        compute_limit=_compute(limits),
        vram_request_bytes=_whole_or_none(requests.get("vram")),
        vram_limit_bytes=_whole_or_none(limits.get("vram")),
        container_gpus=None if split is None else {_text(name): _whole(count) for name, count in _list(split)},
        gpu_model=_text_or_none(document.get("gpuModel")),
        gpu_indices=None if indices is None else tuple(_whole(index) for index in _list(indices)),
        dedicated=document.get("dedicated") is True,
        partition_template=_text_or_none(document.get("partitionTemplate")),
        profile=None if profile is None else ProfileRef(_text(profile["name"]), _whole(profile["generation"])),
        enabled_replicas=_whole_or_none(document.get("enabledReplicas")),
        autoscale=None if autoscale is None else AutoscaleTarget(autoscale),
        disable_features=tuple(Feature(name) for name in _list(document.get("disableFeatures", []))),
        eviction_protection=_timedelta(document.get("evictionProtectionSeconds")),
        gang=None if gang is None else Gang(_whole(gang["minMembers"]), _timedelta(gang.get("timeoutSeconds"))),
    )


def _amounts(compute: Compute | None, vram_bytes: int | None) -> dict[str, Any] | None:
    amounts: dict[str, Any] = {}
    if compute is not None:
        amounts[compute.unit.value] = format_decimal(compute.value)
    if vram_bytes is not None:
        amounts["vram"] = vram_bytes
    return amounts or None


def _compute(amounts: Mapping[str, Any]) -> Compute | None:
    for unit in Unit:
        if unit.value in amounts:
            return Compute(unit, parse_quantity(_text(amounts[unit.value])))
    return None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _whole_or_none(value: object) -> int | None:
    return None if value is None else _whole(value)


def _seconds(value: timedelta | None) -> float | int | None:
    if value is None:
        return None
    seconds = value.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def _timedelta(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
