"""Who may be evicted, and what the preempt verb makes of kube-scheduler's candidates (SPEC §7, ARCHITECTURE)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from test_scheduling_state import Cluster, pod, spec, told

from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.informer import ChangeType
from tensorfusion_iac.scheduling.metrics import Metrics
from tensorfusion_iac.scheduling.pods import GpuPod, read_pod
from tensorfusion_iac.scheduling.preemption import Preemption
from tensorfusion_iac.scheduling.wire import PreemptRequest


@dataclass
class Running:
    """A pod that runs on a card of its own: priority, memory, minutes since its start, and what shields it."""

    name: str
    priority: int = 0
    gib: int = 80
    protected_min: int = 0
    started_min: int = 60
    labels: dict[str, str] = field(default_factory=dict)
    ends_in_min: float | None = None


def cluster_of(*running: Running, cards: int = 1, nodes: int = 1) -> tuple[Cluster, Preemption]:
    cluster = Cluster(cards=cards, nodes=nodes)
    client: Any = None
    preemption = Preemption(client, cluster.state, cluster.decider, Metrics(), lambda: True)
    for one in running:
        protection = timedelta(minutes=one.protected_min) if one.protected_min else None
        item = pod(one.name, spec(one.gib, eviction_protection=protection))
        item["spec"]["priority"] = one.priority
        item["metadata"]["labels"] = one.labels
        shown = cluster.merged(item, cluster.bind(item))
        started = datetime.now(UTC) - timedelta(minutes=one.started_min)
        shown["status"] |= {"startTime": started.isoformat()}
        if one.ends_in_min is not None:
            shown["metadata"] |= {"deletionTimestamp": (datetime.now(UTC) + timedelta(minutes=one.ends_in_min)).isoformat()}
        cluster.see(shown)
    return cluster, preemption


def asks(gib: int = 80, priority: int = 10, **more: Any) -> GpuPod:
    item = pod("asks", spec(gib, **more))
    item["spec"]["priority"] = priority
    return read_pod(item)


def budget(preemption: Preemption, allowed: int, **labels: str) -> None:
    preemption.budget_changed(told({
        "metadata": {"name": "b", "namespace": "ns", "uid": "b"},
        "spec": {"selector": {"matchLabels": labels}}, "status": {"disruptionsAllowed": allowed},
    }))  # fmt: skip


def judged(preemption: Preemption, pod: GpuPod, **victims: list[str]) -> dict[str, list[str]]:
    """By node, the victims that remain or were added, by their names."""
    by_uid = {node: ([f"uid-{name}" for name in names], 0) for node, names in victims.items()}
    kept = preemption.judge(pod, PreemptRequest({}, by_uid))
    return {node: [uid.removeprefix("uid-") for uid in uids] for node, (uids, _) in kept.items()}


@pytest.mark.parametrize(
    ("running", "kept"),
    [
        pytest.param([Running("low")], {"n0": ["cpu", "low"]}, id="a GPU victim is added"),
        pytest.param([Running("a", 1), Running("b")], {"n0": ["cpu", "b"]}, id="no more of them than are needed, the lowest"),
        pytest.param([Running("equal", priority=10)], {}, id="equal priority never goes, so the node is dropped"),
        pytest.param([Running("higher", priority=11)], {}, id="nor does a higher one"),
        pytest.param([Running("new", protected_min=90)], {}, id="nor one under eviction protection"),
        pytest.param([Running("old", protected_min=30)], {"n0": ["cpu", "old"]}, id="whose protection is over goes"),
        pytest.param([Running("kept", labels={"app": "kept"})], {}, id="nor one that a disruption budget shields"),
        pytest.param([Running("ending", ends_in_min=0)], {}, id="one that is ending already frees nothing more"),
        pytest.param([], {"n0": ["cpu"]}, id="where the GPUs suffice nobody is added"),
    ],
)
def test_the_preempt_verb_adds_gpu_victims_or_drops_the_node(running: list[Running], kept: dict[str, list[str]]) -> None:
    _, preemption = cluster_of(*running, cards=max(len(running), 1))
    budget(preemption, 0, app="kept")
    assert judged(preemption, asks(), n0=["cpu"]) == kept


def test_kube_schedulers_own_victims_count_and_need_no_others_beside_them() -> None:
    _, preemption = cluster_of(Running("first"), Running("second"), cards=2)
    assert judged(preemption, asks(), n0=["first"]) == {"n0": ["first"]}
    assert judged(preemption, asks(gpu_count=2), n0=["first"]) == {"n0": ["first", "second"]}


def test_a_node_whose_victim_is_protected_is_dropped_for_kube_scheduler_knows_no_protection() -> None:
    _, preemption = cluster_of(Running("new", gib=10, protected_min=90), Running("old", gib=10), cards=2, nodes=2)
    assert judged(preemption, asks(10), n0=["new"]) == {}


def test_nodes_without_known_gpus_and_nodes_that_eviction_cannot_help_are_dropped() -> None:
    _, preemption = cluster_of(Running("low"), cards=1, nodes=2)
    assert judged(preemption, asks(), n0=["x"], n1=[], n7=[]) == {"n0": ["x", "low"], "n1": []}
    assert judged(preemption, asks(gpu_model="T4"), n0=["x"], n1=["y"]) == {}


def test_a_budget_is_spent_once_for_each_pod_that_it_selects() -> None:
    halves = [Running(f"half-{at}", gib=40, labels={"app": "web"}) for at in range(2)]
    _, preemption = cluster_of(*halves, cards=1)
    budget(preemption, 1, app="web")
    assert len(judged(preemption, asks(40), n0=[])["n0"]) == 1
    assert judged(preemption, asks(80), n0=[]) == {}
    budget(preemption, 2, app="web")
    assert len(judged(preemption, asks(80), n0=[])["n0"]) == 2


def test_the_violations_that_kube_scheduler_counted_are_passed_on() -> None:
    _, preemption = cluster_of(Running("low"))
    assert preemption.judge(asks(), PreemptRequest({}, {"n0": (["cpu"], 3)})) == {"n0": (["cpu", "uid-low"], 3)}


# Our own plans, for a shortage of GPUs alone.


def planned(cluster: Cluster, preemption: Preemption, asker: GpuPod) -> dict[str, set[str]]:
    """By node that is kept for the pod, whom its plan evicts, after a refusal."""
    refuse(cluster, preemption, asker)
    cluster.state.take_pod(told_pod(asker))
    return plans(preemption)


def refuse(cluster: Cluster, preemption: Preemption, asker: GpuPod) -> None:
    preemption.attach()
    cluster.decider.filter(asker, [name for name in cluster.state.inventory.node_names if name])


def plans(preemption: Preemption) -> dict[str, set[str]]:
    asyncio.run(preemption.make_plans())
    return {under.plan.node: {uid.removeprefix("uid-") for uid in under.plan.victims} for under in preemption.plans.values()}


def told_pod(asker: GpuPod) -> dict[str, Any]:
    item = pod(asker.name, asker.worker)
    item["spec"]["priority"] = asker.priority
    return item


@pytest.mark.parametrize(
    ("running", "victims"),
    [
        pytest.param([Running("a", 5), Running("b", 1)], {"b"}, id="the lowest"),
        pytest.param([Running("a", 1, started_min=9), Running("b", 1, started_min=3)], {"b"}, id="the newest of equals"),
        pytest.param([Running("a", 10), Running("b", 10)], set(), id="equal priority never"),
        pytest.param([Running("a", 1, protected_min=90), Running("b", 5)], {"b"}, id="one that is not protected"),
        pytest.param([Running("a", 1, labels={"app": "kept"}), Running("b", 5)], {"b"}, id="one that no budget shields"),
    ],
)
def test_whom_a_plan_evicts(running: list[Running], victims: set[str]) -> None:
    cluster, preemption = cluster_of(*running, cards=2)
    budget(preemption, 0, app="kept")
    found = planned(cluster, preemption, asks())
    assert found == ({"n0": victims} if victims else {})


def test_a_node_that_is_freed_for_one_pod_takes_no_equal_one_and_is_open_again_when_the_pod_is_gone() -> None:
    cluster, preemption = cluster_of(Running("low"))
    asker = asks()
    assert planned(cluster, preemption, asker) == {"n0": {"low"}}
    cluster.state.release("uid-low")
    assert not cluster.decider.filter(read_pod(pod("other", spec(10))), ["n0"]).nodes
    assert cluster.decider.filter(asker, ["n0"]).nodes == ["n0"]
    cluster.see(told_pod(asker), ChangeType.DELETED)
    preemption.end_plans()
    assert cluster.decider.filter(read_pod(pod("other", spec(10))), ["n0"]).nodes == ["n0"]


def test_nobody_is_evicted_where_the_pod_fits_anyway() -> None:
    cluster, preemption = cluster_of(Running("low", gib=10), cards=2)
    assert planned(cluster, preemption, asks(10)) == {}


def test_a_pod_that_is_refused_before_the_watch_shows_it_is_planned_for_once_it_does() -> None:
    cluster, preemption = cluster_of(Running("low"))
    refuse(cluster, preemption, asks())
    assert plans(preemption) == {}
    cluster.state.take_pod(told_pod(asks()))
    assert plans(preemption) == {"n0": {"low"}}


def test_a_protection_that_ends_is_noticed_without_another_refusal() -> None:
    cluster, preemption = cluster_of(Running("low", protected_min=61))
    assert planned(cluster, preemption, asks()) == {}
    low = cluster.state.pods["uid-low"]
    cluster.state.pods["uid-low"] = replace(low, started=datetime.now(UTC) - timedelta(minutes=62))
    assert plans(preemption) == {}, "not at once: thousands may wait"
    cluster.clock.now += 16
    assert plans(preemption) == {"n0": {"low"}}


def test_a_budget_that_grows_lets_a_waiting_pod_preempt_at_once() -> None:
    cluster, preemption = cluster_of(Running("low", labels={"app": "kept"}))
    budget(preemption, 0, app="kept")
    assert planned(cluster, preemption, asks()) == {}
    budget(preemption, 1, app="kept")
    assert plans(preemption) == {"n0": {"low"}}


@pytest.mark.parametrize("end", ["bound", "deleted"])
def test_two_that_need_the_same_node_preempt_one_after_the_other_without_a_pause(end: str) -> None:
    """A node is kept for one pod at a time; the second plan is made as soon as the first is over."""
    cluster, preemption = cluster_of(Running("a", 1), Running("b", 1), cards=2)
    first, second = (replace(asks(), uid=f"uid-{name}", name=name) for name in ("first", "second"))
    (begun,) = planned(cluster, preemption, first).values()
    cluster.decider.filter(second, ["n0"])
    cluster.state.take_pod(told_pod(second))
    assert len(plans(preemption)) == 1
    cluster.see(pod(begun.copy().pop(), spec(80)), ChangeType.DELETED)
    shown = told_pod(first)
    if end == "bound":
        cluster.see(cluster.merged(shown, cluster.bind(shown)))
    else:
        cluster.see(shown, ChangeType.DELETED)
    preemption.end_plans()
    if end == "bound":
        assert plans(preemption) == {"n0": {"a", "b"} - begun}
    else:  # there is room now, and nobody needs to go
        assert plans(preemption) == {}
        assert cluster.decider.filter(second, ["n0"]).nodes == ["n0"]


class Evictions:
    """An API server that evicts, or refuses to."""

    def __init__(self, error: ApiError | None = None) -> None:
        self.asked: list[str] = []
        self._error = error

    async def create(self, resource: Any, body: dict[str, Any], namespace: str, **_: Any) -> dict[str, Any]:
        self.asked.append(body["metadata"]["name"])
        if self._error is not None:
            raise self._error
        return {}


def turn(preemption: Preemption) -> None:
    """What `run` does once."""

    async def once() -> None:
        preemption.end_plans()
        await preemption.make_plans()
        for under in list(preemption.plans.values()):
            await preemption._evict(under)

    asyncio.run(once())


def test_a_plan_lasts_as_long_as_its_victims_take_to_end_and_no_second_one_is_evicted() -> None:
    cluster, preemption = cluster_of(*(Running(f"v{at}", 1) for at in range(3)), cards=3)
    preemption.client = evictions = Evictions()  # type: ignore[assignment]
    planned(cluster, preemption, asks())
    turn(preemption)
    (victim,) = evictions.asked
    ends = datetime.now(UTC) + timedelta(minutes=5)
    cluster.state.pods[f"uid-{victim}"] = replace(cluster.state.pods[f"uid-{victim}"], ends=ends)
    for _ in range(60):
        cluster.clock.now += 5
        turn(preemption)
    assert evictions.asked == [victim]
    assert len(preemption.plans) == 1


def test_where_pods_that_end_anyway_are_enough_the_node_is_kept_and_nobody_is_evicted() -> None:
    cluster, preemption = cluster_of(Running("low", 1), Running("ends", 50, ends_in_min=0.5), cards=2)
    assert planned(cluster, preemption, asks()) == {"n0": set()}
    assert not cluster.decider.filter(read_pod(pod("other", spec(10))), ["n0"]).nodes


def test_one_that_takes_long_to_end_is_not_waited_for() -> None:
    cluster, preemption = cluster_of(Running("low", 1), Running("ends", 1, ends_in_min=30), cards=2)
    assert planned(cluster, preemption, asks()) == {"n0": {"low"}}


def test_an_eviction_that_the_server_refuses_ends_the_plan() -> None:
    cluster, preemption = cluster_of(Running("low", 1))
    error = ApiError(500, "InternalError", "This pod has more than one PodDisruptionBudget")
    preemption.client = evictions = Evictions(error)  # type: ignore[assignment]
    planned(cluster, preemption, asks())
    turn(preemption)
    assert evictions.asked == ["low"]
    assert not preemption.plans
    assert cluster.state.inventory.nominated.max() < 0, "the node is open again"


def test_equal_pods_with_other_nodes_are_planned_for_each_by_itself() -> None:
    cluster, preemption = cluster_of(Running("a", 50), Running("b", 50), nodes=2)
    where = {cluster.state.pods[f"uid-{name}"].node: name for name in "ab"}
    low = cluster.state.pods[f"uid-{where['n1']}"]
    cluster.see(pod(low.name, low.worker), ChangeType.DELETED)
    cluster.run("low", spec(80))
    preemption.attach()
    for name, node in (("first", "n0"), ("second", "n1")):
        asker = replace(asks(), uid=f"uid-{name}", name=name)
        cluster.state.take_pod(told_pod(asker))
        assert not cluster.decider.filter(asker, [node]).nodes
    assert plans(preemption) == {"n1": {"low"}}


def test_nobody_is_evicted_for_a_pod_that_is_being_deleted() -> None:
    cluster, preemption = cluster_of(Running("low"))
    dying = told_pod(asks())
    refuse(cluster, preemption, asks())
    dying["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.see(dying)
    assert plans(preemption) == {}


def test_a_budget_that_only_kubernetes_can_read_ends_nothing() -> None:
    cluster, preemption = cluster_of(Running("low", labels={"app": "x"}))
    values = [f"v{at}" for at in range(65)]
    preemption.budget_changed(told({
        "metadata": {"name": "b", "namespace": "ns", "uid": "b"}, "status": {"disruptionsAllowed": 0},
        "spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values}]}},
    }))  # fmt: skip
    assert planned(cluster, preemption, asks()) == {}


def test_other_work_goes_on_while_a_plan_is_searched() -> None:
    cluster, preemption = cluster_of(*(Running(f"p{at}", at % 5, gib=40) for at in range(120)), cards=2, nodes=30)
    cluster.state.clock = time.monotonic
    preemption.attach()
    cluster.state.take_pod(told_pod(asks(gpu_count=2)))
    cluster.decider.filter(asks(gpu_count=2), [name for name in cluster.state.inventory.node_names if name])

    async def both() -> int:
        turns, searching = 0, asyncio.ensure_future(preemption.make_plans())
        while not searching.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensorfusion_iac.scheduling.preemption.TURN_S", 0.0)
        assert asyncio.run(both()) > 10
    assert len(preemption.plans) == 1
