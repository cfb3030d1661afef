"""`tensorfusion local ...`: the embedded control plane and the programs that it runs (docs/local.md).

Progress goes to standard error and results to standard output. `status` ends with 1 where something is not healthy.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tensorfusion_iac.cli.exits import Exit, environment, usage
from tensorfusion_iac.cli.output import Output, OutputOption, complain, show, table
from tensorfusion_iac.local import commands, control_plane, fleet, leftovers, logs
from tensorfusion_iac.local.errors import LocalError, WishError
from tensorfusion_iac.local.layout import DEFAULT_ROOT, Layout
from tensorfusion_iac.local.pulumi_home import TOOLS as PULUMI_TOOLS
from tensorfusion_iac.local.pulumi_home import bin_dir as programs_folder
from tensorfusion_iac.local.pulumi_home import environment as pulumi_environment
from tensorfusion_iac.local.pulumi_home import exports, prepare
from tensorfusion_iac.local.real_nodes import setup as real_nodes
from tensorfusion_iac.local.real_nodes.plan import MAX_REAL_NODES
from tensorfusion_iac.local.state import Programs
from tensorfusion_iac.local.status import Status
from tensorfusion_iac.local.status import status as look
from tensorfusion_iac.local.toolchain import ToolError, ensure, link
from tensorfusion_iac.local.toolchain.recipe import load

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="A control plane on this machine, with simulated GPU nodes: no cluster and no GPU is needed.",
)

Dir = Annotated[Path, typer.Option("--dir", envvar="TENSORFUSION_LOCAL_DIR", help="Folder of the control plane.")]


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
    real: Annotated[
        int | None,
        typer.Option("--real-nodes", min=0, max=MAX_REAL_NODES, help="Nodes that run pods as real processes; needs root."),
    ] = None,
    programs: Annotated[
        Programs | None,
        typer.Option(help="Where webhook, extender and controller run: as processes here, or as pods on real nodes."),
    ] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port of the API server; default: a free one.")] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds until it must be ready.")] = (control_plane.UP_TIMEOUT_S),
    output: OutputOption = Output.TEXT,
) -> None:
    """Bring the control plane up. Where it is up already, nothing happens, or only its simulated nodes change."""
    with failures():
        wish = control_plane.Wish(fleet.wanted_groups(gpus or [], nodes, gpu_model, gpus_per_node), port, real, programs)
        result = control_plane.up(
            Layout.at(folder), wish, lambda: ensure(commands.TOOLS, complain), complain, timeout_s=timeout_s
        )
    data = {
        "kubeconfig": str(result.kubeconfig),
        "server": result.server,
        "started": result.started,
        "nodes": result.nodes,
        "realNodes": result.real_nodes,
        "tookSeconds": round(result.took_s, 2),
    }
    what = f"up in {result.took_s:.1f} s" if result.started else "already up"
    nodes_text = f"{result.nodes} simulated nodes" + (f", {result.real_nodes} real ones" if result.real_nodes else "")
    text = f'{what}: {result.server}, {nodes_text}\nuse it:  eval "$(tensorfusion local env)"'
    show(output, data, text)


@app.command()
def down(
    folder: Dir = DEFAULT_ROOT,
    purge: Annotated[bool, typer.Option("--purge", help="Remove its data, certificates and logs too.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """End every process of the control plane. Its data stay for the next `up`, unless --purge is given."""
    layout = Layout.at(folder)
    with failures():
        ended = control_plane.purge(layout, complain) if purge else control_plane.down(layout, complain)
    kept = "nothing of it is left" if purge else f"its data are kept in {layout.root}"
    text = f"down; {kept}" if ended else f"nothing was running in {layout.root}"
    show(output, {"ended": ended, "purged": purge}, text)


@app.command()
def status(folder: Dir = DEFAULT_ROOT, output: OutputOption = Output.TEXT) -> None:
    """Show each process with its id, uptime, restarts and health. Exit code 1 if something is not as it should be."""
    with failures():
        found = look(Layout.at(folder))
    show(output, found.record(), _as_text(found))
    raise typer.Exit(Exit.OK if found.healthy else Exit.PROBLEMS)


@app.command(name="logs")
def show_logs(
    process: Annotated[str | None, typer.Argument(help="One process; default: all that have a log.")] = None,
    folder: Dir = DEFAULT_ROOT,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Lines from the end of each log.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")] = False,
) -> None:
    """Show the ends of the logs."""
    with failures():
        paths = logs.select(Layout.at(folder), process)
        for path in paths:
            if len(paths) > 1:
                typer.echo(f"== {path}")
            for line in logs.tail(path, lines):
                typer.echo(line)
        if follow:
            for path, line in logs.follow(paths, time.sleep):
                typer.echo(f"{path.stem}: {line}" if len(paths) > 1 else line)


@app.command("load-image")
def load_image(
    archive: Annotated[
        Path, typer.Argument(metavar="FILE", help="An image archive: what `docker save` or `podman save` writes.")
    ],
    folder: Dir = DEFAULT_ROOT,
) -> None:
    """Put the images of an archive on all real nodes, so that their pods need no registry."""
    with failures():
        for node in real_nodes.load_archive(Layout.at(folder), archive):
            typer.echo(f"loaded on {node}")


@app.command()
def tools(
    names: Annotated[list[str] | None, typer.Argument(help="Tools, or groups of them such as languages.")] = None,
    folder: Dir = DEFAULT_ROOT,
    bin_dir: Annotated[Path | None, typer.Option(help="Folder to link them into; default: `bin` in --dir.")] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Provide every program that is needed, or those named: found on this machine, else built once (minutes) and cached."""
    target = (bin_dir or folder / "bin").absolute()
    with failures():
        paths = ensure(load().selected(names or []), complain)
        link(target, paths)
    places = {name: str(path) for name, path in paths.items()}
    text = f'{table(("TOOL", "PATH"), places.items())}\nuse them:  export PATH="{target}:$PATH"'
    show(output, {"binDir": str(target), "tools": places}, text)


