"""`VGPUSpec`: every user annotation as one typed, frozen model; the same values both ways (SPEC §2).

For programs that hold plain values (cdk8s, scripts, tests). Programs with Pulumi Outputs use
`tensorfusion_iac.VGPU`, which defers what is not known yet and validates with the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from tensorfusion_iac.api.annotations import (
    annotation_naming,
    one_source_problems,
    parse_annotations,
    write_annotations,
)
from tensorfusion_iac.api.fields import BY_KEY, FIELDS
from tensorfusion_iac.api.levels import AutoscaleTarget, Feature, Isolation, QoS
from tensorfusion_iac.api.problem import Fault, Problem, SpecProblems
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.written import as_text


def _read(key: str) -> BeforeValidator:
    row = BY_KEY[key]

    def read(value: object) -> Any:
        if value is None:
            return None
        try:
            return row.parse(as_text(key, value))
        except Fault as fault:
            raise PydanticCustomError("tensorfusion", "{text}", {"text": str(fault), "problem": fault.at(key)}) from None

    return BeforeValidator(read)


class VGPUSpec(BaseModel):
    """The user's annotations as values. None means: not annotated. Amounts are per vGPU worker per GPU device.

    Raises pydantic's ValidationError with all problems; `problems_of` turns one into Problem values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tflops_request: Annotated[Decimal | None, _read("tflops-request")] = None
    tflops_limit: Annotated[Decimal | None, _read("tflops-limit")] = None
    vram_request: Annotated[int | None, _read("vram-request")] = None
    vram_limit: Annotated[int | None, _read("vram-limit")] = None
    compute_percent_request: Annotated[Decimal | None, _read("compute-percent-request")] = None
    compute_percent_limit: Annotated[Decimal | None, _read("compute-percent-limit")] = None
    inject_container: Annotated[tuple[str, ...] | None, _read("inject-container")] = None
    qos: Annotated[QoS | None, _read("qos")] = None
    is_local_gpu: Annotated[bool | None, _read("is-local-gpu")] = None
    gpu_count: Annotated[int | None, _read("gpu-count")] = None
    gpupool: Annotated[str | None, _read("gpupool")] = None
    vendor: Annotated[Vendor | None, _read("vendor")] = None
    gpu_model: Annotated[str | None, _read("gpu-model")] = None
    dedicated_gpu: Annotated[bool | None, _read("dedicated-gpu")] = None
    isolation: Annotated[Isolation | None, _read("isolation")] = None
    gpu_indices: Annotated[tuple[int, ...] | None, _read("gpu-indices")] = None
    container_gpu_count: Annotated[Mapping[str, int] | None, _read("container-gpu-count")] = None
    workload: Annotated[str | None, _read("workload")] = None
    workload_profile: Annotated[str | None, _read("workload-profile")] = None
    enabled_replicas: Annotated[int | None, _read("enabled-replicas")] = None
    autoscale: Annotated[bool | None, _read("autoscale")] = None
    autoscale_target: Annotated[AutoscaleTarget | None, _read("autoscale-target")] = None
    standalone_worker_mode: Annotated[bool | None, _read("standalone-worker-mode")] = None
    disable_features: Annotated[tuple[Feature, ...] | None, _read("disable-features")] = None
    partition_template: Annotated[str | None, _read("partition-template")] = None
    eviction_protection: Annotated[timedelta | None, _read("eviction-protection")] = None
    gang_min_members: Annotated[int | None, _read("gang-min-members")] = None
    gang_timeout: Annotated[timedelta | None, _read("gang-timeout")] = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        found = one_source_problems(self.values())
        if found:
            text = "; ".join(problem.text() for problem in found)
            raise PydanticCustomError("tensorfusion", "{text}", {"text": text, "problems": tuple(found)})
        return self

    @classmethod
    def from_annotations(cls, annotations: Mapping[str, object]) -> VGPUSpec:
        """The typed values of a manifest's annotations (full keys). Raises SpecProblems with all of them."""
        parsed = parse_annotations(annotations)
        if parsed.problems:
            raise SpecProblems("annotations", parsed.problems, annotation_naming)
        return cls.model_construct(**{BY_KEY[key].argument: value for key, value in parsed.values.items()})

    def values(self) -> dict[str, Any]:
        """What is given, by short annotation key."""
        given = ((row.key, getattr(self, row.argument)) for row in FIELDS)
        return {key: value for key, value in given if value is not None}

    def annotations(self) -> dict[str, str]:
        """The annotations, full keys, canonical values, in the table's order."""
        return write_annotations(self.values())


def problems_of(error: ValidationError) -> list[Problem]:
    """The problems inside a ValidationError of VGPUSpec, by short annotation key."""
    found: list[Problem] = []
    for item in error.errors():
        context = item.get("ctx", {})
        if "problem" in context:
            found.append(context["problem"])
        elif "problems" in context:
            found.extend(context["problems"])
        else:
            where = ".".join(str(part) for part in item["loc"])
            found.append(Problem(where, "an unknown field", "see the list of annotations", "{found}; {accepted}"))
    return found
