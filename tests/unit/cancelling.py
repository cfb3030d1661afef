"""Whether a task ends at its first cancel, for tests of what must not lose one."""

from __future__ import annotations

import asyncio
from typing import Any


async def has_ended(task: asyncio.Task[Any], within_s: float = 5) -> bool:
    """Whether a task that was cancelled ends in time. One that does not is cancelled once more, so that the test can end."""
    await asyncio.wait({task}, timeout=within_s)
    if not (ended := task.done()):
        task.cancel()
    return ended