@app.command()
def env(folder: Dir = DEFAULT_ROOT) -> None:
    """Print what points pulumi and kubectl at the control plane, for `eval "$(tensorfusion local env)"`.

    Provides pulumi, its provider and kubectl first, where they are not there yet.
    """
    layout = Layout.at(folder)
    with failures():
        if not layout.kubeconfig.is_file():
            raise LocalError(
                f"there is no control plane in {layout.root}: run `tensorfusion local up`, or name its folder with --dir"
            )
        prepare(layout, ensure(PULUMI_TOOLS, lambda line: None if " from " in line else complain(line)))
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    others = [entry for entry in path if entry != str(programs_folder(layout))]
    folder_of_ours = {"TENSORFUSION_LOCAL_DIR": str(layout.root)}  # for this command in the folders of other projects
    typer.echo(exports(pulumi_environment(layout, os.pathsep.join(others)) | folder_of_ours))


@contextmanager
def failures() -> Iterator[None]:
    """What the layers below refuse, as the end of a command."""
    try:
        yield
    except WishError as error:
        raise usage(str(error)) from None
    except (LocalError, ToolError) as error:
        raise environment(str(error)) from None


def _as_text(found: Status) -> str:
    if found.server is None:
        return f"there is no control plane in {found.root}; `tensorfusion local up` makes one"
    rows = [(leftovers.SUPERVISOR, "ready" if found.running else "stopped", str(found.supervisor_pid or "-"), "", "", "")]
    for process in found.processes:
        health = f"{process.health} (before: {process.last_end})" if process.last_end else process.health
        rows.append(
            (
                process.name,
                process.phase.value,
                str(process.pid or "-"),
                _uptime(process.uptime_s),
                str(process.restarts),
                health,
            )
        )
    processes = table(("PROCESS", "PHASE", "PID", "UPTIME", "RESTARTS", "HEALTH"), rows)
    return f"{processes}\n{control_plane.describe(found.groups)}\nserver {found.server}, kubeconfig {found.kubeconfig}"


def _uptime(uptime_s: float | None) -> str:
    if uptime_s is None:
        return "-"
    minutes, seconds = divmod(int(uptime_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"
