"""`tensorfusion compile`: the manifests that a Pulumi program in Python declares, without a cluster and without pulumi."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tensorfusion_iac.cli.exits import Exit
from tensorfusion_iac.cli.output import Manifest, ManifestOption, as_json, complain

app = typer.Typer(rich_markup_mode=None, add_completion=False)


_PROGRAM_HELP = "A folder with a Pulumi program in Python, or its file."
_STACK_HELP = "Stack whose Pulumi.<stack>.yaml is read; default dev, if there is one."


@app.command()
def compile_program(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM", help=_PROGRAM_HELP)] = Path(),
    stack: Annotated[str | None, typer.Option(help=_STACK_HELP)] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", metavar="KEY=VALUE", help="Configuration. May be repeated.")
    ] = None,
    crds: Annotated[bool, typer.Option("--crds/--no-crds", help="Write custom resource definitions, too.")] = True,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Write secret values, too.")] = False,
    timeout_s: Annotated[float, typer.Option("--timeout", min=1, help="Seconds until the program must have ended.")] = 120,
    output: ManifestOption = Manifest.YAML,
) -> None:
    """Write a Python program's workloads as YAML, without a cluster.

    The program runs, in its own Python, as in a preview: what only a cluster knows is left open and reported. The problems
    of all its objects are reported together. Exit code 1 if there are any; then no YAML is written.
    """
    from tensorfusion_iac.cli.program.manifests import compiled
    from tensorfusion_iac.cli.program.project import find_project
    from tensorfusion_iac.cli.program.run import run_program
    from tensorfusion_iac.cli.yaml_text import write

    project = find_project(program, stack, config or (), os.environ)
    notes, printed = run_program(project, timeout_s)
    result = compiled(notes.resources, show_secrets=show_secrets)
    manifests = [item for item in result.manifests if crds or item["kind"] != "CustomResourceDefinition"]
    whole = notes.ending is None and not notes.problems  # else what is missing follows from that
    warnings = [*project.notes, *(result.notes if whole else ())]
    if whole and not result.manifests:
        warnings.append(f"{program}: the program declares no Kubernetes object")
    errors = [*result.problems, *(log.text() for log in notes.logs if log.severity == "error")]
    if notes.ending is not None:
        errors.append(notes.ending.text())
    if printed:
        complain(printed.rstrip("\n"))
    others = [log.text() for log in notes.logs if log.severity != "error"]
    for text in (*(f"warning: {warning}" for warning in warnings), *others, *(item.text() for item in notes.problems)):
        complain(text)
    for error in errors:
        complain(f"error: {error}")
    wrong = bool(notes.problems or errors)
    if output is Manifest.JSON:
        data = {
            "manifests": manifests,
            "problems": [{"object": item.subject, "problems": list(item.records)} for item in notes.problems],
            "errors": errors,
            "warnings": [*warnings, *others],
        }
        typer.echo(as_json(data))
    elif not wrong:
        typer.echo(write(manifests), nl=False)
    raise typer.Exit(Exit.PROBLEMS if wrong else Exit.OK)
