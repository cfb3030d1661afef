"""`tensorfusion simulate`: where workloads would be placed, on nodes that are there or only wished for, by the real allocator."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorfusion_iac.cli.exits import Exit, Failure, usage
from tensorfusion_iac.cli.files import read_files
from tensorfusion_iac.cli.objects import Object, objects_in
from tensorfusion_iac.cli.output import Output, OutputOption, complain, one_line, show, table
from tensorfusion_iac.cli.snapshots import from_cluster, from_files, from_wishes
from tensorfusion_iac.cli.yaml_text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tensorfusion_iac.api.resources import GPUPool, GPUResourceQuota, WorkloadProfile
    from tensorfusion_iac.planning.simulate import Simulation, Workload

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_FILE_HELP = "Workloads, profiles, pools and quotas; may be repeated; - is standard input."
_NODES_HELP = 'Nodes to wish for, such as "8xH100_SXM_80G * 20"; may be repeated.'


@app.command()
def simulate(
    file: Annotated[list[str], typer.Option("--file", "-f", metavar="FILE", help=_FILE_HELP)],
    nodes: Annotated[list[str] | None, typer.Option("--nodes", help=_NODES_HELP)] = None,
    snapshot: Annotated[list[str] | None, typer.Option(metavar="FILE", help="A dump of a cluster; may be repeated.")] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="A running cluster.")] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="For objects that name none.")] = "default",
    output: OutputOption = Output.TEXT,
) -> None:
    """Place workloads as the scheduler would: what fits and where, what waits and why, and what is left of each pool.

    Exit code 1 if something would wait, or is refused.
    """
    from tensorfusion_iac.planning.simulate import simulate as run
    from tensorfusion_iac.scheduling.snapshot import state_of

    if not (nodes or snapshot or kubeconfig):
        raise usage("give the nodes: --nodes, --snapshot or --kubeconfig")
    documents, unreadable = read_files(file)
    given, no_objects = objects_in(documents, namespace)
    if wrong := [*unreadable, *no_objects]:
        raise Failure("; ".join(place.text() for place in wrong), Exit.PROBLEMS)
    objects = [*(from_cluster(kubeconfig) if kubeconfig else ()), *(from_files(snapshot) if snapshot else ())]
    objects += [plain(item.raw) for item in given if item.kind in ("GPUPool", "GPUResourceQuota")]
    pool = _pool(objects)
    if not any(item.get("kind") == "GPUPool" for item in objects):
        marks = {"name": pool, "annotations": {_DEFAULT: "true"}}
        objects.append({"kind": "GPUPool", "metadata": marks, "spec": {"defaultUsingLocalGPU": True}})
    objects += from_wishes(nodes or (), pool)
    state = state_of(objects, agents_live=kubeconfig is None)
    workloads, refused = _workloads(given, namespace, objects, state.pools)
    found = run(state.ledger, workloads)
    for text in refused:
        complain(f"error: {text}")
    show(output, _record(found) | {"refused": refused}, _text(found))
    raise typer.Exit(Exit.PROBLEMS if found.pending or refused else Exit.OK)


_DEFAULT = "tensor-fusion.ai/is-default-pool"


def _pool(objects: list[dict[str, Any]]) -> str:
    """The pool that wished nodes are in: the default one, else the first, else one of that name."""
    pools = [item for item in objects if item.get("kind") == "GPUPool"]
    defaults = [item for item in pools if ((item.get("metadata") or {}).get("annotations") or {}).get(_DEFAULT) == "true"]
    return next((str(item["metadata"]["name"]) for item in (*defaults, *pools)), "default")


def _workloads(
    given: list[Object], namespace: str, objects: list[dict[str, Any]], pools: Mapping[str, GPUPool]
) -> tuple[list[Workload], list[str]]:
    """The workloads of the manifests, and in words what would be refused at admission."""
    from tensorfusion_iac.api import annotation_naming, profile_name, render, resolve
    from tensorfusion_iac.api.levels import PRIORITY
    from tensorfusion_iac.api.pod_templates import pods_at_once
    from tensorfusion_iac.cli.pod_templates import pod_of, template_of
    from tensorfusion_iac.planning.claim import claim_of
    from tensorfusion_iac.planning.simulate import Workload

    profiles, quotas = _models(given, objects)
    found, refused = [], []
    for item in given:
        template = template_of(item)
        if template is None:
            continue
        pod, where = pod_of(item, template), item.namespace or namespace
        named = profile_name(pod)
        resolution = resolve(
            pod,
            owner=template.owner,
            profile=profiles.get((where, named)) if named else None,
            pools=pools,
            quota=quotas.get(where),
        )
        if resolution.problems:
            refused.append(render(item.subject, resolution.problems, lambda field: one_line(annotation_naming(field))))
        elif resolution.worker is not None:
            worker = resolution.worker
            pods = pods_at_once(item.kind, item.raw)
            replicas = 1 if pods is None else pods
            replicas = replicas if worker.enabled_replicas is None else min(replicas, worker.enabled_replicas)
            found.append(Workload(item.subject, where, claim_of(worker), replicas, PRIORITY[worker.qos]))
    return found, refused


def _models(
    given: list[Object], objects: list[dict[str, Any]]
) -> tuple[dict[tuple[str, str], WorkloadProfile], dict[str, GPUResourceQuota]]:
    from pydantic import ValidationError

    from tensorfusion_iac.api.resources import GPUResourceQuota, WorkloadProfile

    try:
        profiles = {
            (item.namespace, item.name): WorkloadProfile.model_validate(plain(item.raw))
            for item in given
            if item.kind == "WorkloadProfile"
        }
        quotas: dict[str, GPUResourceQuota] = {}
        for item in objects:
            if item.get("kind") == "GPUResourceQuota":
                model = GPUResourceQuota.model_validate(item)
                quotas.setdefault(model.metadata.namespace, model)
    except ValidationError as error:
        raise Failure(f"an object cannot be read; `tensorfusion validate` says more: {error}", Exit.PROBLEMS) from None
    return profiles, quotas


def _record(found: Simulation) -> dict[str, Any]:
    pending = [
        {"workload": one.workload, "namespace": one.namespace, "workers": one.workers, "why": one.why.text()}
        for one in found.pending
    ]
    return asdict(found) | {"pending": pending}


def _text(found: Simulation) -> str:
    return "\n".join(_lines(found))


def _lines(found: Simulation) -> Iterator[str]:
    yield f"placed: {len(found.placed)} workers"
    if found.placed:
        counts: dict[tuple[str, str], int] = {}
        for one in found.placed:
            counts[one.workload, one.node] = counts.get((one.workload, one.node), 0) + 1
        rows = [(workload, node, str(count)) for (workload, node), count in counts.items()]
        yield table(("WORKLOAD", "NODE", "WORKERS"), rows)
    for waiting in found.pending:
        yield f"pending: {waiting.workers} of {waiting.workload}: {waiting.why.text()}"
    yield table(
        ("POOL", "GPUS", "IDLE", "TFLOPS", "FREE", "VRAM", "FREE", "STRANDED"),
        [
            (use.pool, str(use.gpus), str(use.idle_gpus), use.tflops, use.free_tflops,
             *(f"{size / 2**30:.4g}Gi" for size in (use.vram_bytes, use.free_vram_bytes, use.stranded_vram_bytes)))
            for use in found.pools
        ],
    )  # fmt: skip
