"""Whom to evict, by example and against brute force; and the words that say why a pod waits (SPEC §7)."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from planning_values import Cluster, card, claim

from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.planning.allocate import Allocator
from tensorfusion_iac.planning.charge import Ceiling, Quota
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.explain import explain
from tensorfusion_iac.planning.fit import Asker
from tensorfusion_iac.planning.inventory import on_node
from tensorfusion_iac.planning.victims import Candidate, Plan, plan, search


def candidates(cluster: Cluster, started: dict[str, float] | None = None) -> list[Candidate]:
    return [Candidate(entry.reservation, (started or {}).get(entry.reservation.uid, 0.0)) for entry in cluster.ledger]


def planned(cluster: Cluster, wanted: Claim, priority: int, nodes: tuple[str, ...] = ("n0", "n1"), **more: object) -> set[str]:
    found = plan(cluster.inventory, wanted, Asker(priority), nodes, candidates(cluster, **more))  # type: ignore[arg-type]
    return set(found.victims) if found else set()


def full(*priorities: int) -> Cluster:
    """One card per node, each full of one pod of that priority."""
    cluster = Cluster(*(card(f"n{at}-0", f"n{at}") for at in range(len(priorities))))
    for at, priority in enumerate(priorities):
        assert cluster.place(claim(percent=100), priority=priority, uid=f"p{at}")
    return cluster


def test_the_lowest_goes() -> None:
    assert planned(full(5, 1, 3), claim(percent=50), 10, ("n0", "n1", "n2")) == {"p1"}


def test_nobody_of_equal_or_higher_priority_goes() -> None:
    assert planned(full(10, 11), claim(percent=50), 10) == set()


def test_fewer_go_rather_than_lower_ones() -> None:
    cluster = Cluster(card("n0-0", "n0"), card("n1-0", "n1"))
    for at in range(2):
        cluster.place(claim(percent=50), priority=1, uid=f"half-{at}")
    cluster.place(claim(percent=100), priority=5, uid="whole")
    assert planned(cluster, claim(percent=100), 10) == {"whole"}


def test_the_newest_goes_among_equals() -> None:
    assert planned(full(1, 1), claim(percent=50), 10, started={"p0": 50.0, "p1": 100.0}) == {"p1"}


def test_victims_are_on_one_node_and_on_the_cards_that_count() -> None:
    cluster = Cluster(*(card(f"n0-{at}", "n0") for at in range(2)), *(card(f"n1-{at}", "n1") for at in range(2)))
    for at in range(4):
        cluster.place(claim(percent=100), priority=1, uid=f"p{at}")
    found = planned(cluster, claim(percent=100, count=2), 10)
    assert found in ({"p0", "p1"}, {"p2", "p3"})


def test_only_a_node_that_kube_scheduler_found_fit_is_freed() -> None:
    assert planned(full(1, 2), claim(percent=50), 10, ("n1",)) == {"p1"}


def test_what_eviction_cannot_change_is_not_tried() -> None:
    assert planned(full(1), claim(percent=50, model="T4"), 10, ("n0",)) == set()


def test_a_pod_of_another_isolation_may_have_to_go() -> None:
    cluster = Cluster(card("n0-0", "n0"))
    cluster.place(claim(percent=10, isolation=Isolation.HARD), priority=1, uid="hard")
    assert planned(cluster, claim(percent=10), 10, ("n0",)) == {"hard"}


def test_no_smaller_set_would_do() -> None:
    """Against every smaller set, on random nodes: what is planned is enough, and nothing smaller is."""
    planned_any = 0
    for seed in range(60):
        rng = random.Random(seed)
        cluster = Cluster(*(card(f"n0-{at}", "n0") for at in range(rng.choice([1, 2, 3]))))
        for _ in range(12):
            cluster.place(claim(percent=rng.choice([20, 40, 60]), gib=rng.choice([5, 20, 40])), priority=rng.choice([0, 1, 20]))
        wanted = claim(percent=rng.choice([60, 100]), gib=30, count=rng.choice([1, 2]))
        found = plan(cluster.inventory, wanted, Asker(10), ["n0"], candidates(cluster))
        able = [entry.reservation.uid for entry in cluster.ledger if entry.reservation.priority < 10]

        def enough(gone: tuple[str, ...], cluster: Cluster = cluster, wanted: Claim = wanted) -> bool:
            return Allocator(on_node(cluster.inventory, "n0", gone)).allocate(wanted) is not None

        if found is None:
            assert not enough(tuple(able)) or enough(())
            continue
        planned_any += 1
        assert enough(found.victims)
        for size in range(1, min(len(found.victims), 3)):
            assert not any(enough(gone) for gone in combinations(able, size))
    assert planned_any > 10


def test_one_that_is_enough_by_itself_is_found_among_many() -> None:
    cluster = Cluster(*(card(f"n0-{at}", "n0", gib=80) for at in range(8)))
    for at in range(28):
        assert cluster.place(claim(gib=20, indices=(at // 4,)), uid=f"s{at}")
    assert cluster.place(claim(gib=80, indices=(7,)), uid="big")
    started = {f"s{at}": 1000.0 for at in range(28)}
    assert planned(cluster, claim(gib=80), 10, ("n0",), started=started) == {"big"}


def test_pods_that_end_anyway_are_counted_as_gone() -> None:
    cluster = full(1, 2)
    ending = [entry.reservation for entry in cluster.ledger if entry.reservation.uid == "p1"]
    found = plan(cluster.inventory, claim(percent=50), Asker(10), ("n0", "n1"), candidates(cluster)[:1], ending)
    assert found == Plan("n1", ())
    found = plan(cluster.inventory, claim(percent=50), Asker(10), ("n0",), candidates(cluster)[:1], ending)
    assert found == Plan("n0", ("p0",))


def test_a_search_tells_the_best_after_each_node_and_gives_way_in_between() -> None:
    cluster = full(5, 1, 3)
    so_far = list(search(cluster.inventory, claim(percent=50), Asker(10), ("n0", "n1", "n2"), candidates(cluster)))
    assert len(so_far) == 3
    assert so_far[-1] == Plan("n1", ("p1",))


# Words.


def why(cluster: Cluster, wanted: Claim, **more: object) -> str:
    asker = Asker(budget=cluster.ledger.budget("ns"))
    return explain(
        cluster.inventory,
        wanted,
        asker,
        quota=cluster.ledger.quota("ns"),
        used=cluster.ledger.used("ns"),
        **more,  # type: ignore[arg-type]
    ).text()


def test_reasons_are_counted_over_the_nodes_with_their_numbers() -> None:
    cluster = Cluster(
        *(card(f"t{at}-0", f"t{at}", model="T4") for at in range(3)), card("a-0", "a", gib=80), card("a-1", "a", gib=80)
    )
    cluster.place(claim(gib=77, model="A100"))
    cluster.place(claim(gib=79, model="A100"))
    assert why(cluster, claim(gib=4, model="A100")) == (
        "3 nodes: GPU model is not A100; 1 node: VRAM 4Gi asked, most free is 3Gi"
    )


def test_the_quota_says_what_is_used_and_what_is_asked() -> None:
    cluster = Cluster(card("g-0"))
    cluster.ledger.set_quota("ns", Quota("team-a", Ceiling(request_mflops=10_000_000)))
    cluster.place(claim(tflops=10))
    assert why(cluster, claim(tflops=5)) == "1 node: quota team-a: 10 of 10 TFLOPS (requests) used, 5 asked"


def test_several_gpus_are_counted_by_what_enough_cards_have() -> None:
    cluster = Cluster(card("g-0", gib=80), card("g-1", gib=10))
    assert why(cluster, claim(gib=20, count=2)) == "1 node: 20Gi VRAM asked of each GPU, which has 10Gi at most"


def test_more_gpus_than_any_node_has_are_not_called_none() -> None:
    cluster = Cluster(*(card(f"{node}-{at}", node) for node, cards in (("a", 4), ("b", 4), ("c", 2)) for at in range(cards)))
    assert why(cluster, claim(gib=4, count=5)) == "3 nodes: 5 GPUs asked, nodes have 4 at most"
    assert why(cluster, claim(gib=4, count=3)) == "fits 2 of 3 nodes now"
    assert why(cluster, claim(gib=4, count=5), elsewhere=["cpu"]).endswith("1 node: no GPU known on the node (5 asked)")
    assert why(Cluster(card("g-0")), claim(gib=4, count=2)) == "1 node: 2 GPUs asked, the node has 1"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (claim(tflops=400, gib=4), "400 TFLOPS asked of each GPU, which has 365 at most"),
        (claim(tflops=10, gib=200), "200Gi VRAM asked of each GPU, which has 80Gi at most"),
        (
            claim(tflops=400, gib=200),
            "200Gi VRAM asked of each GPU, which has 80Gi at most, and 400 TFLOPS asked of each GPU, which has 365 at most",
        ),
        (claim(tflops=300, gib=60), "60Gi VRAM and 300 TFLOPS asked of each GPU, and none has both"),
        (claim(percent=100, gib=81), "81Gi VRAM asked of each GPU, which has 80Gi at most"),
    ],
)
def test_of_cards_that_are_too_small_what_is_short_is_named(wanted: Claim, words: str) -> None:
    cluster = Cluster(card("g-0", tflops=365, gib=40), card("g-1", tflops=100, gib=80))
    assert why(cluster, wanted) == f"1 node: {words}"


def test_where_it_fits_it_says_so() -> None:
    assert why(Cluster(card("g-0")), claim(gib=1)) == "fits 1 of 1 nodes now"


def test_nodes_without_gpus_are_counted_too() -> None:
    text = why(Cluster(card("g-0", gib=1)), claim(gib=2), elsewhere=["cpu-0", "cpu-1"])
    assert text.startswith("2 nodes: no GPU known on the node; 1 node: ")
