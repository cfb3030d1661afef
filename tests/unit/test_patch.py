"""JSON patches: the law, and that they are small."""

from __future__ import annotations

import pytest
from admission_objects import json_values
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.admission import apply, diff
from tensorfusion_iac.admission.patch import pointer

named = st.lists(st.fixed_dictionaries({"name": st.sampled_from("abcde")}, optional={"value": st.integers(0, 2)}), max_size=6)


@given(json_values, json_values)
def test_the_difference_of_two_values_turns_one_into_the_other(before: object, after: object) -> None:
    assert apply(before, diff(before, after)) == after


@given(named, named)
def test_lists_of_named_objects_are_patched_right_whatever_moved(before: list[object], after: list[object]) -> None:
    assert apply({"env": before}, diff({"env": before}, {"env": after})) == {"env": after}


@given(json_values)
def test_equal_values_have_no_difference(value: object) -> None:
    assert diff(value, value) == []


def test_items_put_in_front_cost_one_operation_each() -> None:
    before = {"env": [{"name": "a"}, {"name": "b"}]}
    after = {"env": [{"name": "x"}, {"name": "y"}, {"name": "a"}, {"name": "b", "value": "1"}]}
    assert diff(before, after) == [
        {"op": "add", "path": "/env/0", "value": {"name": "x"}},
        {"op": "add", "path": "/env/1", "value": {"name": "y"}},
        {"op": "add", "path": "/env/3/value", "value": "1"},
    ]


def test_an_item_that_moved_to_the_front_leaves_the_others_alone() -> None:
    before, after = [{"name": "a"}, {"name": "n", "value": "all"}], [{"name": "n"}, {"name": "a"}]
    assert [operation["op"] for operation in diff(before, after)] == ["add", "remove"]


def test_keys_are_escaped() -> None:
    assert diff({}, {"a/b~c": 1}) == [{"op": "add", "path": "/a~1b~0c", "value": 1}]
    assert pointer("metadata", "labels", "a/b~c", 0) == "/metadata/labels/a~1b~0c/0"


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/absent"},
        {"op": "replace", "path": "/absent", "value": 1},
        {"op": "add", "path": "/list/9", "value": 1},
        {"op": "add", "path": "/list/-1", "value": 1},
        {"op": "remove", "path": "/list/x"},
        {"op": "add", "path": "/absent/deeper", "value": 1},
        {"op": "add", "path": "no-slash", "value": 1},
        {"op": "move", "path": "/list"},
    ],
)
def test_an_operation_that_does_not_fit_is_an_error(operation: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        apply({"list": [1]}, [operation])


def test_application_leaves_the_document_alone() -> None:
    document = {"a": [1]}
    assert apply(document, [{"op": "add", "path": "/a/-", "value": 2}]) == {"a": [1, 2]}
    assert document == {"a": [1]}


def test_parts_that_a_document_shares_are_changed_apart() -> None:
    shared = {"x": 1}
    assert apply({"a": shared, "b": shared}, [{"op": "remove", "path": "/a/x"}]) == {"a": {}, "b": {"x": 1}}
