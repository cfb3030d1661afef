"""PodDisruptionBudgets as preemption minds them: which of them a pod is under, and how many pods each lets go now.

Anybody may write a budget into a namespace, so nothing in one is a reason to fail: what cannot be read shields every pod of
its namespace. The Eviction API has the last word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tensorfusion_iac.api.resources.selectors import meets
from tensorfusion_iac.kube.client import Object
from tensorfusion_iac.kube.informer import Change, ChangeType, Key
from tensorfusion_iac.scheduling.pods import GpuPod

Labels = Mapping[str, str]


class Budgets:
    """All of them. What pods are under is remembered by their labels, which replicas share."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[Key, Object]] = {}
        self._known: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[Key, ...]] = {}

    def take(self, change: Change) -> bool:
        """A budget was added, changed or deleted. Whether it may let more go than before."""
        of_namespace = self._by_namespace.setdefault(change.key[0], {})
        before = of_namespace.pop(change.key, None)
        if change.type is not ChangeType.DELETED:
            of_namespace[change.key] = change.object
        if before is None or change.type is ChangeType.DELETED or before.get("spec") != change.object.get("spec"):
            self._known.clear()
            return before is not None
        return _allowed(change.object) > _allowed(before)

    def spared(self, pods: Iterable[GpuPod]) -> set[str]:
        """Of pods that go in this order, those (UIDs) that a budget spares.

        A pod under two budgets is always spared: the Eviction API refuses it.
        """
        found: set[str] = set()
        spent: dict[Key, int] = {}
        for pod in pods:
            over = self._over(pod)
            if len(over) > 1 or any(spent.get(key, 0) >= _allowed(self._by_namespace[key[0]][key]) for key in over):
                found.add(pod.uid)
                continue
            for key in over:
                spent[key] = spent.get(key, 0) + 1
        return found

    def _over(self, pod: GpuPod) -> tuple[Key, ...]:
        """The budgets that a pod is under."""
        of_namespace = self._by_namespace.get(pod.namespace)
        if not of_namespace:
            return ()
        labels = pod.namespace, tuple(sorted(pod.labels.items()))
        known = self._known.get(labels)
        if known is None:
            known = tuple(key for key, budget in of_namespace.items() if _selects(budget, pod.labels))
            self._known[labels] = known
        return known


def _selects(budget: Object, labels: Labels) -> bool:
    """By policy/v1: no selector selects nothing, an empty one everything."""
    spec = budget.get("spec")
    selector = spec.get("selector") if isinstance(spec, Mapping) else None
    if selector is None:
        return False
    try:
        return all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()) and all(
            meets(rule["operator"], labels.get(rule["key"]), _texts(rule.get("values")))
            for rule in selector.get("matchExpressions") or ()
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return True


def _texts(values: object) -> Collection[str]:
    return frozenset(values) if isinstance(values, list) else ()


def _allowed(budget: Object) -> int:
    """How many pods it lets go now."""
    status = budget.get("status")
    allowed = status.get("disruptionsAllowed") if isinstance(status, Mapping) else None
    return allowed if isinstance(allowed, int) else 0
