"""Which pod and container a process belongs to, from the text of its `/proc/<pid>/cgroup` (ENFORCEMENT.md, rules).

All layouts of kubelets and runtimes: cgroup v1 and v2, cgroupfs and systemd driver, containerd, CRI-O, Docker, podman; and the
relative paths (`0::/../../pod...`) that a reader sees from inside its own cgroup namespace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DUTY = "tf-duty"
"""The child cgroup in which the agent freezes processes: the container's own stays free, or exec probes would hang."""

_UID = r"(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"  # static pods: the hash of their file
_POD = re.compile(rf"(?:[^/]*-)?pod{_UID}(?:\.slice)?")
_CONTAINER = re.compile(r"(?:(?P<runtime>[a-z][a-z0-9-]*)-)?(?P<id>[0-9a-f]{32,64})(?:\.scope)?")
_MONITOR = "conmon"  # CRI-O's supervisor of a container has a cgroup beside it


@dataclass(frozen=True, slots=True)
class ProcessPlace:
    """Where a process is: its pod's UID, its container's id, and paths below the root of the hierarchy.

    `own` is the process's cgroup without our child; `container` and `pod` are those of the container and the pod.
    `relative`: the paths are below some ancestor that isn't known, and have to be looked for.
    """

    pod_uid: str
    container_id: str
    pod: str
    container: str
    own: str
    relative: bool = False


def place_of(text: str) -> ProcessPlace | None:
    """The place that the lines of `/proc/<pid>/cgroup` tell; None for a process of no container of a pod.

    The v2 line is asked first; on a v1 node the freezer's, then any other.
    """
    lines = [line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2]
    for _, _, path in sorted(lines, key=lambda parts: _preference(parts[0], parts[1])):
        place = place_at(path)
        if place is not None:
            return place
    return None


def place_at(path: str) -> ProcessPlace | None:
    """The place that one cgroup path tells."""
    segments = [segment for segment in path.removesuffix(" (deleted)").split("/") if segment]
    relative = segments[:1] == [".."]
    while segments[:1] == [".."]:
        segments.pop(0)
    if segments[-1:] == [DUTY]:
        segments.pop()
    for at, segment in enumerate(segments[:-1]):
        pod, container = _POD.fullmatch(segment), _CONTAINER.fullmatch(segments[at + 1])
        if pod is None or container is None or _MONITOR in (container["runtime"] or ""):
            continue
        return ProcessPlace(
            uid_of(pod["uid"]), container["id"],
            _join(segments[: at + 1]), _join(segments[: at + 2]), _join(segments), relative,
        )  # fmt: skip
    return None


def uid_of(text: str) -> str:
    """A pod's UID as the API server writes it; systemd's names have `_` for `-`."""
    return text.replace("_", "-")


def pod_directory(name: str) -> str | None:
    """The UID that a directory's name means, if it is a pod's cgroup."""
    match = _POD.fullmatch(name)
    return None if match is None else uid_of(match["uid"])


def _preference(number: str, controllers: str) -> int:
    if number == "0" and not controllers:
        return 0
    return 1 if "freezer" in controllers.split(",") else 2


def _join(segments: list[str]) -> str:
    return "/" + "/".join(segments)
