"""What becomes of workloads that change: surges that find no room, preemption, deletions that come last, resizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_values import GIB

from tensorfusion_iac.api.desired import Desired
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.planning import placing
from tensorfusion_iac.planning.allocate import Allocator
from tensorfusion_iac.planning.cards import CardFacts, NodeFacts
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.fit import Asker
from tensorfusion_iac.planning.inventory import Inventory
from tensorfusion_iac.planning.ledger import Ledger
from tensorfusion_iac.planning.placing import Gang, Pod
from tensorfusion_iac.planning.rehearse import Outcome, Roll, rehearse
from tensorfusion_iac.planning.rolling import Bounds
from tensorfusion_iac.planning.shares import reserve
from tensorfusion_iac.planning.victims import Plan, plan

CARD_GIB = 80


def claim(gib: int, gpus: int = 1) -> Claim:
    return Claim("p", Vendor.NVIDIA, gpus, Isolation.SOFT, vram_bytes=gib * GIB)


class Books:
    """A pool of cards of 80Gi, two on each node, and the pods on them."""

    def __init__(self, nodes: int = 1) -> None:
        inventory = Inventory()
        for node in range(nodes):
            inventory.set_node(f"n{node}", NodeFacts("p"))
            for index in range(2):
                card = CardFacts(
                    f"GPU-{node}-{index}", f"n{node}", "A100_SXM_80G", Vendor.NVIDIA, 312_000_000, CARD_GIB * GIB, index
                )
                inventory.set_card(card)
        self.ledger = Ledger(inventory)
        self.pods: list[Pod] = []

    def run(self, owner: str, count: int, gib: int, priority: int = 0, **more: Any) -> tuple[str, ...]:
        """Pods that run; fails if one of them does not fit."""
        uids = []
        for at in range(count):
            pod = Pod(f"{owner}-{at}", owner, "ns", claim(gib), priority, started_s=float(len(self.pods)), **more)
            chosen = Allocator(self.ledger.inventory).allocate(pod.claim)
            assert chosen is not None
            self.ledger.adopt(reserve(pod.claim, chosen, uid=pod.uid, namespace="ns", name=pod.uid, priority=priority))
            self.pods.append(pod)
            uids.append(pod.uid)
        return tuple(uids)

    def wait(self, owner: str, count: int, gib: int, **more: Any) -> tuple[str, ...]:
        """Pods that are there and have no place yet."""
        first = len(self.pods)
        pods = [replace(model(owner, gib), uid=f"{owner}-{first + at}", **more) for at in range(count)]
        self.pods += pods
        return tuple(pod.uid for pod in pods)

    def placed(self) -> list[str]:
        return [entry.reservation.uid for entry in self.ledger]

    def rehearse(self, *rolls: Roll, **more: Any) -> Outcome:
        return rehearse(self.ledger, self.pods, rolls, **more)


def model(owner: str, gib: int, priority: int = 0) -> Pod:
    return Pod("", owner, "ns", claim(gib), priority)


def waiting(outcome: Outcome) -> dict[str, int]:
    return {one.owner: one.pods for one in outcome.waiting}


def test_what_has_room_is_placed_and_the_rest_waits_with_its_reason() -> None:
    outcome = Books().rehearse(Roll("a", model("a", 60), 3))
    assert waiting(outcome) == {"a": 1}
    assert outcome.waiting[0].why.text() == "1 node: VRAM 60Gi asked, most free is 20Gi"


def test_a_roll_with_room_for_its_surge_ends() -> None:
    books = Books()
    old = books.run("a", 2, 30)
    outcome = books.rehearse(Roll("a", model("a", 40), 2, old=old, bounds=Bounds(1, 0)))
    assert (outcome.waiting, outcome.stuck) == ((), ())


def test_a_roll_on_a_full_pool_never_ends_and_would_if_the_old_ones_went_first() -> None:
    books = Books()
    old = books.run("a", 2, 60)
    outcome = books.rehearse(Roll("a", model("a", 50), 2, old=old, bounds=Bounds(1, 0)))
    (stuck,) = outcome.stuck
    assert (stuck.owner, stuck.old, stuck.would_fit) == ("a", 2, True)
    assert waiting(outcome) == {"a": 1}, "the surge"


def test_one_that_may_be_unavailable_lets_the_same_roll_end() -> None:
    books = Books()
    old = books.run("a", 2, 60)
    outcome = books.rehearse(Roll("a", model("a", 50), 2, old=old, bounds=Bounds(0, 1)))
    assert (outcome.waiting, outcome.stuck) == ((), ())


def test_a_roll_that_is_too_large_even_for_the_empty_pool_is_not_a_deadlock() -> None:
    books = Books()
    old = books.run("a", 2, 60)
    outcome = books.rehearse(Roll("a", model("a", 90), 2, old=old, bounds=Bounds(1, 0)))
    assert not outcome.stuck[0].would_fit


def test_higher_priority_evicts_lower_which_then_waits() -> None:
    books = Books()
    books.run("low", 2, 60, priority=-10)
    outcome = books.rehearse(Roll("high", model("high", 60, 10_000), 1))
    (victim,) = outcome.evicted
    assert (victim.owner, victim.by, victim.node) == ("low", "high", "n0")
    assert waiting(outcome) == {"low": 1}


def test_an_evicted_pod_finds_another_place_if_there_is_one() -> None:
    books = Books(nodes=2)
    books.run("low", 3, 60, priority=-10)
    books.run("small", 1, 50, priority=20_000)
    outcome = books.rehearse(Roll("high", model("high", 70, 10_000), 1))
    assert [one.owner for one in outcome.evicted] == ["low"]
    assert waiting(outcome) == {"low": 1}


def test_a_shielded_pod_stays() -> None:
    books = Books()
    books.run("low", 2, 60, priority=-10, shielded=True)
    outcome = books.rehearse(Roll("high", model("high", 60, 10_000), 1))
    assert (outcome.evicted, waiting(outcome)) == ((), {"high": 1})


def test_what_waits_until_others_are_deleted_is_told() -> None:
    books = Books()
    going = books.run("old", 2, 60)
    outcome = books.rehearse(Roll("new", model("new", 60), 2), leaving=going)
    assert outcome.held_up == ("new",)
    assert outcome.waiting == ()


def test_scaling_down_makes_room_and_scaling_up_keeps_what_runs() -> None:
    books = Books()
    kept = books.run("a", 2, 60)
    outcome = books.rehearse(Roll("a", model("a", 60), 1, kept=kept), Roll("b", model("b", 60), 1))
    assert outcome.waiting == ()
    assert sum(1 for uid in kept if books.ledger.get(uid)) == 1


def test_a_deployment_scales_its_old_pods_before_it_rolls() -> None:
    books = Books()
    old = books.run("a", 1, 60)
    outcome = books.rehearse(Roll("a", model("a", 10), 3, old=old, bounds=Bounds(1, 0), scales_old=True))
    assert outcome.stuck == (), "old pods that wait go first"


def test_pods_that_ask_for_no_gpu_any_more_give_theirs_back() -> None:
    books = Books()
    old = books.run("a", 2, 60)
    outcome = books.rehearse(Roll("a", None, 0, old=old), Roll("b", model("b", 60), 2))
    assert outcome.waiting == ()


def test_a_resize_that_finds_no_room_on_its_card_is_refused_and_one_that_does_takes_it() -> None:
    books = Books()
    (first,) = books.run("a", 1, 30)
    assert books.rehearse(resizes={first: Desired(Decimal(1), Decimal(2), 70 * GIB, 70 * GIB)}).refused_resizes == ()
    outcome = books.rehearse(resizes={first: Desired(Decimal(1), Decimal(2), 79 * GIB, 79 * GIB)}, leaving=())
    assert outcome.refused_resizes == ()
    books.run("b", 1, 80)
    ((owner, why),) = books.rehearse(resizes={first: Desired(None, None, 90 * GIB, 90 * GIB)}).refused_resizes
    assert (owner, why) == ("a", "GPU GPU-0-0 has 312 TFLOPS and 80Gi at most")


@settings(max_examples=40, deadline=None)
@given(
    limits=st.sampled_from([Bounds(1, 0), Bounds(0, 1), Bounds(2, 2), Bounds(0, 4)]),
    sizes=st.lists(st.integers(1, 80), min_size=1, max_size=4),
    old=st.integers(5, 40),
    new=st.integers(5, 90),
    luck=st.none() | st.integers(0, 9).map(Random),
)
def test_no_card_ever_holds_more_than_it_has_and_nothing_is_lost(
    limits: Bounds, sizes: Sequence[int], old: int, new: int, luck: Random | None
) -> None:
    books = Books(nodes=2)
    uids = books.run("a", 2, old)
    booked, free = list(books.ledger), books.ledger.inventory.free_vram.copy()
    rolls = [Roll(f"x{at}", model(f"x{at}", gib, at * 100), 2) for at, gib in enumerate(sizes)]
    outcome = books.rehearse(Roll("a", model("a", new), 3, old=uids, bounds=limits, scales_old=True), *rolls, luck=luck)
    inventory = books.ledger.inventory
    for card in inventory.cards():
        place = inventory.place_of(card.uuid)
        assert place is not None
        assert inventory.free_vram[place] >= 0
    if not outcome.stuck:  # else the books also hold what would be if the old pods went first
        placed = sum(1 for entry in books.ledger if entry.reservation.name.startswith("x0#"))
        assert placed + waiting(outcome).get("x0", 0) == 2
    books.ledger.restore(booked)
    assert {entry.reservation.uid for entry in books.ledger} == set(uids)
    assert (inventory.free_vram == free).all()


def test_which_of_several_equal_pods_goes_first_is_chance_and_decides_whether_another_fits() -> None:
    """One card holds 60 and 15, the other 60: there is room for 70 once the right one is gone."""

    def fits(luck: Random) -> bool:
        books = Books()
        books.run("other", 1, 15)
        kept = books.run("a", 2, 60)
        outcome = books.rehearse(Roll("a", model("a", 60), 1, kept=kept), Roll("b", model("b", 70), 1), luck=luck)
        assert outcome.by_chance
        return not outcome.waiting

    assert {fits(Random(seed)) for seed in range(20)} == {True, False}


def test_among_pods_of_very_different_age_the_newest_goes_whatever_the_luck() -> None:
    for seed in range(20):
        books = Books()
        uids = books.run("a", 2, 60)
        day, year = 86_400.0, 3.15e7
        books.pods = [replace(pod, started_s=at) for pod, at in zip(books.pods, (-2 * year, -day), strict=True)]
        books.pods.append(Pod("young", "b", "ns", claim(1), started_s=0.0))
        books.rehearse(Roll("a", model("a", 60), 1, kept=uids), luck=Random(seed))
        assert [books.ledger.get(uid) is not None for uid in uids] == [True, False]


def test_without_a_choice_there_is_no_chance() -> None:
    books = Books()
    old = books.run("a", 1, 30)
    assert not books.rehearse(Roll("a", model("a", 40), 1, old=old, bounds=Bounds(1, 0))).by_chance


def test_a_gated_pod_is_not_placed_and_does_not_wait_for_gpus() -> None:
    books = Books()
    kept = books.wait("a", 1, 10, gated=True)
    outcome = books.rehearse(Roll("a", model("a", 10), 2, kept=kept))
    assert (outcome.waiting, books.placed()) == ((), ["a#1"])


def test_a_gated_pod_goes_first_when_its_workload_is_scaled_down() -> None:
    books = Books()
    kept = (*books.run("a", 1, 10), *books.wait("a", 1, 10, gated=True))
    books.rehearse(Roll("a", model("a", 10), 1, kept=kept))
    assert books.placed() == [kept[0]]


def test_gated_pods_go_first_when_their_workload_rolls_though_nothing_may_be_unavailable() -> None:
    books = Books()
    old = books.wait("a", 2, 10, gated=True)
    outcome = books.rehearse(Roll("a", model("a", 20), 2, old=old, bounds=Bounds(1, 0), scales_old=True))
    assert (outcome.stuck, outcome.waiting, len(books.placed())) == ((), (), 2)


def ganged(owner: str, gib: int, needed: int, priority: int = 0) -> Pod:
    return replace(model(owner, gib, priority), gang=Gang(owner, needed))


def test_a_gang_that_has_room_for_some_of_its_members_starts_with_none_and_leaves_the_room_to_others() -> None:
    books = Books()
    outcome = books.rehearse(Roll("gang", ganged("gang", 60, 3, priority=10), 3), Roll("b", model("b", 60), 2))
    assert waiting(outcome) == {"gang": 3}
    books = Books()
    outcome = books.rehearse(Roll("gang", ganged("gang", 60, 3), 3))
    assert (waiting(outcome), books.placed()) == ({"gang": 3}, [])
    assert outcome.waiting[0].why.text() == (
        "room for 2 of 3 pods that start together; 1 node: VRAM 60Gi asked, most free is 20Gi"
    )  # fmt: skip


def test_a_gang_with_room_for_as_many_as_it_needs_starts_and_further_members_wait_one_by_one() -> None:
    outcome = Books().rehearse(Roll("gang", ganged("gang", 60, 2), 3))
    assert waiting(outcome) == {"gang": 1}
    assert outcome.waiting[0].why.text() == "1 node: VRAM 60Gi asked, most free is 20Gi"


def test_a_gang_of_which_too_few_members_are_there_waits_with_room_enough() -> None:
    books = Books()
    books.wait("gang", 1, 10, gang=Gang("gang", 3))
    books.wait("gang", 1, 10, gang=Gang("gang", 3), gated=True)
    outcome = books.rehearse()
    assert waiting(outcome) == {"gang": 1}
    assert outcome.waiting[0].why.text() == "1 of the 3 pods that start together are there"


def test_members_that_wait_behind_their_gangs_gate_start_when_the_missing_ones_come() -> None:
    books = Books()
    kept = books.wait("gang", 1, 60, gang=Gang("gang", 2))
    outcome = books.rehearse(Roll("gang", ganged("gang", 60, 2), 2, kept=kept))
    assert waiting(outcome) == {}
    assert [one.owner for one in outcome.before] == ["gang"]


def test_gangs_of_equal_name_in_different_namespaces_are_two() -> None:
    books = Books()
    books.wait("gang", 1, 10, gang=Gang("gang", 2))
    books.wait("gang", 1, 10, gang=Gang("gang", 2), namespace="other")
    assert waiting(books.rehearse()) == {"gang": 2}


def test_a_started_gang_rolls_one_by_one() -> None:
    books = Books()
    old = books.run("gang", 2, 60, gang=Gang("gang", 2))
    outcome = books.rehearse(Roll("gang", ganged("gang", 20, 2), 2, old=old, bounds=Bounds(1, 0), scales_old=True))
    assert (outcome.stuck, outcome.waiting) == ((), ())


def test_a_roll_that_changes_how_many_start_together_never_ends_for_its_surge_is_a_gang_of_its_own() -> None:
    books = Books()
    old = books.run("gang", 2, 10, gang=Gang("gang", 2))
    new = replace(ganged("gang", 10, 2), gang=Gang("gang", 3))
    (stuck,) = books.rehearse(Roll("gang", new, 3, old=old, bounds=Bounds(1, 0), scales_old=True)).stuck
    assert stuck.would_fit


def test_a_gang_that_is_evicted_as_a_whole_comes_back_as_a_whole() -> None:
    books = Books()
    books.run("gang", 2, 60, priority=-10, gang=Gang("gang", 2))
    books.wait("gang", 1, 25, priority=-10, gang=Gang("gang", 2))
    high = Pod("", "high", "ns", claim(50, gpus=2), 10_000)
    outcome = books.rehearse(Roll("high", high, 1))
    assert waiting(outcome) == {"gang": 3}, "there is room for the one of 25Gi alone"


@pytest.mark.parametrize("more", [{"preempts": False}, {"gang": Gang("high", 1)}])
def test_pods_whose_class_never_preempts_and_gangs_evict_nobody(more: dict[str, Any]) -> None:
    books = Books()
    books.run("low", 2, 60, priority=-10)
    outcome = books.rehearse(Roll("high", replace(model("high", 60, 10_000), **more), 1))
    assert (outcome.evicted, waiting(outcome)) == ((), {"high": 1})


def test_one_that_may_preempt_is_not_held_back_by_its_equal_that_may_not() -> None:
    books = Books()
    books.run("low", 2, 60, priority=-10)
    meek = replace(model("meek", 60, 10_000), preempts=False)
    outcome = books.rehearse(Roll("meek", meek, 1), Roll("bold", model("bold", 60, 10_000), 1))
    assert waiting(outcome) == {"meek": 1, "low": 1}


GANG = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(10, 80), st.sampled_from([0, 10, 20]))
"""How many it needs, how many there are, GiB of each, priority."""


@settings(max_examples=60, deadline=None)
@given(
    gangs=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(10, 80), st.integers(0, 2)), min_size=1, max_size=3
    ),
    single=st.tuples(st.integers(1, 3), st.integers(10, 80), st.integers(0, 2)),
    luck=st.none() | st.integers(0, 9).map(Random),
)
def test_of_a_gang_start_as_many_as_it_needs_or_none_and_none_is_evicted_for_it(
    gangs: Sequence[tuple[int, int, int, int]], single: tuple[int, int, int], luck: Random | None
) -> None:
    books = Books(nodes=2)
    books.run("low", 2, 30, priority=-10)
    rolls = [
        Roll(f"g{at}", ganged(f"g{at}", gib, needed, rank * 10), count) for at, (needed, count, gib, rank) in enumerate(gangs)
    ]
    outcome = books.rehearse(*rolls, Roll("s", replace(model("s", single[1], single[2]), preempts=False), single[0]), luck=luck)
    assert outcome.evicted == ()
    for at, (needed, count, _, _) in enumerate(gangs):
        placed = sum(uid.startswith(f"g{at}#") for uid in books.placed())
        assert placed == 0 or placed >= needed
        assert placed + waiting(outcome).get(f"g{at}", 0) == count


def test_what_finds_no_room_is_not_asked_again_until_room_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Asker] = []

    def counted(inventory: Inventory, claim: Claim, asker: Asker, *more: Any) -> Plan | None:
        asked.append(asker)
        return plan(inventory, claim, asker, *more)

    monkeypatch.setattr(placing, "plan", counted)
    books = Books()
    books.run("low", 2, 60, priority=-10)
    books.wait("huge", 3, 90, priority=5)
    grown = Roll("small", model("small", 5), 3)
    books.rehearse(grown)
    assert len(asked) == 1, "placing others frees nothing"
    books.rehearse(grown, leaving=("low-0",))
    assert len(asked) == 3, "once, and once again after the deletion"
