"""One `go build`: its command, its log, its sign of life, and what a failure means to the user.

Everything that is compiled in is pinned by the module's go.mod and go.sum, which `-mod=readonly` leaves as they are.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tensorfusion_iac.local.toolchain.errors import ToolError
from tensorfusion_iac.local.toolchain.progress import HEARTBEAT_S, Progress, heartbeat
from tensorfusion_iac.local.toolchain.recipe import Recipe

LOG_TAIL_LINES = 15

_DISK_FULL = "the disk is full: free some space (a first build of all tools takes up to 15 GB)"
_NO_MEMORY = "there is too little memory: end other programs and try again"
_NO_WRITING = "Go's own caches can't be written: set GOCACHE and GOMODCACHE to folders that can"
_NO_NETWORK = "the Go modules can't be downloaded: check the network, or set GOPROXY to a proxy that is reached"

# What Go prints, and what to do about it.
_WAYS_OUT = (
    ("no space left on device", _DISK_FULL),
    ("signal: killed", _NO_MEMORY),
    ("cannot allocate memory", _NO_MEMORY),
    ("read-only file system", _NO_WRITING),
    ("permission denied", _NO_WRITING),
    ("dial tcp", _NO_NETWORK),
    ("TLS handshake", _NO_NETWORK),
    ("missing go.sum entry", "go.sum lacks a module: run `go mod tidy` in the folder of its go.mod"),
    ("updates to go.mod needed", "go.mod is incomplete: run `go mod tidy` in its folder"),
)


def command(recipe: Recipe, go: Path, output: Path) -> list[str]:
    """The command line that builds the program into the file `output`; run it in the recipe's module."""
    flags = ["-v", "-trimpath", "-mod=readonly", "-buildvcs=false", "-ldflags", recipe.ldflags]
    return [str(go), "build", *flags, "-o", str(output), recipe.package]


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of the build: fewer collections cost memory and save a sixth of the time (TOOLCHAIN.md)."""
    rest = {name: value for name, value in inherited.items() if name != "GOFLAGS"}  # meant for the user's own work
    return {**rest, "GOGC": inherited.get("GOGC", "400"), "GOWORK": "off", "GOTOOLCHAIN": "local"}


def build(recipe: Recipe, go: Path, output: Path, log: Path, progress: Progress, period_s: float = HEARTBEAT_S) -> None:
    """Build the program into `output`, keeping Go's words in `log`. ToolError shows their end and what to do."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("w") as words,
        subprocess.Popen(
            command(recipe, go, output),
            cwd=recipe.module,
            env=environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # so that an interrupt ends Go's compilers with it
        ) as process,
    ):
        words.write(f"{' '.join(command(recipe, go, output))}\n")
        follower = _Follower(process.stdout, words)
        try:
            with heartbeat(progress, follower.describe, period_s):
                follower.run()
                returncode = process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if returncode != 0:
        raise ToolError(_failure(recipe, log, returncode))


class _Follower:
    """Copies Go's words to the log and counts them: with -v, a line is a package compiled or a module fetched."""

    def __init__(self, source: IO[str] | None, log: IO[str]) -> None:
        assert source is not None  # noqa: S101 -- stdout=PIPE
        self._source, self._log = source, log
        self._lock = threading.Lock()
        self._modules = self._packages = 0

    def run(self) -> None:
        for line in self._source:
            self._log.write(line)
            self._log.flush()
            with self._lock:
                if line.startswith("go: downloading"):
                    self._modules += 1
                else:
                    self._packages += 1

    def describe(self) -> str:
        with self._lock:
            fetched = f"{self._modules} modules downloaded, " if self._modules else ""
            return f"{fetched}{self._packages} packages compiled"


def _failure(recipe: Recipe, log: Path, returncode: int) -> str:
    text = log.read_text(errors="replace")
    way_out = next((advice for sign, advice in _WAYS_OUT if sign in text), "the end of Go's words is below")
    tail = "\n".join(f"  {line}" for line in text.splitlines()[-LOG_TAIL_LINES:])
    return f"building {recipe.name} {recipe.version} failed (go build ended with {returncode}): {way_out}. Log: {log}\n{tail}"
