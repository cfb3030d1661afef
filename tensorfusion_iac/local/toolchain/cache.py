"""The versioned cache of built programs: one folder for each recipe, put there whole or not at all.

A folder's name holds the recipe's version and checksum, so a changed recipe has another folder and a running program is
never replaced. One lock for the cache keeps two builds from running at once, in this or in another process.
"""

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tensorfusion_iac.local.toolchain.errors import ToolError
from tensorfusion_iac.local.toolchain.progress import Progress, heartbeat
from tensorfusion_iac.local.toolchain.recipe import Recipe

LOCK_POLL_S = 0.2
_UNFINISHED = ".unfinished-"


@dataclass(frozen=True)
class Cache:
    """A folder of programs, by default `~/.cache/tensorfusion-iac/tools`."""

    root: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Cache":
        """The cache of a process with this environment: below XDG_CACHE_HOME, else below ~/.cache."""
        home = Path(environment.get("HOME") or Path.home())
        base = environment.get("XDG_CACHE_HOME") or home / ".cache"
        return cls(Path(base).absolute() / "tensorfusion-iac" / "tools")

    def executable(self, recipe: Recipe) -> Path:
        """Where the program of this recipe lies once it is built."""
        return self.folder(recipe) / recipe.name

    def folder(self, recipe: Recipe) -> Path:
        """The folder of this recipe."""
        return self.root / f"{recipe.name}-{recipe.version}-{recipe.checksum[:12]}"

    def log(self, recipe: Recipe) -> Path:
        """The log of its latest build, kept also when that failed."""
        return self.root / "logs" / f"{self.folder(recipe).name}.log"

    @contextmanager
    def locked(self, progress: Progress, purpose: str) -> Iterator[None]:
        """Hold the cache's lock; where another process has it, say so and wait."""
        with _told(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _acquire(descriptor, progress)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()}: {purpose}".encode(), 0)
            yield
        finally:
            os.close(descriptor)  # gives the lock back, as does the end of the process, however it comes

    @contextmanager
    def placing(self, folder: Path) -> Iterator[Path]:
        """Give a fresh folder to fill, which becomes `folder` by one rename when the body ends well. Hold the lock."""
        with _told(self.root):
            for remains in self.root.glob(f"{_UNFINISHED}*"):  # of a killed build: we hold the lock, so it is over
                shutil.rmtree(remains, ignore_errors=True)
            unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.root))
            try:
                yield unfinished
                unfinished.chmod(0o755)
                shutil.rmtree(folder, ignore_errors=True)
                unfinished.rename(folder)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)


def _acquire(descriptor: int, progress: Progress) -> None:
    if _try_lock(descriptor):
        return

    def holder() -> str:
        return os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"

    progress(f"      waiting for the tools' lock, held by {holder()}")
    with heartbeat(progress, lambda: f"waiting for {holder()}"):
        while not _try_lock(descriptor):
            time.sleep(LOCK_POLL_S)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _told(root: Path) -> Iterator[None]:
    """Turn what the file system refuses into a message with a way out."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            way_out = "the disk is full: free some space (a first build of all tools takes up to 15 GB)"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            way_out = "it can't be written: make it writable"
        else:
            way_out = f"{error.strerror or error}"
        raise ToolError(f"the cache of tools at {root}: {way_out}, or set XDG_CACHE_HOME to a folder that can be used") from error
