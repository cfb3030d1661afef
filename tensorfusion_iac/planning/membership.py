"""Which pool a node belongs to, and what placement goes by in a pool (SPEC §4 GPUPool, `nodeManagerConfig`).

A node that names a pool (GPUNode `spec.poolName`) is in that one. Else it is in the first pool, by name, whose node selector
matches its labels. A pool without a selector takes the nodes that no selector claims, if it is the default pool or the only
such pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tensorfusion_iac.api.resources.gpupool import (
    CapacityConfig,
    GPUPool,
    NodeManagerConfig,
    Oversubscription,
    Placement,
)
from tensorfusion_iac.api.resources.selectors import NodeRequirement, NodeSelector, NodeSelectorTerm, meets
from tensorfusion_iac.planning.inventory import PoolFacts
from tensorfusion_iac.planning.place import NODE_COMPACT

_ONLY_CATCH_ALL = "without a node selector it gets what others leave only as the default pool, or as the one without a selector"
_ORDER = "a GPUNode's own pool goes first, then the first name that selects the node"


def pool_of(node: str, labels: Mapping[str, str], named: str | None, pools: Mapping[str, GPUPool]) -> str | None:
    """The pool of a node; None if it is in none. `named`: the pool that its GPUNode names."""
    if named:
        return named
    for name in sorted(pools):
        selector = selector_of(pools[name])
        if selector is not None and selects_node(selector, node, labels):
            return name
    return _catch_all(pools)


class NodeLabels(NamedTuple):
    """What decides about a node's pool: its name, its labels, and the pool that its GPUNode names."""

    node: str
    labels: Mapping[str, str]
    named: str | None = None


def why_no_nodes(pool: str, pools: Mapping[str, GPUPool], nodes: Iterable[NodeLabels]) -> str:
    """In words, why a pool has none of these nodes: it isn't there, selects none, or others have what it selects."""
    if pool not in pools:
        return f"there is no pool {pool}"
    selector = selector_of(pools[pool])
    owners = Counter(
        pool_of(node, labels, named, pools)
        for node, labels, named in nodes
        if selector is None or selects_node(selector, node, labels)
    )
    if not owners:
        return f"pool {pool} has no nodes: {'its node selector matches none' if selector else 'there are none'}"
    if selector is None and _catch_all(pools) != pool:
        return f"pool {pool} has no nodes: {_ONLY_CATCH_ALL}"
    whose = ", ".join(
        f"{count:,} belong to pool {owner}" if owner else f"{count:,} to none"
        for owner, count in sorted(owners.items(), key=lambda one: (one[0] or "", one[1]))
    )
    which = "of the nodes that it selects" if selector else "of the nodes"
    return f"pool {pool} has no nodes: {which} {whose} ({_ORDER})"


def facts_of(pool: GPUPool) -> PoolFacts:
    """The oversell and the placement mode of a pool."""
    capacity, placement = pool.spec.capacity_config or CapacityConfig(), pool.spec.placement or Placement()
    oversell = (capacity.oversubscription or Oversubscription()).tflops_oversell_ratio
    return PoolFacts(max(oversell or 100, 100), placement.mode or NODE_COMPACT)


def selects_node(selector: NodeSelector, node: str, labels: Mapping[str, str]) -> bool:
    """Kubernetes' node selector: any of the terms must match; a term without requirements matches nothing."""
    return any(_term(term, node, labels) for term in selector.node_selector_terms)


def selector_of(pool: GPUPool) -> NodeSelector | None:
    """The pool's node selector; None if it has none, or an empty one, which selects nothing by itself."""
    selector = (pool.spec.node_manager_config or NodeManagerConfig()).node_selector
    return selector if selector is not None and selector.node_selector_terms else None


def _catch_all(pools: Mapping[str, GPUPool]) -> str | None:
    open_pools = [name for name, pool in pools.items() if selector_of(pool) is None]
    defaults = [name for name in open_pools if pools[name].is_default]
    for candidates in (defaults, open_pools):
        if len(candidates) == 1:
            return candidates[0]
    return None


def _term(term: NodeSelectorTerm, node: str, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    if not expressions and not fields:
        return False
    return _all(expressions, labels) and _all(fields, {"metadata.name": node})


def _all(requirements: Iterable[NodeRequirement], values: Mapping[str, str]) -> bool:
    return all(_holds(requirement, values.get(requirement.key)) for requirement in requirements)


def _holds(requirement: NodeRequirement, value: str | None) -> bool:
    operator, wanted = requirement.operator, requirement.values or ()
    if operator in ("Gt", "Lt"):
        return _compares(operator, value, wanted[0] if wanted else "")
    return meets(operator, value, wanted)


def _compares(operator: str, value: str | None, bound: str) -> bool:
    try:
        number, limit = int(value or ""), int(bound)
    except ValueError:
        return False
    return number > limit if operator == "Gt" else number < limit
