"""`tensorfusion top`: cards and pods with what they use now, again and again until Ctrl-C."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorfusion_iac.cli.cluster_access import Context, Kubeconfig, ask, observe_in
from tensorfusion_iac.cli.output import Output, OutputOption, as_json, table

if TYPE_CHECKING:
    from tensorfusion_iac.kube.client import Client
    from tensorfusion_iac.operations.use import Use

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_CARDS = ("node", "GPU", "model", "health", "pods", "compute", "memory", "of", "reserved")
_PODS = ("namespace", "pod", "node", "GPU", "compute", "limit", "memory", "limit", "held by")
_UNKNOWN = "-"


@app.command()
def top(
    once: Annotated[bool, typer.Option("--once", help="Show it once, and end.")] = False,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only pods of this namespace; default: all.")] = None,
    period_s: Annotated[float, typer.Option("--period", min=1, help="Seconds between two looks.")] = 2.0,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show what cards and pods use now, as their agents measure it. `--output json` writes a document for each look."""
    if once or output is Output.JSON:
        while True:
            seen = _look(kubeconfig, context, namespace)
            typer.echo(as_json(_record(seen)) if output is Output.JSON else _as_text(seen, namespace))
            if once:
                return
            time.sleep(period_s)
    _live(kubeconfig, context, namespace, period_s)


def _live(kubeconfig: Path | None, context: str | None, namespace: str | None, period_s: float) -> None:
    from rich.live import Live
    from rich.text import Text

    try:
        with Live(Text("asking"), screen=True, auto_refresh=False) as live:
            while True:
                live.update(Text(_as_text(_look(kubeconfig, context, namespace), namespace)), refresh=True)
                time.sleep(period_s)
    except KeyboardInterrupt:
        return


def _look(kubeconfig: Path | None, context: str | None, namespace: str | None) -> Use:
    from tensorfusion_iac.kube.resource import GPUS, PODS
    from tensorfusion_iac.operations.observed import namespace_of
    from tensorfusion_iac.operations.sampling import samples
    from tensorfusion_iac.operations.use import use

    async def look(client: Client) -> Use:
        seen = await observe_in(client, namespace, (GPUS, PODS))
        found = await samples(client, seen.of(PODS))
        pods = [pod for pod in seen.of(PODS) if namespace in (None, namespace_of(pod))]
        return use(seen.of(GPUS), pods, found)

    return ask(kubeconfig, context, look)


def _record(seen: Use) -> dict[str, Any]:
    return {"gpus": [card.record() for card in seen.cards], "pods": [pod.record() for pod in seen.pods]}


def _as_text(seen: Use, namespace: str | None) -> str:
    cards = [
        (
            card.node, str(card.index), card.model, card.health, str(card.pods), _percent(card.compute_percent),
            _gib(card.vram_bytes), _gib(card.vram_total_bytes), _percent(card.reserved_percent),
        )
        for card in seen.cards
    ]  # fmt: skip
    pods = [
        (
            pod.namespace, pod.pod, pod.node, _UNKNOWN if pod.index is None else str(pod.index), _percent(pod.compute_percent),
            _percent(pod.limit_percent), _gib(pod.vram_bytes), _gib(pod.vram_limit_bytes), pod.enforced_by,
        )
        for pod in seen.pods
    ]  # fmt: skip
    nobody = f"(no pod{'' if namespace is None else f' of namespace {namespace}'} holds a card)"
    return f"{table(_CARDS, cards)}\n\n{table(_PODS, pods) if pods else nobody}"


def _percent(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.0f} %"


def _gib(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value / 2**30:.1f} Gi"
