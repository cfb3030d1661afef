"""A node's cgroups with pods in them, made for one test below the machine's real hierarchies, and removed for sure.

The agent is given a folder whose `unified` and `freezer` lead to our part of them, so that nothing else on the machine is
ever seen; its processes then look as they do from inside another cgroup namespace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path

from tensorfusion_iac.agent.cgroups import Version
from tensorfusion_iac.agent.pods import CardLimits, NodePod
from tensorfusion_iac.api.levels import Isolation, QoS

REAL = Path("/sys/fs/cgroup")
GIB = 2**30


class Node:
    """Made by `made`. `mount` is what the agent takes for its cgroup mount."""

    def __init__(self, folder: Path, roots: dict[Version, Path]) -> None:
        self.mount, self._roots = folder, roots
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def pure_mount(self) -> Path:
        """What the agent would take for its mount on a machine of v2 alone: our part of the real hierarchy is the whole."""
        return self._roots[Version.V2]

    def container(self, pod_uid: str, container_id: str, version: Version = Version.V2) -> Path:
        """The cgroup of a container, made with its pod's."""
        path = self._roots[version] / "kubepods" / "burstable" / f"pod{pod_uid}" / container_id
        path.mkdir(parents=True, exist_ok=True)
        return path

    def run(self, container: Path, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """A process inside a container's cgroup, once it has said its first line."""
        script = f'echo $$ > "{container}/cgroup.procs" && exec "$0" "$@"'
        process = subprocess.Popen(["/bin/sh", "-c", script, *command], stdout=subprocess.PIPE)
        self._started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline(), f"{command[0]} did not start"
        return process

    def end(self) -> None:
        """Kill what was started and remove the cgroups."""
        folders = [folder for root in self._roots.values() for folder in _below(root)]
        for folder in folders:
            for switch, off in (("cgroup.freeze", "0"), ("freezer.state", "THAWED")):
                with suppress(OSError):
                    if (folder / switch).exists():
                        (folder / switch).write_text(off)
        for process in self._started:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.communicate(timeout=20)
        deadline = time.monotonic() + 10
        for folder in folders:
            while folder.exists() and time.monotonic() < deadline:
                try:
                    folder.rmdir()
                except OSError:
                    for pid in _pids(folder):  # a child of what we started
                        with suppress(OSError):
                            os.kill(pid, signal.SIGKILL)
                    time.sleep(0.02)
            assert not folder.exists(), f"{folder} is left behind"


@contextmanager
def made(folder: Path) -> Iterator[Node]:
    """A node for the length of the block."""
    assert os.geteuid() == 0, "these tests freeze real processes: they need root"
    name = f"tfa-{uuid.uuid4().hex[:8]}"
    unified = REAL if (REAL / "cgroup.controllers").exists() else REAL / "unified"
    roots = {Version.V2: unified / name}
    if (REAL / "freezer" / "cgroup.procs").exists():
        roots[Version.V1] = REAL / "freezer" / name
    folder.mkdir(parents=True, exist_ok=True)
    for version, root in roots.items():
        root.mkdir()
        (folder / ("unified" if version is Version.V2 else "freezer")).symlink_to(root)
    node = Node(folder, roots)
    try:
        yield node
    finally:
        node.end()


def pod_uid(number: int) -> str:
    """A UID, readable in failures."""
    return f"00000000-0000-4000-8000-{number:012d}"


def container_id(number: int) -> str:
    """A container's id."""
    return f"{number:064x}"


def soft_pod(
    number: int, card: str, request: float, limit: float, qos: QoS = QoS.MEDIUM, *, vram_bytes: int = 8 * GIB
) -> NodePod:
    """A soft-limited pod with one container on one card."""
    limits = CardLimits(request, limit, vram_bytes, vram_bytes, Decimal(100))
    return NodePod(
        pod_uid(number), "default", f"pod-{number}", qos, Isolation.SOFT, {card: limits}, {container_id(number): "main"}
    )


def _below(root: Path) -> list[Path]:
    """All cgroups of a tree, the deepest first."""
    found = [Path(folder) for folder, _, _ in os.walk(root)]
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def _pids(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []
