"""A pod (or a pod template) read from raw JSON into the few facts that decisions need, whatever shape it has.

Anything may arrive here: half a pod, nulls, wrong types. What cannot be read becomes a problem, never an exception.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, NamedTuple

from tensorfusion_iac.api.names import ENABLED_LABEL
from tensorfusion_iac.api.problem import Fault, Problem, quote
from tensorfusion_iac.api.quantity import from_number, parse_quantity

NATIVE_GPU = "nvidia.com/gpu"
MAX_CONTAINERS = 1000
"""Containers of all kinds. No node runs that many in a pod; what is said of each would only keep admission busy."""

_GROUPS = ("initContainers", "containers")
_EMPTY: Mapping[str, Any] = {}
_OBJECT = (dict, Mapping)  # what JSON gives comes first: asking an abstract class takes long


class Role(StrEnum):
    """What a container is to its pod."""

    APP = "container"
    SIDECAR = "native sidecar"
    INIT = "init container"


class Container(NamedTuple):
    """A container's name, role, and its `resources` as they stand in the pod."""

    name: str
    role: Role
    resources: object

    @property
    def native_gpus(self) -> int:
        """How many whole GPUs it asks for natively; 0 if that cannot be read, which is a problem of the pod."""
        for value in _native_amounts(self.resources).values():
            with suppress(Fault):
                return _whole_gpus(value)
        return 0


class Pod(NamedTuple):
    """What decisions read of a pod. `containers` are native sidecars and init containers, then containers, in pod order.

    `enabled` is the label's value, None if there is none. `illegible` are the problems that leave unknown whether the pod
    is ours; `problems` are all of them.
    """

    name: str
    enabled: str | None
    annotations: Mapping[str, object]
    containers: tuple[Container, ...]
    priority_class: str | None
    problems: tuple[Problem, ...] = ()
    illegible: tuple[Problem, ...] = ()

    def names(self, *roles: Role) -> tuple[str, ...]:
        """Names of the containers with one of the roles, in order; of all, if none is given."""
        return tuple([container.name for container in self.containers if not roles or container.role in roles])

    def native_gpus(self, injected: Collection[str]) -> int:
        """Whole GPUs that the injected containers ask for natively: the most of any init container, or the sum of the
        sidecars and containers, whichever is more (SPEC §7).
        """
        names = frozenset(injected)
        ours = [container for container in self.containers if container.name in names]
        together = sum(container.native_gpus for container in ours if container.role is not Role.INIT)
        return max([together, *(container.native_gpus for container in ours if container.role is Role.INIT)])


def _native_amounts(resources: object) -> dict[str, object]:
    """What is written for native GPUs, by side: the limit first, which is the request too where there is none."""
    found: dict[str, object] = {}
    if not resources or not isinstance(resources, _OBJECT):
        return found
    for side in ("limits", "requests"):
        amounts = resources.get(side)
        value = amounts.get(NATIVE_GPU) if isinstance(amounts, _OBJECT) else None
        if value is not None:
            found[side] = value
    return found


def _whole_gpus(value: object) -> int:
    """A native amount. Raises Fault unless it is a whole number, 0 included."""
    accepted = "a whole number of GPUs, from 0"
    try:
        count = parse_quantity(from_number(value))
    except Fault:
        raise Fault(quote(value), accepted) from None
    if count != int(count):
        raise Fault(quote(value), accepted)
    return int(count)


def _native_problems(container: Container) -> Iterator[Problem]:
    """What is wrong with native GPU requests. Ours take their place, so the API server would not come to see it."""
    counts: dict[str, int] = {}
    for side, value in _native_amounts(container.resources).items():
        try:
            counts[side] = _whole_gpus(value)
        except Fault as fault:
            yield fault.at(f"container {container.name} resources.{side} {NATIVE_GPU}")
    if len(counts) == 2 and counts["limits"] != counts["requests"]:
        message = "{found} is not the limit; give {accepted}, or leave one of the two out"
        field = f"container {container.name} resources.requests {NATIVE_GPU}"
        yield Problem(field, str(counts["requests"]), str(counts["limits"]), message)


def read_pod(raw: object) -> Pod:
    """Read a pod or pod template. Never raises; see `Pod.problems`."""
    problems: list[Problem] = []
    pod = _mapping(raw, "pod", problems)
    metadata = _mapping(pod.get("metadata"), "metadata", problems)
    labels = _mapping(metadata.get("labels"), "metadata.labels", problems)
    enabled = _enabled(labels, problems)
    illegible = tuple(problems)
    annotations = _mapping(metadata.get("annotations"), "metadata.annotations", problems)
    spec = _mapping(pod.get("spec"), "spec", problems)
    containers: list[Container] = []
    if (many := sum(len(value) for group in _GROUPS if isinstance(value := spec.get(group), (list, tuple)))) > MAX_CONTAINERS:
        problems.append(Problem("spec.containers", f"{many} containers", f"at most {MAX_CONTAINERS}", "{found}; give {accepted}"))
    else:
        for group in _GROUPS:
            containers += _containers(spec.get(group), f"spec.{group}", problems)
    for container in containers:
        problems += _native_problems(container)
    if len(containers) > 1:
        problems += _same_names(containers)
    priority_class = spec.get("priorityClassName")
    return Pod(
        _pod_name(metadata),
        enabled,
        annotations,
        tuple(containers),
        priority_class if isinstance(priority_class, str) and priority_class else None,
        tuple(problems),
        illegible,
    )


def _enabled(labels: Mapping[str, Any], problems: list[Problem]) -> str | None:
    value = labels.get(ENABLED_LABEL)
    if value is None or isinstance(value, str):
        return value
    message = "{found} is not text; Kubernetes labels are {accepted}"
    problems.append(Problem(f"metadata.labels.{ENABLED_LABEL}", quote(value), 'text, in quotes: "true"', message))
    return None


def _pod_name(metadata: Mapping[str, Any]) -> str:
    name, generate = metadata.get("name"), metadata.get("generateName")
    if isinstance(name, str) and name:
        return name
    return generate.rstrip("-") if isinstance(generate, str) else ""


def _mapping(value: object, where: str, problems: list[Problem]) -> Mapping[str, Any]:
    if isinstance(value, _OBJECT):
        return value
    if value is not None:
        problems.append(Problem(where, quote(value), "an object"))
    return _EMPTY


def _containers(value: object, where: str, problems: list[Problem]) -> list[Container]:
    found: list[Container] = []
    if not isinstance(value, (list, tuple)):
        if value is not None:
            problems.append(Problem(where, quote(value), "a list of containers"))
        return found
    for index, item in enumerate(value):
        name = item.get("name") if isinstance(item, _OBJECT) else None
        if not isinstance(name, str) or not name:
            problems.append(Problem(f"{where}[{index}]", quote(item), "a container with a name"))
            continue
        role = Role.APP
        if where == "spec.initContainers":
            role = Role.SIDECAR if item.get("restartPolicy") == "Always" else Role.INIT
        found.append(Container(name, role, item.get("resources")))
    return found


def _same_names(containers: list[Container]) -> Iterator[Problem]:
    for name, times in Counter(container.name for container in containers).items():
        if times > 1:
            message = "{found} is the name of {accepted}"
            yield Problem("spec.containers", quote(name), f"{times} containers; give each its own", message)
