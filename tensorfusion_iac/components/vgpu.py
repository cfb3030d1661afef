"""`VGPU`: what a workload asks of the GPUs, as one value of a Pulumi program (API.md; SPEC §2).

One argument per annotation, named as the annotation in snake_case, values the same strings, numbers and enums too where
natural, Outputs anywhere. It judges nothing by itself: the workload that takes it does, so that its problems are reported
together with the workload's, under its name.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

import pulumi

from tensorfusion_iac.api.fields import BY_KEY, FIELDS
from tensorfusion_iac.api.levels import AutoscaleTarget, Feature, Isolation, QoS
from tensorfusion_iac.api.names import PREFIX
from tensorfusion_iac.api.problem import Fault, Problem
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.written import as_text
from tensorfusion_iac.components.errors import SpecError
from tensorfusion_iac.components.inputs import is_deferred

Amount = pulumi.Input[int | float | Decimal | str]
"""A number, or a Kubernetes quantity as text: `10`, `0.5`, `"500m"`, `"4Gi"`."""

Whole = pulumi.Input[int | str]
Flag = pulumi.Input[bool | Literal["true", "false"]] | pulumi.Output[str]
Text = pulumi.Input[str]
Duration = pulumi.Input[timedelta | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class VGPU:
    """What each vGPU worker of a workload asks for. Amounts are per worker per GPU; None means: not said here.

    What is not said comes from the workload's profile, then the namespace's quota, then the pool (SPEC §3). `enabled=False`
    leaves the workload plain: no label, no annotations.
    """

    tflops_request: Amount | None = None
    tflops_limit: Amount | None = None
    vram_request: Amount | None = None
    vram_limit: Amount | None = None
    compute_percent_request: Amount | None = None
    compute_percent_limit: Amount | None = None
    inject_container: pulumi.Input[str | Sequence[pulumi.Input[str]]] | None = None
    qos: QoS | Literal["low", "medium", "high", "critical"] | pulumi.Output[str] | None = None
    is_local_gpu: Flag | None = None
    gpu_count: Whole | None = None
    gpupool: Text | None = None
    vendor: pulumi.Input[Vendor | str] | None = None
    gpu_model: Text | None = None
    dedicated_gpu: Flag | None = None
    isolation: Isolation | Literal["shared", "soft", "hard", "partitioned"] | pulumi.Output[str] | None = None
    gpu_indices: pulumi.Input[str | Sequence[pulumi.Input[int]]] | None = None
    container_gpu_count: pulumi.Input[str | Mapping[str, pulumi.Input[int]]] | None = None
    workload: Text | None = None
    workload_profile: Text | None = None
    enabled_replicas: Whole | None = None
    autoscale: Flag | None = None
    autoscale_target: AutoscaleTarget | Literal["compute", "vram", "all"] | pulumi.Output[str] | None = None
    standalone_worker_mode: Flag | None = None
    disable_features: pulumi.Input[str | Sequence[Feature | str]] | None = None
    partition_template: Text | None = None
    eviction_protection: Duration | None = None
    gang_min_members: Whole | None = None
    gang_timeout: Duration | None = None
    enabled: pulumi.Input[bool] = True

    def __new__(cls, **arguments: Any) -> Self:
        """A misspelled argument ends in one sentence that says where, not in Python's TypeError with a traceback."""
        unknown = [name for name in arguments if name not in ARGUMENTS]
        if unknown:
            caller = sys._getframe(1)
            place = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"
            raise SpecError(f"VGPU ({place})", [unknown_argument(name, ARGUMENTS) for name in unknown])
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Mapping):
                object.__setattr__(self, field.name, MappingProxyType(dict(value)))
            elif isinstance(value, Sequence) and not isinstance(value, str):
                object.__setattr__(self, field.name, tuple(value))

    def __repr__(self) -> str:
        given = [(row.argument, value) for row in FIELDS if (value := getattr(self, row.argument)) is not None]
        if self.enabled is not True:
            given.append(("enabled", self.enabled))
        return f"VGPU({', '.join(f'{name}={_shown(value)}' for name, value in given)})"

    def values(self) -> dict[str, Any]:
        """What is given, by short annotation key, as it was given (mappings and lists as plain ones); Outputs included."""
        return {row.key: _thawed(value) for row in FIELDS if (value := getattr(self, row.argument)) is not None}

    def annotations(self) -> Mapping[str, pulumi.Input[str]]:
        """The annotations (full keys, the table's order): text where the value is known, else an Output of the text.

        Raises SpecError for values of a kind that their annotation does not take. Whether the texts make sense is judged
        by whoever has the pod: a component, `tfi.annotate`, `api.resolve`.
        """
        texts, problems = texts_of(self.values())
        if problems:
            raise SpecError("VGPU", problems, argument_naming)
        return MappingProxyType({PREFIX + key: text for key, text in texts.items()})

    @classmethod
    def from_annotations(cls, annotations: Mapping[str, pulumi.Input[str]], *, enabled: pulumi.Input[bool] = True) -> Self:
        """The way back: a VGPU whose values are the texts of a manifest's annotations (full keys; other keys are passed over)."""
        known = ((key[len(PREFIX) :], text) for key, text in annotations.items() if is_user_key(key))
        given: dict[str, Any] = {BY_KEY[key].argument: text for key, text in known}
        return cls(**given, enabled=enabled)


