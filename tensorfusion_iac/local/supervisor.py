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
from tensorfusion_iac.kube.errors import KubeError
from tensorfusion_iac.local import commands, fleet, leftovers
from tensorfusion_iac.local.catalogue import look_up
from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.fleet_keeper import FleetKeeper
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.locks import locked
from tensorfusion_iac.local.probing import Prober
from tensorfusion_iac.local.state import Runtime, Settings, load_settings, save
from tensorfusion_iac.local.supervised import Supervised

LOCK_WAIT_S = 5.0
"""Somebody who looks whether the lock is held holds it for a moment himself."""

_LEFTOVER_GRACE_S = 3.0
_RETRY_S = 1.0

log = logging.getLogger(__name__)


class Supervisor:
    """Runs one control plane until it is told to stop."""

    def __init__(self, layout: Layout, settings: Settings) -> None:
        self._layout, self._settings = layout, settings
        self._stop, self._reload = asyncio.Event(), asyncio.Event()
        self._supervised: dict[str, Supervised] = {}
        self._started_at = psutil.Process().create_time()

    async def run(self) -> None:
        """Start everything, keep it running, and end it all on SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload.set)
        async with Prober() as prober:
            for process in commands.table(self._settings, self._layout):
                needs = [self._supervised[name] for name in process.after]
                self._supervised[process.name] = Supervised(process, self._layout, prober, needs, self._write_down)
            self._write_down()
            tasks = [asyncio.create_task(supervised.keep()) for supervised in self._supervised.values()]
            tasks.append(asyncio.create_task(self._keep_fleet()))
            stopped = asyncio.create_task(self._stop.wait())
            done, _ = await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
            await self._end(tasks)
            for task in done:
                task.result()  # a fault of ours ends the supervisor, loudly, after it has tidied up

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        log.info("stopping")
        tasks[-1].cancel()
        for supervised in reversed(self._supervised.values()):
            await supervised.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        log.info("stopped")

    async def _keep_fleet(self) -> None:
        while True:
            await self._supervised["kube-apiserver"].ready.wait()
            nodes = fleet.build(self._settings.groups, look_up)
            try:
                async with await Client.from_kubeconfig(self._layout.kubeconfig) as client:
                    keeper = asyncio.create_task(FleetKeeper(client, nodes).run())
                    reload = asyncio.create_task(self._reload.wait())
                    try:
                        await asyncio.wait([keeper, reload], return_when=asyncio.FIRST_COMPLETED)
                        if keeper.done():
                            keeper.result()
                    finally:
                        keeper.cancel()
                        reload.cancel()
                        await asyncio.gather(keeper, reload, return_exceptions=True)
            except* KubeError as errors:
                log.warning("the fleet: %s", errors.exceptions[0])
                await asyncio.sleep(_RETRY_S)
            if self._reload.is_set():
                self._reload.clear()
                self._settings = load_settings(self._layout.settings) or self._settings
                log.info("settings read again")

    def _write_down(self) -> None:
        records = tuple(supervised.record for supervised in self._supervised.values())
        save(
            self._layout.runtime,
            Runtime(supervisor_pid=os.getpid(), started_at=self._started_at, processes=records),
        )


def main(arguments: list[str]) -> int:
    """Run the supervisor of the control plane whose folder is the only argument. 1 if it cannot."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.Formatter.converter = time.gmtime
    layout = Layout.at(Path(arguments[0]))
    try:
        with locked(layout.supervisor_lock, LOCK_WAIT_S):
            left = [item for item in leftovers.find(layout.root) if item.name != leftovers.SUPERVISOR]
            leftovers.end(left, _LEFTOVER_GRACE_S)
            settings = load_settings(layout.settings)
            if settings is None:
                raise LocalError(f"{layout.settings} is missing: `tensorfusion local up` writes it")
            asyncio.run(Supervisor(layout, settings).run())
    except LocalError as error:
        log.error("%s", error)  # noqa: TRY400 - its text says it all
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
