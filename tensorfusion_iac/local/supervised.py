"""One supervised process: started once what it needs is ready, probed until it is ready itself, started again if it ends.

How long to wait before another start is a pure function of how often in a row it has failed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from asyncio.subprocess import DEVNULL
from asyncio.subprocess import Process as Child
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tensorfusion_iac.local import leftovers
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.probing import Prober
from tensorfusion_iac.local.process import Process
from tensorfusion_iac.local.state import Phase, ProcessRecord

STEADY_S = 60.0
"""A process that was up for so long has not failed to start; its count of failures begins anew."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
PROBE_PERIOD_S, LONGEST_PROBE_PERIOD_S = 0.1, 2.0
"""Often at first, when every moment counts; seldom for a process that waits for something to be deployed."""

LOG_LIMIT_BYTES = 20 * 2**20
_KEPT_VARIABLES = ("PATH", "HOME", "TMPDIR", "LANG", "TZ", "PYTHONPATH")
_LEFTOVER_GRACE_S = 2.0

log = logging.getLogger(__name__)


def pause_s(failures: int) -> float:
    """Seconds before the next start, after `failures` (1, 2, ...) in a row: 0.5, 1, 2, ... up to 30."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (failures - 1))


def environment(inherited: Mapping[str, str], process: Process, root: Path) -> dict[str, str]:
    """What a process is started with: little, since ETCD_* or KWOK_* in a user's shell would change what it does."""
    kept = {name: inherited[name] for name in _KEPT_VARIABLES if name in inherited}
    return kept | dict(process.env) | leftovers.marks(root, process.name)


class Supervised:
    """The life of one process. `changed` is called after each change of `record`."""

    def __init__(
        self, process: Process, layout: Layout, prober: Prober, needs: Sequence[Supervised], changed: Callable[[], None]
    ) -> None:
        self.process = process
        self.ready = asyncio.Event()
        self.record = ProcessRecord(name=process.name, phase=Phase.WAITING)
        self._layout, self._prober, self._needs, self._changed = layout, prober, needs, changed
        self._child: Child | None = None
        self._stopping, self._starting = asyncio.Event(), asyncio.Lock()

    async def keep(self) -> None:
        """Start it, and start it again whenever it ends, until `stop`."""
        while not self._stopping.is_set():
            for need in self._needs:
                await need.ready.wait()
            started = time.monotonic()
            try:
                async with self._starting:
                    if self._stopping.is_set():
                        return
                    self._child = child = await self._start()
            except OSError as error:
                await self._ended(f"cannot be started: {error.strerror}", 0.0)
                continue
            becoming_ready = asyncio.create_task(self._become_ready())
            code = await child.wait()
            becoming_ready.cancel()
            self.ready.clear()
            await self._ended(_how(code), time.monotonic() - started)

    async def stop(self) -> None:
        """End it: SIGTERM, then SIGKILL after its grace, and whatever it left behind."""
        self._stopping.set()
        async with self._starting:  # a start under way is finished, and then ended
            child = self._child
        if child is not None and child.returncode is None:
            child.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(child.wait(), self.process.grace_s)
            except TimeoutError:
                log.warning("%s did not end in %g s and is killed", self.process.name, self.process.grace_s)
                child.kill()
                await child.wait()
        await self._end_leftovers()
        self._update(phase=Phase.STOPPED, pid=None)

    async def _start(self) -> Child:
        path = self._layout.log(self.process.name)
        if path.is_file() and path.stat().st_size > LOG_LIMIT_BYTES:
            path.replace(self._layout.older_log(self.process.name))
        with path.open("ab") as output:
            child = await asyncio.create_subprocess_exec(
                *self.process.argv,
                stdin=DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._layout.root,
                env=environment(os.environ, self.process, self._layout.root),
                start_new_session=True,
            )
        log.info("%s started as process %d", self.process.name, child.pid)
        self._update(phase=Phase.STARTING, pid=child.pid, started_at=_started_at(child.pid))
        return child

    async def _become_ready(self) -> None:
        period_s = PROBE_PERIOD_S
        while await asyncio.to_thread(self._prober.fault, self.process.readiness) is not None:
            await asyncio.sleep(period_s)
            period_s = min(LONGEST_PROBE_PERIOD_S, period_s * 1.1)
        log.info("%s is ready", self.process.name)
        self._update(phase=Phase.READY)
        self.ready.set()

    async def _ended(self, how: str, lasted_s: float) -> None:
        if self._stopping.is_set():
            return
        failures = 1 if lasted_s >= STEADY_S else self.record.failures + 1
        log.warning("%s %s after %.1f s; next start in %g s", self.process.name, how, lasted_s, pause_s(failures))
        self._update(phase=Phase.RESTARTING, pid=None, last_end=how, failures=failures, restarts=self.record.restarts + 1)
        await self._end_leftovers()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), pause_s(failures))

    async def _end_leftovers(self) -> None:
        """Children that outlived it would keep its ports and files."""
        left = await asyncio.to_thread(leftovers.find, self._layout.root, self.process.name)
        await asyncio.to_thread(leftovers.end, left, _LEFTOVER_GRACE_S)

    def _update(self, **changes: object) -> None:
        self.record = self.record.model_copy(update=changes)
        self._changed()


def _started_at(pid: int) -> float | None:
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return None


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
