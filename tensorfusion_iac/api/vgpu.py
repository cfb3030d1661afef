"""`VGPUSpec`: every user annotation as one typed, frozen model; the same values both ways (SPEC §2).

For programs that hold plain values (cdk8s, scripts, tests). Programs with Pulumi Outputs use
`tensorfusion_iac.VGPU`, which defers what is not known yet and validates with the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from tensorfusion_iac.api.annotations import (
    annotation_naming,
    one_source_problems,
    parse_annotations,
    read_value,
    write_annotations,
)
from tensorfusion_iac.api.fields import BY_KEY, FIELDS
from tensorfusion_iac.api.levels import AutoscaleTarget, Feature, Isolation, QoS
from tensorfusion_iac.api.problem import Fault, Problem, SpecProblems
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.written import as_text

_KEYS = {row.argument: row.key for row in FIELDS}


class VGPUSpec(BaseModel):
    """The user's annotations as values. None means: not annotated. Amounts are per vGPU worker per GPU device.

    Takes what annotations take, as text or as Python values. Raises pydantic's ValidationError with every problem, each at
    its argument; `problems_of` turns one into Problem values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tflops_request: Decimal | None = None
    tflops_limit: Decimal | None = None
    vram_request: int | None = None
    vram_limit: int | None = None
    compute_percent_request: Decimal | None = None
    compute_percent_limit: Decimal | None = None
    inject_container: tuple[str, ...] | None = None
    qos: QoS | None = None
    is_local_gpu: bool | None = None
    gpu_count: int | None = None
    gpupool: str | None = None
    vendor: Vendor | None = None
    gpu_model: str | None = None
    dedicated_gpu: bool | None = None
    isolation: Isolation | None = None
    gpu_indices: tuple[int, ...] | None = None
    container_gpu_count: dict[str, int] | None = None
    workload: str | None = None
    workload_profile: str | None = None
    enabled_replicas: int | None = None
    autoscale: bool | None = None
    autoscale_target: AutoscaleTarget | None = None
    standalone_worker_mode: bool | None = None
    disable_features: tuple[Feature, ...] | None = None
    partition_template: str | None = None
    eviction_protection: timedelta | None = None
    gang_min_members: int | None = None
    gang_timeout: timedelta | None = None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        """Read all arguments by the table, and hold them against each other, before pydantic sees any of them."""
        if not isinstance(given, Mapping):
            return given
        values, problems = _read_arguments(given)
        problems += one_source_problems(values)
        if problems:
            details = [_detail(problem, given) for problem in problems]
            raise ValidationError.from_exception_data(cls.__name__, details)
        return {BY_KEY[key].argument: value for key, value in values.items()}

    @classmethod
    def from_annotations(cls, annotations: Mapping[str, object]) -> VGPUSpec:
        """The typed values of a manifest's annotations (full keys). Raises SpecProblems with all of them."""
        parsed = parse_annotations(annotations)
        if parsed.problems:
            raise SpecProblems("annotations", parsed.problems, annotation_naming)
        return cls.model_construct(**{BY_KEY[key].argument: _plain(value) for key, value in parsed.values.items()})

    def values(self) -> dict[str, Any]:
        """What is given, by short annotation key."""
        given = ((row.key, getattr(self, row.argument)) for row in FIELDS)
        return {key: value for key, value in given if value is not None}

    def annotations(self) -> dict[str, str]:
        """The annotations, full keys, canonical values, in the table's order."""
        return write_annotations(self.values())


def problems_of(error: ValidationError) -> list[Problem]:
    """The problems inside a ValidationError of VGPUSpec, by short annotation key."""
    return [
        item["ctx"]["problem"] if "problem" in item.get("ctx", {}) else Problem("VGPUSpec", item["msg"], "arguments by name")
        for item in error.errors()
    ]


def _read_arguments(given: Mapping[Any, object]) -> tuple[dict[str, Any], list[Problem]]:
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for argument, value in given.items():
        key = _KEYS.get(argument)
        if key is None:
            problems.append(_unknown(str(argument)))
        elif value is not None:
            try:
                values[key] = _plain(read_value(BY_KEY[key], as_text(key, value)))
            except Fault as fault:
                problems.append(fault.at(key))
    return values, problems


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _unknown(argument: str) -> Problem:
    close = get_close_matches(argument[:63], _KEYS, n=1)
    accepted = f"did you mean {close[0]}?" if close else "the arguments are the annotations' names in snake_case"
    return Problem(argument, "an unknown argument", accepted, "{found}; {accepted}")


def _detail(problem: Problem, given: Mapping[Any, object]) -> InitErrorDetails:
    row = BY_KEY.get(problem.field)
    argument = row.argument if row else problem.field
    fault = PydanticCustomError("tensorfusion", "{text}", {"text": problem.sentence(_argument_naming), "problem": problem})
    return InitErrorDetails(type=fault, loc=(argument,), input=given.get(argument))


def _argument_naming(key: str) -> str:
    return BY_KEY[key].argument if key in BY_KEY else key
