"""`tensorfusion validate`: every problem of every object in manifests, without a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from tensorfusion_iac.cli.exits import Exit, usage
from tensorfusion_iac.cli.files import read_files
from tensorfusion_iac.cli.objects import objects_in
from tensorfusion_iac.cli.output import Output, OutputOption, complain, show

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_FILES_HELP = "Files or folders of YAML or JSON manifests; - is standard input. May be repeated."


@app.command()
def validate(
    more: Annotated[list[str] | None, typer.Argument(metavar="FILE", help="More files, as the shell expands them.")] = None,
    file: Annotated[list[str] | None, typer.Option("--file", "-f", metavar="FILE", help=_FILES_HELP)] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of objects that name none.")] = "",
    output: OutputOption = Output.TEXT,
) -> None:
    """Judge manifests: every problem of every object.

    Pods, workloads with a pod template, Lists, and our own resources are judged; other objects are left alone. Pools,
    profiles and quotas among the files are used; those that are not given are not judged. Exit code 1 if there is a problem.
    """
    from tensorfusion_iac.cli.judge import judge

    names = [*(file or ()), *(more or ())]
    if not names:
        raise usage("no file given: tensorfusion validate -f FILE")
    documents, unreadable = read_files(names)
    objects, no_objects = objects_in(documents, namespace)
    unreadable += no_objects
    verdicts = judge(objects)
    judged = [verdict for verdict in verdicts if verdict.ours]
    wrong = sum(bool(verdict.problems) for verdict in judged)
    if output is Output.TEXT:
        for place in unreadable:
            complain(place.text())
        for verdict in verdicts:
            for text in verdict.texts():
                complain(text)
    data = {
        "objects": [verdict.record() for verdict in judged],
        "unreadable": [place.record() for place in unreadable],
        "leftAlone": len(verdicts) - len(judged),
    }
    show(output, data, _summary(len(judged), wrong, len(verdicts) - len(judged), len(unreadable)))
    raise typer.Exit(Exit.PROBLEMS if wrong or unreadable else Exit.OK)


def _summary(judged: int, wrong: int, others: int, unreadable: int) -> str:
    parts = [f"{judged} object{'' if judged == 1 else 's'} judged, {wrong or 'none'} with problems"]
    if others:
        parts.append(f"{others} left alone")
    if unreadable:
        parts.append(f"{unreadable} place{'' if unreadable == 1 else 's'} could not be read")
    return "; ".join(parts)
