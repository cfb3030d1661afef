"""CUDA MPS for pods of isolation `hard`: one daemon for each set of cards, which its pods reach by their folder on the node.

The cards are in EXCLUSIVE_PROCESS mode meanwhile, so that a client which misses the daemon fails instead of running unbounded.
Every limit is read back: MPS ignores some without a word (research/enforcement.md §2.2). Untested on hardware.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tensorfusion_iac.agent.driver import Driver, DriverError
from tensorfusion_iac.agent.pods import NodePod
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.names import MPS_DIRECTORY

log = logging.getLogger(__name__)

CONTROL = "nvidia-cuda-mps-control"
MOUNTS = Path("/proc/self/mountinfo")
_ANSWER_S = 10.0
_WHOLE = "100.0"
_SHARE = "get_default_active_thread_percentage"


class MpsError(Exception):
    """The daemon or its folder is not as it should be; `str()` says how."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """One daemon: its cards, and the folder of its sockets."""

    cards: frozenset[str]
    folder: Path


class Mps:
    """The daemons of one node. `served`: the pods that a daemon is ready for; `faults`: the others, and why."""

    def __init__(self, driver: Driver, root: Path = Path(MPS_DIRECTORY), control: str = CONTROL) -> None:
        self.served: frozenset[str] = frozenset()
        self.faults: Mapping[str, str] = {}
        self._driver, self._root = driver, root
        self._control = shutil.which(control)
        self._daemons: dict[frozenset[str], Daemon] = {}
        self._linked = {path.name: path for path in root.iterdir()} if root.is_dir() else {}

    @property
    def available(self) -> bool:
        """Whether the node has MPS."""
        return self._control is not None

    def keep(self, pods: Mapping[str, NodePod]) -> None:
        """Have a daemon for each `hard` pod, and none for cards that have no such pod any more."""
        hard = {uid: pod for uid, pod in pods.items() if pod.isolation is Isolation.HARD}
        served, faults = set(), {}
        for uid in self._linked.keys() - hard.keys():
            self._unlink(uid)
        wanted = {frozenset(pod.cards) for pod in hard.values()}
        for cards in self._daemons.keys() - wanted:
            self._stop(self._daemons.pop(cards))
        for uid, pod in hard.items():
            try:
                self._link(uid, self._daemon(frozenset(pod.cards)))
                served.add(uid)
            except (MpsError, DriverError, OSError) as error:
                faults[uid] = str(error)
        self.served, self.faults = frozenset(served), faults

    def ask(self, daemon: Daemon, command: str) -> str:
        """One command to a daemon, and its answer. MpsError if it does not answer."""
        try:
            run = subprocess.run(
                [str(self._control)], input=f"{command}\n", env=self._environment(daemon), capture_output=True, text=True,
                timeout=_ANSWER_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MpsError(f"{CONTROL} {command}: {error}") from None
        if run.returncode != 0:
            raise MpsError(f"{CONTROL} {command}: {run.stderr.strip() or run.stdout.strip() or run.returncode}")
        return run.stdout.strip()

    def _daemon(self, cards: frozenset[str]) -> Daemon:
        if self._control is None:
            raise MpsError(f"{CONTROL} is not on this node")
        if (known := self._daemons.get(cards)) is not None:
            return known
        clash = next((other for other in self._daemons if other & cards), None)
        if clash is not None:
            raise MpsError(f"a daemon for another set of cards holds {', '.join(sorted(clash & cards))}")
        daemon = Daemon(cards, self._root.with_name("mps-cards") / "-".join(sorted(card.lower() for card in cards)))
        daemon.folder.mkdir(parents=True, exist_ok=True)
        for card in cards:
            self._driver.set_exclusive(card)
            if not self._driver.exclusive(card):
                raise MpsError(f"{card} did not become exclusive")
        self._start(daemon)
        self._daemons[cards] = daemon
        return daemon

    def _start(self, daemon: Daemon) -> None:
        """Start a daemon, or take over the one that an earlier agent started: its clients go on meanwhile."""
        try:
            told = self.ask(daemon, _SHARE)
        except MpsError:
            try:
                command = [str(self._control), "-d"]
                subprocess.run(command, env=self._environment(daemon), timeout=_ANSWER_S, check=True, capture_output=True)
            except (OSError, subprocess.SubprocessError) as error:
                raise MpsError(f"{CONTROL} -d: {error}") from None
            told = self.ask(daemon, _SHARE)
        if told != _WHOLE:  # the pods' own share comes by their environment
            raise MpsError(f"the daemon bounds every client to {told} percent; {_WHOLE} was expected")

    def _stop(self, daemon: Daemon) -> None:
        try:
            self.ask(daemon, "quit")
        except MpsError as error:
            log.warning("%s", error)
        for card in daemon.cards:
            try:
                self._driver.set_shared(card)
            except DriverError as error:
                log.warning("%s stays exclusive: %s", card, error)

    def _link(self, uid: str, daemon: Daemon) -> None:
        """Let a pod's folder show the daemon's: a bind mount, for a link would lead out of what the container sees."""
        folder = self._root / uid
        folder.mkdir(parents=True, exist_ok=True)
        if not _is_mounted(folder):
            _run("mount", "--bind", str(daemon.folder), str(folder))
        self._linked[uid] = folder

    def _unlink(self, uid: str) -> None:
        folder = self._linked.pop(uid)
        try:
            if _is_mounted(folder):
                _run("umount", str(folder))
            folder.rmdir()
        except (OSError, MpsError) as error:
            log.warning("%s is left: %s", folder, error)

    def _environment(self, daemon: Daemon) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "CUDA_VISIBLE_DEVICES": ",".join(sorted(daemon.cards)),
            "CUDA_MPS_PIPE_DIRECTORY": str(daemon.folder),
            "CUDA_MPS_LOG_DIRECTORY": str(daemon.folder),
        }


def _is_mounted(folder: Path) -> bool:
    """Whether something is mounted there; os.path.ismount does not see bind mounts within one file system."""
    return any(line.split()[4] == str(folder) for line in MOUNTS.read_text().splitlines())


def _run(*command: str) -> None:
    run = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_S, check=False)
    if run.returncode != 0:
        raise MpsError(f"{' '.join(command)}: {run.stderr.strip()}")


def clients(driver: Driver, card: str) -> Sequence[int]:
    """The processes that the driver says are clients of MPS on a card: the proof that a limit can be in force."""
    return [process.pid for process in driver.processes(card) if process.by_mps]
