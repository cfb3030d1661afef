"""`tensorfusion explain`: why a pod is pending, or where it is, by the scheduler's own code (SPEC §7).

It reads the cluster by its kubeconfig, or a dump of it; the scheduler itself need not run. Pods that are refused do not exist:
that, and why, is read of what was to create them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorfusion_iac.cli.cluster_access import LOCAL_ENV, no_answer
from tensorfusion_iac.cli.exits import Exit, Failure, usage
from tensorfusion_iac.cli.output import Output, OutputOption, complain, show
from tensorfusion_iac.cli.snapshots import from_cluster, from_files

if TYPE_CHECKING:
    from tensorfusion_iac.kube.client import Object
    from tensorfusion_iac.operations.bound import Held

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_KINDS = ("pod", "deployment", "statefulset", "daemonset", "job", "cronjob", "replicaset", "workload")
_FILE_HELP = "A dump instead of the cluster; may be repeated; - is standard input."


@app.command()
def explain(
    what: Annotated[str, typer.Argument(metavar="KIND/NAME", help="pod/NAME, deployment/NAME, job/NAME, ...")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Its namespace.")] = "default",
    kubeconfig: Annotated[Path | None, typer.Option(envvar="KUBECONFIG", help="Access to the cluster.")] = None,
    file: Annotated[list[str] | None, typer.Option("--file", "-f", metavar="FILE", help=_FILE_HELP)] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Say why a pod is pending, over all nodes, with the numbers; or on which GPUs it is.

    Of a workload also which pods are refused, of which revision, and why.

    Exit code 1 if one of the pods waits, or was refused.
    """
    from tensorfusion_iac.operations.bound import held_by
    from tensorfusion_iac.operations.refused import refused
    from tensorfusion_iac.scheduling.decide import Decider
    from tensorfusion_iac.scheduling.explaining import Explaining
    from tensorfusion_iac.scheduling.snapshot import state_of

    kind, _, name = what.partition("/")
    kind = kind.lower()
    if kind not in _KINDS or not name:
        raise usage(f'"{what}" is not KIND/NAME with a kind of {", ".join(_KINDS)}')
    if file:
        objects = from_files(file)
    elif kubeconfig is not None:
        objects = from_cluster(kubeconfig)
    else:
        raise usage(f"give --kubeconfig (or KUBECONFIG), or a dump with --file; {LOCAL_ENV}")
    state = state_of(objects, agents_live=bool(file))
    found: dict[str, Any] = Explaining(state, Decider(state)).explain(kind, namespace, name) or {"pods": []}
    refusals = [] if kind == "pod" else refused(kind, namespace, name, objects if file else _creators(kubeconfig, namespace))
    if not found["pods"] and not refusals:
        raise Failure(_no_pods(objects, kind, namespace, name), Exit.PROBLEMS)
    held = held_by({pod["uid"] for pod in found["pods"]}, objects)
    lines = [f"{namespace}/{name}: refused: {one.text}" for one in refusals]
    lines += [f"{pod['namespace']}/{pod['name']}: {_state(pod, held[pod['uid']])}" for pod in found["pods"]]
    show(output, found | {"refused": [one.record() for one in refusals]}, "\n".join(lines))
    placed = all(pod["state"] == "bound" for pod in found["pods"])
    raise typer.Exit(Exit.OK if placed and not refusals else Exit.PROBLEMS)


def _state(pod: dict[str, Any], cards: list[Held]) -> str:
    """How a pod is, in words; a bound one's entry gets its `cards`."""
    if pod["state"] != "bound":
        return f"{pod['state']}: {pod['text']}"
    pod["cards"] = [card.record() for card in cards]
    return f"bound to {pod['node']}: {'; '.join(card.text() for card in cards)}" if cards else str(pod["text"])


def _no_pods(objects: list[Object], kind: str, namespace: str, name: str) -> str:
    others = any(
        item.get("kind") == "Pod" and item["metadata"].get("namespace") == namespace and item["metadata"].get("name") == name
        for item in objects
    )
    if kind == "pod" and others:
        why = "it is not labelled as enabled, the webhook never saw it, or it is on the other side of a grey release"
        return f"pod {namespace}/{name} is not for our scheduler: {why}"
    if kind == "pod":
        return f"there is no pod {namespace}/{name}"
    return f"{kind} {namespace}/{name} is not there, or none of its pods is enabled and went through the webhook"


def _creators(kubeconfig: Path | None, namespace: str) -> list[Object]:
    """What creates pods in the namespace, and events about pods that could not be. What may not be read is told, and left out."""
    import asyncio

    from tensorfusion_iac.kube.client import Client
    from tensorfusion_iac.kube.errors import ApiError, KubeError
    from tensorfusion_iac.kube.resource import CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, EVENTS, JOBS, REPLICA_SETS, STATEFUL_SETS
    from tensorfusion_iac.operations.refused import REASON

    async def read(path: Path) -> list[Object]:
        found: list[Object] = []
        async with await Client.from_kubeconfig(path) as client:
            for resource in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS, EVENTS):
                selector = f"reason={REASON}" if resource is EVENTS else ""
                try:
                    items = (await client.list(resource, namespace, field_selector=selector)).items
                except ApiError as error:
                    complain(f"whether pods are refused may be incomplete: {resource.plural} cannot be read: {error}")
                    continue
                found += ({"kind": resource.kind} | item for item in items)
        return found

    if kubeconfig is None:
        return []
    try:
        return asyncio.run(read(kubeconfig))
    except KubeError as error:
        raise no_answer(error) from None
