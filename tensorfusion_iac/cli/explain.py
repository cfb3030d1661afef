"""`tensorfusion explain`: why a pod is pending, or where it is, by the scheduler's own code (SPEC §7).

It reads the cluster by its kubeconfig, or a dump of it; the scheduler itself need not run. A workload whose pods are refused
has none: then what its controller was told is shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorfusion_iac.cli.exits import Exit, Failure, usage
from tensorfusion_iac.cli.output import Output, OutputOption, show
from tensorfusion_iac.cli.snapshots import from_cluster, from_files

if TYPE_CHECKING:
    from tensorfusion_iac.kube.client import Object

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

    Exit code 1 if one of the pods waits, or was refused.
    """
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
        raise usage("give --kubeconfig (or KUBECONFIG), or a dump with --file")
    state = state_of(objects, agents_live=bool(file))
    found = Explaining(state, Decider(state)).explain(kind, namespace, name)
    if found is None:
        raise Failure(_no_pods(objects, kind, namespace, name, kubeconfig if not file else None), Exit.PROBLEMS)
    pods: Any = found["pods"]
    show(output, found, "\n".join(f"{pod['namespace']}/{pod['name']}: {pod['state']}: {pod['text']}" for pod in pods))
    raise typer.Exit(Exit.OK if all(pod["state"] == "bound" for pod in pods) else Exit.PROBLEMS)


def _no_pods(objects: list[Object], kind: str, namespace: str, name: str, kubeconfig: Path | None) -> str:
    """There is no pod to look at: what the owner's controller was told, if that is at hand."""
    if kind != "pod" and kubeconfig is not None and (refusals := _refusals(kubeconfig, namespace, name)):
        return f"{kind} {namespace}/{name} has no pod: {'; '.join(refusals)}"
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


def _refusals(kubeconfig: Path, namespace: str, name: str) -> list[str]:
    """The messages of events FailedCreate about the workload, or a ReplicaSet or Job of it, the newest first."""
    import asyncio

    from tensorfusion_iac.kube.client import Client
    from tensorfusion_iac.kube.errors import KubeError
    from tensorfusion_iac.kube.resource import Resource

    async def read() -> list[Object]:
        async with await Client.from_kubeconfig(kubeconfig) as client:
            events = Resource("", "v1", "events", "Event")
            return (await client.list(events, namespace, field_selector="reason=FailedCreate")).items

    try:
        events = asyncio.run(read())
    except KubeError:
        return []
    about = [event for event in events if _is_of(str(event.get("involvedObject", {}).get("name", "")), name)]
    about.sort(key=lambda event: str(event.get("lastTimestamp") or event["metadata"].get("creationTimestamp")), reverse=True)
    return list(dict.fromkeys(str(event.get("message", "")) for event in about))[:3]


def _is_of(owner: str, name: str) -> bool:
    return owner == name or owner.startswith(f"{name}-")
