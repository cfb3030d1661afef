"""Simulated nodes: their cards, load that follows from names or annotations, shared out by the rule of real cards."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.agent import simulation
from tensorfusion_iac.agent.enforcer import Seen
from tensorfusion_iac.agent.partitions import Wanted
from tensorfusion_iac.agent.pods import CardLimits, NodePod
from tensorfusion_iac.agent.simulated_cards import CARDS_ANNOTATION, card_uuid, cards_of, cards_text
from tensorfusion_iac.agent.simulated_load import Load, load_of, with_annotation
from tensorfusion_iac.agent.simulation import partitioned
from tensorfusion_iac.api.levels import Isolation, QoS

GIB = 2**30


def pod(
    number: int, request: float, limit: float, isolation: Isolation = Isolation.SOFT, cards: tuple[str, ...] = ("c",)
) -> NodePod:
    limits = CardLimits(request, limit, GIB, 2 * GIB, Decimal(10))
    return NodePod(
        f"uid-{number}", "ns", f"p-{number}", QoS.MEDIUM, isolation, dict.fromkeys(cards, limits), {"a": "main"},
        workload=f"w-{number % 5}", cards_of={"main": cards},
    )  # fmt: skip


def simulate(pods: Iterable[NodePod], now_s: float) -> Seen:
    found = list(pods)
    return simulation.simulate(found, {one.uid: load_of(one.workload, GIB) for one in found}, now_s)


def node(cards: str | None = "4 x A100_SXM_80G", name: str = "n0") -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {} if cards is None else {CARDS_ANNOTATION: cards}}}


# Cards.


def test_a_nodes_cards_are_those_that_it_says_with_uuids_that_last() -> None:
    cards = cards_of(node())
    assert [(one.index, one.product, one.numa_node) for one in cards] == [
        (0, "A100_SXM_80G", 0), (1, "A100_SXM_80G", 0), (2, "A100_SXM_80G", 1), (3, "A100_SXM_80G", 1),
    ]  # fmt: skip
    assert {one.usable_bytes for one in cards} == {80 * GIB}
    assert cards == cards_of(node())
    assert len({one.uuid for name in ("n0", "n1") for one in cards_of(node(name=name))}) == 8
    assert [one.uuid for one in cards_of(node("2 x A100_SXM_80G"))] == [one.uuid for one in cards[:2]]


def test_a_uuid_is_written_as_nvml_writes_it() -> None:
    assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", card_uuid("a100-0", 3))


@pytest.mark.parametrize("text", [None, "", "A100_SXM_80G", "0 x L40S", "-1 x L40S", "1000 x L40S", "2 x Nonsense", "x"])
def test_a_node_that_says_nothing_that_can_be_read_has_no_cards(text: str | None) -> None:
    assert cards_of(node(text)) == ()


def test_what_is_written_of_cards_is_what_is_read() -> None:
    assert len(cards_of(node(cards_text(3, "L40S")))) == 3


# Load.


def test_an_annotation_says_what_the_load_is_and_leaves_the_rest() -> None:
    plain = load_of("w", 10 * GIB)
    assert with_annotation(plain, "mean=0.4, swing=0,period=2m, vram=12Gi") == Load(0.4, 0.0, 120.0, 12 * GIB)
    assert with_annotation(plain, "mean=0.4") == Load(0.4, plain.swing, plain.period_s, plain.vram_bytes)


@pytest.mark.parametrize(
    "text", ["", "0.4", "mean=", "mean=2", "mean=x", "mean=nan", "period=0", "period=5", "vram=lots", "cpu=1"]
)
def test_a_load_that_cannot_be_read_is_told_with_its_part(text: str) -> None:
    with pytest.raises(ValueError, match=r"simulated\.tensor-fusion\.ai/load"):
        with_annotation(load_of("w", GIB), text)


def test_a_load_without_swing_is_steady() -> None:
    load = Load(0.3, 0.0, 60.0, GIB)
    assert {load.at(second, 0.7) for second in range(0, 600, 7)} == {0.3}
    assert load.memory_at(0.3) == GIB


def test_memory_does_not_depend_on_the_limit_but_stays_below_it() -> None:
    loads = {"uid-1": Load(0.3, 0.0, 60.0, GIB)}
    (use,) = simulation.simulate([pod(1, 0.2, 0.5)], loads, 0.0).containers
    assert use.vram_bytes == GIB
    (held,) = simulation.simulate([pod(1, 0.2, 0.5)], {"uid-1": Load(0.3, 0.0, 60.0, 50 * GIB)}, 0.0).containers
    assert 1.9 * GIB < held.vram_bytes < 2 * GIB


# What agents see.


def test_two_looks_at_one_moment_see_the_same() -> None:
    pods = [pod(number, 0.2, 0.5) for number in range(4)]
    assert simulate(pods, 1000.0) == simulate(pods, 1000.0)


def test_a_load_moves_and_workloads_differ() -> None:
    assert len({load_of(f"w-{number}", GIB) for number in range(10)}) == 10
    load = load_of("w", GIB)
    assert (
        max(load.at(second, 0.5) for second in range(0, 600, 10))
        > load.mean
        > min(load.at(second, 0.5) for second in range(0, 600, 10))
    )


@given(
    st.lists(st.tuples(st.floats(0.01, 0.5), st.floats(0.5, 1.0), st.sampled_from(Isolation)), min_size=1, max_size=12),
    st.floats(0, 1e6),
)
def test_nobody_uses_more_than_it_may_and_memory_stays_below_its_limit(
    wishes: list[tuple[float, float, Isolation]], now_s: float
) -> None:
    pods = {each.uid: each for each in (pod(number, *wish) for number, wish in enumerate(wishes))}
    seen = simulate(pods.values(), now_s)
    assert len(seen.containers) == len(pods)
    for use in seen.containers:
        limits = pods[use.pod_uid].cards[use.card]
        assert 0 <= use.vram_bytes < limits.vram_limit_bytes
        if pods[use.pod_uid].isolation is not Isolation.SHARED:
            assert use.compute <= limits.limit + 1e-9
    paced = [use.compute for use in seen.containers if pods[use.pod_uid].paced]
    assert sum(paced) <= 1.0


def test_a_pod_of_two_cards_uses_both() -> None:
    seen = simulate([pod(1, 0.2, 0.5, cards=("c", "d"))], 5.0)
    assert {use.card for use in seen.containers} == set(seen.busy) == {"c", "d"}


def test_partitions_are_there_as_wanted_with_lasting_uuids() -> None:
    wanted = [Wanted("3g.40gb", 4, 4, "u"), Wanted("1g.10gb", 0, 1)]
    found = partitioned("card", wanted)
    assert [(instance.template, instance.start, uid) for instance, uid in found.instances] == [
        ("1g.10gb", 0, None),
        ("3g.40gb", 4, "u"),
    ]
    assert partitioned("card", wanted) == found
    assert len({instance.uuid for instance, _ in found.instances}) == 2


@pytest.mark.parametrize("pods", [[], [pod(1, 0.0, 0.01)]])
def test_hardly_anything_is_fine(pods: list[NodePod]) -> None:
    assert len(simulate(pods, 0.0).containers) == len(pods)
