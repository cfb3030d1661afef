"""`tensorfusion doctor`: what each node can do, what is wrong, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorfusion_iac.cli.cluster_access import Context, Kubeconfig, ask
from tensorfusion_iac.cli.exits import Exit, Failure, environment, usage
from tensorfusion_iac.cli.output import Output, OutputOption, show, table

if TYPE_CHECKING:
    from tensorfusion_iac.kube.client import Client
    from tensorfusion_iac.operations.finding import Finding
    from tensorfusion_iac.operations.nodes import NodeReport
    from tensorfusion_iac.operations.observed import Observed

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_COLUMNS = (
    "node", "pool", "agent", "heard of", "injection", "cgroups", "cards", "driver", "memory limits", "compute limits", "MPS",
    "MIG", "used by",
)  # fmt: skip


@app.command()
def doctor(
    node: Annotated[str | None, typer.Option(help="Only this node, and what concerns it.")] = None,
    local: Annotated[bool, typer.Option("--local", help="This machine, by its own driver, without a cluster.")] = False,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where to try a pod, as a dry run.")] = "default",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Say what each node can do, what is wrong with a cluster, and what to do about it. Nothing is changed.

    Exit code 1 if something is wrong.
    """
    if local and node is not None:
        raise usage("--local is this machine; --node is a node of a cluster: give one of them")
    nodes, findings = _of_this_machine() if local else _of_cluster(ask(kubeconfig, context, _looking(namespace)), node)
    data = {"nodes": [one.record() for one in nodes], "findings": [one.record() for one in findings]}
    show(output, data, _as_text(nodes, findings))
    raise typer.Exit(Exit.PROBLEMS if findings else Exit.OK)


def _looking(namespace: str) -> Any:
    async def look(client: Client) -> Observed:
        from dataclasses import replace

        from tensorfusion_iac.operations.observing import EVERYTHING, observe, try_a_pod

        seen = await observe(client, EVERYTHING)
        return replace(seen, trial=await try_a_pod(client, namespace))

    return look


def _of_cluster(seen: Observed, node: str | None) -> tuple[list[NodeReport], list[Finding]]:
    from tensorfusion_iac.operations.diagnose import diagnose
    from tensorfusion_iac.operations.nodes import reports

    nodes, findings = reports(seen), diagnose(seen)
    if node is None:
        return nodes, findings
    mine = [one for one in nodes if one.name == node]
    if not mine:
        names = ", ".join(one.name for one in nodes) or "(none)"
        raise Failure(f'no node "{node}" has GPUs that an agent reports; nodes that have: {names}', Exit.PROBLEMS)
    return mine, [one for one in findings if one.node == node]


def _of_this_machine() -> tuple[list[NodeReport], list[Finding]]:
    """What the agent would find out here."""
    from tensorfusion_iac.agent.driver import DriverError
    from tensorfusion_iac.agent.nvml import Nvml
    from tensorfusion_iac.operations.this_machine import report

    try:
        driver = Nvml()
    except DriverError as error:
        raise environment(f"NVIDIA's management library cannot be used on this machine: {error}") from None
    return report(driver)


def _as_text(nodes: list[NodeReport], findings: list[Finding]) -> str:
    parts = []
    if nodes:
        parts.append(table(_COLUMNS, map(_row, nodes)))
    parts += [f"{one.subject}: {one.problem}\n  -> {one.remedy}" for one in findings]
    parts.append(f"{len(findings)} finding{'' if len(findings) == 1 else 's'}" if findings else "nothing is wrong")
    return "\n\n".join(parts)


def _row(one: NodeReport) -> tuple[str, ...]:
    heard = "never" if one.heartbeat_s is None else f"{one.heartbeat_s:.0f} s ago"
    return (
        one.name, one.pool, one.agent, heard, one.injection, one.cgroups, str(one.cards), one.driver, one.memory_limits,
        one.compute_limits, one.mps, one.mig, one.used_by,
    )  # fmt: skip
