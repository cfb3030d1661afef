"""How a control plane is: each process with its id, uptime, restarts and health, asked at this moment."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tensorfusion_iac.local import commands
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.locks import is_held
from tensorfusion_iac.local.probing import Prober
from tensorfusion_iac.local.process import Process
from tensorfusion_iac.local.state import NodeGroup, Phase, ProcessRecord, load_runtime, load_settings


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One process. `health` is `ok`, or what is wrong in a few words; `pid` and `uptime_s` are None if it does not run."""

    name: str
    phase: Phase
    pid: int | None
    uptime_s: float | None
    restarts: int
    health: str
    last_end: str
    log: Path
    fault: str | None = None

    def record(self) -> dict[str, Any]:
        """For `--output json`."""
        return {
            "name": self.name,
            "phase": self.phase.value,
            "pid": self.pid,
            "uptimeSeconds": None if self.uptime_s is None else round(self.uptime_s, 1),
            "restarts": self.restarts,
            "health": self.health,
            "lastEnd": self.last_end or None,
            "log": str(self.log),
        }


@dataclass(frozen=True, slots=True)
class Status:
    """A control plane. `running`: its supervisor lives; `healthy`: all of its processes answer as they should."""

    root: Path
    running: bool
    healthy: bool
    supervisor_pid: int | None
    server: str | None
    kubeconfig: Path | None
    groups: tuple[NodeGroup, ...]
    processes: tuple[ProcessStatus, ...]

    def record(self) -> dict[str, Any]:
        """For `--output json`."""
        return {
            "folder": str(self.root),
            "running": self.running,
            "healthy": self.healthy,
            "supervisorPid": self.supervisor_pid,
            "server": self.server,
            "kubeconfig": str(self.kubeconfig) if self.kubeconfig else None,
            "nodes": [{"model": group.model, "gpusPerNode": group.gpus_per_node, "nodes": group.nodes} for group in self.groups],
            "processes": [process.record() for process in self.processes],
        }


def status(layout: Layout) -> Status:
    """Look at the control plane in this folder. LocalError if its settings cannot be read."""
    settings = load_settings(layout.settings)
    runtime = load_runtime(layout.runtime)
    running = is_held(layout.supervisor_lock)
    if settings is None:
        return Status(layout.root, running, False, None, None, None, (), ())
    table = commands.table(settings, layout)
    records = {record.name: record for record in runtime.processes} if runtime else {}
    faults = _faults(table)
    processes = tuple(
        _process(process, records.get(process.name), fault, layout.log(process.name))
        for process, fault in zip(table, faults, strict=True)
    )
    return Status(
        root=layout.root,
        running=running,
        healthy=running and all(process.pid is not None and process.fault is None for process in processes),
        supervisor_pid=runtime.supervisor_pid if running and runtime else None,
        server=commands.server_url(settings),
        kubeconfig=layout.kubeconfig,
        groups=settings.groups,
        processes=processes,
    )


def _process(process: Process, record: ProcessRecord | None, fault: str | None, log: Path) -> ProcessStatus:
    record = record or ProcessRecord(name=process.name, phase=Phase.STOPPED)
    alive = _is_alive(record)
    phase = record.phase if alive or record.phase in (Phase.RESTARTING, Phase.WAITING) else Phase.STOPPED
    return ProcessStatus(
        name=process.name,
        phase=phase,
        pid=record.pid if alive else None,
        uptime_s=time.time() - record.started_at if alive and record.started_at else None,
        restarts=record.restarts,
        health=_health(process, fault) if alive else "does not run",
        last_end=record.last_end,
        log=log,
        fault=None if process.until else fault,
    )


def _health(process: Process, fault: str | None) -> str:
    if fault is None:
        return "ok"
    return f"idle until {process.until}" if process.until else fault


def _is_alive(record: ProcessRecord) -> bool:
    """Whether the recorded process lives: its id and its start time, since ids are used again."""
    if record.pid is None:
        return False
    try:
        return psutil.Process(record.pid).create_time() == record.started_at
    except psutil.Error:
        return False


def _faults(table: Sequence[Process]) -> list[str | None]:
    prober = Prober()
    with ThreadPoolExecutor(len(table)) as threads:  # all at once: a process that hangs takes its time alone
        return list(threads.map(lambda process: prober.fault(process.readiness), table))
