"""The reference page of the command line, written from the commands themselves (docs/reference/cli.md).

`python -m tensorfusion_iac.cli.reference > docs/reference/cli.md` writes it; a test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import typer

from tensorfusion_iac.cli.application import COMMANDS, app, load

_WIDTH = 100
_INTRODUCTION = """\
# The command line

What `tensorfusion --help` says of every command. This page is written from `tensorfusion_iac/cli`; do not edit it. How the
commands are used is told in [../cli.md](../cli.md).
"""


def render_cli_markdown() -> str:
    """The whole page, with a newline at its end."""
    sections = [_INTRODUCTION, _section(typer.main.get_command(app), "tensorfusion")]
    for entry in COMMANDS:
        sections += _sections(load(entry), f"tensorfusion {entry.name}")
    return "\n".join(sections)


def _sections(command: Any, path: str) -> Iterator[str]:
    """A command's help, then that of each command below it."""
    yield _section(command, path)
    for name, below in getattr(command, "commands", {}).items():
        yield from _sections(below, f"{path} {name}")


def _section(command: Any, path: str) -> str:
    width = {"max_content_width": _WIDTH, "terminal_width": _WIDTH}
    context = command.make_context(path, [], resilient_parsing=True, help_option_names=["-h", "--help"], **width)
    return f"## {path}\n\n```text\n{command.get_help(context).strip()}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(render_cli_markdown())
