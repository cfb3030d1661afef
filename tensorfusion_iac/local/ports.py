"""Which loopback ports a control plane listens on: those it had, where they are still free, else new ones.

Ports come from below the range from which the kernel takes the local end of outgoing connections, so that none of those
sits on a port while the process that listens there is being restarted.
"""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psutil

from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.state import Ports

HOST = "127.0.0.1"
RANGE = range(20_000, 32_000)
_ATTEMPTS = 200


@dataclass(frozen=True, slots=True)
class Choice:
    """The ports to use, and those listeners whose remembered port was taken by something else (name -> old port)."""

    ports: Ports
    moved: Mapping[str, int]


def choose(
    remembered: Ports | None,
    asked: int | None,
    is_free: Callable[[int], bool],
    candidates: Callable[[], int] = lambda: random.choice(RANGE),  # noqa: S311 - to spread, not to hide
) -> Choice:
    """Decide the ports. `asked` is the user's own wish for the API server. LocalError if it is busy."""
    if asked is not None and not is_free(asked):
        raise LocalError(f"port {asked} is in use on {HOST}{_by(listener(asked))}; end that, or give another port with --port")
    old = remembered.model_dump() if remembered else {}
    chosen: dict[str, int] = {} if asked is None else {"apiserver": asked}
    moved: dict[str, int] = {}
    for name in Ports.model_fields:
        if name in chosen:
            continue
        port = old.get(name)
        if port is None or port in chosen.values() or not is_free(port):
            if port is not None:
                moved[name] = port
            port = _new(set(chosen.values()) | set(old.values()), is_free, candidates)
        chosen[name] = port
    return Choice(Ports(**chosen), moved)


def is_free(port: int) -> bool:
    """Whether a server could listen there now. LocalError if this user may not (ports below 1024)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do: old connections do not matter
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno == errno.EACCES:
                raise LocalError(f"this user may not listen on port {port}; give a port above 1023") from None
            return False
        return True


def listener(port: int) -> psutil.Process | None:
    """The process that listens on a port, where the system tells us."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.pid and port in connection.laddr:
                return psutil.Process(connection.pid)
    except psutil.Error:
        return None
    return None


def _by(process: psutil.Process | None) -> str:
    if process is None:
        return ""
    try:
        return f" by {process.name()} (process {process.pid})"
    except psutil.Error:
        return ""


def _new(taken: set[int], is_free: Callable[[int], bool], candidates: Callable[[], int]) -> int:
    for _ in range(_ATTEMPTS):
        port = candidates()
        if port not in taken and is_free(port):
            return port
    raise LocalError(f"no free port found between {RANGE.start} and {RANGE.stop - 1} on {HOST}")
