"""The status of GPUPools: nodes, cards, totals, what is free, and what is wrong (SPEC §4). Pure.

Which node is in which pool is decided by `planning.membership`, as the scheduler does; what is reserved is read from the pods,
which are the truth (SPEC §7). Free is what a new pod could get: a sick card, or one of a node that takes no pods, has nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from tensorfusion_iac.api.catalogue import model_of
from tensorfusion_iac.api.names import DEFAULT_POOL_ANNOTATION
from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.api.resources import GPUPool
from tensorfusion_iac.api.resources.gpupool import CapacityConfig, Oversubscription
from tensorfusion_iac.controller.conditions import Wanted, merged
from tensorfusion_iac.controller.patches import changed
from tensorfusion_iac.planning.cards import CardFacts
from tensorfusion_iac.planning.cost import HOURS_PER_MONTH
from tensorfusion_iac.planning.membership import facts_of, pool_of, selector_of, selects_node
from tensorfusion_iac.planning.shares import Reservation
from tensorfusion_iac.planning.units import tflops_text

READY, DEFAULT_CONFLICT, NODE_CONFLICT = "Ready", "DefaultConflict", "NodeConflict"
_SETTLED = "The first pool by name has a node; narrower selectors settle it, or spec.poolName of the GPUNode"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as pools see it. `takes_pods`: it is Ready, not cordoned, its agent alive, and devices reach containers there.

    `named`: the pool that its GPUNode names. Host memory and disk in bytes; `agent` is the agent's version, empty if none.
    """

    name: str
    labels: Mapping[str, str]
    has_gpus: bool
    takes_pods: bool
    named: str | None = None
    agent: str = ""
    memory_bytes: int = 0
    disk_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Fleet:
    """The whole cluster at one moment. `running`: (namespace, workload, pool) of each workload with a ready worker."""

    pools: Mapping[str, GPUPool]
    nodes: Sequence[NodeView]
    cards: Sequence[CardFacts]
    reservations: Iterable[Reservation]
    running: frozenset[tuple[str, str, str]]
    now: str


class _Held(NamedTuple):
    """What is held of a card, and by how many workers."""

    mflops: int = 0
    vram_bytes: int = 0
    workers: int = 0


_NOTHING = _Held()


@dataclass(slots=True)
class _Sums:
    gpus: int = 0
    mflops: int = 0
    vram_bytes: int = 0
    free_mflops: int = 0
    free_vram_bytes: int = 0
    virtual_free_mflops: int = 0
    saved_usd_per_hour: Decimal = Decimal(0)
    idle_usd_per_hour: Decimal = Decimal(0)


