"""The amounts that a worker asks for, from several sources: compute and memory, request and limit (SPEC §3).

Compute is one field per side, in TFLOPS or percent: an annotated percentage replaces a profile's TFLOPS. Then a missing
request is the limit, a missing memory limit is the memory request, and a missing compute limit is the whole card.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.api.annotations import below_request
from tensorfusion_iac.api.fields import AMOUNTS
from tensorfusion_iac.api.problem import Problem
from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.api.worker import Compute, Source, Unit

Layers = Sequence[tuple[Source, Mapping[str, Any]]]
_UNITS = ((Unit.TFLOPS, "tflops"), (Unit.PERCENT, "compute-percent"))


@dataclass(frozen=True, slots=True)
class Asked:
    """Amounts per GPU. `vram_*` in bytes. None: not bounded (limit), or not asked for (request)."""

    compute_request: Compute | None = None
    compute_limit: Compute | None = None
    vram_request: int | None = None
    vram_limit: int | None = None
    dedicated: bool = False

    @property
    def nothing(self) -> bool:
        """Whether neither compute nor memory is asked for; a compute request of 0 asks for nothing."""
        return self.vram_request is None and (self.compute_request is None or self.compute_request.value == 0)


def resolve_amounts(
    layers: Layers,
    dedicated: bool,
    sources: dict[str, Source],
    problems: list[Problem],
    where: Callable[[str, Source | None], str],
) -> Asked:
    """The amounts by precedence of `layers`; notes each one's source, and a limit below its request."""
    if dedicated:
        _dedicated(layers, sources, problems)
        return Asked(dedicated=True)
    request, request_from = _compute(layers, "request", sources)
    limit, limit_from = _compute(layers, "limit", sources)
    vram_request, vram_request_from = _vram(layers, "vram-request", sources)
    vram_limit, vram_limit_from = _vram(layers, "vram-limit", sources)
    if request is None and limit is not None:
        request = limit
        sources[_key(limit, "request")] = Source.DERIVED
    elif (
        request is not None and limit is not None and limit_from is not request_from and _is_below(limit, request)
    ):  # of one source, it was said there
        found = below_request(_what(limit), format_decimal(limit.value), format_decimal(request.value))
        problems.append(_at(found, where(found.field, limit_from)))
    if vram_request is None and vram_limit is not None:
        vram_request = vram_limit
        sources["vram-request"] = Source.DERIVED
    elif vram_limit is None and vram_request is not None:
        vram_limit = vram_request
        sources["vram-limit"] = Source.DERIVED
    elif (
        vram_request is not None
        and vram_limit is not None
        and vram_limit < vram_request
        and vram_limit_from is not vram_request_from
    ):
        found = below_request("vram", format_bytes(vram_limit), format_bytes(vram_request))
        problems.append(_at(found, where(found.field, vram_limit_from)))
    return Asked(request, limit, vram_request, vram_limit)


def _dedicated(layers: Layers, sources: Mapping[str, Source], problems: list[Problem]) -> None:
    """Whole cards: a profile's amounts are replaced, an annotation's beside a profile's `dedicatedGPU` are a contradiction."""
    annotated = next((layer for source, layer in layers if source is Source.ANNOTATION), {})
    amounts = [key for key in AMOUNTS if key in annotated]
    if sources.get("dedicated-gpu") is Source.PROFILE and amounts:
        problems.append(
            Problem(
                amounts[0], "an amount", 'dedicated-gpu: "false"',
                "{found} beside the profile's dedicatedGPU, which takes whole cards; set {accepted} to ask for a part",
            )
        )  # fmt: skip


def _compute(layers: Layers, side: str, sources: dict[str, Source]) -> tuple[Compute | None, Source | None]:
    for source, layer in layers:
        for unit, what in _UNITS:
            value = layer.get(f"{what}-{side}")
            if value is not None:
                sources[f"{what}-{side}"] = source
                return Compute(unit, value), source
    return None, None


def _vram(layers: Layers, key: str, sources: dict[str, Source]) -> tuple[int | None, Source | None]:
    for source, layer in layers:
        value = layer.get(key)
        if value is not None:
            sources[key] = source
            return value, source
    return None, None


def _is_below(limit: Compute, request: Compute) -> bool:
    """Mixed units are judged per card, by the scheduler."""
    return limit.unit is request.unit and limit.value < request.value


def _what(compute: Compute) -> str:
    return "tflops" if compute.unit is Unit.TFLOPS else "compute-percent"


def _key(compute: Compute, side: str) -> str:
    return f"{_what(compute)}-{side}"


def _at(problem: Problem, field: str) -> Problem:
    return Problem(field, problem.found, problem.accepted, problem.message)
