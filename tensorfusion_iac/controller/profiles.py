"""What a running worker asks for after its profile was edited (SPEC §3, §8). Pure.

Only amounts, and only those that came from the profile when the pod was created, or followed from one that did; what an
annotation said stays. A profile's model, count, isolation and pool hold for new pods only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from tensorfusion_iac.api.resources import WorkloadSpec
from tensorfusion_iac.api.worker import Compute, Source, Unit, WorkerSpec

_UNITS = {Unit.TFLOPS: "tflops", Unit.PERCENT: "compute-percent"}


def as_edited(worker: WorkerSpec, sources: Mapping[str, str], profile: Mapping[str, Any]) -> WorkerSpec:
    """The worker with the amounts that the profile's spec gives now; the same worker if nothing of it has changed.

    An amount that the profile no longer gives stays as it was, and so does everything if the profile can't be read.
    """
    try:
        layer = WorkloadSpec.model_validate(profile).layer()
    except ValidationError:
        return worker
    request = _compute(worker.compute_request, "request", sources, layer)
    limit = _compute(worker.compute_limit, "limit", sources, layer)
    if request is not None and limit is not None and _is_derived("request", sources):
        request = limit
    vram_request, vram_limit = worker.vram_request_bytes, worker.vram_limit_bytes
    if sources.get("vram-request") == Source.PROFILE:
        vram_request = layer.get("vram-request", vram_request)
    if sources.get("vram-limit") == Source.PROFILE:
        vram_limit = layer.get("vram-limit", vram_limit)
    if sources.get("vram-request") == Source.DERIVED:
        vram_request = vram_limit
    if sources.get("vram-limit") == Source.DERIVED:
        vram_limit = vram_request
    if vram_request is not None and vram_limit is not None:
        vram_limit = max(vram_limit, vram_request)  # an annotated request stays, whatever limit the profile has now
    return replace(
        worker, compute_request=request, compute_limit=limit, vram_request_bytes=vram_request, vram_limit_bytes=vram_limit
    )


def _compute(now: Compute | None, side: str, sources: Mapping[str, str], layer: Mapping[str, Any]) -> Compute | None:
    """One side's compute: in the unit that the profile gives it in now."""
    if Source.PROFILE not in {sources.get(f"{name}-{side}") for name in _UNITS.values()}:
        return now
    given = [Compute(unit, layer[f"{name}-{side}"]) for unit, name in _UNITS.items() if f"{name}-{side}" in layer]
    return given[0] if given else now


def _is_derived(side: str, sources: Mapping[str, str]) -> bool:
    return Source.DERIVED in {sources.get(f"{name}-{side}") for name in _UNITS.values()}
