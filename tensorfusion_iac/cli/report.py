"""`tensorfusion report`: a preview in the words of a reviewer, with fit, cost and risks, as Markdown for a pull request."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tensorfusion_iac.cli.exits import Exit, Failure, environment, usage
from tensorfusion_iac.cli.files import read_text
from tensorfusion_iac.cli.output import as_json, complain
from tensorfusion_iac.cli.snapshots import from_cluster, from_files

if TYPE_CHECKING:
    from tensorfusion_iac.report.build import Report
    from tensorfusion_iac.report.live import Cluster

app = typer.Typer(rich_markup_mode=None, add_completion=False)

ANY = "any-risk"
_PREVIEW = ("preview", "--json", "--show-sames", "--non-interactive")
_PREVIEW_HELP = "Output of `pulumi preview --json --show-sames`; - is standard input."
_RUN_HELP = "Run the preview of the Pulumi project in this folder instead."
_SNAPSHOT_HELP = "A dump of the cluster instead of the cluster itself; may be repeated."
_FAIL_HELP = "Kinds of risk that end with exit code 1, separated by commas; any-risk is all of them."


class Shown(StrEnum):
    """Markdown for a comment, or JSON for programs."""

    MARKDOWN = "markdown"
    JSON = "json"


@app.command()
def report(
    preview: Annotated[str | None, typer.Argument(metavar="[PREVIEW]", help=_PREVIEW_HELP)] = None,
    run: Annotated[Path | None, typer.Option(metavar="FOLDER", help=_RUN_HELP)] = None,
    stack: Annotated[str | None, typer.Option(help="With --run: the stack.")] = None,
    snapshot: Annotated[list[str] | None, typer.Option(metavar="FILE", help=_SNAPSHOT_HELP)] = None,
    kubeconfig: Annotated[Path | None, typer.Option(envvar="KUBECONFIG", help="The cluster, to judge what fits.")] = None,
    fail_on: Annotated[str, typer.Option(metavar="KINDS", help=_FAIL_HELP)] = "",
    output: Annotated[Shown, typer.Option("--output", "-o", help="How to show the report.")] = Shown.MARKDOWN,
) -> None:
    """Say what a Pulumi preview means for GPUs: what changes and how, whether it fits, what it costs, what may go wrong.

    Exit code 1 if the preview failed, or if a risk of --fail-on was found.
    """
    from tensorfusion_iac.report import PreviewError, markdown, read_preview, record, report_of

    kinds = _kinds(fail_on)
    text = _given(preview, run, stack)
    try:
        read = read_preview(text)
    except PreviewError as error:
        raise Failure(str(error), Exit.PROBLEMS) from None
    found = report_of(read, _cluster(snapshot or (), kubeconfig))
    typer.echo(as_json(record(found)) if output is Shown.JSON else markdown(found), nl=output is Shown.JSON)
    raise typer.Exit(_code(found, kinds))


def _given(preview: str | None, run: Path | None, stack: str | None) -> str:
    if (preview is None) == (run is None):
        raise usage("give the preview's output (- for standard input), or --run FOLDER")
    if run is None:
        if stack is not None:
            raise usage("--stack goes with --run; a preview says itself which stack it is of")
        return read_text(preview or "-")
    if not (run / "Pulumi.yaml").is_file():
        raise usage(f"--run {run}: there is no Pulumi.yaml in this folder")
    command = ["pulumi", *_PREVIEW, *(("--stack", stack) if stack else ())]
    try:
        ended = subprocess.run(command, cwd=run, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=False)
    except OSError as error:
        raise environment(f"pulumi cannot be run ({error.strerror}); install it, or give the output of a preview") from None
    if ended.returncode != 0 and not ended.stdout.lstrip().startswith("{"):
        sys.stderr.write(ended.stdout)
        raise Failure(f"`{' '.join(command)}` ended with {ended.returncode}", Exit.PROBLEMS)
    return ended.stdout


def _cluster(snapshot: list[str] | tuple[str, ...], kubeconfig: Path | None) -> Cluster | None:
    """The cluster's objects: of a dump, if there is one, else of the cluster that the kubeconfig names."""
    from tensorfusion_iac.kube.resource import NAMESPACES, WORKLOAD_PROFILES
    from tensorfusion_iac.report import Cluster

    if snapshot:
        return Cluster(tuple(from_files(snapshot)), agents_live=True)
    if kubeconfig is None:
        return None
    return Cluster(tuple(from_cluster(kubeconfig, (WORKLOAD_PROFILES, NAMESPACES))), agents_live=False)


def _kinds(fail_on: str) -> frozenset[str]:
    from tensorfusion_iac.report import Kind

    known = [kind.value for kind in Kind]
    asked = [name.strip() for name in fail_on.split(",") if name.strip()]
    wrong = [name for name in asked if name not in (*known, ANY)]
    if wrong:
        raise usage(f"--fail-on: {', '.join(wrong)} is no kind of risk; the kinds are {', '.join((*known, ANY))}")
    return frozenset(known if ANY in asked else asked)


def _code(report: Report, kinds: frozenset[str]) -> Exit:
    failing = [risk for risk in report.risks if risk.kind.value in kinds]
    if failing:
        count = "1 risk" if len(failing) == 1 else f"{len(failing)} risks"
        complain(f"error: {count} of --fail-on: {', '.join(sorted({risk.kind.value for risk in failing}))}")
    return Exit.PROBLEMS if failing or report.errors else Exit.OK
