"""What needs a look: keys, each looked at once however often it changed meanwhile, and again later if the look failed.

A key rests for a period between two looks, so that a burst of changes costs one write. Nothing here is ever idle work: with no
changes there are no looks.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from tensorfusion_iac.controller.writing import NotHolderError
from tensorfusion_iac.kube.errors import KubeError

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

RETRY_FIRST_S, RETRY_MOST_S = 0.5, 60.0
_REMEMBERED = 10_000


class WorkQueue(Generic[K]):
    """Keys in need of a look. Made and used inside one event loop."""

    def __init__(self, period_s: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._period_s, self._clock = period_s, clock
        self._due: dict[K, None] = {}
        self._later: dict[K, tuple[float, asyncio.TimerHandle]] = {}
        self._looking: set[K] = set()
        self._again: set[K] = set()
        self._not_before: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due) + len(self._later) + len(self._looking)

    @property
    def due(self) -> int:
        """How many keys are looked at now, or would be if there were time."""
        return len(self._due) + len(self._looking)

    def add(self, key: K) -> None:
        """Have a look at this."""
        if key in self._looking:
            self._again.add(key)
        else:
            self._at(key, self._not_before.get(key, float("-inf")))

    def later(self, key: K, wait_s: float) -> None:
        """Have a look at this in a while, or earlier if there is another reason."""
        self._at(key, self._clock() + wait_s)

    async def run(self, look: Callable[[K], Awaitable[None]], looks: int = 8) -> None:
        """Look at what comes, up to `looks` at a time, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(looks):
                    tasks.create_task(self._run(look))
        finally:
            self._again |= self._looking
            self._looking.clear()
            for key in self._again:
                self._now(key)
            self._again.clear()

    async def _run(self, look: Callable[[K], Awaitable[None]]) -> None:
        while True:
            while not self._due:
                self._wake.clear()
                await self._wake.wait()
            key = next(iter(self._due))
            del self._due[key]
            self._looking.add(key)
            failed = False
            try:
                await look(key)
            except NotHolderError:
                failed = True
            except KubeError as error:
                failed = True
                log.warning("%s: %s", key, error)
            except Exception:  # one strange object must not end the work for all others
                failed = True
                log.exception("%s cannot be looked at", key)
            self._looking.discard(key)
            self._ended(key, failed)

    def _ended(self, key: K, failed: bool) -> None:
        now = self._clock()
        if len(self._not_before) > _REMEMBERED:
            self._not_before = {key: at for key, at in self._not_before.items() if at > now}
        if failed:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            self._not_before[key] = now + min(RETRY_FIRST_S * 2.0 ** min(failures, 16), RETRY_MOST_S)
            self._again.add(key)
        else:
            self._not_before[key] = now + self._period_s
            self._failures.pop(key, None)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _at(self, key: K, when: float) -> None:
        if key in self._due or (key in self._later and self._later[key][0] <= when):
            return
        if key in self._later:
            self._later.pop(key)[1].cancel()
        wait_s = when - self._clock()
        if wait_s <= 0:
            self._now(key)
        else:
            self._later[key] = (when, asyncio.get_running_loop().call_later(wait_s, self._now, key))

    def _now(self, key: K) -> None:
        if (waiting := self._later.pop(key, None)) is not None:
            waiting[1].cancel()
        self._due[key] = None
        self._wake.set()
