"""A pod (or a pod template) read from raw JSON into the few facts that decisions need, whatever shape it has.

Anything may arrive here: half a pod, nulls, wrong types. What cannot be read becomes a problem, never an exception.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tensorfusion_iac.api.names import ENABLED_LABEL
from tensorfusion_iac.api.problem import Fault, Problem, quote
from tensorfusion_iac.api.quantity import parse_quantity

NATIVE_GPU = "nvidia.com/gpu"
_EMPTY: Mapping[str, Any] = {}


class Role(StrEnum):
    """What a container is to its pod."""

    APP = "container"
    SIDECAR = "native sidecar"
    INIT = "init container"


@dataclass(frozen=True, slots=True)
class Container:
    """A container's name, role, and how many whole GPUs it asks for natively."""

    name: str
    role: Role
    native_gpus: int


@dataclass(frozen=True, slots=True)
class Pod:
    """What decisions read of a pod. `containers` are native sidecars and init containers, then containers, in pod order."""

    name: str
    enabled: str | None
    annotations: Mapping[str, object]
    containers: tuple[Container, ...]
    priority_class: str | None
    problems: tuple[Problem, ...] = ()

    def names(self, *roles: Role) -> tuple[str, ...]:
        """Names of the containers with one of the roles, in order."""
        return tuple(container.name for container in self.containers if container.role in roles)

    def native_gpus(self, injected: Collection[str]) -> int:
        """Whole GPUs that the injected containers ask for natively: the most of any init container, or the sum of the
        sidecars and containers, whichever is more (SPEC §7).
        """
        ours = [container for container in self.containers if container.name in injected]
        together = sum(container.native_gpus for container in ours if container.role is not Role.INIT)
        return max([together, *(container.native_gpus for container in ours if container.role is Role.INIT)])


def read_pod(raw: object) -> Pod:
    """Read a pod or pod template. Never raises; see `Pod.problems`."""
    problems: list[Problem] = []
    pod = _mapping(raw, "pod", problems)
    metadata = _mapping(pod.get("metadata"), "metadata", problems)
    spec = _mapping(pod.get("spec"), "spec", problems)
    labels = _mapping(metadata.get("labels"), "metadata.labels", problems)
    annotations = _mapping(metadata.get("annotations"), "metadata.annotations", problems)
    containers = [
        *_containers(spec.get("initContainers"), "spec.initContainers", problems),
        *_containers(spec.get("containers"), "spec.containers", problems),
    ]
    enabled = labels.get(ENABLED_LABEL)
    priority_class = spec.get("priorityClassName")
    return Pod(
        _pod_name(metadata),
        enabled if enabled is None or isinstance(enabled, str) else str(enabled),
        annotations,
        tuple(containers),
        priority_class if isinstance(priority_class, str) and priority_class else None,
        tuple(problems),
    )


def _pod_name(metadata: Mapping[str, Any]) -> str:
    name, generate = metadata.get("name"), metadata.get("generateName")
    if isinstance(name, str) and name:
        return name
    return generate.rstrip("-") if isinstance(generate, str) else ""


def _mapping(value: object, where: str, problems: list[Problem]) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if value is not None:
        problems.append(Problem(where, quote(value), "an object"))
    return _EMPTY


def _containers(value: object, where: str, problems: list[Problem]) -> list[Container]:
    if value is None:
        return []
    if not isinstance(value, list):
        problems.append(Problem(where, quote(value), "a list of containers"))
        return []
    found = []
    for index, item in enumerate(value):
        name = item.get("name") if isinstance(item, Mapping) else None
        if not isinstance(name, str) or not name:
            problems.append(Problem(f"{where}[{index}]", quote(item), "a container with a name"))
            continue
        role = Role.APP
        if where == "spec.initContainers":
            role = Role.SIDECAR if item.get("restartPolicy") == "Always" else Role.INIT
        found.append(Container(name, role, _native_gpus(item.get("resources"))))
    return found


def _native_gpus(resources: object) -> int:
    if not isinstance(resources, Mapping):
        return 0
    for side in ("limits", "requests"):
        amounts = resources.get(side)
        value = amounts.get(NATIVE_GPU) if isinstance(amounts, Mapping) else None
        if isinstance(value, (str, int)):
            try:
                count = int(parse_quantity(str(value)))
            except Fault:
                continue
            if count > 0:
                return count
    return 0
