"""`tensorfusion local ...`: the embedded control plane and the programs that it runs. Commands only; see docs/local.md.

Progress goes to standard error and results to standard output. Exit codes: 0 done; 1 it could not be done, or (status) the
control plane is not healthy; 2 wrong usage.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tensorfusion_iac.local import commands, control_plane, fleet, leftovers, logs
from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.layout import DEFAULT_ROOT, Layout
from tensorfusion_iac.local.status import Status
from tensorfusion_iac.local.status import status as look
from tensorfusion_iac.local.toolchain import ToolError, ensure, link
from tensorfusion_iac.local.toolchain.recipe import load

app = typer.Typer(
    no_args_is_help=True,
    help="A Kubernetes control plane with simulated GPU nodes, as processes of this machine: no cluster, no GPU needed.",
)


class Output(StrEnum):
    """How a command writes its result."""

    TEXT = "text"
    JSON = "json"


Dir = Annotated[
    Path, typer.Option("--dir", envvar="TENSORFUSION_LOCAL_DIR", help="Folder of the control plane.", show_default=True)
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to write the result.")]


@app.command()
def up(
    folder: Dir = DEFAULT_ROOT,
    gpus: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL=GPUSxNODES", help="Simulated nodes, for example A100_SXM_80G=8x2; may be repeated."),
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, max=fleet.MAX_NODES, help="Simulated nodes, all alike.")] = None,
    gpu_model: Annotated[str | None, typer.Option(help="Model of their GPUs; see `tensorfusion models`.")] = None,
    gpus_per_node: Annotated[int | None, typer.Option(min=1, max=fleet.MAX_GPUS_PER_NODE, help="GPUs on each.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port of the API server; default: a free one.")] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds until it must be ready.")] = (control_plane.UP_TIMEOUT_S),
    output: OutputOption = Output.TEXT,
) -> None:
    """Bring the control plane up. Where it is up already, nothing happens, or only its simulated nodes change."""
    with _errors():
        wish = control_plane.Wish(fleet.wanted_groups(gpus or [], nodes, gpu_model, gpus_per_node), port)
        result = control_plane.up(
            Layout.at(folder), wish, lambda: ensure(commands.TOOLS, _progress), _progress, timeout_s=timeout_s
        )
    if output is Output.JSON:
        _json(
            {
                "kubeconfig": str(result.kubeconfig),
                "server": result.server,
                "started": result.started,
                "nodes": result.nodes,
                "took_s": round(result.took_s, 2),
            }
        )
        return
    what = f"up in {result.took_s:.1f} s" if result.started else "already up"
    typer.echo(f"{what}: {result.server}, {result.nodes} simulated nodes")
    typer.echo(f"use it:  export KUBECONFIG={result.kubeconfig}")


@app.command()
def down(
    folder: Dir = DEFAULT_ROOT,
    purge: Annotated[bool, typer.Option("--purge", help="Remove its data, certificates and logs too.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """End every process of the control plane. Its data stay for the next `up`, unless --purge is given."""
    layout = Layout.at(folder)
    with _errors():
        ended = control_plane.purge(layout, _progress) if purge else control_plane.down(layout, _progress)
    if output is Output.JSON:
        _json({"ended": ended, "purged": purge})
        return
    kept = "nothing of it is left" if purge else f"its data are kept in {layout.root}"
    typer.echo(f"down; {kept}" if ended else f"nothing was running in {layout.root}")


@app.command()
def status(folder: Dir = DEFAULT_ROOT, output: OutputOption = Output.TEXT) -> None:
    """Show each process with its id, uptime, restarts and health. Exit code 1 if something is not as it should be."""
    with _errors():
        found = look(Layout.at(folder))
    if output is Output.JSON:
        _json(found.record())
    elif found.server is None:
        typer.echo(f"there is no control plane in {found.root}; `tensorfusion local up` makes one")
    else:
        _show(found)
    raise typer.Exit(0 if found.healthy else 1)


@app.command(name="logs")
def show_logs(
    process: Annotated[str | None, typer.Argument(help="One process; default: all that have a log.")] = None,
    folder: Dir = DEFAULT_ROOT,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Lines from the end of each log.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")] = False,
) -> None:
    """Show the ends of the logs."""
    with _errors():
        paths = logs.select(Layout.at(folder), process)
        for path in paths:
            if len(paths) > 1:
                typer.echo(f"== {path}")
            for line in logs.tail(path, lines):
                typer.echo(line)
        if follow:
            for path, line in logs.follow(paths, time.sleep):
                typer.echo(f"{path.stem}: {line}" if len(paths) > 1 else line)


@app.command()
def tools(
    folder: Dir = DEFAULT_ROOT,
    bin_dir: Annotated[Path | None, typer.Option(help="Folder to link them into; default: `bin` in --dir.")] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Provide every program that is needed: found on this machine, else built once (minutes) and kept in a cache."""
    target = (bin_dir or folder / "bin").absolute()
    with _errors():
        paths = ensure(list(load().tools), _progress)
        link(target, paths)
    if output is Output.JSON:
        _json({"bin_dir": str(target), "tools": {name: str(path) for name, path in paths.items()}})
        return
    for name, path in paths.items():
        typer.echo(f"{name}\t{path}")
    typer.echo(f'use them:  export PATH="{target}:$PATH"')


@contextmanager
def _errors() -> Iterator[None]:
    """One message on standard error instead of a traceback."""
    try:
        yield
    except (LocalError, ToolError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("interrupted; `tensorfusion local down` ends what was started", err=True)
        raise typer.Exit(130) from None


def _progress(line: str) -> None:
    typer.echo(line, err=True)


def _json(answer: dict[str, Any]) -> None:
    typer.echo(json.dumps(answer, indent=2, default=str))


def _show(found: Status) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("PROCESS", "PHASE", "PID", "UPTIME", "RESTARTS", "HEALTH"):
        table.add_column(column)
    supervisor = str(found.supervisor_pid or "-")
    table.add_row(leftovers.SUPERVISOR, "ready" if found.running else "stopped", supervisor, "", "", "")
    for process in found.processes:
        health = f"{process.health} ({process.last_end})" if process.last_end else process.health
        row = (process.phase, str(process.pid or "-"), _uptime(process.uptime_s), str(process.restarts), health)
        table.add_row(process.name, *row)
    Console(file=sys.stdout, soft_wrap=True).print(table)
    typer.echo(f"server {found.server}, kubeconfig {found.kubeconfig}")
    typer.echo(control_plane.describe(found.groups))


def _uptime(uptime_s: float | None) -> str:
    if uptime_s is None:
        return "-"
    minutes, seconds = divmod(int(uptime_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"
