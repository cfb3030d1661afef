"""Where `explain` and `simulate` get the cluster from: a kubeconfig, files that hold a dump, or a short wish for nodes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorfusion_iac.cli.cluster_access import no_answer
from tensorfusion_iac.cli.exits import Exit, Failure, usage
from tensorfusion_iac.cli.files import read_files
from tensorfusion_iac.cli.objects import objects_in
from tensorfusion_iac.cli.output import one_line
from tensorfusion_iac.cli.yaml_text import plain

if TYPE_CHECKING:
    from tensorfusion_iac.kube.client import Object
    from tensorfusion_iac.kube.resource import Resource

MOST_NODES, MOST_GPUS = 10_000, 128
_WISH = re.compile(r"\s*(?P<gpus>[0-9]{1,3})\s*x\s*(?P<model>[A-Za-z0-9_.-]+)\s*(?:\*\s*(?P<nodes>[0-9]{1,5}))?\s*")


def from_cluster(kubeconfig: Path, more: Sequence[Resource] = ()) -> list[Object]:
    """The objects of a running cluster that scheduling goes by, and all of the kinds `more`."""
    from tensorfusion_iac.kube.client import Client
    from tensorfusion_iac.kube.errors import KubeError
    from tensorfusion_iac.scheduling.snapshot import KINDS, collect

    async def read() -> list[Object]:
        async with await Client.from_kubeconfig(kubeconfig) as client:
            return await collect(client, (*KINDS, *((resource, "") for resource in more)))

    try:
        return asyncio.run(read())
    except KubeError as error:
        raise no_answer(error) from None


def from_files(names: Sequence[str]) -> list[Object]:
    """The objects of a dump: what `kubectl get ... -o yaml` prints of nodes, pods, GPUs, GPU nodes, pools and quotas.

    Raises Failure with everything that cannot be read.
    """
    from tensorfusion_iac.cli.shapes import problems_in_dump

    documents, unreadable = read_files(names)
    objects, no_objects = objects_in(documents)
    if wrong := [*unreadable, *no_objects]:
        raise Failure("; ".join(place.text() for place in wrong), Exit.PROBLEMS)
    found = [(item, plain(item.raw)) for item in objects]
    misshapen = [
        f"{item.file}:{item.line}: {item.subject}: {one_line(problem.text())}"
        for item, raw in found
        for problem in problems_in_dump(raw)
    ]
    if misshapen:
        raise Failure("\n".join(misshapen), Exit.PROBLEMS)
    return [raw for _, raw in found]


def from_wishes(wishes: Sequence[str], pool: str) -> list[Object]:
    """Nodes that do not exist: `8xH100_SXM_80G * 20` is 20 nodes of 8 cards each; all in one pool."""
    found: list[Object] = []
    for wish in wishes:
        match = _WISH.fullmatch(wish)
        if match is None:
            raise usage(f'--nodes "{wish}" is not GPUSxMODEL * NODES, for example "8xH100 * 20"')
        gpus, nodes = int(match["gpus"]), int(match["nodes"] or 1)
        if not 1 <= gpus <= MOST_GPUS or not 1 <= nodes <= MOST_NODES:
            raise usage(f'--nodes "{wish}": 1 to {MOST_GPUS} GPUs on each of 1 to {MOST_NODES} nodes')
        found += _nodes(match["model"], gpus, nodes, len(found), pool)
    return found


def _nodes(model: str, gpus: int, nodes: int, first: int, pool: str) -> Iterator[Object]:
    from tensorfusion_iac.api.catalogue import did_you_mean, find

    known = find(model)
    if not known:
        hint = did_you_mean(model)
        raise usage(f'--nodes: "{model}" is not in the catalogue{hint and f"; {hint}"}')
    card = known[0]
    for node in range(nodes):
        name = f"{card.name.lower().replace('_', '-')}-{first}-{node}"
        yield {"kind": "GPUNode", "metadata": {"name": name}, "spec": {"poolName": pool}, "status": {"injectionTier": "env"}}
        for index in range(gpus):
            facts: Mapping[str, Any] = {
                "uuid": f"{name}-gpu-{index}", "nodeName": name, "model": card.name, "vendor": card.vendor.value, "index": index,
                "capacity": {"tflops": str(card.fp16_tflops), "vram": str(card.nominal_vram_bytes)},
            }  # fmt: skip
            yield {"kind": "GPU", "metadata": {"name": f"{name}-gpu-{index}"}, "status": facts}
