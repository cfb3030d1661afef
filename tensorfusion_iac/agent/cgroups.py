"""Where the node's cgroups are mounted, and which directory is a pod's, a container's or a process's (ENFORCEMENT.md, rules).

Three layouts: pure v2, pure v1 (the freezer's hierarchy is the one that matters) and hybrid, where a process is looked for in
v2 first. Paths that are only known from inside another cgroup namespace are found by the names of their directories.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from tensorfusion_iac.agent.cgroup_path import DUTY, ProcessPlace, place_at, pod_directory

MOUNT = Path("/sys/fs/cgroup")
_DEEPEST = 6  # of a pod's directory below the root: kind inside Docker, with the systemd driver


class Version(IntEnum):
    """Of a hierarchy: how its freezer is worked."""

    V1 = 1
    V2 = 2


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A mounted hierarchy with a freezer."""

    root: Path
    version: Version

    def at(self, path: str) -> Path:
        """The directory of a cgroup path."""
        return self.root / path.lstrip("/")


class Cgroups:
    """The hierarchies below one mount point, v2 first."""

    def __init__(self, mount: Path = MOUNT) -> None:
        self.hierarchies = tuple(_hierarchies(mount))
        self.unified = next((each for each in self.hierarchies if each.version is Version.V2), None)
        """The v2 hierarchy, which memory limits need; None on a v1 node."""
        self.pure = self.unified is not None and self.unified.root == mount

    def of_process(self, text: str) -> tuple[ProcessPlace, Hierarchy] | None:
        """The place of a process by its `/proc/<pid>/cgroup`, in the hierarchy in which it can be frozen."""
        lines = [line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2]
        for hierarchy in self.hierarchies:
            for number, controllers, path in lines:
                is_v2 = number == "0" and not controllers
                if is_v2 != (hierarchy.version is Version.V2) or not (is_v2 or "freezer" in controllers.split(",")):
                    continue
                place = place_at(path)
                if place is not None and (found := self._resolved(place, hierarchy)) is not None:
                    return found, hierarchy
        return None

    def pods(self) -> dict[str, Path]:
        """The directories of all pods in the v2 hierarchy, by UID."""
        return {} if self.unified is None else dict(pods_below(self.unified.root))

    def containers(self, pod: Path) -> dict[str, Path]:
        """The directories of a pod's containers, by container id."""
        found = {}
        for path in _directories(pod):
            place = place_at(f"/{pod.name}/{path.name}")
            if place is not None:
                found[place.container_id] = path
        return found

    def duty_directories(self) -> Iterator[tuple[Path, Version]]:
        """Every child that an agent made, this one or an earlier one."""
        for hierarchy in self.hierarchies:
            for _, pod in pods_below(hierarchy.root):
                for folder, children, _ in os.walk(pod):
                    if DUTY in children:
                        yield Path(folder, DUTY), hierarchy.version

    def _resolved(self, place: ProcessPlace, hierarchy: Hierarchy) -> ProcessPlace | None:
        """The place with paths that exist, for one that was seen from inside a namespace."""
        if not place.relative and hierarchy.at(place.own).is_dir():
            return place
        for uid, pod in pods_below(hierarchy.root):
            if uid != place.pod_uid:
                continue
            container = self.containers(pod).get(place.container_id)
            if container is None:
                return None
            tail = place.own.removeprefix(place.container).lstrip("/")
            own = container / tail if tail and (container / tail).is_dir() else container
            in_pod, in_container, in_own = (f"/{path.relative_to(hierarchy.root)}" for path in (pod, container, own))
            return ProcessPlace(place.pod_uid, place.container_id, in_pod, in_container, in_own)
        return None


def pods_below(root: Path, depth: int = _DEEPEST) -> Iterator[tuple[str, Path]]:
    """UID and directory of every pod in a hierarchy. Nothing inside a pod is looked at."""
    for path in _directories(root):
        uid = pod_directory(path.name)
        if uid is not None:
            yield uid, path
        elif depth > 1:
            yield from pods_below(path, depth - 1)


def _hierarchies(mount: Path) -> Iterator[Hierarchy]:
    if (mount / "cgroup.controllers").is_file():
        yield Hierarchy(mount, Version.V2)
        return
    if (mount / "unified" / "cgroup.controllers").is_file():
        yield Hierarchy(mount / "unified", Version.V2)
    if (mount / "freezer" / "cgroup.procs").is_file():
        yield Hierarchy(mount / "freezer", Version.V1)


def _directories(path: Path) -> Iterator[Path]:
    try:
        entries = sorted(entry.name for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return  # gone meanwhile
    for name in entries:
        yield path / name
