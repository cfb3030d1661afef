"""Which pool a pod goes to, and whether its namespace may use it (SPEC §2 `gpupool`, §4 `namespaceSelector`)."""

from __future__ import annotations

from collections.abc import Mapping

from tensorfusion_iac.api.context import UNJUDGED, Namespace, NotJudged
from tensorfusion_iac.api.merge import Merge
from tensorfusion_iac.api.problem import Fault, literal, quote
from tensorfusion_iac.api.resources.gpupool import GPUPool
from tensorfusion_iac.api.resources.selectors import LabelSelector, meets
from tensorfusion_iac.api.worker import Source


def take_pool(merge: Merge, namespace: Namespace | None, pools: Mapping[str, GPUPool] | NotJudged) -> str | None:
    """The name of the pod's pool, whose defaults are taken from here on; None if that cannot be told."""
    named: str | None = merge.pick("gpupool")
    if pools is UNJUDGED or merge.may_change("gpupool"):
        return named
    try:
        pool = choose_pool(named, pools)
    except Fault as fault:
        merge.refuse("gpupool", fault.found, fault.accepted, fault.message)
        return named
    merge.sources.setdefault("gpupool", Source.DEFAULT)
    merge.use_pool(pool)
    name = named or pool.metadata.name
    if namespace is not None and namespace.labels is not None and not may_use(pool, namespace.labels):
        message = f"{{found}} is not open to namespace {literal(namespace.name)}; {{accepted}}"
        merge.refuse("gpupool", quote(name), "its spec.namespaceSelector says to which it is", message)
    return name


def choose_pool(named: str | None, pools: Mapping[str, GPUPool]) -> GPUPool:
    """The pool named, else the default one. Raises Fault if there is none, or if several are the default."""
    if named is not None:
        pool = pools.get(named)
        if pool is None:
            raise Fault(quote(named), _list(pools), "{found} does not exist; the pools are {accepted}")
        return pool
    defaults = sorted(name for name, pool in pools.items() if pool.is_default)
    if len(defaults) == 1:
        return pools[defaults[0]]
    if defaults:
        message = "{found} are all marked as the default pool; name one, or {accepted}"
        raise Fault(" and ".join(defaults), "leave one marked", message)
    raise Fault("no pool named and no default pool", f"one of the pools: {_list(pools)}", "{found}; give {accepted}")


def may_use(pool: GPUPool, labels: Mapping[str, str]) -> bool:
    """Whether a namespace with these labels may use the pool."""
    selector = pool.spec.namespace_selector
    return selector is None or selects(selector, labels)


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Kubernetes' label selector: every label and every expression must hold; an empty selector selects everything."""
    wanted = (selector.match_labels or {}).items()
    return all(labels.get(key) == value for key, value in wanted) and all(
        meets(rule.operator, labels.get(rule.key), rule.values or ()) for rule in selector.match_expressions or ()
    )


def _list(pools: Mapping[str, GPUPool]) -> str:
    return ", ".join(sorted(pools)) or "(none exist)"
