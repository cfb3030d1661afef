"""What a workload asks for, gathered from its arguments: `vgpu`, `gpupool`, `workload_profile`, `enabled` (API.md).

Says which argument each value came from, so that a problem names it, and which profile and pool the program itself declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.api.fields import BY_KEY
from tensorfusion_iac.api.problem import Fault, Problem
from tensorfusion_iac.api.resources import GPUPool as PoolModel
from tensorfusion_iac.api.resources import WorkloadProfile as ProfileModel
from tensorfusion_iac.api.written import as_text
from tensorfusion_iac.components.gpupool import GPUPool
from tensorfusion_iac.components.inputs import is_deferred, is_known, when_known
from tensorfusion_iac.components.vgpu import VGPU
from tensorfusion_iac.components.workload_profile import WorkloadProfile


@dataclass(frozen=True, slots=True)
class Asking:
    """Values by short annotation key, as given; `names` says what the program calls each. `enabled` may be an Output."""

    values: Mapping[str, Any]
    names: Mapping[str, str]
    enabled: Any
    profile: ProfileModel | None
    pool: PoolModel | None


def asking(arguments: Mapping[str, Any], problems: list[Problem]) -> Asking:
    """Gather what is asked for. A value given by two arguments is a problem."""
    vgpu: VGPU = arguments.get("vgpu") or VGPU()
    pool, profile = arguments.get("gpupool"), arguments.get("workload_profile")
    values = vgpu.values()
    names = {key: f"vgpu.{BY_KEY[key].argument}" for key in values}
    for key, argument, value in (("gpupool", "gpupool", pool), ("workload-profile", "workload_profile", profile)):
        if value is None:
            continue
        if key in values:
            problems.append(Problem(argument, "given twice", f"it here or in vgpu.{argument}", "{found}; give {accepted}"))
        values[key] = value.reference if isinstance(value, (GPUPool, WorkloadProfile)) else value
        names[key] = argument
    return Asking(
        values,
        names,
        _all([arguments.get("enabled", True), vgpu.enabled]),
        profile.model if isinstance(profile, WorkloadProfile) else None,
        _pool(pool, profile),
    )


def _pool(pool: object, profile: object) -> PoolModel | None:
    if isinstance(pool, GPUPool):
        return pool.model
    return profile.pool if pool is None and isinstance(profile, WorkloadProfile) else None


def _all(flags: list[Any]) -> Any:
    late = [flag for flag in flags if is_deferred(flag)]
    if any(flag is False for flag in flags):
        return False
    return when_known(late, all) if late else True


def shown(arguments: Mapping[str, Any], asked: Asking) -> dict[str, Any]:
    """The same as inputs of the component itself, so that a preview says `~vgpu`. As few and as flat as can be: the engine
    writes them each time that it writes the state (P7).
    """
    vgpu = arguments.get("vgpu")
    values = vgpu.values() if isinstance(vgpu, VGPU) else {}
    inputs = {
        "vgpu": (_line(values) if is_known(values) else when_known(values, _line)) if values else None,
        "gpupool": asked.values["gpupool"] if "gpupool" in arguments else None,
        "workloadProfile": asked.values["workload-profile"] if "workload_profile" in arguments else None,
        "enabled": None if asked.enabled is True else asked.enabled,
    }
    return {name: value for name, value in inputs.items() if value is not None}


def _line(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{BY_KEY[key].argument}={_text(key, value)}" for key, value in values.items())


def _text(key: str, value: object) -> str:
    """What came late is shown as it is; it is judged elsewhere."""
    try:
        return as_text(key, value)
    except Fault:
        return str(value)