ARGUMENTS = (*(row.argument for row in FIELDS), "enabled")


def is_user_key(annotation: str) -> bool:
    """Whether a full annotation key is one of the format's that users write."""
    return annotation.startswith(PREFIX) and annotation[len(PREFIX) :] in BY_KEY


def argument_naming(name: str) -> str:
    """How a program calls a field of a VGPU, given the annotation's short key."""
    return BY_KEY[name].argument if name in BY_KEY else name


def unknown_argument(name: str, known: Sequence[str]) -> Problem:
    """A keyword that no argument has: where it belongs, or the nearest that exists."""
    if belongs_in_vgpu(name, known):
        return Problem(name, "no argument of its own", f"vgpu.{name}", "{found}; give {accepted}")
    close = nearest(name, known)
    return Problem(name, "no such argument", f"did you mean {close[0]}?" if close else _listed(known),
                   "{found}; {accepted}")  # fmt: skip


def belongs_in_vgpu(name: str, known: Collection[str]) -> bool:
    """Whether it is a setting of a VGPU, given to what takes a VGPU."""
    return name in ARGUMENTS and "vgpu" in known


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """The argument that a misspelled one was meant to be, if one is near."""
    if belongs_in_vgpu(name, known):
        return []
    if (request := f"{name}_request") in known:  # an amount without more is what is asked for
        return [request]
    return get_close_matches(name, known, 1, 0.6)


def _listed(known: Sequence[str]) -> str:
    return f"the arguments are {', '.join(known)}" if known else "it takes no arguments"


def texts_of(values: Mapping[str, Any]) -> tuple[dict[str, pulumi.Input[str]], list[Problem]]:
    """Values by short key as annotation texts, and the problems of those that have no text; Outputs stay Outputs."""
    texts: dict[str, pulumi.Input[str]] = {}
    problems: list[Problem] = []
    for key, value in values.items():
        try:
            texts[key] = pulumi.Output.from_input(value).apply(_late_text(key)) if _late(value) else as_text(key, value)
        except Fault as fault:
            problems.append(fault.at(key))
    return texts, problems


def _thawed(value: Any) -> Any:
    """Pulumi looks for Outputs inside plain dictionaries and lists only."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _late(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(is_deferred(item) for item in value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return any(is_deferred(item) for item in value)
    return is_deferred(value)


def _late_text(key: str) -> Any:
    def text(value: object) -> str:
        try:
            return as_text(key, value)
        except Fault as fault:
            raise SpecError("VGPU", [fault.at(key)], argument_naming) from None

    return text


def _shown(value: object) -> str:
    if is_deferred(value):
        return "<output>"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_shown(item) for item in value) + "]"
    return repr(value.value if isinstance(value, Enum) else value)
