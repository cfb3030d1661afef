"""What fits where, and which cards are chosen: the rules of SPEC §4, §6, §7 by example."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planning_values import GIB, Cluster, card, claim, uuids

from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.planning.cards import Instance, NodeFacts
from tensorfusion_iac.planning.charge import Ceiling, Quota
from tensorfusion_iac.planning.claim import ComputeClaim
from tensorfusion_iac.planning.fit import Asker, reasons
from tensorfusion_iac.planning.inventory import PoolFacts
from tensorfusion_iac.planning.reasons import Reason

WHOLE = {"whole_card": True}
PARTITIONED = {"isolation": Isolation.PARTITIONED}


def node(count: int = 2, name: str = "n0", **facts: object) -> list:
    return [card(f"{name}-{index}", name, **facts) for index in range(count)]


def test_twenty_four_pods_of_2000_mib_do_not_all_fit_a_card_of_46068_mib() -> None:
    cluster = Cluster(replace(card("g-0"), capacity_vram_bytes=46068 * 2**20))
    placed = [cluster.place(claim(gib=2000 / 1024)) for _ in range(24)]
    assert sum(made is not None for made in placed) == 23


def test_sixteen_halves_make_exactly_two_on_each_of_eight_cards() -> None:
    cluster = Cluster(*node(8))
    placed = [cluster.place(claim(percent=50)) for _ in range(17)]
    assert placed[16] is None
    chosen = [uuids(made)[0] for made in placed[:16]]
    assert all(chosen.count(uuid) == 2 for uuid in set(chosen))
    assert len(set(chosen)) == 8


def test_each_pod_is_booked_on_the_card_that_it_is_on() -> None:
    cluster = Cluster(card("g-0", gib=10), card("g-1", gib=10))
    first, second = cluster.place(claim(gib=10)), cluster.place(claim(gib=1))
    assert {*uuids(first), *uuids(second)} == {"g-0", "g-1"}


def test_two_gpus_are_two_cards_or_none() -> None:
    cluster = Cluster(card("g-0"))
    assert cluster.place(claim(percent=10, count=2)) is None
    cluster.inventory.set_card(card("g-1"))
    assert sorted(uuids(cluster.place(claim(percent=10, count=2)))) == ["g-0", "g-1"]


def test_all_gpus_of_a_worker_are_on_one_node() -> None:
    cluster = Cluster(card("a-0", "a"), card("b-0", "b"), card("b-1", "b"))
    made = cluster.place(claim(percent=100, count=2))
    assert made is not None
    assert made.node == "b"


def test_a_percentage_is_of_the_card_that_it_lands_on() -> None:
    cluster = Cluster(card("g-0", tflops=312))
    made = cluster.place(claim(percent=33.3333))
    assert made is not None
    assert made.shares[0].mflops == 103_999_896


def test_more_sevenths_than_there_are_do_not_fit() -> None:
    cluster = Cluster(card("g-0"))
    share = claim(percent=100 / 7)  # rounded to parts per million, upwards: seven would be more than the card
    assert [cluster.place(share) is not None for _ in range(7)] == [True] * 6 + [False]


@pytest.mark.parametrize(
    ("wanted", "facts", "reason"),
    [
        (claim(gib=1), {"model": "T4"}, Reason.FITS),
        (claim(gib=1, model="A100"), {"model": "T4"}, Reason.OTHER_MODEL),
        (claim(gib=1, model="a100"), {"model": "A100_PCIe_40G"}, Reason.FITS),
        (claim(gib=1, model="L40"), {"model": "L40S"}, Reason.OTHER_MODEL),
        (claim(gib=1, model="l40s"), {"model": "L40S"}, Reason.FITS),
        (claim(gib=1, model="Unheard"), {"model": "Unheard"}, Reason.FITS),
        (claim(gib=1, vendor=Vendor.AMD), {}, Reason.OTHER_VENDOR),
        (claim(gib=1, indices=(3, 4)), {}, Reason.OTHER_INDEX),
        (claim(gib=1, indices=(1,)), {}, Reason.FITS),
        (claim(gib=1, indices=(1,), count=2), {}, Reason.OTHER_INDEX),
        (claim(gib=1), {"ours": False}, Reason.IN_USE_BY_OTHERS),
        (claim(gib=1), {"healthy": False}, Reason.SICK),
        (claim(gib=81), {}, Reason.TOO_SMALL),
        (claim(tflops=101, gib=1), {}, Reason.TOO_SMALL),
        (claim(gib=1, count=3), {}, Reason.TOO_FEW_GPUS),
        (claim(gib=1, **PARTITIONED), {"model": "T4"}, Reason.NO_PARTITIONS),
        (claim(gib=1, isolation=Isolation.HARD), {"hard": False}, Reason.NO_HARD_LIMIT),
        (claim(tflops=50, compute_limit=ComputeClaim(ppm=400_000)), {}, Reason.LIMIT_BELOW_REQUEST),
        (claim(tflops=40, compute_limit=ComputeClaim(ppm=400_000)), {}, Reason.FITS),
    ],
)
def test_the_first_reason_against_a_node(wanted: object, facts: dict[str, object], reason: Reason) -> None:
    cluster = Cluster(*node(2, **facts))
    assert reasons(cluster.inventory, wanted)[0] == reason  # type: ignore[arg-type]
    assert cluster.fits(wanted) == (reason is Reason.FITS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (NodeFacts("other"), Reason.OTHER_POOL),
        (NodeFacts(None), Reason.OTHER_POOL),
        (NodeFacts("p", injection=False), Reason.NO_INJECTION),
        (NodeFacts("p", live=False), Reason.NO_AGENT),
    ],
)
def test_a_node_outside_the_pool_or_without_an_agent_takes_nothing(facts: NodeFacts, reason: Reason) -> None:
    cluster = Cluster(*node())
    cluster.inventory.set_node("n0", facts)
    assert reasons(cluster.inventory, claim(gib=1))[0] == reason
    cluster.inventory.set_node("n0", NodeFacts("p"))
    assert cluster.fits(claim(gib=1))


def test_seven_of_eight_cards_stay_usable_beside_a_sick_one_and_it_comes_back() -> None:
    cluster = Cluster(*node(8))
    cluster.inventory.set_card(card("n0-3", healthy=False))
    assert not cluster.fits(claim(percent=100, count=8))
    seven = cluster.place(claim(percent=100, count=7))
    assert "n0-3" not in uuids(seven)
    cluster.inventory.set_card(card("n0-3"))
    assert uuids(cluster.place(claim(percent=100))) == ["n0-3"]


def test_a_card_serves_one_kind_of_isolation_until_it_is_empty() -> None:
    cluster = Cluster(card("g-0"))
    soft = cluster.place(claim(gib=1))
    assert soft is not None
    assert not cluster.fits(claim(gib=1, isolation=Isolation.HARD))
    assert reasons(cluster.inventory, claim(gib=1, isolation=Isolation.HARD))[0] == Reason.OTHER_ISOLATION
    cluster.ledger.release(soft.uid)
    assert cluster.fits(claim(gib=1, isolation=Isolation.HARD))


def test_a_whole_card_needs_an_idle_one_and_keeps_all_others_away() -> None:
    cluster = Cluster(*node(2), pool=PoolFacts(oversell_percent=300))
    small = cluster.place(claim(tflops=1))
    whole = cluster.place(claim(**WHOLE))
    assert set(uuids(small)).isdisjoint(uuids(whole))
    assert not cluster.fits(claim(**WHOLE))
    other = cluster.place(claim(tflops=1, firm=False))
    assert uuids(other) == uuids(small)


def test_oversold_compute_goes_to_soft_pods_below_high_only() -> None:
    cluster = Cluster(card("g-0"), pool=PoolFacts(oversell_percent=200))
    low = claim(tflops=75, firm=False)
    assert cluster.place(low) is not None
    assert cluster.place(low) is not None
    assert not cluster.fits(low)
    high = claim(tflops=50, firm=True)
    assert cluster.place(high) is not None  # what is guaranteed is within the card, and all is within the oversell
    assert not cluster.fits(claim(tflops=1, firm=True))


def test_guaranteed_requests_never_exceed_the_card_whatever_the_oversell() -> None:
    cluster = Cluster(card("g-0"), pool=PoolFacts(oversell_percent=500))
    placed = [cluster.place(claim(tflops=60, firm=True)) for _ in range(2)]
    assert [made is not None for made in placed] == [True, False]


def test_one_worker_never_gets_more_than_a_card_whatever_the_oversell() -> None:
    cluster = Cluster(card("g-0"), pool=PoolFacts(oversell_percent=500))
    assert not cluster.fits(claim(tflops=101, firm=False))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("CompactFirst", ["a-0", "a-0", "a-0"]),
        ("LowLoadFirst", ["a-0", "b-0", "a-1"]),
        ("NodeCompactGPULowLoad", ["a-0", "a-1", "a-0"]),
    ],
)
def test_the_placement_mode_decides_where_equal_pods_go(mode: str, expected: list[str]) -> None:
    cluster = Cluster(*node(2, "a"), *node(2, "b"), pool=PoolFacts(mode=mode))
    assert [uuids(cluster.place(claim(percent=10, gib=8)))[0] for _ in range(3)] == expected


def test_several_gpus_come_from_one_nvlink_group_then_one_numa_node() -> None:
    linked = [("g-0", "g-3"), ("g-1", "g-2")]
    peers = {one: frozenset({other}) for one, other in linked} | {other: frozenset({one}) for one, other in linked}
    cluster = Cluster(*(card(f"g-{at}", numa_node=at % 2, peers=peers[f"g-{at}"]) for at in range(4)))
    assert uuids(cluster.place(claim(percent=60, count=2))) == ["g-0", "g-3"]
    assert uuids(cluster.place(claim(percent=60, count=2))) == ["g-1", "g-2"]
    numa = Cluster(*(card(f"g-{at}", numa_node=at % 2) for at in range(4)))
    assert uuids(numa.place(claim(percent=60, count=2))) == ["g-0", "g-2"]
    assert uuids(numa.place(claim(percent=60, count=2))) == ["g-1", "g-3"]


def test_the_smaller_group_is_taken_so_that_the_larger_one_stays_whole() -> None:
    cluster = Cluster(*(card(f"g-{at}", numa_node=0 if at < 4 else 1) for at in range(6)))
    assert uuids(cluster.place(claim(percent=60, count=2))) == ["g-4", "g-5"]


# Hardware partitions.


def test_seven_of_the_smallest_partition_fit_one_a100_and_no_eighth() -> None:
    cluster = Cluster(card("g-0"))
    placed = [cluster.place(claim(gib=10, **PARTITIONED)) for _ in range(8)]
    slots = [made.shares[0].slot for made in placed if made]
    assert placed[7] is None
    assert {slot.template for slot in slots if slot} == {"1g.10gb"}
    assert sorted(slot.start for slot in slots if slot) == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("model", "gib", "tflops", "template"),
    [
        ("A100_SXM_80G", 10, 10, "1g.10gb"),
        ("A100_SXM_80G", 11, 10, "1g.20gb"),
        ("A100_SXM_80G", 11, 20, "2g.20gb"),
        ("A100_SXM_80G", 40, 43, "4g.40gb"),
        ("A100_SXM_80G", 41, 1, "7g.80gb"),
        ("A30", 6, 1, "1g.6gb"),
        ("A30", 12, 50, "2g.12gb"),
        ("H200", 17, 1, "1g.18gb"),
        ("B200", 40, 1, "1g.45gb"),
    ],
)
def test_the_partition_is_the_one_that_wastes_least(model: str, gib: int, tflops: int, template: str) -> None:
    size = {"A100_SXM_80G": 80, "A30": 24, "H200": 141, "B200": 180}[model]
    cluster = Cluster(card("g-0", model=model, gib=size))
    made = cluster.place(claim(gib=gib, tflops=tflops, **PARTITIONED))
    assert made is not None
    assert made.shares[0].slot is not None
    assert made.shares[0].slot.template == template


def test_partitions_go_where_the_largest_slot_stays_free() -> None:
    cluster = Cluster(card("g-0"))
    first = cluster.place(claim(gib=10, template="1g.10gb", **PARTITIONED))
    assert first is not None
    assert first.shares[0].slot is not None
    assert first.shares[0].slot.start >= 4
    assert cluster.place(claim(template="4g.40gb", **PARTITIONED)) is not None


def test_partitions_go_to_cards_that_are_cut_already() -> None:
    cluster = Cluster(*node(2))
    placed = [cluster.place(claim(gib=10, **PARTITIONED)) for _ in range(3)]
    assert len({uuids(made)[0] for made in placed}) == 1
    assert cluster.fits(claim(**WHOLE))


def test_a_named_template_is_taken_whatever_the_amounts() -> None:
    cluster = Cluster(card("g-0"))
    made = cluster.place(claim(gib=30, template="mig-1g-10gb", **PARTITIONED))
    assert made is not None
    assert made.shares[0].vram_bytes == 10 * GIB


def test_a_template_with_media_engines_exists_once_per_card() -> None:
    cluster = Cluster(card("g-0"))
    assert cluster.place(claim(template="1g.10gb+me", **PARTITIONED)) is not None
    assert not cluster.fits(claim(template="1g.10gb+me", **PARTITIONED))
    assert reasons(cluster.inventory, claim(template="1g.10gb+me", **PARTITIONED))[0] == Reason.NO_SLOT
    assert cluster.fits(claim(template="1g.10gb", **PARTITIONED))


def test_slots_of_a_living_instance_that_is_not_ours_are_never_touched() -> None:
    stranger = Instance("4g.40gb", 0, 4, "MIG-x", "someone")
    cluster = Cluster(card("g-0", instances=(stranger,)))
    assert not cluster.fits(claim(template="4g.40gb", **PARTITIONED))
    assert not cluster.fits(claim(gib=1))
    made = cluster.place(claim(gib=40, **PARTITIONED))
    assert made is not None
    assert made.shares[0].slot is not None
    assert made.shares[0].slot.start == 4


# Quotas.


def test_two_gpus_count_twice_in_the_quota() -> None:
    cluster = Cluster(*node(2))
    cluster.ledger.set_quota("ns", Quota("q", Ceiling(request_vram_bytes=3 * GIB)))
    assert cluster.place(claim(gib=2, count=2)) is None
    assert cluster.place(claim(gib=1, count=2)) is not None


def test_a_percentage_and_a_whole_card_count_in_a_quota_of_tflops() -> None:
    cluster = Cluster(*node(2))
    cluster.ledger.set_quota("ns", Quota("q", Ceiling(request_mflops=120_000_000)))
    assert cluster.place(claim(percent=30)) is not None
    assert not cluster.fits(claim(percent=91), Asker(budget=cluster.ledger.budget("ns")))
    assert cluster.place(claim(**WHOLE)) is None
    assert cluster.place(claim(percent=90)) is not None


def test_tflops_count_in_a_quota_of_percent() -> None:
    cluster = Cluster(*node(2))
    cluster.ledger.set_quota("ns", Quota("q", Ceiling(request_ppm=500_000)))
    assert cluster.place(claim(tflops=51)) is None
    assert cluster.place(claim(tflops=50)) is not None


def test_the_quota_of_another_namespace_is_another_matter() -> None:
    cluster = Cluster(card("g-0"))
    cluster.ledger.set_quota("ns", Quota("q", Ceiling(workers=0)))
    assert cluster.place(claim(gib=1)) is None
    assert cluster.place(claim(gib=1), namespace="other") is not None


def test_where_cards_differ_the_quota_allows_what_some_choice_of_them_costs() -> None:
    cluster = Cluster(card("g-0", tflops=100), card("g-1", tflops=400), card("g-2", tflops=400))
    cluster.ledger.set_quota("ns", Quota("q", Ceiling(request_mflops=250_000_000)))
    made = cluster.place(claim(percent=50, count=2))
    assert made is not None
    assert "g-0" in uuids(made)
    assert sum(share.mflops for share in made.shares) == 250_000_000
    assert cluster.place(claim(percent=1)) is None


def test_a_released_pod_gives_its_quota_back_once() -> None:
    cluster = Cluster(card("g-0"))
    cluster.ledger.set_quota("ns", Quota("q", Ceiling(workers=1)))
    made = cluster.place(claim(gib=1))
    assert made is not None
    assert cluster.place(claim(gib=1)) is None
    assert cluster.ledger.release(made.uid) is not None
    assert cluster.ledger.release(made.uid) is None
    assert cluster.ledger.used("ns").workers == 0


# Facts that change.


def test_capacity_that_shrinks_below_what_is_held_leaves_nothing_free() -> None:
    cluster = Cluster(card("g-0", gib=80))
    assert cluster.place(claim(gib=64)) is not None
    cluster.inventory.set_card(card("g-0", gib=48))
    assert not cluster.fits(claim(gib=1))
    assert cluster.inventory.fullness[0] <= 1


def test_a_card_that_vanishes_and_returns_has_its_holders_again() -> None:
    cluster = Cluster(card("g-0", gib=10))
    assert cluster.place(claim(gib=8)) is not None
    cluster.inventory.drop_card("g-0")
    assert not cluster.fits(claim(gib=1))
    cluster.inventory.set_card(card("g-0", gib=10))
    assert not cluster.fits(claim(gib=4))
    assert cluster.fits(claim(gib=2))


def test_a_node_name_that_comes_back_with_other_cards_is_empty() -> None:
    cluster = Cluster(card("old-0", "n0", gib=10))
    assert cluster.place(claim(gib=10)) is not None
    cluster.inventory.drop_card("old-0")
    cluster.inventory.set_card(card("new-0", "n0", gib=10))
    assert uuids(cluster.place(claim(gib=10))) == ["new-0"]


def test_a_node_that_is_being_freed_for_a_preemptor_is_for_higher_priorities_only() -> None:
    cluster = Cluster(card("g-0"))
    cluster.inventory.nominate("n0", 100)
    assert reasons(cluster.inventory, claim(gib=1), Asker(priority=100))[0] == Reason.NOMINATED
    assert cluster.fits(claim(gib=1), Asker(priority=101))
    assert cluster.fits(claim(gib=1), Asker(priority=100, nominated_row=0))
    cluster.inventory.nominate("n0", None)
    assert cluster.fits(claim(gib=1))
