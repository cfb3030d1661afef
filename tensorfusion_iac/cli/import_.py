"""`tensorfusion import`: from a manifest, ours or another GPU sharer's, to the Python program that declares the same."""

from __future__ import annotations

from typing import Annotated

import typer

from tensorfusion_iac.cli.exits import Exit, Failure, usage
from tensorfusion_iac.cli.files import read_files
from tensorfusion_iac.cli.objects import objects_in
from tensorfusion_iac.cli.output import Output, OutputOption, complain, one_line, show

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_FILE_HELP = "Files or folders of YAML or JSON manifests; - is standard input. May be repeated."

_SLICES_HELP = "Into how many time slices the cluster's device plugin cuts a card; nvidia.com/gpu is a slice then."


@app.command()
def import_manifests(
    more: Annotated[list[str] | None, typer.Argument(metavar="FILE", help="More files, as the shell expands them.")] = None,
    file: Annotated[list[str] | None, typer.Option("--file", "-f", metavar="FILE", help=_FILE_HELP)] = None,
    time_slices: Annotated[int | None, typer.Option(min=1, metavar="N", help=_SLICES_HELP)] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Write the Python that declares the workloads of a manifest: annotated for us, or for HAMi, Volcano or NVIDIA's plugin.

    `tensorfusion compile` makes the same manifests of it again. What it can't carry is said in comments and on standard
    error. Exit code 1 if the manifests have problems; then nothing is written.
    """
    from tensorfusion_iac.api.fields import AMOUNTS
    from tensorfusion_iac.cli.judge import judge
    from tensorfusion_iac.cli.shapes import problems_in_manifest
    from tensorfusion_iac.cli.source.foreign import adopt
    from tensorfusion_iac.cli.source.program_source import program

    names = [*(file or ()), *(more or ())]
    if not names:
        raise usage("no file given: tensorfusion import -f FILE")
    documents, unreadable = read_files(names)
    objects, no_objects = objects_in(documents)
    problems = [place.text() for place in (*unreadable, *no_objects)]
    misshapen = [list(problems_in_manifest(item)) for item in objects]
    for item, found in zip(objects, misshapen, strict=True):
        for line, problem in found:
            where = f"line {line}: " if line else ""
            problems.append(f"{item.file}: {item.subject}: {where}{one_line(problem.text())}")
    # Only what has the shape of a manifest can be taken apart.
    adopted = [adopt(item, time_slices) for item, found in zip(objects, misshapen, strict=True) if not found]
    objects, lost = [item for item, _ in adopted], {id(item): notes for item, notes in adopted}
    for verdict in judge(objects):
        # Asking for nothing is right where a quota gives defaults, and that may be in the cluster.
        wrong = [finding for finding in verdict.problems if not set(AMOUNTS) <= set(finding.problem.lacking)]
        problems += [f"{verdict.item.file}: {verdict.item.subject}: {finding.text()}" for finding in wrong]
    if problems:
        raise Failure("\n".join(problems), Exit.PROBLEMS)
    written = program(objects, ", ".join(dict.fromkeys(item.file for item in objects)), lost)
    for note in written.notes:
        complain(f"note: {note}")
    show(output, {"program": written.text, "notes": list(written.notes)}, written.text.rstrip("\n"))
