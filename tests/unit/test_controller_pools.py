"""The figures of pools, which objects are of things that are gone, and the use of quotas (SPEC §4, §9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from controller_values import GIB, NOW, pod, worker
from hypothesis import given
from hypothesis import strategies as st
from planning_values import card

from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.resources import GPUPool, GPUResourceQuota
from tensorfusion_iac.controller import enforced, vanished
from tensorfusion_iac.controller.enforced import COMPUTE_LIMIT, GPU_HEALTHY
from tensorfusion_iac.controller.pods import reservation
from tensorfusion_iac.controller.pools import Fleet, NodeView, statuses
from tensorfusion_iac.controller.quotas import status_changes, used_of
from tensorfusion_iac.controller.vanished import ABSENT_S, Listed, Missed
from tensorfusion_iac.planning.charge import Charge
from tensorfusion_iac.planning.shares import CardShare, Reservation

TFLOPS = 1_000_000
CARDS = tuple(card(f"GPU-{at}", f"n{at // 2}") for at in range(4))  # 100 TFLOPS and 80 GiB each, two a node


def pool(name: str = "p", *, default: bool = False, **spec: Any) -> GPUPool:
    marks = {"tensor-fusion.ai/is-default-pool": "true"} if default else {}
    return GPUPool.model_validate({"metadata": {"name": name, "annotations": marks}, "spec": spec})


def selecting(name: str, **labels: str) -> GPUPool:
    rules = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return pool(name, nodeManagerConfig={"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": rules}]}})


def node(name: str, **more: Any) -> NodeView:
    return replace(NodeView(name, {}, has_gpus=True, takes_pods=True, agent="1.0"), **more)


def held(name: str, uuid: str, *, tflops: int = 10, gib: int = 4, namespace: str = "ml") -> Reservation:
    share = CardShare(uuid, tflops * TFLOPS, gib * GIB, tflops * TFLOPS, gib * GIB, 100_000, 100_000, tflops * TFLOPS, gib * GIB)
    return Reservation(name, namespace, name, "n0", Isolation.SOFT, False, False, (share,))


def figures(*pools: GPUPool, **more: Any) -> dict[str, dict[str, Any]]:
    given_: dict[str, Any] = {
        "nodes": (node("n0"), node("n1")),
        "cards": CARDS,
        "reservations": (),
        "running": frozenset(),
    } | more
    fleet = Fleet(pools={one.metadata.name: one for one in pools}, now=NOW, **given_)
    found = dict(statuses(fleet, {}))
    assert not list(statuses(fleet, found)), "a second look writes again"
    for name, status in found.items():
        GPUPool.model_validate({"metadata": {"name": name}, "status": status})
    return found


def condition(status: dict[str, Any], name: str) -> dict[str, Any] | None:
    return next((one for one in status["conditions"] if one["type"] == name), None)


def test_totals_are_of_the_cards_and_what_is_free_is_what_no_pod_holds() -> None:
    status = figures(pool(), reservations=(held("a", "GPU-0"), held("b", "GPU-0"), held("c", "GPU-3")))["p"]
    assert (status["totalNodes"], status["readyNodes"], status["notReadyNodes"], status["totalGPUs"]) == (2, 2, 0, 4)
    assert (status["totalTFlops"], status["totalVRAM"]) == ("400", "320Gi")
    assert (status["availableTFlops"], status["availableVRAM"]) == ("370", "308Gi")
    assert (status["phase"], status["vendors"]) == ("Running", ["NVIDIA"])
    assert status["componentStatus"] == [{"name": "agent", "version": "1.0", "synced": True, "progress": 100}]
    assert status["savedCostsPerMonth"] == "1380", "one A100 at 1.89 dollars an hour, for the worker that shares"


def test_a_sick_card_and_a_node_that_takes_no_pods_have_nothing_free() -> None:
    cards = (replace(CARDS[0], healthy=False), replace(CARDS[1], ours=False), *CARDS[2:])
    status = figures(pool(), cards=cards, nodes=(node("n0"), node("n1", takes_pods=False)))["p"]
    assert (status["totalTFlops"], status["availableTFlops"], status["availableVRAM"]) == ("400", "0", "0")
    assert (status["readyNodes"], status["notReadyNodes"]) == (1, 1)


def test_oversell_and_host_memory_are_in_the_virtual_figures_only() -> None:
    over = {"tflopsOversellRatio": 150, "vramExpandToHostMem": 50, "vramExpandToHostDisk": 10}
    nodes = (node("n0", memory_bytes=64 * GIB, disk_bytes=100 * GIB), node("n1"))
    status = figures(
        pool(capacityConfig={"oversubscription": over}), nodes=nodes, reservations=(held("a", "GPU-0", tflops=120),)
    )["p"]
    assert (status["availableTFlops"], status["virtualTFlops"], status["virtualAvailableTFlops"]) == ("300", "600", "480")
    assert (status["totalVRAM"], status["virtualVRAM"]) == ("320Gi", "362Gi")


@pytest.mark.parametrize(
    ("nodes", "phase", "reason"),
    [
        ((), "Pending", "NoNodes"),
        ((node("n0", takes_pods=False),), "Pending", "NodesNotReady"),
        ((node("n0"),), "Running", "NodesReady"),
    ],
)
def test_a_pool_runs_once_a_node_is_ready(nodes: tuple[NodeView, ...], phase: str, reason: str) -> None:
    status = figures(pool(), nodes=nodes)["p"]
    ready = condition(status, "Ready")
    assert ready is not None
    assert (status["phase"], ready["reason"]) == (phase, reason)


def test_a_node_is_in_one_pool_only_and_the_others_are_told() -> None:
    found = figures(selecting("a", x="1"), selecting("b", x="1"), nodes=(node("n0", labels={"x": "1"}), node("n1")))
    assert (found["a"]["totalGPUs"], found["b"]["totalGPUs"]) == (2, 0)
    for name, text in (("a", "this pool has node n0, which b selects too"), ("b", "pool a has node n0, which this pool selects")):
        conflict = condition(found[name], "NodeConflict")
        assert conflict is not None
        assert text in conflict["message"]


def test_of_three_pools_each_is_told_who_has_the_nodes() -> None:
    pools = (selecting("a", y="1"), selecting("b", x="1"), selecting("c", x="1"), selecting("d", x="1"))
    found = figures(*pools, nodes=(node("n0", labels={"x": "1"}), node("n1", labels={"x": "1"})))
    texts = {name: condition(found[name], "NodeConflict") for name in "abcd"}
    assert texts["a"] is None
    assert texts["b"] is not None
    assert "this pool has nodes n0, n1, which c, d select too" in texts["b"]["message"]
    assert texts["c"] is not None
    assert "pool b has nodes n0, n1, which this pool selects, and d too" in texts["c"]["message"]


def test_idle_nodes_are_what_could_be_saved() -> None:
    assert figures(pool())["p"]["potentialSavingsPerMonth"] == "5519", "four A100 at 1.89 dollars an hour, all idle"
    busy = figures(pool(), reservations=[held("u", CARDS[0].uuid)])["p"]
    assert busy["potentialSavingsPerMonth"] == "2759", "the node of the pod is not idle, the other is"


def test_a_pool_that_a_gpu_node_names_has_it_whatever_selectors_say() -> None:
    found = figures(selecting("a", x="1"), pool("b"), nodes=(node("n0", labels={"x": "1"}, named="b"), node("n1")))
    assert (found["a"]["totalGPUs"], found["b"]["totalGPUs"]) == (0, 4)
    assert condition(found["a"], "NodeConflict") is None


def test_two_default_pools_are_told_and_so_is_a_pool_that_gets_no_nodes() -> None:
    found = figures(pool("a", default=True), pool("b", default=True))
    conflict = condition(found["a"], "DefaultConflict")
    assert conflict is not None
    assert "a, b" in conflict["message"]
    found = figures(pool("a", default=True), pool("b"))
    assert (found["a"]["totalGPUs"], found["b"]["totalGPUs"]) == (4, 0)
    assert condition(found["a"], "NodeConflict") is None
    conflict = condition(found["b"], "NodeConflict")
    assert conflict is not None
    assert "a has the nodes" in conflict["message"]


def test_running_workloads_are_counted_by_pool() -> None:
    running = frozenset({("ml", "chat", "p"), ("ml", "talk", "p"), ("ml", "x", "q")})
    assert figures(pool(), running=running)["p"]["runningAppsCnt"] == 2


@given(st.lists(st.tuples(st.sampled_from(CARDS), st.integers(0, 60), st.integers(0, 60)), max_size=20))
def test_what_is_free_is_never_negative_nor_more_than_there_is(asked: list[tuple[Any, int, int]]) -> None:
    reservations = [held(str(at), one.uuid, tflops=tflops, gib=gib) for at, (one, tflops, gib) in enumerate(asked)]
    read = GPUPool.model_validate({"metadata": {"name": "p"}, "status": figures(pool(), reservations=reservations)["p"]}).status
    assert read is not None
    assert read.available_tflops is not None
    assert read.total_tflops is not None
    assert 0 <= read.available_tflops <= read.total_tflops
    by_card = {one.uuid: sum(tflops for other, tflops, _ in asked if other is one) for one in CARDS}
    assert read.available_tflops == sum(max(100 - used, 0) for used in by_card.values())


# What is gone.


def gpu(uuid: str, node_name: str | None = "n0") -> dict[str, Any]:
    return {"metadata": {"name": uuid.lower()}, "status": {"uuid": uuid, "nodeName": node_name} if node_name else {}}


def test_cards_and_nodes_that_are_gone_are_found() -> None:
    gpus = [gpu("GPU-A"), gpu("GPU-B"), gpu("GPU-C", "n9"), gpu("GPU-D", None), gpu("GPU-E", "n1")]
    nodes = [{"metadata": {"name": name}} for name in ("n0", "n9")]
    listed = {"n0": Listed(frozenset({"GPU-A"}))}  # n1's agent is dead, and says nothing
    found = set(vanished.absent(gpus, nodes, frozenset({"n0", "n1"}), listed))
    assert found == {("GPU", "gpu-b"), ("GPU", "gpu-c"), ("GPUNode", "n9")}


def test_an_object_goes_after_it_was_missed_all_the_while() -> None:
    key = ("GPU", "gpu-a")
    missed, gone = Missed({}).look([key], 0.0)
    assert not gone
    back, gone = missed.look([], ABSENT_S / 2)
    assert not gone
    again, gone = back.look([key], ABSENT_S)
    assert not gone, "it was there in between"
    assert again.look([key], 2 * ABSENT_S)[1] == [key]


# Pods and their cards.


def on_card(*rows: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "gpu-0"}, "status": {"uuid": "GPU-0", "health": "Healthy", "pods": list(rows)} | status}


ROW = {"uid": "uid-chat-0", "container": "app", "enforcedBy": "vram=watch,compute=freezer", "computeLimit": "Held"}


def test_what_enforces_a_pods_limits_is_written_once() -> None:
    changes = enforced.reconcile(pod(node="n0", card="GPU-0"), [on_card(ROW, {**ROW, "container": "b"})], NOW)
    assert (changes.annotation, changes.conditions) == ("vram=watch,compute=freezer", ())
    told = pod(node="n0", card="GPU-0", annotations={"tensor-fusion.ai/enforced-by": changes.annotation or ""})
    assert enforced.reconcile(told, [on_card(ROW)], NOW) == enforced.PodChanges()
    assert enforced.reconcile(told, [on_card()], NOW) == enforced.PodChanges(), "an agent that restarts takes nothing back"


def test_rows_of_other_pods_are_not_this_ones() -> None:
    assert enforced.reconcile(pod(node="n0"), [on_card({**ROW, "uid": "other"})], NOW).annotation is None


def test_a_limit_that_cannot_be_held_and_a_sick_card_are_conditions_until_they_are_over() -> None:
    sick = on_card({**ROW, "computeLimit": "Unreachable"}, health="Unhealthy", message="XID 79")
    changes = enforced.reconcile(pod(node="n0"), [sick], NOW)
    found = {one["type"]: one for one in changes.conditions}
    assert (found[COMPUTE_LIMIT]["status"], found[COMPUTE_LIMIT]["reason"]) == ("False", "Unreachable")
    assert (found[GPU_HEALTHY]["status"], found[GPU_HEALTHY]["message"]) == ("False", "GPU-0: XID 79")
    told = pod(node="n0", annotations={"tensor-fusion.ai/enforced-by": ROW["enforcedBy"]})
    told["status"]["conditions"] += list(changes.conditions)
    assert enforced.reconcile(told, [sick], NOW) == enforced.PodChanges()
    well = enforced.reconcile(told, [on_card(ROW)], NOW)
    assert {(one["type"], one["status"]) for one in well.conditions} == {(COMPUTE_LIMIT, "True"), (GPU_HEALTHY, "True")}


# Quotas.


def quota(name: str = "q", **total: Any) -> GPUResourceQuota:
    return GPUResourceQuota.model_validate({"metadata": {"name": name, "namespace": "ml"}, "spec": {"total": total}})


def told(one: GPUResourceQuota, used: Charge, holder: str = "q", stored: dict[str, Any] | None = None) -> dict[str, Any]:
    status = {**(stored or {}), **status_changes(one, stored or {}, used, holder, NOW)}
    status = {key: value for key, value in status.items() if value is not None}
    assert not status_changes(one, status, used, holder, "2027-01-01T00:00:00Z"), "a second look writes again"
    GPUResourceQuota.model_validate({"metadata": {"name": "q"}, "status": status})
    return status


def test_use_is_counted_as_the_scheduler_counts_it() -> None:
    pods = [pod(f"chat-{at}", node="n0", card="GPU-0", spec=worker()) for at in range(2)] + [pod("waits")]
    used = used_of(found for one in pods if (found := reservation(one)) is not None)
    status = told(quota(requests={"tflops": 40, "vram": "16Gi"}, maxWorkers=10), used)
    assert status["used"]["requests"] == {"tflops": "20", "vram": "8Gi", "compute": "20"}
    assert status["used"]["limits"] == {"tflops": "40", "vram": "16Gi", "compute": "40"}
    assert status["used"]["workers"] == 2
    assert status["availablePercent"] == {"tflops": "50", "vram": "50"}
    assert condition(status, "NearlyUsed") is None


@pytest.mark.parametrize(
    ("used_gib", "threshold", "alert"),
    [(94, None, False), (95, None, True), (100, None, True), (80, 80, True), (79, 80, False)],
)
def test_the_alert_comes_at_its_threshold(used_gib: int, threshold: int | None, alert: bool) -> None:
    more = {} if threshold is None else {"alertThresholdPercent": threshold}
    status = told(quota(requests={"vram": "100Gi"}, **more), Charge(request_vram_bytes=used_gib * GIB, workers=1))
    assert (condition(status, "NearlyUsed") is not None) == alert
    assert condition(status, "Exceeded") is None
    over = told(quota(requests={"vram": "100Gi"}), Charge(), stored=status)
    assert condition(over, "NearlyUsed") is None


def test_a_quota_of_nothing_has_nothing_left_and_is_exceeded_by_anything() -> None:
    status = told(quota(maxWorkers=0, requests={"vram": 0}), Charge(request_vram_bytes=GIB, workers=1))
    assert status["availablePercent"] == {"vram": "0"}
    over = condition(status, "Exceeded")
    assert over is not None
    assert "VRAM requests, workers" in over["message"]


def test_the_second_quota_of_a_namespace_says_that_another_holds() -> None:
    status = told(quota("late"), Charge(workers=5), holder="q", stored={"used": {"workers": 3}})
    assert "used" not in status
    holds = condition(status, "InForce")
    assert holds is not None
    assert (holds["status"], holds["reason"]) == ("False", "AnotherHolds")
