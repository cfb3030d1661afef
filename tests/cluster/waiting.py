"""Waiting for what becomes true in a moment that no test can know, such as what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

PATIENCE_S, PAUSE_S = 60.0, 0.2


def eventually(look: Callable[[], Any], what: str = "what is waited for", within_s: float = PATIENCE_S) -> Any:
    """The first true value that `look` gives. Without one within the time the test fails, and says `what` is missing."""
    deadline = time.monotonic() + within_s
    while True:
        if found := look():
            return found
        if time.monotonic() > deadline:
            pytest.fail(f"{what}: not within {within_s:g} s; the last was {found!r}")
        time.sleep(PAUSE_S)
