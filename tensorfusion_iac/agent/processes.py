"""The node's processes as the agent needs them: of which pod and container, since when, and ended if it must be.

Numbers come back: a pid is only the same process together with its start time, which is looked at before anything is done
to it. The agent runs in the host's PID namespace, so NVML's numbers are /proc's.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tensorfusion_iac.agent.cgroup_path import ProcessPlace
from tensorfusion_iac.agent.cgroups import Cgroups, Hierarchy

PROC = Path("/proc")
_START_TIME = 19  # field 22 of /proc/<pid>/stat, counted after the command's closing bracket
_MPS = "nvidia-cuda-mps"  # nvidia-cuda-mps-server, as the kernel cuts it
_STAT_BYTES = 2048
_KNOWN_AGAIN_AFTER = 2  # looks, after which a pod's process is looked at again: numbers are given in turn, none comes back soon
_UNKNOWN_AGAIN_AFTER = 8  # looks, after which a process of no pod is looked at again: it may have been moved


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a container of a pod."""

    pid: int
    start_time: int
    place: ProcessPlace
    hierarchy: Hierarchy

    @property
    def parent(self) -> Path:
        """The directory of its cgroup, without our child."""
        return self.hierarchy.at(self.place.own)


class ProcessTable:
    """Looks processes up, and remembers by pid and start time."""

    def __init__(self, cgroups: Cgroups, proc: Path = PROC) -> None:
        self._cgroups, self._proc, self._stats = cgroups, proc, str(proc)
        self._known: dict[int, tuple[int, Process | None, int]] = {}

    def look_up(self, pid: int) -> Process | None:
        """The process, None for one that is of no pod or gone (for longer than a look)."""
        known_start, known, looks = self._known.get(pid, (-1, None, 0))
        if known is not None and looks % _KNOWN_AGAIN_AFTER:
            self._known[pid] = (known_start, known, looks + 1)
            return known
        start_time = self.start_time(pid)
        if start_time is None:
            self._known.pop(pid, None)
            return None
        if known_start == start_time and (known is not None or looks % _UNKNOWN_AGAIN_AFTER):
            self._known[pid] = (start_time, known, looks + 1)
            return known
        found = self._read(pid, start_time)
        self._known[pid] = (start_time, found, looks + 1)
        return found

    def start_time(self, pid: int) -> int | None:
        """When a process started, in clock ticks since boot; None if it is gone."""
        try:  # plain calls: this is done for each process on a card twice a second
            file = os.open(f"{self._stats}/{pid}/stat", os.O_RDONLY)
        except OSError:
            return None
        try:
            text = os.read(file, _STAT_BYTES)
        except OSError:
            return None
        finally:
            os.close(file)
        return int(text.rpartition(b")")[2].split()[_START_TIME])

    def is_mps(self, pid: int) -> bool:
        """Whether a process is MPS's own server, which holds a card on behalf of its clients."""
        try:
            return (self._proc / str(pid) / "comm").read_text(errors="replace").startswith(_MPS)
        except OSError:
            return False

    def keep_only(self, pids: set[int]) -> None:
        """Forget the others."""
        for pid in self._known.keys() - pids:
            del self._known[pid]

    def end(self, process: Process) -> bool:
        """Kill exactly this process, not another one of its number. Returns whether it was there."""
        try:
            handle = os.pidfd_open(process.pid)
        except OSError:
            return False
        try:
            if self.start_time(process.pid) != process.start_time:
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return True
        except OSError:
            return False
        finally:
            with suppress(OSError):
                os.close(handle)

    def _read(self, pid: int, start_time: int) -> Process | None:
        try:
            text = (self._proc / str(pid) / "cgroup").read_text()
        except OSError:
            return None
        found = self._cgroups.of_process(text)
        return None if found is None else Process(pid, start_time, *found)
