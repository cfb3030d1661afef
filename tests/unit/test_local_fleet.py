"""Which nodes and cards are simulated, and what stands in the API server for them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.agent.simulated_cards import cards_of
from tensorfusion_iac.local import fleet, fleet_objects
from tensorfusion_iac.local.catalogue import look_up
from tensorfusion_iac.local.errors import WishError
from tensorfusion_iac.local.fleet import CardModel
from tensorfusion_iac.local.state import NodeGroup

GIB = 2**30
A100 = CardModel("A100_SXM_80G", "NVIDIA", 80 * GIB)


def group(model: str, gpus: int, nodes: int) -> NodeGroup:
    return NodeGroup(model=model, gpus_per_node=gpus, nodes=nodes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A100_SXM_80G=8x2", group("A100_SXM_80G", 8, 2)),
        ("L40S=4", group("L40S", 4, 1)),
        (" RTX 4090=1x10000 ", group("RTX 4090", 1, 10_000)),
    ],
)
def test_a_group_is_model_gpus_nodes(text: str, expected: NodeGroup) -> None:
    assert fleet.parse_group(text) == expected


@pytest.mark.parametrize("text", ["", "A100", "A100=", "A100=0", "A100=8x0", "A100=8x", "=8x2", "A100=x2", "A100=-1", "A100=8X2"])
def test_a_malformed_group_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(WishError, match=re.escape(f'--gpus "{text}" is not MODEL=GPUSxNODES, for example')):
        fleet.parse_group(text)


@pytest.mark.parametrize("text", ["A100=129", "A100=1x10001"])
def test_a_group_beyond_the_bounds_is_refused(text: str) -> None:
    with pytest.raises(WishError, match="at most 128 GPUs on a node and 10000 nodes"):
        fleet.parse_group(text)


def test_without_options_nothing_is_asked_for() -> None:
    assert fleet.wanted_groups([], None, None, None) is None


def test_the_plain_options_fill_each_other_in() -> None:
    assert fleet.wanted_groups([], 5, None, None) == (group("A100_SXM_80G", 4, 5),)
    assert fleet.wanted_groups([], None, "L40S", 8) == (group("L40S", 8, 3),)


def test_equal_groups_are_one() -> None:
    assert fleet.wanted_groups(["L40S=4x1", "H100_SXM=8", "L40S=4x2"], None, None, None) == (
        group("L40S", 4, 3),
        group("H100_SXM", 8, 1),
    )


def test_mixed_and_plain_options_together_are_refused() -> None:
    with pytest.raises(WishError, match="--nodes and --gpus exclude each other"):
        fleet.wanted_groups(["L40S=4"], 3, None, None)


def test_an_unknown_model_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(WishError, match=re.escape('unknown GPU model "A100_SXM_80"; did you mean A100_SXM_80G?')):
        look_up("A100_SXM_80")


def test_a_family_is_refused_with_its_models() -> None:
    with pytest.raises(WishError, match=r"is a family; give one of .*A100_SXM_80G"):
        look_up("A100")


def test_the_default_fleet_has_room_for_the_quick_start() -> None:
    nodes = fleet.build(fleet.DEFAULT_GROUPS, look_up)
    by_model = [(node.model.name, node.gpus) for node in nodes]
    assert by_model.count(("A100_SXM_80G", 4)) >= 2
    assert ("L40S", 4) in by_model


groups = st.lists(
    st.builds(group, st.sampled_from(["A100_SXM_80G", "L40S", "MI300X"]), st.integers(1, 8), st.integers(1, 5)),
    min_size=1, max_size=4,
)  # fmt: skip


def made_up(name: str) -> CardModel:
    return CardModel(name, "AMD" if name.startswith("MI") else "NVIDIA", 48 * GIB)


@given(groups)
def test_names_are_distinct_and_the_same_each_time(wish: list[NodeGroup]) -> None:
    nodes = fleet.build(wish, made_up)
    assert len({node.name for node in nodes}) == len(nodes) == sum(item.nodes for item in wish)
    assert sum(node.gpus for node in nodes) == sum(item.nodes * item.gpus_per_node for item in wish)
    assert nodes == fleet.build(wish, made_up)


@given(groups)
def test_a_larger_wish_only_adds(wish: list[NodeGroup]) -> None:
    more = [*wish, group("L40S", 2, 1)]
    assert fleet.build(more, made_up)[: len(fleet.build(wish, made_up))] == fleet.build(wish, made_up)


@given(groups)
def test_a_node_says_which_cards_its_agent_is_to_have(wish: list[NodeGroup]) -> None:
    for node in fleet.build(wish, look_up):
        cards = cards_of(fleet_objects.node(node))
        assert len(cards) == node.gpus
        assert {(one.product, one.usable_bytes) for one in cards} == {(node.model.name, node.model.vram_bytes)}


def test_a_node_is_played_by_kwok_and_selected_by_pools() -> None:
    (node,) = fleet.build([group(A100.name, 4, 1)], lambda name: A100)
    made = fleet_objects.node(node)
    assert made["metadata"]["annotations"]["kwok.x-k8s.io/node"] == "fake"
    assert made["metadata"]["labels"]["nvidia.com/gpu.present"] == "true"
    assert made["metadata"]["labels"]["nvidia.com/gpu.product"] == "A100_SXM_80G"
    assert made["status"]["capacity"] == {"cpu": "48", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
    assert made["status"]["allocatable"]["cpu"] == "47500m"


def test_a_node_that_its_user_has_edited_is_still_ready() -> None:
    (node,) = fleet.build([group(A100.name, 1, 1)], lambda name: A100)
    present = fleet_objects.node(node) | {"spec": {}}
    present["status"] = {"conditions": [READY], "capacity": {"cpu": "1"}}
    present["metadata"] |= {"labels": {}}
    assert fleet_objects.is_ready(node, present)


def test_a_node_of_another_vendor_carries_no_nvidia_label() -> None:
    (node,) = fleet.build([group("MI300X", 8, 1)], made_up)
    assert not [label for label in fleet_objects.node(node)["metadata"]["labels"] if label.startswith("nvidia.com")]


@pytest.mark.parametrize(
    ("present", "wanted", "covered"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": 1}, {"apiVersion": "v1", "kind": "Node", "a": 1}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": 1}, {"a": 2}, False),
        ({}, {"a": None}, False),
        ({"a": 1}, {"a": {"b": 1}}, False),
    ],
)
def test_an_object_covers_another_that_says_no_more(present: object, wanted: object, covered: bool) -> None:
    assert fleet_objects.covers(present, wanted) is covered


READY = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    ("conditions", "taints", "ready"),
    [
        ([READY], [], True),
        ([READY], [{"key": "example.com/own"}], True),
        ([], [], False),
        ([{"type": "Ready", "status": "Unknown"}], [], False),
        ([READY], [{"key": "node.kubernetes.io/not-ready"}], False),
    ],
)
def test_a_node_is_ready_when_it_takes_pods(conditions: list[object], taints: list[object], ready: bool) -> None:
    (node,) = fleet.build([group(A100.name, 1, 1)], lambda name: A100)
    present = fleet_objects.node(node) | {"spec": {"taints": taints}}
    present["status"] = present["status"] | {"conditions": conditions}
    assert fleet_objects.is_ready(node, present) is ready


def test_a_node_of_an_earlier_wish_is_not_ready_as_wished() -> None:
    (small,) = fleet.build([group(A100.name, 1, 1)], lambda name: A100)
    (large,) = fleet.build([group(A100.name, 8, 1)], lambda name: A100)
    present = fleet_objects.node(small) | {"spec": {}}
    present["status"] = present["status"] | {"conditions": [READY]}
    assert not fleet_objects.is_ready(large, present)
    assert not fleet_objects.is_ready(small, None)