def statuses(fleet: Fleet, stored: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each pool whose stored status is not right, its name and the members to change. `stored` are statuses by pool."""
    membership = {node.name: pool_of(node.name, node.labels, node.named, fleet.pools) for node in fleet.nodes if node.has_gpus}
    held = _held_of(fleet.reservations)
    takes = {node.name for node in fleet.nodes if node.takes_pods}
    cards: dict[str, list[CardFacts]] = {}
    for card in fleet.cards:
        if (home := membership.get(card.node)) is not None:
            cards.setdefault(home, []).append(card)
    disputed = _disputed(fleet)
    for name, pool in fleet.pools.items():
        nodes = [node for node in fleet.nodes if membership.get(node.name) == name]
        before = stored.get(name) or {}
        wanted = _figures(pool, nodes, cards.get(name, []), held, takes)
        wanted["runningAppsCnt"] = sum(pool_name == name for _, _, pool_name in fleet.running)
        wanted["phase"] = _phase(pool, nodes)
        conditions = [_ready(nodes), *_conflicts(fleet, name, disputed.get(name, {}))]
        dropped = {DEFAULT_CONFLICT, NODE_CONFLICT} - {one.type for one in conditions}
        wanted["conditions"] = merged(before.get("conditions") or (), conditions, fleet.now, dropped=dropped)
        if difference := changed(before, wanted):
            yield name, difference


def _figures(
    pool: GPUPool, nodes: list[NodeView], cards: list[CardFacts], held: Mapping[str, _Held], takes: set[str]
) -> dict[str, Any]:
    oversell = facts_of(pool).oversell_percent
    sums = _Sums()
    busy = {card.node for card in cards if card.uuid in held}
    for card in cards:
        _add(sums, card, held.get(card.uuid, _NOTHING), oversell, takes)
        if card.node not in busy:
            sums.idle_usd_per_hour += _price(card.model)
    over = (pool.spec.capacity_config or CapacityConfig()).oversubscription or Oversubscription()
    extra = sum(node.memory_bytes for node in nodes) * (over.vram_expand_to_host_mem or 0) // 100
    extra += sum(node.disk_bytes for node in nodes) * (over.vram_expand_to_host_disk or 0) // 100
    ready = sum(node.takes_pods for node in nodes)
    return {
        "totalNodes": len(nodes),
        "readyNodes": ready,
        "notReadyNodes": len(nodes) - ready,
        "totalGPUs": sums.gpus,
        "vendors": sorted({card.vendor.value for card in cards}) or None,
        "totalTFlops": tflops_text(sums.mflops),
        "totalVRAM": format_bytes(sums.vram_bytes),
        "availableTFlops": tflops_text(sums.free_mflops),
        "availableVRAM": format_bytes(sums.free_vram_bytes),
        "virtualTFlops": tflops_text(sums.mflops * oversell // 100),
        "virtualVRAM": format_bytes(sums.vram_bytes + extra),
        "virtualAvailableTFlops": tflops_text(sums.virtual_free_mflops),
        "virtualAvailableVRAM": format_bytes(sums.free_vram_bytes + extra),
        "componentStatus": _components(nodes) or None,
        "savedCostsPerMonth": _per_month(sums.saved_usd_per_hour),
        "potentialSavingsPerMonth": _per_month(sums.idle_usd_per_hour),
    }


def _add(sums: _Sums, card: CardFacts, held: _Held, oversell: int, takes: set[str]) -> None:
    sums.gpus += 1
    sums.mflops += card.capacity_mflops
    sums.vram_bytes += card.capacity_vram_bytes
    if card.healthy and card.ours and card.node in takes:
        sums.free_mflops += max(card.capacity_mflops - held.mflops, 0)
        sums.free_vram_bytes += max(card.capacity_vram_bytes - held.vram_bytes, 0)
        sums.virtual_free_mflops += max(card.capacity_mflops * oversell // 100 - held.mflops, 0)
    if held.workers > 1:
        sums.saved_usd_per_hour += _price(card.model) * (held.workers - 1)  # each would have a card of its own


def _per_month(usd_per_hour: Decimal) -> str:
    return format_decimal((usd_per_hour * HOURS_PER_MONTH).quantize(Decimal(1)))


def _price(model: str) -> Decimal:
    known = model_of(model)
    return (known and known.usd_per_hour) or Decimal(0)


def _held_of(reservations: Iterable[Reservation]) -> dict[str, _Held]:
    found: dict[str, _Held] = {}
    for reservation in reservations:
        for share in reservation.shares:
            before = found.get(share.uuid, _NOTHING)
            found[share.uuid] = _Held(
                before.mflops + share.held_mflops, before.vram_bytes + share.held_vram_bytes, before.workers + 1
            )
    return found


def _components(nodes: list[NodeView]) -> list[dict[str, Any]]:
    """The agents' version: the one that most nodes run, and how many of them."""
    versions = Counter(node.agent for node in nodes if node.agent)
    if not versions:
        return []
    version, count = max(versions.items(), key=lambda one: (one[1], one[0]))
    every = versions.total()
    return [{"name": "agent", "version": version, "synced": count == every, "progress": count * 100 // every}]


def _phase(pool: GPUPool, nodes: list[NodeView]) -> str:
    if pool.metadata.deletion_timestamp:
        return "Destroying"
    return "Running" if any(node.takes_pods for node in nodes) else "Pending"


def _ready(nodes: list[NodeView]) -> Wanted:
    if any(node.takes_pods for node in nodes):
        return Wanted(READY, True, "NodesReady")
    if nodes:
        return Wanted(READY, False, "NodesNotReady", f"none of {len(nodes)} nodes takes pods")
    return Wanted(READY, False, "NoNodes", "no node with GPUs is in this pool; see spec.nodeManagerConfig.nodeSelector")


class _Dispute(NamedTuple):
    """Nodes that a pool claims, and others too; `holder` has them."""

    holder: str
    others: tuple[str, ...]


def _disputed(fleet: Fleet) -> dict[str, dict[_Dispute, list[str]]]:
    """For each pool, what it claims beside other pools, with the nodes in question."""
    selectors = {name: found for name, pool in fleet.pools.items() if (found := selector_of(pool)) is not None}
    found_all: dict[str, dict[_Dispute, list[str]]] = {}
    for node in fleet.nodes:
        if not node.has_gpus or node.named:
            continue
        claims = [name for name in sorted(selectors) if selects_node(selectors[name], node.name, node.labels)]
        if len(claims) < 2:
            continue
        holder = pool_of(node.name, node.labels, node.named, fleet.pools) or ""
        for one in claims:
            others = tuple(other for other in claims if other not in (one, holder))
            found_all.setdefault(one, {}).setdefault(_Dispute(holder, others), []).append(node.name)
    return found_all


def _conflicts(fleet: Fleet, name: str, disputed: Mapping[_Dispute, list[str]]) -> Iterator[Wanted]:
    defaults = sorted(other for other, pool in fleet.pools.items() if pool.is_default)
    if name in defaults and len(defaults) > 1:
        text = f"{_list(defaults)} are all marked {DEFAULT_POOL_ANNOTATION}: pods that name no pool are refused; leave one marked"
        yield Wanted(DEFAULT_CONFLICT, True, "SeveralDefaults", text)
    if disputed:
        parts = "; ".join(_told(name, dispute, nodes) for dispute, nodes in sorted(disputed.items()))
        yield Wanted(NODE_CONFLICT, True, "NodesClaimedTwice", f"{parts}. {_SETTLED}")
        return
    unselective = sorted(other for other, pool in fleet.pools.items() if selector_of(pool) is None)
    winners = [other for other in unselective if fleet.pools[other].is_default]
    if name in unselective and len(unselective) > 1 and winners != [name]:
        rest = f"{winners[0]} has the nodes that none claims" if len(winners) == 1 else "none of them gets any node"
        yield Wanted(NODE_CONFLICT, True, "NoNodeSelector", f"{_list(unselective)} have no node selector, and {rest}")


def _told(name: str, dispute: _Dispute, nodes: Sequence[str]) -> str:
    """One dispute, as this pool sees it."""
    others, which = dispute.others, f"node{'s' if len(nodes) > 1 else ''} {_list(nodes)}"
    if dispute.holder == name:
        return f"this pool has {which}, which {_list(others)} select{'s' if len(others) == 1 else ''} too"
    beside = f", and {_list(others)} too" if others else ""
    return f"pool {dispute.holder} has {which}, which this pool selects{beside}"


def _list(items: Sequence[str]) -> str:
    more = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
