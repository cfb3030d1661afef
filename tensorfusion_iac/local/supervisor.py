"""The background process of a control plane: `python -m tensorfusion_iac.local.supervisor ROOT`.

It runs the table of processes, keeps the simulated nodes in the API server, and writes down what it knows. SIGTERM ends
everything in reverse order; SIGHUP makes it read the settings again, for another fleet.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path

import psutil

from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.local import commands, fleet, leftovers
from tensorfusion_iac.local.catalogue import look_up
from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.fleet_keeper import FleetKeeper
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.locks import locked
from tensorfusion_iac.local.probing import Prober
from tensorfusion_iac.local.state import Runtime, Settings, load_settings, needed_settings, save
from tensorfusion_iac.local.supervised import Supervised

LOCK_WAIT_S = 5.0
"""Somebody who looks whether the lock is held holds it for a moment himself."""

_OWNER_POLL_S = 2.0
_RETRY_S = 5.0

log = logging.getLogger(__name__)


class Supervisor:
    """Runs one control plane until it is told to stop."""

    def __init__(self, layout: Layout, settings: Settings, owner: psutil.Process | None) -> None:
        self._layout, self._settings, self._owner = layout, settings, owner
        self._stop, self._reload = asyncio.Event(), asyncio.Event()
        self._supervised: dict[str, Supervised] = {}
        self._started_at = psutil.Process().create_time()

    async def run(self) -> None:
        """Start everything, keep it running, and end it all on SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload.set)
        prober = Prober()
        for process in commands.table(self._settings, self._layout):
            needs = [self._supervised[name] for name in process.after]
            self._supervised[process.name] = Supervised(process, self._layout, prober, needs, self._write_down)
        self._write_down()
        tasks = [asyncio.create_task(self._keep_fleet())]
        tasks += [asyncio.create_task(supervised.keep()) for supervised in self._supervised.values()]
        if self._owner:
            tasks.append(asyncio.create_task(self._stop_with(self._owner)))
        stopped = asyncio.create_task(self._stop.wait())
        done, _ = await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
        await self._end(tasks)
        for task in done:
            task.result()  # a fault of ours ends the supervisor, loudly, after it has tidied up

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        log.info("stopping")
        tasks[0].cancel()  # the fleet would complain that the API server has gone
        for supervised in reversed(self._supervised.values()):
            await supervised.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        log.info("stopped")

    async def _keep_fleet(self) -> None:
        """Keep the fleet of the settings; for other settings, or after a fault of it, begin again."""
        while True:
            await self._supervised["kube-apiserver"].ready.wait()
            keeping = asyncio.create_task(self._keep_this_fleet())
            reload = asyncio.create_task(self._reload.wait())
            try:
                await asyncio.wait([keeping, reload], return_when=asyncio.FIRST_COMPLETED)
            finally:
                keeping.cancel()
                reload.cancel()
                await asyncio.wait([keeping, reload])
            if not keeping.cancelled():
                log.error("the simulated nodes", exc_info=keeping.exception())  # the cluster itself goes on
                await asyncio.sleep(_RETRY_S)
            if self._reload.is_set():
                self._reload.clear()
                self._settings = load_settings(self._layout.settings) or self._settings
                log.info("settings read again")

    async def _keep_this_fleet(self) -> None:
        async with await Client.from_kubeconfig(self._layout.kubeconfig) as client:
            await FleetKeeper(client, fleet.build(self._settings.groups, look_up)).run()

    async def _stop_with(self, owner: psutil.Process) -> None:
        while leftovers.is_alive(owner):  # noqa: ASYNC110 - nobody would set an event
            await asyncio.sleep(_OWNER_POLL_S)
        log.info("the owner, process %d, has ended", owner.pid)
        self._stop.set()
        await asyncio.Event().wait()

    def _write_down(self) -> None:
        records = tuple(supervised.record for supervised in self._supervised.values())
        save(
            self._layout.runtime,
            Runtime(supervisor_pid=os.getpid(), started_at=self._started_at, processes=records),
        )


def main(arguments: list[str]) -> int:
    """Become the supervisor of the control plane in the folder named first, and go to the background.

    The starter gets 0 once this process holds the lock, or 1. A second argument is the process id of an owner: when it
    ends, so does everything here.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.Formatter.converter = time.gmtime
    layout = Layout.at(Path(arguments[0]))
    try:
        with locked(layout.supervisor_lock, LOCK_WAIT_S):
            settings = needed_settings(layout.settings)
            owner = psutil.Process(int(arguments[1])) if len(arguments) > 1 else None
            if os.fork():
                os._exit(0)
            asyncio.run(Supervisor(layout, settings, owner).run())
    except (LocalError, psutil.NoSuchProcess) as error:
        log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
