"""How results are shown: text for people, JSON for programs; tables by rich (`--output`).

Results go to standard output, what is wrong to standard error.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

_PIPE_COLUMNS = 10_000  # a table that goes into a pipe is not cut


class Output(StrEnum):
    """Text or JSON."""

    TEXT = "text"
    JSON = "json"


class Manifest(StrEnum):
    """YAML or JSON, for results that are manifests."""

    YAML = "yaml"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to show the result.")]
ManifestOption = Annotated[Manifest, typer.Option("--output", "-o", help="How to write the manifests.")]


def show(output: Output, data: Any, text: str) -> None:
    """Show `data` as JSON, or the text that says the same."""
    typer.echo(as_json(data) if output is Output.JSON else text)


def as_json(data: Any) -> str:
    """JSON for reading: indented, in the order given."""
    return json.dumps(data, indent=2, ensure_ascii=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table without frames, as wide as the terminal; uncut where there is none."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        grid.add_column(column, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    terminal = sys.stdout.isatty()
    console = Console(width=shutil.get_terminal_size().columns if terminal else _PIPE_COLUMNS, force_terminal=terminal)
    with console.capture() as capture:
        console.print(grid)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def one_line(text: str) -> str:
    """Text of a user's file as part of a message: what would end the line, or steer the terminal, is escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def complain(text: str) -> None:
    """Say on standard error what is wrong."""
    typer.echo(text, err=True)
