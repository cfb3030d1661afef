"""Which nodes are simulated: from `--gpus "A100_SXM_80G=4x2"` to named nodes with so many cards of a model.

Names follow from the model and the position alone, so the same wish always gives the same fleet, and a larger wish only adds
to it. The cards themselves are their agents' business (`agent/simulated_cards`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tensorfusion_iac.local.errors import WishError
from tensorfusion_iac.local.state import NodeGroup

DEFAULT_GROUPS = (
    NodeGroup(model="A100_SXM_80G", gpus_per_node=4, nodes=2),
    NodeGroup(model="L40S", gpus_per_node=4, nodes=1),
)
"""Room for the quick start: fractions of L40S, a worker of four A100 on one node, and a whole A100 beside it."""

MAX_GPUS_PER_NODE, MAX_NODES = 128, 10_000

_GROUP = re.compile(r"(?P<model>[^=]+)=(?P<gpus>[1-9][0-9]{0,4})(?:x(?P<nodes>[1-9][0-9]{0,4}))?")


@dataclass(frozen=True, slots=True)
class CardModel:
    """What the catalogue says of a model; memory in bytes."""

    name: str
    vendor: str
    vram_bytes: int


@dataclass(frozen=True, slots=True)
class FleetNode:
    """One simulated node with `gpus` cards of one model; `ordinal` counts the nodes of the fleet and gives it an address."""

    name: str
    ordinal: int
    model: CardModel
    gpus: int


def parse_group(text: str) -> NodeGroup:
    """Read `MODEL=GPUS` or `MODEL=GPUSxNODES`: GPUs on each node, and nodes (1 if not given). WishError otherwise."""
    match = _GROUP.fullmatch(text.strip())
    if match is None:
        raise WishError(f'--gpus "{text}" is not MODEL=GPUSxNODES, for example A100_SXM_80G=8x2 (8 GPUs on each of 2 nodes)')
    gpus, nodes = int(match["gpus"]), int(match["nodes"] or 1)
    if gpus > MAX_GPUS_PER_NODE or nodes > MAX_NODES:
        raise WishError(f'--gpus "{text}": at most {MAX_GPUS_PER_NODE} GPUs on a node and {MAX_NODES} nodes')
    return NodeGroup(model=match["model"].strip(), gpus_per_node=gpus, nodes=nodes)


def wanted_groups(
    mixed: Sequence[str], nodes: int | None, model: str | None, gpus_per_node: int | None
) -> tuple[NodeGroup, ...] | None:
    """The groups that the options of `up` ask for; None if no option says anything. WishError on a contradiction."""
    single = {"--nodes": nodes, "--gpu-model": model, "--gpus-per-node": gpus_per_node}
    given = [option for option, value in single.items() if value is not None]
    if mixed and given:
        raise WishError(f"{given[0]} and --gpus exclude each other: --gpus MODEL=GPUSxNODES says it all")
    if mixed:
        return merged(parse_group(text) for text in mixed)
    if not given:
        return None
    default = DEFAULT_GROUPS[0]
    return (
        NodeGroup(
            model=model or default.model,
            gpus_per_node=gpus_per_node or default.gpus_per_node,
            nodes=nodes or sum(group.nodes for group in DEFAULT_GROUPS),
        ),
    )


def merged(groups: Iterable[NodeGroup]) -> tuple[NodeGroup, ...]:
    """Groups of the same model and size as one; the order is that of their first mention."""
    total: dict[tuple[str, int], int] = {}
    for group in groups:
        shape = (group.model, group.gpus_per_node)
        total[shape] = total.get(shape, 0) + group.nodes
    return tuple(NodeGroup(model=model, gpus_per_node=gpus, nodes=nodes) for (model, gpus), nodes in total.items())


def build(groups: Iterable[NodeGroup], look_up: Callable[[str], CardModel]) -> tuple[FleetNode, ...]:
    """The nodes of the groups. `look_up` gives a model by name and raises WishError for an unknown one."""
    counted: dict[str, int] = {}
    fleet: list[FleetNode] = []
    for group in groups:
        model = look_up(group.model)
        stem = _label(model.name)
        for _ in range(group.nodes):
            name = f"{stem}-{counted.get(stem, 0)}"
            counted[stem] = counted.get(stem, 0) + 1
            fleet.append(FleetNode(name, len(fleet), model, group.gpus_per_node))
    return tuple(fleet)


def _label(model: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")
