"""Locks on files, which the kernel releases when their holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tensorfusion_iac.local.errors import LocalError

_POLL_S = 0.1


@contextmanager
def locked(path: Path, timeout_s: float, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock on `path`. `waiting` is called once if somebody else has it; LocalError after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    told = False
    while (descriptor := _try(path)) is None:
        if not told:
            waiting()
            told = True
        if time.monotonic() > deadline:
            raise LocalError(f"another process has held {path} for {timeout_s:g} s")
        time.sleep(_POLL_S)
    try:
        yield
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether some process holds the lock now."""
    if not path.parent.is_dir() or not path.exists():
        return False
    descriptor = _try(path)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def _try(path: Path) -> int | None:
    """The descriptor of the locked file, None if it is locked by another or was replaced meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LocalError(f"cannot open {path}: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
