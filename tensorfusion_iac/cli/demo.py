"""`tensorfusion demo`: a control plane on this machine, then a real `pulumi up` of the project on it (README, `make demo`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from tensorfusion_iac.cli.exits import environment
from tensorfusion_iac.cli.local import Dir, failures
from tensorfusion_iac.cli.output import complain
from tensorfusion_iac.kube.errors import KubeError
from tensorfusion_iac.local import demo as steps
from tensorfusion_iac.local import overview
from tensorfusion_iac.local.layout import DEFAULT_ROOT, Layout
from tensorfusion_iac.local.toolchain import ensure

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def demo(
    folder: Dir = DEFAULT_ROOT,
    project: Annotated[Path, typer.Option(help="Folder of the Pulumi project to deploy.")] = Path(),
) -> None:
    """Bring a control plane up, deploy the Pulumi project in this folder on it, and show what runs."""
    layout = Layout.at(folder)
    with failures():
        steps.run(steps.Demo(project.resolve(), layout, lambda: ensure(steps.TOOLS, complain)), complain)
    try:
        found = overview.read_when_running(layout.kubeconfig)
    except KubeError as error:
        raise environment(str(error)) from None
    console = Console(width=None if sys.stdout.isatty() else 120)
    for item in found:
        console.print(_table(item))
    console.print('go on:  eval "$(.venv/bin/tensorfusion local env)"; pulumi preview; kubectl get tensorfusion -A')
    console.print("end it: .venv/bin/tensorfusion local down")


def _table(item: overview.Table) -> Table:
    shown = Table(
        title=item.title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_lines=any("\n" in cell for row in item.rows for cell in row),
    )
    for column in item.columns:
        shown.add_column(column, overflow="fold")
    for row in item.rows:
        shown.add_row(*row)
    return shown
