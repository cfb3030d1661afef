"""The agent's sign of life to its watchdog: a lock that only a living process holds, and a clock in the locked file.

The file is on a memory file system that both containers mount, and is mapped, so that a full disk cannot stop the clock. The
kernel drops the lock when the agent ends, however it ends. The watchdog has no other import of this package.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
from pathlib import Path

LIFELINE = Path("/run/tensor-fusion/agent/lifeline")
STALL_S = 1.0
"""An agent that froze something and has not moved for so long is taken for dead."""

_CLOCK = struct.Struct("<q")


class AnotherAgentError(Exception):
    """Another agent of this node is alive."""


class Lifeline:
    """Held by the agent. One a node."""

    def __init__(self, path: Path = LIFELINE) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise AnotherAgentError(f"{path} is held: another agent runs on this node") from None
        os.ftruncate(self._file, _CLOCK.size)
        self._map = mmap.mmap(self._file, _CLOCK.size)
        self.beat()

    def beat(self) -> None:
        """Say that the agent moves."""
        _CLOCK.pack_into(self._map, 0, time.monotonic_ns())

    def close(self) -> None:
        """Let go; the agent has thawed everything."""
        self._map.close()
        os.close(self._file)


def is_alive(path: Path, now_ns: int) -> bool:
    """Whether an agent holds the file and has moved lately."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(file, _CLOCK.size, 0)
            return len(text) < _CLOCK.size or now_ns - _CLOCK.unpack(text)[0] < STALL_S * 1e9
        return False
    finally:
        os.close(file)
