"""A pod being edited: a copy of what admission changes, sharing all the rest with the pod that came in.

Nothing of the original is changed. Our own parts (a volume, a mount, a container) are added once: what is there already
and has everything ours has is ours, perhaps completed by the API server's defaults; what only bears our name is the
user's, and is a problem, never overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensorfusion_iac.admission.patch import Operation, diff
from tensorfusion_iac.api.problem import Problem, quote

Container = dict[str, Any]

_SPEC_LISTS = ("volumes", "tolerations", "schedulingGates")
_CONTAINER_LISTS = ("env", "volumeMounts")
_NOTHING: Mapping[str, Any] = {}


class Draft:
    """The edited copy. `problems` and `warnings` collect what the editors find."""

    __slots__ = ("containers", "init_containers", "metadata", "pod", "problems", "spec", "warnings")

    def __init__(self, pod: Mapping[str, Any]) -> None:
        """Open a pod whose metadata, spec and containers are known to be objects (`shape_problems` says so)."""
        self.metadata: dict[str, Any] = dict(pod.get("metadata") or {})
        self.spec: dict[str, Any] = dict(pod.get("spec") or {})
        self.containers: list[Container] = [dict(item) for item in self.spec.get("containers") or ()]
        self.init_containers: list[Container] = [dict(item) for item in self.spec.get("initContainers") or ()]
        self.pod: dict[str, Any] = {**pod, "metadata": self.metadata, "spec": self.spec}
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def every_container(self) -> Iterator[Container]:
        """Init containers and native sidecars, then containers."""
        yield from self.init_containers
        yield from self.containers

    def patch_of(self, original: object) -> tuple[Operation, ...]:
        """The operations from the pod as it came in to the draft."""
        for field, containers in (("initContainers", self.init_containers), ("containers", self.containers)):
            if containers:
                self.spec[field] = containers
        return tuple(diff(original, self.pod))

    def set_metadata(self, field: str, key: str, value: str) -> None:
        """Set one label or annotation (`field` is `labels` or `annotations`)."""
        if (self.metadata.get(field) or {}).get(key) != value:
            self.metadata[field] = {**(self.metadata.get(field) or {}), key: value}

    def drop_annotation(self, key: str) -> None:
        """Remove one annotation."""
        self.metadata["annotations"] = {name: value for name, value in self.metadata["annotations"].items() if name != key}

    def add_volume(self, volume: Mapping[str, Any]) -> None:
        """Add one of our volumes, unless it is there."""
        self._add(self.spec, "volumes", "name", volume, "spec.volumes")

    def mount(self, container: Container, mount: Mapping[str, Any]) -> None:
        """Mount one of our volumes, unless that is done."""
        self._add(container, "volumeMounts", "mountPath", mount, f"container {container['name']} volumeMounts")

    def add_init_containers(self, *ours: Mapping[str, Any]) -> None:
        """Put our containers before the user's, which may need them."""
        known = {item["name"]: item for item in self.every_container()}
        missing = []
        for container in ours:
            present = known.get(container["name"])
            if present is None:
                missing.append(dict(container))
            elif not has_all_of(present, container):
                self._reserved("spec.initContainers", container["name"])
        self.init_containers[:0] = missing

    def _add(self, parent: dict[str, Any], field: str, identity: str, ours: Mapping[str, Any], where: str) -> None:
        items: list[Mapping[str, Any]] = parent.get(field) or []
        present = next((item for item in items if item.get(identity) == ours[identity]), None)
        if present is None:
            parent[field] = [*items, dict(ours)]
        elif not has_all_of(present, ours):
            self._reserved(where, ours[identity])

    def _reserved(self, where: str, name: str) -> None:
        self.problems.append(Problem(where, quote(name), "another name", "{found} is reserved for TensorFusion; use {accepted}"))


def has_all_of(present: Any, ours: Any) -> bool:
    """Whether `present` says everything that `ours` says: members and items may have been added to it, none changed."""
    if isinstance(ours, Mapping):
        return isinstance(present, Mapping) and all(key in present and has_all_of(present[key], ours[key]) for key in ours)
    if isinstance(ours, list):
        return isinstance(present, list) and all(any(has_all_of(item, wanted) for item in present) for wanted in ours)
    return bool(present == ours)


def shape_problems(pod: Mapping[str, Any]) -> list[Problem]:
    """What the parts that admission edits must be, and are not; the rest of the pod is judged where it is resolved."""
    found: list[Problem] = []
    spec = pod.get("spec")
    if not isinstance(spec, Mapping):
        return found
    for field in _SPEC_LISTS:
        _list_of_objects(spec, field, f"spec.{field}", found)
    for field in ("affinity", "securityContext"):
        _object(spec, field, f"spec.{field}", found)
    for group in ("initContainers", "containers"):
        containers = spec.get(group)
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            if not isinstance(container, dict):
                continue
            where = f"spec.{group}[{index}]"
            for field in _CONTAINER_LISTS:
                _list_of_objects(container, field, f"{where}.{field}", found)
            _object(container, "securityContext", f"{where}.securityContext", found)
            resources = _object(container, "resources", f"{where}.resources", found)
            for side in ("limits", "requests"):
                _object(resources, side, f"{where}.resources.{side}", found)
    return found


def _list_of_objects(parent: Mapping[str, Any], field: str, where: str, found: list[Problem]) -> None:
    value = parent.get(field)
    if value is None:
        return
    if not isinstance(value, list):
        found.append(Problem(where, quote(value), "a list"))
        return
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            found.append(Problem(f"{where}[{index}]", quote(item), "an object"))
        elif not isinstance(item.get("name", ""), str):
            found.append(Problem(f"{where}[{index}].name", quote(item["name"]), "text"))


def _object(parent: Mapping[str, Any], field: str, where: str, found: list[Problem]) -> Mapping[str, Any]:
    value = parent.get(field)
    if value is None:
        return _NOTHING
    if isinstance(value, dict):
        return value
    found.append(Problem(where, quote(value), "an object"))
    return _NOTHING
