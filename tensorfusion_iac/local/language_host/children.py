"""The processes that the host starts: programs, which write to its own output, and plugins, whose output is streamed.

A child is asked to end with SIGINT, as the official host does, and killed when it does not.
"""

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from tensorfusion_iac.local.language_host.errors import HostError

GRACE_S = 5.0
_DRAIN_S = 2.0
_CHUNK_BYTES = 1 << 16

Output = tuple[str, bytes]
"""`("stdout", ...)` or `("stderr", ...)`."""


class Children:
    """The running children of one host, so that all can be stopped when the host is told to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: list[subprocess.Popen[bytes]] = []
        self._stopped = False

    def start(
        self, command: Sequence[str | Path], cwd: Path, environment: Mapping[str, str], piped: int | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start a child; `piped` is subprocess.PIPE to read its output, None to let it write to the host's."""
        with self._lock:
            if self._stopped:
                raise HostError("the language host is being stopped")
            process = subprocess.Popen(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=piped, stderr=piped)
            self._started = [child for child in self._started if child.poll() is None] + [process]
        return process

    def stop(self) -> None:
        """Stop all children and wait for their end; no others can be started."""
        with self._lock:
            self._stopped = True
        threads = [threading.Thread(target=stop, args=(process,)) for process in self._started]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Ask a process to end; kill it when it has not after GRACE_S seconds."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def output(process: "subprocess.Popen[bytes]") -> Iterator[Output]:
    """What a piped child writes, as it comes, until it has ended."""
    chunks: queue.Queue[Output | None] = queue.Queue()
    readers = [
        threading.Thread(target=_read, args=(pipe, name, chunks.put), daemon=True)
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr))
    ]

    def finish() -> None:
        process.wait()
        for reader in readers:
            reader.join(_DRAIN_S)  # a grandchild may hold the pipes open: don't wait for that
        chunks.put(None)

    for thread in [*readers, threading.Thread(target=finish, daemon=True)]:
        thread.start()
    while (chunk := chunks.get()) is not None:
        yield chunk


def _read(pipe: IO[bytes] | None, name: str, put: Callable[[Output], None]) -> None:
    if pipe is None:
        return
    while chunk := os.read(pipe.fileno(), _CHUNK_BYTES):
        put((name, chunk))
