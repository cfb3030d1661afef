"""The child cgroup `tf-duty` of a container: only the processes that use the card are in it, and only they are frozen.

Freezing the container's own cgroup breaks exec probes (v1 refuses them, v2 lets them hang); freezing a child does not, and
SIGKILL and the runtime's removal of the container work as ever (ENFORCEMENT.md, rules).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tensorfusion_iac.agent.cgroup_path import DUTY
from tensorfusion_iac.agent.cgroups import Version

_SWITCH = {Version.V2: ("cgroup.freeze", b"1", b"0"), Version.V1: ("freezer.state", b"FROZEN", b"THAWED")}


class DutyGroup:
    """One `tf-duty`. `open` makes it; OSError everywhere else means that the container is gone."""

    def __init__(self, path: Path, version: Version) -> None:
        self.path, self.version = path, version
        name, self._on, self._off = _SWITCH[version]
        self._switch = os.open(path / name, os.O_WRONLY | os.O_CLOEXEC)

    @classmethod
    def open(cls, parent: Path, version: Version) -> DutyGroup:
        """The child of a container's cgroup, made if it isn't there. OSError if the container is gone."""
        path = parent / DUTY
        path.mkdir(exist_ok=True)
        return cls(path, version)

    def add(self, pid: int) -> None:
        """Move a process with all its threads into the child; what it starts from now on is in it too."""
        (self.path / "cgroup.procs").write_text(str(pid))

    def freeze(self) -> None:
        """Stop all processes in it."""
        os.write(self._switch, self._on)

    def thaw(self) -> None:
        """Let them run."""
        os.write(self._switch, self._off)

    def close(self) -> None:
        """Thaw, and let go of the switch."""
        with suppress(OSError):
            self.thaw()
        with suppress(OSError):
            os.close(self._switch)
        self._switch = -1

    def dissolve(self) -> None:
        """Thaw, move the processes back to the container, and remove the child."""
        self.close()
        dissolve(self.path, self.version)


def thaw(path: Path, version: Version) -> None:
    """Thaw a child that somebody else may have made; one that is gone is fine."""
    name, _, off = _SWITCH[version]
    with suppress(OSError):
        (path / name).write_bytes(off)


def dissolve(path: Path, version: Version) -> None:
    """Thaw a child, give its processes back to its parent, and remove it; one that is gone is fine."""
    thaw(path, version)
    for pid in members(path):
        with suppress(OSError):
            (path.parent / "cgroup.procs").write_text(str(pid))
    with suppress(OSError):
        path.rmdir()


def members(path: Path) -> Iterator[int]:
    """The processes of a cgroup; none if it is gone."""
    with suppress(OSError):
        yield from (int(line) for line in (path / "cgroup.procs").read_text().split())
