"""Which containers of a pod get GPUs, and how many each (SPEC §2 `inject-container`, `container-gpu-count`; §7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorfusion_iac.api.pod import Pod, Role
from tensorfusion_iac.api.problem import Problem, quote


def inject(pod: Pod, annotated: Mapping[str, Any], problems: list[Problem]) -> tuple[str, ...] | None:
    """The injected containers in pod order, or None with a problem: the named ones, else those with GPUs in the split,
    else the only container.
    """
    every = pod.names(*Role)
    if not every or not pod.names(Role.APP):
        problems.append(Problem("spec.containers", "no container", "at least one container", "{found}; give {accepted}"))
        return None
    named: tuple[str, ...] | None = annotated.get("inject-container")
    counts: Mapping[str, int] | None = annotated.get("container-gpu-count")
    if named is not None:
        missing = [name for name in named if name not in every]
        for name in missing:
            problems.append(
                Problem(
                    "inject-container",
                    quote(name),
                    ", ".join(every),
                    "{found} is not a container of the pod: {accepted}",
                )
            )
        return None if missing else tuple(name for name in every if name in named)
    if counts is not None:
        return tuple(name for name in every if counts.get(name, 0) > 0)
    apps = pod.names(Role.APP)
    if len(apps) == 1:
        return apps
    message = "{found}, and none is named; give {accepted}"
    accepted = f"inject-container with one or more of {', '.join(every)}"
    problems.append(
        Problem(
            "inject-container",
            f"{len(apps)} containers",
            accepted,
            message,
            ("inject-container", "container-gpu-count"),
        )
    )
    return None


def split(
    pod: Pod, annotated: Mapping[str, Any], injected: tuple[str, ...] | None, problems: list[Problem]
) -> Mapping[str, int] | None:
    """GPUs of each injected app container and native sidecar, in pod order; None if they share all of them."""
    counts: Mapping[str, int] | None = annotated.get("container-gpu-count")
    if counts is None:
        return None
    able = pod.names(Role.SIDECAR, Role.APP)
    plain = pod.names(Role.INIT)
    named: tuple[str, ...] | None = annotated.get("inject-container")
    for name, count in counts.items():
        if name in plain:
            message = "{found} is an init container, which sees all GPUs of the worker; name {accepted}"
            problems.append(Problem("container-gpu-count", quote(name), "containers and native sidecars only", message))
        elif name not in able:
            message = "{found} is not a container of the pod: {accepted}"
            problems.append(Problem("container-gpu-count", quote(name), ", ".join(able), message))
        elif count > 0 and named is not None and name not in named:
            message = "{found} has GPUs but is not in {inject-container}; {accepted}"
            problems.append(Problem("container-gpu-count", quote(name), "add it there, or give it 0", message))
    if injected is None:
        return None
    return {name: counts.get(name, 0) for name in able if name in injected}
