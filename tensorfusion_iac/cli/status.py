"""`tensorfusion status`: pools, workloads, quotas and what waits, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorfusion_iac.cli.cluster_access import Context, Kubeconfig, ask, observe_in
from tensorfusion_iac.cli.output import Output, OutputOption, show, table

if TYPE_CHECKING:
    from tensorfusion_iac.operations.standing import Table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def status(
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only this namespace; default: all.")] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show pools, workloads, quotas, and what waits with its reason."""
    from tensorfusion_iac.operations.observing import USE
    from tensorfusion_iac.operations.standing import standing

    seen = ask(kubeconfig, context, lambda client: observe_in(client, namespace, USE))
    tables = standing(seen, namespace)
    data: dict[str, Any] = {one.title.lower(): list(one.records) for one in tables}
    data["unreadable"] = {resource.plural: why for resource, why in seen.unreadable.items()}
    notes = [f"{resource.plural} cannot be read: {why}" for resource, why in seen.unreadable.items()]
    show(output, data, "\n\n".join([*map(_as_text, tables), *notes]))


def _as_text(one: Table) -> str:
    return f"{one.title}\n{table(one.columns, one.rows) if one.rows else f'({one.empty})'}"
