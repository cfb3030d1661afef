"""A real node, seen from this machine: `python -m tensorfusion_iac.local.real_nodes.outside ROOT ORDINAL`, as long as it runs.

Makes the node's cgroups, starts its first process (`inside`) in namespaces of its own, and joins it to the bridge. The kernel
ends everything of a node with that process, and that process with this one: processes, mounts, network; what stays are cgroups.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.real_nodes import cgroups
from tensorfusion_iac.local.real_nodes.network import ip, remove_link
from tensorfusion_iac.local.real_nodes.plan import RealNode, bridge_name, planned
from tensorfusion_iac.local.state import Settings, needed_settings

NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
GO = b"go\n"
"""Tells the first process that its network is there."""

PID, CGROUPS = "pid", "cgroups"
"""Files in a node's folder: its first process, by its number on this machine, and its cgroups, one a line."""

_START_S = 10.0
_POLL_S = 0.01
_PR_SET_PDEATHSIG = 1


def nodes_of(layout: Layout, settings: Settings) -> tuple[RealNode, ...]:
    """The real nodes of these settings."""
    return () if settings.network is None else planned(layout, settings.network, settings.real_nodes)


def run(node: RealNode) -> int:
    """Run the node until it ends or this process is told to end. The exit code is the node's."""
    end_left(node.folder)
    name = f"{bridge_name(node.layout)}-{node.name}"
    folders = cgroups.make(name)
    (node.folder / CGROUPS).write_text("".join(f"{folder}\n" for folder in folders))
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stopping.append(number))
    try:
        with _started(node, folders) as child:
            first = _first_process(child)
            (node.folder / PID).write_text(f"{first.pid}\n")
            _join(node, first.pid)
            assert child.stdin is not None  # noqa: S101 - stdin=PIPE
            child.stdin.write(GO)
            child.stdin.flush()
            while child.poll() is None and not stopping:
                time.sleep(0.1)
            with suppress(psutil.NoSuchProcess):
                first.kill()  # as if it had lost its power: nothing inside has to be told
            cgroups.end(folders)
            child.wait()
            return 0 if stopping else child.returncode or 1
    finally:
        end_left(node.folder)
        remove_link(node.link)


def end_left(folder: Path) -> None:
    """End what is left of the node in this folder: the processes in its cgroups, and those."""
    listed = folder / CGROUPS
    if listed.is_file():
        cgroups.end([Path(line) for line in listed.read_text().splitlines()])
        listed.unlink()
    (folder / PID).unlink(missing_ok=True)


def first_pid(node: RealNode) -> int | None:
    """The node's first process, by its number on this machine; None if the node does not run."""
    try:
        return int((node.folder / PID).read_text())
    except (OSError, ValueError):
        return None


def _started(node: RealNode, folders: Sequence[Path]) -> subprocess.Popen[bytes]:
    libc = ctypes.CDLL(None)

    def before() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        cgroups.enter(folders)

    inside = [sys.executable, "-m", "tensorfusion_iac.local.real_nodes.inside", str(node.layout.root), str(node.ordinal)]
    return subprocess.Popen(
        ["unshare", *NAMESPACES, "--fork", "--kill-child=SIGKILL", "--mount-proc", *inside],
        stdin=subprocess.PIPE, preexec_fn=before
    )  # fmt: skip


def _first_process(child: subprocess.Popen[bytes]) -> psutil.Process:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and child.poll() is None:
        if found := psutil.Process(child.pid).children():
            return found[0]
        time.sleep(_POLL_S)
    raise LocalError("unshare started nothing: may this user make namespaces?")


def _join(node: RealNode, pid: int) -> None:
    """A cable from the bridge to the node's eth0, and the way to its pods."""
    bridge = bridge_name(node.layout)
    remove_link(node.link)  # of the node before
    ip("link", "add", node.link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    ip("link", "set", node.link, "master", bridge, "up")
    ip("route", "replace", str(node.pods), "via", node.address, "dev", bridge)


def main(arguments: list[str]) -> int:
    """Run the node that the arguments name."""
    layout = Layout.at(Path(arguments[0]))
    try:
        return run(nodes_of(layout, needed_settings(layout.settings))[int(arguments[1])])
    except (LocalError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
