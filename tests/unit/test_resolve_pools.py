"""Which pool a pod goes to, and who may use it (SPEC §2 `gpupool`, §4)."""

from __future__ import annotations

from typing import Any

import pytest
from resolving import ENOUGH, a_pool, accepted, ask, problems

from tensorfusion_iac.api import UNJUDGED, Namespace, Source
from tensorfusion_iac.api.pools import selects
from tensorfusion_iac.api.resources.selectors import LabelSelector

A, B, C = a_pool(name="a", default=False), a_pool(name="b", default=False), a_pool(name="c")
OTHER_DEFAULT = a_pool(name="d")


@pytest.mark.parametrize(
    ("annotated", "profile", "expected", "source"),
    [
        (None, None, "c", Source.DEFAULT),
        ("a", None, "a", Source.ANNOTATION),
        (None, "b", "b", Source.PROFILE),
        ("a", "b", "a", Source.ANNOTATION),
        (None, "", "c", Source.DEFAULT),
    ],
)
def test_the_pool_is_the_named_one_else_the_profiles_else_the_default(
    annotated: str | None, profile: str | None, expected: str, source: Source
) -> None:
    annotations = {**ENOUGH, **({"gpupool": annotated} if annotated else {})}
    resolution = ask(annotations, profile=None if profile is None else {"poolName": profile}, pools=[A, B, C])
    assert accepted(resolution).pool == expected
    assert resolution.sources["gpupool"] is source


def test_an_unknown_pool_is_refused_and_the_pools_are_listed() -> None:
    assert problems(ask({**ENOUGH, "gpupool": "x"}, pools=[C, A])) == ['gpupool: "x" does not exist; the pools are a, c']
    assert problems(ask(ENOUGH, profile={"poolName": "x"}, pools=[C, A])) == [
        'WorkloadProfile inference spec.poolName: "x" does not exist; the pools are a, c'
    ]


def test_two_default_pools_are_refused_and_both_are_named() -> None:
    (problem,) = problems(ask(ENOUGH, pools=[OTHER_DEFAULT, A, C]))
    assert problem == "gpupool: c and d are all marked as the default pool; name one, or leave one marked"
    accepted(ask({**ENOUGH, "gpupool": "d"}, pools=[OTHER_DEFAULT, A, C]))


@pytest.mark.parametrize(("pools", "listed"), [([A, B], "a, b"), ([], "(none exist)")])
def test_no_pool_named_and_no_default_is_refused(pools: Any, listed: str) -> None:
    assert problems(ask(ENOUGH, pools=pools)) == [f"gpupool: no pool named and no default pool; give one of the pools: {listed}"]


@pytest.mark.parametrize("mark", ["false", "True", "", "1"])
def test_only_true_marks_a_default_pool(mark: str) -> None:
    assert "no default pool" in problems(ask(ENOUGH, pools=[a_pool(default=mark)]))[0]


SELECTOR = {"matchLabels": {"team": "ml"}, "matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["test"]}]}


@pytest.mark.parametrize(
    ("selector", "labels", "allowed"),
    [
        (None, {}, True),
        ({}, {}, True),
        (SELECTOR, {"team": "ml"}, True),
        (SELECTOR, {"team": "ml", "env": "prod"}, True),
        (SELECTOR, {"team": "ml", "env": "test"}, False),
        (SELECTOR, {"team": "web"}, False),
        (SELECTOR, {}, False),
    ],
)
def test_a_pools_namespace_selector_says_who_may_use_it(selector: Any, labels: dict[str, str], allowed: bool) -> None:
    found = problems(ask(ENOUGH, pools=[a_pool({"namespaceSelector": selector})], namespace=Namespace("web", labels)))
    refused = 'gpupool: "main" is not open to namespace web; its spec.namespaceSelector says to which it is'
    assert found == ([] if allowed else [refused])


@pytest.mark.parametrize("namespace", [None, Namespace("web")])
def test_a_namespace_whose_labels_are_not_known_is_not_refused(namespace: Namespace | None) -> None:
    accepted(ask(ENOUGH, pools=[a_pool({"namespaceSelector": SELECTOR})], namespace=namespace))


@pytest.mark.parametrize(
    ("operator", "values", "value", "expected"),
    [
        ("In", ["a", "b"], "a", True), ("In", ["a"], "c", False), ("In", ["a"], None, False),
        ("NotIn", ["a"], "a", False), ("NotIn", ["a"], "c", True), ("NotIn", ["a"], None, True),
        ("Exists", None, "", True), ("Exists", None, None, False),
        ("DoesNotExist", None, None, True), ("DoesNotExist", None, "x", False),
    ],
)  # fmt: skip
def test_selector_operators_are_those_of_kubernetes(operator: str, values: Any, value: str | None, expected: bool) -> None:
    selector = LabelSelector.model_validate({"matchExpressions": [{"key": "k", "operator": operator, "values": values}]})
    assert selects(selector, {} if value is None else {"k": value}) is expected


def test_where_the_pools_are_not_known_the_named_one_is_kept() -> None:
    worker = accepted(ask({**ENOUGH, "gpupool": "somewhere"}, pools=UNJUDGED))
    assert worker.pool == "somewhere"
    assert accepted(ask(ENOUGH, pools=UNJUDGED)).pool is None
