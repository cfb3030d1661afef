"""Finds and ends the processes of one control plane, by a mark in their environment that names its folder.

The kernel's own process table is the record, so nothing is missed when a supervisor was killed before it could write
down what it had started, and no other program is touched because it was given an old process id.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT_MARK, NAME_MARK = "TENSORFUSION_LOCAL_ROOT", "TENSORFUSION_LOCAL_PROCESS"
SUPERVISOR = "supervisor"
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Running:
    """A process of the control plane. psutil knows it by id and start time, so a reused id is never taken for it."""

    name: str
    process: psutil.Process


def marks(root: Path, name: str) -> dict[str, str]:
    """The environment variables that every process of the control plane at `root` is started with."""
    return {ROOT_MARK: str(root), NAME_MARK: name}


def find(root: Path, name: str | None = None) -> list[Running]:
    """The living processes of the control plane at `root`, or those called `name`, with their descendants."""
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        environment = _environment(process)
        if environment.get(ROOT_MARK) != str(root) or process.pid in own:
            continue
        marked = environment.get(NAME_MARK, "")
        if name is None or marked == name:
            found.append(Running(marked, process))
    return found


def end(running: Sequence[Running], grace_s: float) -> list[Running]:
    """Ask them to end, kill those that have not after `grace_s` seconds, and return those that are there even so."""
    _send(running, signal.SIGTERM)
    stubborn = _wait(running, grace_s)
    _send(stubborn, signal.SIGKILL)
    return _wait(stubborn, grace_s)


def _wait(running: Sequence[Running], timeout_s: float) -> list[Running]:
    """Those that are still alive when all have ended or the time is up. A zombie has ended: its parent is just slow."""
    deadline = time.monotonic() + timeout_s
    while (alive := [item for item in running if is_alive(item.process)]) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return alive


def is_alive(process: psutil.Process) -> bool:
    """Whether it still runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _send(running: Iterable[Running], number: signal.Signals) -> None:
    for item in running:
        try:
            item.process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def _environment(process: psutil.Process) -> Mapping[str, str]:
    try:
        return process.environ()
    except (psutil.Error, OSError):  # gone, a zombie, or another user's
        return {}
