"""The spec that WorkloadProfile and TensorFusionWorkload share, from their arguments (SPEC §4; API.md).

A VGPU gives the fields that mean the same as its annotations; the table of annotations says which (`FIELDS[...].profile`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypedDict

import pulumi

from tensorfusion_iac.api.annotations import one_source_problems
from tensorfusion_iac.api.fields import AMOUNTS, BY_KEY, FIELDS
from tensorfusion_iac.api.problem import Fault, Problem
from tensorfusion_iac.api.resources import WorkloadSpec
from tensorfusion_iac.api.written import as_text
from tensorfusion_iac.components.component import Checks
from tensorfusion_iac.components.gpupool import GPUPool
from tensorfusion_iac.components.inputs import is_known, when_known
from tensorfusion_iac.components.pods import Json
from tensorfusion_iac.components.shape import Path
from tensorfusion_iac.components.spec_paths import SpecPaths
from tensorfusion_iac.components.vgpu import VGPU, argument_naming


class WorkloadSpecArguments(TypedDict, total=False):
    """Arguments of WorkloadProfile and TensorFusionWorkload. `spec` is for whatever has no argument of its own."""

    vgpu: VGPU
    gpupool: pulumi.Input[str] | GPUPool
    replicas: pulumi.Input[int]
    auto_set_resources: pulumi.Input[Json]
    cron_scaling_rules: pulumi.Input[Sequence[Json]]
    external_scaler: pulumi.Input[Json]
    gang_scheduling: pulumi.Input[Json]
    worker_pod_template: pulumi.Input[Json]
    node_affinity: pulumi.Input[Json]
    spec: WorkloadSpec | Json
    namespace: pulumi.Input[str]
    metadata: pulumi.Input[Json]
    labels: pulumi.Input[Mapping[str, pulumi.Input[str]]]
    annotations: pulumi.Input[Mapping[str, pulumi.Input[str]]]


PATHS: Mapping[str, Path] = {
    "gpupool": ("poolName",),
    "replicas": ("replicas",),
    "auto_set_resources": ("autoScalingConfig", "autoSetResources"),
    "cron_scaling_rules": ("autoScalingConfig", "cronScalingRules"),
    "external_scaler": ("autoScalingConfig", "externalScaler"),
    "gang_scheduling": ("gangScheduling",),
    "worker_pod_template": ("workerPodTemplate",),
    "node_affinity": ("nodeAffinity",),
}
_VGPU_PATHS: Mapping[str, Path] = {row.key: tuple(row.profile.split(".")) for row in FIELDS if row.profile is not None}
_AS_TEXT = {*AMOUNTS, "gpu-model", "partition-template", "gang-timeout", "gpupool"}
"""What a spec holds as text, as the annotation does; the others become numbers, booleans and lists."""


def checked(arguments: Mapping[str, Any]) -> Checks:
    """The first checks of the arguments."""
    checks = Checks(arguments, WorkloadSpecArguments.__annotations__, {})
    checks.vgpu()
    checks.whole("replicas")
    checks.text("namespace")
    checks.mapping("metadata", "labels", "annotations", "auto_set_resources", "external_scaler", "gang_scheduling")
    return checks


def workload_spec(arguments: Mapping[str, Any], problems: list[Problem]) -> tuple[dict[str, Any], SpecPaths]:
    """The spec in manifest form, and what its fields are called."""
    vgpu = arguments.get("vgpu") or VGPU()
    values = {f"vgpu:{key}": value for key, value in _fields_of(vgpu, problems).items()}
    flat = {name: _reference(value) for name, value in arguments.items()}
    names = {f"vgpu:{key}": f"vgpu.{BY_KEY[key].argument}" for key in _VGPU_PATHS}
    paths = SpecPaths({**PATHS, **{f"vgpu:{key}": path for key, path in _VGPU_PATHS.items()}}, {**flat, **values}, names)
    return paths.spec(WorkloadSpec, {}, problems), paths


def shown(arguments: Mapping[str, Any], paths: SpecPaths) -> dict[str, Any]:
    """Inputs of the component itself, so that a preview says `~vgpu`."""
    inputs = paths.shown()
    vgpu = {BY_KEY[name[5:]].argument: inputs.pop(name) for name in list(inputs) if name.startswith("vgpu:")}
    return {**inputs, "vgpu": vgpu} if vgpu else inputs


def _reference(value: Any) -> Any:
    return value.reference if isinstance(value, GPUPool) else value


def _fields_of(vgpu: VGPU, problems: list[Problem]) -> dict[str, Any]:
    """The VGPU's values as fields of the spec, by short key. Judged by the annotations' own readers and rules."""
    fields: dict[str, Any] = {}
    parsed: dict[str, Any] = {}
    if vgpu.enabled is not True:
        problems.append(_on_the_workload("enabled"))
    for key, value in vgpu.values().items():
        if key not in _VGPU_PATHS:
            problems.append(_on_the_workload(BY_KEY[key].argument))
        elif is_known(value):
            try:
                text = as_text(key, value)
                parsed[key] = BY_KEY[key].parse(text)
                fields[key] = _field(key, text)
            except Fault as fault:
                problems.append(_renamed(fault.at(key)))
        else:
            fields[key] = when_known(value, partial(_late_field, key))
    problems += [_renamed(problem) for problem in one_source_problems(parsed)]
    return fields


def _on_the_workload(argument: str) -> Problem:
    accepted = "it on the workload"
    return Problem(f"vgpu.{argument}", "not a setting of a profile", accepted, "{found}; give {accepted}")


def _renamed(problem: Problem) -> Problem:
    """The problem of an annotation as one of the argument, its message filled in."""

    sentence = problem.sentence(argument_naming).replace("{", "(").replace("}", ")")
    return Problem(f"vgpu.{argument_naming(problem.field)}", problem.found, problem.accepted, sentence)


def _field(key: str, text: str) -> Any:
    """An annotation's text as the spec holds it: amounts and names as text, else numbers, booleans, lists."""
    value = BY_KEY[key].parse(text)
    if key in _AS_TEXT:
        return text
    return [str(item) if isinstance(item, str) else item for item in value] if isinstance(value, tuple) else _plain(value)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, str) else value


def _late_field(key: str, value: Any) -> Any:
    """What cannot be read stays as it is: the whole spec is judged next, and says what is wrong."""
    try:
        return _field(key, as_text(key, value))
    except Fault:
        return value if isinstance(value, (str, bool, int, float)) else str(value)
