"""Which pods disruption budgets spare from preemption, whatever their authors have written (SPEC §7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_scheduling_state import pod, spec, told

from tensorfusion_iac.kube.informer import ChangeType
from tensorfusion_iac.scheduling.budgets import Budgets
from tensorfusion_iac.scheduling.pods import GpuPod, read_pod

Selector = dict[str, Any] | None


def budget(selector: Any, allowed: Any = 1, name: str = "b") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed},
    }  # fmt: skip


def labelled(name: str, **labels: str) -> GpuPod:
    item = pod(name, spec(10))
    item["metadata"]["labels"] = labels
    return read_pod(item)


def spared(*budgets: dict[str, Any], pods: tuple[GpuPod, ...]) -> set[str]:
    found = Budgets()
    for item in budgets:
        found.take(told(item))
    return {uid.removeprefix("uid-") for uid in found.spared(pods)}


WEB = {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        pytest.param(None, False, id="none selects nothing"),
        pytest.param({}, True, id="an empty one everything"),
        pytest.param(WEB, True, id="labels"),
        pytest.param({"matchLabels": {"app": "web", "tier": "x"}}, False, id="every label"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "In", "values": [f"v{at}" for at in range(99)] + ["web"]}]},
                     True, id="of many values one"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False, id="not in"),
        pytest.param({"matchExpressions": [{"key": "other", "operator": "NotIn", "values": ["web"]}]}, True, id="no such key"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True, id="exists"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False, id="does not exist"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "Resembles"}]}, True, id="what cannot be read shields"),
        pytest.param({"matchExpressions": "x"}, True, id="nor a text"),
        pytest.param("web", True, id="nor this"),
    ],
)  # fmt: skip
def test_which_pods_a_budget_selects(selector: Any, selected: bool) -> None:
    assert spared(budget(selector, allowed=0), pods=(labelled("web", app="web"),)) == ({"web"} if selected else set())


def test_a_budget_is_spent_by_those_that_go_first() -> None:
    pods = tuple(labelled(f"p{at}", app="web") for at in range(3))
    assert spared(budget(WEB, allowed=2), pods=pods) == {"p2"}


def test_a_pod_under_two_budgets_is_spared_and_spends_neither() -> None:
    pods = labelled("two", app="web", tier="x"), labelled("one", app="web")
    both = budget(WEB, name="a"), budget({"matchLabels": {"tier": "x"}}, name="b")
    assert spared(*both, pods=pods) == {"two"}


def test_which_changes_may_let_more_go() -> None:
    budgets = Budgets()
    assert not budgets.take(told(budget(WEB, 0)))
    assert not budgets.take(told(budget(WEB, 0)))
    assert budgets.take(told(budget(WEB, 1)))
    assert not budgets.take(told(budget(WEB, 0)))
    assert budgets.take(told(budget({"matchLabels": {"app": "other"}}, 0))), "it may select fewer"
    assert not budgets.spared([labelled("web", app="web")])
    assert budgets.take(told(budget(WEB, 0), ChangeType.DELETED))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    selector=json_values | st.fixed_dictionaries({"matchLabels": json_values, "matchExpressions": json_values}),
    allowed=json_values,
)
def test_no_budget_is_a_reason_to_fail(selector: Any, allowed: Any) -> None:
    spared(
        budget(selector, allowed), {"metadata": {"name": "c", "namespace": "ns", "uid": "c"}}, pods=(labelled("p", app="web"),)
    )
