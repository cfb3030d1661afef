"""The cgroups of a real node: one in each hierarchy of this machine, in which the node sees the root of its own world.

They lie below the one in which we run, so that limits on us hold for the node too; on a machine with v2 alone at the root, since
there only the root may hold processes and hand controllers on. Ending a node thaws all that its agent may have
frozen, kills what is left, and removes them.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tensorfusion_iac.local.errors import LocalError

PURE = Path("/sys/fs/cgroup")
"""Where v2 is mounted if there is nothing else."""

_PATIENCE_S = 15.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A mounted cgroup hierarchy: its folder, `cgroup` or `cgroup2`, and what to mount it again with (v1)."""

    folder: Path
    kind: str
    options: str


def hierarchies(mounts: str) -> list[Hierarchy]:
    """The hierarchies in the text of /proc/self/mountinfo."""
    found = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            named = [option for option in options.split(",") if option not in ("rw", "ro")]
            found[Path(before.split()[4])] = kind, ",".join(named)
    return [Hierarchy(folder, kind, options) for folder, (kind, options) in sorted(found.items())]


def own_paths(text: str) -> dict[str, str]:
    """Our place in each hierarchy, by its controllers ("" is v2), from the text of /proc/self/cgroup."""
    lines = (line.split(":", 2) for line in text.splitlines())
    return {controllers: path for _, controllers, path in lines}


def controllers_of(hierarchy: Hierarchy, places: Iterable[str]) -> str | None:
    """Which of the keys of `own_paths` is this hierarchy's; None: none is."""
    if hierarchy.kind == "cgroup2":
        return "" if "" in places else None
    options = set(hierarchy.options.split(","))
    return next((each for each in places if each and set(each.split(",")) <= options), None)


def make(name: str) -> list[Path]:
    """Make a cgroup called `name` below ours in each hierarchy; LocalError where that is not permitted."""
    places, made = own_paths(Path("/proc/self/cgroup").read_text()), []
    for hierarchy in hierarchies(Path("/proc/self/mountinfo").read_text()):
        controllers = controllers_of(hierarchy, places)
        if controllers is None:
            continue
        ours = "/" if hierarchy.folder == PURE else places[controllers]
        folder = hierarchy.folder / ours.strip("/") / name
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise LocalError(f"a real node needs cgroups of its own, but {folder} cannot be made: {error.strerror}") from None
        for setting in ("cpuset.cpus", "cpuset.mems"):  # of v1: empty in a new one, which can then hold no process
            if (folder / setting).exists() and not (folder / setting).read_text().strip():
                (folder / setting).write_text((folder.parent / setting).read_text())
        made.append(folder)
    return made


def enter(folders: Sequence[Path]) -> None:
    """Move this process there."""
    for folder in folders:
        (folder / "cgroup.procs").write_text(str(os.getpid()))


def end(folders: Sequence[Path]) -> None:
    """Thaw, kill and remove everything in these cgroups. LocalError if something stays."""
    there = [folder for folder in folders if folder.is_dir()]
    deadline = time.monotonic() + _PATIENCE_S
    while there:
        for folder in there:
            for inner in _deepest_first(folder):
                _thaw(inner)
                _kill(inner)
                with suppress(OSError):
                    inner.rmdir()
        there = [folder for folder in there if folder.is_dir()]
        if there and time.monotonic() > deadline:
            raise LocalError(f"these cgroups of a real node cannot be removed: {', '.join(map(str, there))}")
        if there:
            time.sleep(_POLL_S)


def _deepest_first(folder: Path) -> Iterator[Path]:
    for path, _, _ in os.walk(folder, topdown=False):
        yield Path(path)


def _thaw(folder: Path) -> None:
    for switch, off in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        with suppress(OSError):
            if (folder / switch).exists():
                (folder / switch).write_text(off)


def _kill(folder: Path) -> None:
    with suppress(OSError):
        for line in (folder / "cgroup.procs").read_text().split():
            if line != "0":  # 0 is a process of another PID namespace than ours
                with suppress(ProcessLookupError):
                    os.kill(int(line), signal.SIGKILL)
