"""The application: the table of commands, and the group that loads a command's module only when it is called.

Loading late keeps the start-up short, and lets an installation without an extra (`local`, ...) use all other commands.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from tensorfusion_iac.cli.exits import Exit, Failure, environment

_PACKAGE = "tensorfusion_iac"
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EROFS)


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: its name, the module whose `app` it is, one line of help, and the extra that it needs, if any."""

    name: str
    module: str
    summary: str
    extra: str | None = None


COMMANDS = (
    Entry("validate", "validate", "Judge manifests: every problem of every object."),
    Entry("resolve", "resolve", "Show what the webhook would make of a pod, as YAML and as a JSON patch."),
    Entry("compile", "compile", "Write a Python program's workloads as YAML, without a cluster."),
    Entry("import", "import_", "Write the Python that declares the workloads of a manifest, ours or another GPU sharer's."),
    Entry("crds", "crds", "Write the custom resource definitions as YAML."),
    Entry("annotations", "annotations", "List the annotations, their values and their Python arguments."),
    Entry("models", "models", "List the GPU models that `gpu-model` can name."),
    Entry("explain", "explain", "Say why a pod is pending, or on which GPUs it is.", "controller"),
    Entry("doctor", "doctor", "Say what each node can do, what is wrong with a cluster, and what to do about it.", "controller"),
    Entry("status", "status", "Show pools, workloads, quotas, and what waits with its reason.", "controller"),
    Entry("top", "top", "Show what cards and pods use now.", "controller"),
    Entry("simulate", "simulate", "Place workloads on nodes that exist or are wished for, as the scheduler would.", "controller"),
    Entry("policies", "policies", "List the rules of the policy pack, and where the pack is."),
    Entry("report", "report", "Say what a Pulumi preview means for GPUs: changes, fit, cost, risks.", "controller"),
    Entry("local", "local", "A control plane on this machine, with simulated GPU nodes.", "local"),
    Entry("demo", "demo", "A control plane on this machine, then `pulumi up` of the project on it.", "local"),
    Entry("serve", "serve", "Run a program of a cluster: webhook, scheduler's extender, controller, agent.", "controller"),
    Entry("version", "version", "Show the versions of this package and of what it works with."),
)  # fmt: skip


class LateGroup(TyperGroup):
    """A group that knows its commands by name and summary, and loads the one that is called.

    A `Failure` of any command ends here, as one message and an exit code.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command by name, as usual, then put the real one in place of its entry."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(next(entry for entry in COMMANDS if entry.name == name)), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except Failure as failure:
            typer.echo(f"error: {failure.message}", err=True)
            raise typer.Exit(int(failure.code)) from None


def load(entry: Entry) -> Any:
    """The command itself. Raises Failure if its extra isn't installed."""
    try:
        module = import_module(f"{_PACKAGE}.cli.{entry.module}")
    except ModuleNotFoundError as error:
        if entry.extra is None or (error.name or "").partition(".")[0] == _PACKAGE:
            raise
        message = (
            f"{entry.name} needs packages that are not installed ({error.name}): pip install 'tensorfusion-iac[{entry.extra}]'"
        )
        raise environment(message) from None
    command = typer.main.get_command(module.app)
    command.name = entry.name
    return command


def _entry() -> Callable[[], None]:
    def stand_in() -> None:
        """Never called: `LateGroup.resolve_command` puts the command in its place."""

    return stand_in


app = typer.Typer(
    cls=LateGroup,
    name="tensorfusion",
    help="Fractional GPUs for Kubernetes workloads: check, preview and convert what is declared.",
    epilog="Exit codes: 0 fine, 1 problems found, 2 wrong usage, 3 something outside is missing.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _row in COMMANDS:
    app.command(_row.name, help=_row.summary)(_entry())


@app.callback()
def _options() -> None:
    """The options before the command: none of our own."""


def kubectl_plugin() -> None:
    """The entry point of `kubectl-tensorfusion`, which kubectl runs for `kubectl tensorfusion ...`."""
    main("kubectl tensorfusion")


def main(name: str = "tensorfusion") -> None:
    """The entry point of the program, which calls itself `name`."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # a file name, or a terminal, need not be able to show everything
            reconfigure(errors="backslashreplace")
    try:
        app(prog_name=name)
    except BrokenPipeError:
        _forget_output()
        sys.exit(int(Exit.OK))
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        _forget_output()
        with contextlib.suppress(OSError):
            typer.echo(f"error: cannot write {error.filename or 'the output'}: {error.strerror}", err=True)
        sys.exit(int(Exit.ENVIRONMENT))


def _forget_output() -> None:
    """Let what was not written go nowhere, so that the flush at the end is silent."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
