"""Which containers of a pod get GPUs, and how many each (SPEC §2 `inject-container`, `container-gpu-count`; §7)."""

from __future__ import annotations

from collections.abc import Mapping

from tensorfusion_iac.api.levels import Mode
from tensorfusion_iac.api.merge import Merge
from tensorfusion_iac.api.pod import MAX_CONTAINERS, Role
from tensorfusion_iac.api.problem import Problem, quote
from tensorfusion_iac.api.worker import Source


def inject(merge: Merge) -> tuple[str, ...]:
    """The injected containers in pod order: the named ones, else those with GPUs in the split, else the only container.

    Empty, with a problem, if that cannot be told.
    """
    every, apps = merge.pod.names(), merge.pod.names(Role.APP)
    named: tuple[str, ...] | None = merge.annotated.get("inject-container")
    split: Mapping[str, int] | None = merge.annotated.get("container-gpu-count")
    merge.sources["inject-container"] = Source.DERIVED if named is None else Source.ANNOTATION
    if not apps:
        if not any(problem.field.startswith("spec") for problem in merge.pod.problems):
            merge.problems.append(Problem("spec.containers", "no container", "at least one", "{found}; give {accepted}"))
        return ()
    if named is not None:
        known, wanted = frozenset(every), frozenset(named)
        if not wanted <= known:
            found = ", ".join(quote(name) for name in named if name not in known)
            _refuse_unknown(merge, "inject-container", found, every)
        return tuple([name for name in every if name in wanted])
    if split is not None:
        return tuple(name for name in every if split.get(name, 0) > 0)
    if len(apps) > 1:
        accepted = f"one or more of {', '.join(every)}"
        message = "{found}, and none is named; give {inject-container} {accepted}"
        merge.refuse("inject-container", f"{len(apps)} containers", accepted, message, "container-gpu-count")
        return ()
    return apps


def split_gpus(merge: Merge, injected: tuple[str, ...], mode: Mode) -> Mapping[str, int] | None:
    """GPUs of each injected app container and native sidecar, in pod order; None if they share all of them."""
    split: Mapping[str, int] | None = merge.annotated.get("container-gpu-count")
    if split is None:
        return None
    merge.sources["container-gpu-count"] = Source.ANNOTATION
    able = merge.pod.names(Role.SIDECAR, Role.APP)
    if len(split) > MAX_CONTAINERS:
        merge.refuse("container-gpu-count", f"{len(split)} containers", f"at most {MAX_CONTAINERS}", "{found}; give {accepted}")
    else:
        _judge_names(merge, split, able)
    if mode is Mode.REMOTE:
        message = "{found} works with local GPUs only; set {is-local-gpu} to {accepted}, or leave it out"
        merge.refuse("container-gpu-count", "a split of the GPUs", "true", message, "is-local-gpu")
    holders = frozenset(injected)
    return {name: split.get(name, 0) for name in able if name in holders}


def _judge_names(merge: Merge, split: Mapping[str, int], able: tuple[str, ...]) -> None:
    named: tuple[str, ...] | None = merge.annotated.get("inject-container")
    init, known, may_hold = frozenset(merge.pod.names(Role.INIT)), frozenset(merge.pod.names()), frozenset(able)
    without = may_hold - frozenset(named) if named is not None else frozenset()
    plain = [quote(name) for name in split if name in init]
    unknown = [quote(name) for name in split if name not in known]
    outside = [quote(name) for name in split if split[name] > 0 and name in without]
    if plain:
        message = "{found}: an init container sees all GPUs of the worker; name {accepted}"
        merge.refuse("container-gpu-count", ", ".join(plain), "containers and native sidecars only", message)
    if unknown and able:
        _refuse_unknown(merge, "container-gpu-count", ", ".join(unknown), able)
    if outside:
        message = "{found}: has GPUs and is not in {inject-container}; {accepted}"
        merge.refuse("container-gpu-count", ", ".join(outside), "add it there, or give it 0", message)


def _refuse_unknown(merge: Merge, key: str, found: str, accepted: tuple[str, ...]) -> None:
    merge.refuse(key, found, ", ".join(accepted), "{found}: not a container of the pod; its containers are {accepted}")
