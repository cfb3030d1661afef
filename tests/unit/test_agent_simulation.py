"""Simulated nodes: load that follows from names, shared out by the rule of real cards."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.agent.partitions import Wanted
from tensorfusion_iac.agent.pods import CardLimits, NodePod
from tensorfusion_iac.agent.simulation import load_of, partitioned, simulate
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


def test_two_looks_at_one_moment_see_the_same() -> None:
    pods = [pod(number, 0.2, 0.5) for number in range(4)]
    assert simulate(pods, 1000.0) == simulate(pods, 1000.0)


def test_a_load_moves_and_workloads_differ() -> None:
    assert len({load_of(f"w-{number}") for number in range(10)}) == 10
    load = load_of("w")
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
