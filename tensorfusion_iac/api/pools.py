"""Which pool a pod goes to, and whether its namespace may use it (SPEC §2 `gpupool`, §4 `namespaceSelector`)."""

from __future__ import annotations

from collections.abc import Mapping

from tensorfusion_iac.api.problem import Fault, quote
from tensorfusion_iac.api.resources.gpupool import GPUPool, LabelSelector


def choose_pool(named: str | None, pools: Mapping[str, GPUPool]) -> GPUPool:
    """The pool named, else the default one. Raises Fault if there is none, or if two are the default."""
    if named is not None:
        pool = pools.get(named)
        if pool is None:
            raise Fault(quote(named), _list(pools), "{found} does not exist; the pools are {accepted}")
        return pool
    defaults = sorted(name for name, pool in pools.items() if pool.is_default)
    if len(defaults) == 1:
        return pools[defaults[0]]
    if defaults:
        message = "{found} are both marked as the default pool; name one, or {accepted}"
        raise Fault(" and ".join(defaults), "leave one marked", message)
    raise Fault("no pool named and no default pool", f"one of the pools: {_list(pools)}", "{found}; give {accepted}")


def may_use(pool: GPUPool, labels: Mapping[str, str]) -> bool:
    """Whether a namespace with these labels may use the pool."""
    selector = pool.spec.namespace_selector
    return selector is None or selects(selector, labels)


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Kubernetes' label selector: every label and every expression must hold; an empty selector selects everything."""
    for key, wanted in (selector.match_labels or {}).items():
        if labels.get(key) != wanted:
            return False
    for rule in selector.match_expressions or ():
        value, values = labels.get(rule.key), rule.values or ()
        if not {
            "In": value is not None and value in values,
            "NotIn": value is None or value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[rule.operator]:
            return False
    return True


def _list(pools: Mapping[str, GPUPool]) -> str:
    return ", ".join(sorted(pools)) or "(none exist)"
