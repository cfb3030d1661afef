"""What one control plane remembers: its settings, written by `up`, and its processes, written by the supervisor.

Both are files of JSON, replaced in one step. Settings survive a restart of the machine; the runtime record only
describes processes, and a record whose processes are gone is worth nothing.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.layout import write_private


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


Port = Annotated[int, Field(ge=1, le=65535)]


class Ports(_Record):
    """The loopback ports, one for each listener."""

    apiserver: Port
    etcd: Port
    etcd_peer: Port
    controller_manager: Port
    scheduler: Port
    kwok: Port
    webhook: Port
    extender: Port
    controller: Port
    simulated_agents: Port


class NodeGroup(_Record):
    """`nodes` simulated nodes with `gpus_per_node` cards of one model (a name of the catalogue)."""

    model: str
    gpus_per_node: Annotated[int, Field(ge=1, le=128)]
    nodes: Annotated[int, Field(ge=1, le=10_000)]


class Programs(StrEnum):
    """Where our webhook, extender and controller run."""

    LOCAL = "local"
    """as processes of the control plane, for ControlPlane(runtime="local")"""
    CLUSTER = "cluster"
    """as pods, which ControlPlane makes"""


class Settings(_Record):
    """What `up` wants to run."""

    schema_version: Literal[1] = 1
    ports: Ports
    groups: tuple[NodeGroup, ...]
    tools: dict[str, Path]
    real_nodes: Annotated[int, Field(ge=0, le=4)] = 0
    network: Annotated[int, Field(ge=0, le=255)] | None = None
    """of the real nodes (real_nodes/plan.py)"""
    programs: Programs = Programs.LOCAL


class Phase(StrEnum):
    """Where a process is in its life."""

    WAITING = "waiting"
    """for the processes that it needs"""
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    """it ended by itself, and is started again after a pause"""
    STOPPED = "stopped"


class ProcessRecord(_Record):
    """One supervised process. Times are seconds since the epoch; `pid` and `started_at` are of its latest start."""

    name: str
    phase: Phase
    pid: int | None = None
    started_at: float | None = None
    restarts: int = 0
    failures: int = 0
    """how often in a row it ended before it had been up for a minute"""
    last_end: str = ""


class Runtime(_Record):
    """What the supervisor knows of itself and its processes."""

    supervisor_pid: int
    started_at: float
    processes: tuple[ProcessRecord, ...]


def load_settings(path: Path) -> Settings | None:
    """The remembered settings; None if there are none. LocalError if the file is not what we wrote."""
    try:
        return Settings.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise LocalError(f"{path} does not hold the settings of a control plane: {_first(error)}") from None


def needed_settings(path: Path) -> Settings:
    """The same, for who cannot do without; LocalError if there are none."""
    settings = load_settings(path)
    if settings is None:
        raise LocalError(f"{path} is missing: `tensorfusion local up` writes it")
    return settings


def load_runtime(path: Path) -> Runtime | None:
    """The supervisor's record; None if there is none that can be read, since all of it can be found out again."""
    try:
        return Runtime.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def save(path: Path, record: Settings | Runtime) -> None:
    """Write settings or runtime record."""
    write_private(path, record.model_dump_json(indent=2).encode() + b"\n")


def _first(error: OSError | ValidationError) -> str:
    if isinstance(error, OSError):
        return str(error.strerror)
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}" if where else problem["msg"]
