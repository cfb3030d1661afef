"""From watch events to the books: the public cases about restarts, lost events, finished pods and facts (cases/README.md)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from planning_values import GIB

from tensorfusion_iac.api import names
from tensorfusion_iac.api.levels import Isolation, Mode, QoS
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.worker import Compute, Unit, WorkerSpec, canonical, to_json
from tensorfusion_iac.kube.informer import Change, ChangeType, key_of
from tensorfusion_iac.planning.fit import ANYBODY
from tensorfusion_iac.planning.ledger import State
from tensorfusion_iac.planning.record import bind_annotations
from tensorfusion_iac.planning.shares import Reservation
from tensorfusion_iac.scheduling.decide import MOST_NAMED, Decider
from tensorfusion_iac.scheduling.liveness import Liveness
from tensorfusion_iac.scheduling.pods import NotOurPodError, read_pod
from tensorfusion_iac.scheduling.state import ClusterState

PREFIX = names.PREFIX


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def spec(gib: int = 10, **more: Any) -> WorkerSpec:
    plain = WorkerSpec(
        Mode.LOCAL, "p", "w", QoS.MEDIUM, "tensor-fusion-medium", Isolation.SOFT, Vendor.NVIDIA, 1, ("app",),
        vram_request_bytes=gib * GIB, vram_limit_bytes=gib * GIB,
    )  # fmt: skip
    return replace(plain, **more)


def pod(name: str, worker: WorkerSpec, *, version: int = 1, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version),
            "annotations": {f"{PREFIX}resolved": canonical(to_json(worker, {}))},
        },
        "spec": {"priority": 0, "containers": [{"name": "app"}]},
        "status": status,
    }  # fmt: skip


def gpu(index: int, *, node: str = "n0", uuid: str = "", **status: Any) -> dict[str, Any]:
    uuid = uuid or f"GPU-{node}-{index}"
    facts = {
        "uuid": uuid, "nodeName": node, "model": "A100_SXM_80G", "vendor": "NVIDIA", "index": index,
        "capacity": {"tflops": "312", "vram": "80Gi"},
    }  # fmt: skip
    return {"metadata": {"name": uuid.lower(), "uid": uuid, "resourceVersion": "1"}, "status": facts | status}


def told(item: dict[str, Any], kind: ChangeType = ChangeType.ADDED) -> Change:
    return Change(kind, key_of(item), item)


class Cluster:
    """A state that is fed by events, as the informers would."""

    def __init__(self, cards: int = 2, nodes: int = 1) -> None:
        self.clock = Clock()
        self.state = ClusterState(self.clock)
        self.decider = Decider(self.state, hold_s=15.0)
        self.pool(nodeManagerConfig={})
        for at in range(nodes):
            self.node(f"n{at}")
            for index in range(cards):
                self.state.gpu_changed(told(gpu(index, node=f"n{at}")))

    def pool(self, name: str = "p", **more: Any) -> None:
        marks = {f"{PREFIX}is-default-pool": "true"}
        self.state.pool_changed(told({"metadata": {"name": name, "uid": name, "annotations": marks}, "spec": more}))

    def node(self, name: str, *, tier: str = "env", labels: dict[str, str] | None = None) -> None:
        self.state.node_changed(told({"metadata": {"name": name, "uid": name, "labels": labels or {}}}))
        self.state.gpu_node_changed(told({"metadata": {"name": name, "uid": name}, "status": {"injectionTier": tier}}))
        self.beat(name)

    def beat(self, node: str) -> None:
        lease = {
            "metadata": {"name": f"tensor-fusion-agent-{node}", "namespace": "kube-node-lease", "uid": node},
            "spec": {"holderIdentity": node, "renewTime": datetime.now(UTC).isoformat(), "leaseDurationSeconds": 90},
        }  # fmt: skip
        self.state.lease_changed(told(lease))

    def see(self, item: dict[str, Any], kind: ChangeType = ChangeType.MODIFIED) -> None:
        self.state.pod_changed(told(item, kind))

    def bind(self, item: dict[str, Any]) -> Reservation:
        """Filter, bind, and the Binding as the server would merge it; the watch has not told yet."""
        self.see(item, ChangeType.ADDED)
        read = read_pod(item)
        verdict = self.decider.filter(read, [name for name in self.state.inventory.node_names if name])
        assert verdict.nodes, verdict.failed
        entry = self.state.ledger.get(read.uid)
        assert entry is not None
        made = self.decider.reserve_on(read, entry.reservation.node)
        assert isinstance(made, Reservation)
        self.state.ledger.commit(read.uid, self.clock() + 30)
        return made

    def merged(self, item: dict[str, Any], made: Reservation, version: int = 2) -> dict[str, Any]:
        cards = {share.uuid: card for share in made.shares if (card := self.state.inventory.card(share.uuid))}
        written = bind_annotations(read_pod(item).worker, made, cards, {})
        return {
            "metadata": item["metadata"] | {
                "annotations": item["metadata"]["annotations"] | written, "resourceVersion": str(version),
            },
            "spec": item["spec"] | {"nodeName": made.node},
            "status": {"phase": "Running"},
        }  # fmt: skip

    def run(self, name: str, worker: WorkerSpec) -> dict[str, Any]:
        """A pod that is bound, and shown so."""
        item = pod(name, worker)
        shown = self.merged(item, self.bind(item))
        self.see(shown)
        return shown

    def free_gib(self) -> list[int]:
        inventory = self.state.inventory
        return sorted(int(inventory.free_vram[inventory.place_of(card.uuid)]) // GIB for card in inventory.cards())

    def fits(self, worker: WorkerSpec) -> bool:
        claim = read_pod(pod("asks", worker)).claim
        return bool(self.state.allocator.fit(claim, ANYBODY).nodes.any())


def test_what_is_bound_is_confirmed_by_the_watch_and_charged_once() -> None:
    cluster = Cluster()
    shown = cluster.run("a", spec(30))
    for _ in range(3):
        cluster.see(shown)  # repeated events
    assert cluster.free_gib() == [50, 80]
    entry = cluster.state.ledger.get("uid-a")
    assert entry is not None
    assert entry.state is State.CONFIRMED


def test_the_books_are_the_same_when_they_are_read_from_the_pods_alone() -> None:
    cluster = Cluster(cards=4, nodes=2)
    shown = [cluster.run(f"p{at}", spec(10 * (at + 1), gpu_count=1 + at % 2)) for at in range(4)]
    again = Cluster(cards=4, nodes=2)
    for item in reversed(shown):
        again.see(item, ChangeType.ADDED)
    assert again.free_gib() == cluster.free_gib()
    assert {entry.reservation for entry in again.state.ledger} == {entry.reservation for entry in cluster.state.ledger}


def test_pods_may_be_seen_before_the_cards_that_they_hold() -> None:
    cluster = Cluster()
    shown = cluster.run("a", spec(30))
    late = Cluster(cards=0)
    late.see(shown, ChangeType.ADDED)
    for index in range(2):
        late.state.gpu_changed(told(gpu(index)))
    assert late.free_gib() == [50, 80]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_is_released_once(phase: str) -> None:
    cluster = Cluster()
    shown = cluster.run("job", spec(30))
    cluster.run("other", spec(10))
    done = shown | {"status": {"phase": phase, "reason": "Evicted"}}
    for _ in range(3):
        cluster.see(done)
    cluster.see(done, ChangeType.DELETED)
    assert sum(cluster.free_gib()) == 150


def test_a_terminating_pod_holds_its_gpus_until_it_is_gone() -> None:
    cluster = Cluster(cards=1)
    shown = cluster.run("a", spec(80))
    ending = shown | {"metadata": shown["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "3"}}
    cluster.see(ending)
    assert cluster.free_gib() == [0]
    cluster.see(ending, ChangeType.DELETED)
    assert cluster.free_gib() == [80]


def test_an_old_event_after_a_newer_one_changes_nothing() -> None:
    cluster = Cluster(cards=1)
    shown = cluster.run("a", spec(30))
    stale = shown | {"metadata": shown["metadata"] | {"resourceVersion": "1"}, "status": {"phase": "Failed"}}
    cluster.see(stale)
    assert cluster.free_gib() == [50]


def test_a_pod_bound_past_us_holds_nothing() -> None:
    cluster = Cluster(cards=1)
    item = pod("a", spec(30))
    cluster.bind(item)
    elsewhere = item | {
        "spec": item["spec"] | {"nodeName": "n9"}, "metadata": item["metadata"] | {"resourceVersion": "2"},
    }  # fmt: skip
    cluster.see(elsewhere)
    assert cluster.free_gib() == [80]


def test_a_hold_ends_by_time_and_a_commitment_only_when_the_watch_is_fresh() -> None:
    cluster = Cluster(cards=1)
    item = pod("held", spec(80))
    cluster.see(item, ChangeType.ADDED)
    cluster.decider.filter(read_pod(item), ["n0"])
    cluster.clock.now += 16
    cluster.state.expire(watch_is_fresh=False)
    assert cluster.free_gib() == [80]
    cluster.bind(pod("bound", spec(80)))
    cluster.clock.now += 31
    cluster.state.expire(watch_is_fresh=False)
    assert cluster.free_gib() == [0]  # the server may have bound it, and we are deaf
    cluster.clock.now += 31
    cluster.state.expire(watch_is_fresh=True)
    assert cluster.free_gib() == [80]


def test_two_filters_then_two_binds_take_two_cards() -> None:
    cluster = Cluster(cards=2)
    first, second = pod("a", spec(80)), pod("b", spec(80))
    for item in (first, second):
        cluster.see(item, ChangeType.ADDED)
        assert cluster.decider.filter(read_pod(item), ["n0"]).nodes == ["n0"]
    made = [cluster.decider.reserve_on(read_pod(item), "n0") for item in (first, second)]
    assert all(isinstance(one, Reservation) for one in made)
    assert len({one.shares[0].uuid for one in made if isinstance(one, Reservation)}) == 2


def test_the_hold_moves_when_another_node_is_chosen_or_the_bind_is_refused() -> None:
    cluster = Cluster(cards=1, nodes=3)
    item = read_pod(owned(pod("a", spec(80)), "ReplicaSet"))
    nodes = ["n0", "n1", "n2"]
    assert cluster.decider.filter(item, nodes).nodes == nodes
    moved = cluster.decider.reserve_on(item, "n2")
    assert isinstance(moved, Reservation)
    assert moved.node == "n2"
    assert cluster.free_gib() == [0, 80, 80]
    cluster.bind(pod("b", spec(80)))
    taken = next(entry.reservation.node for entry in cluster.state.ledger if entry.reservation.uid == "uid-b")
    assert cluster.decider.reserve_on(read_pod(pod("c", spec(80))), taken) == f"not enough free GPU memory on {taken}, by now"


def test_a_card_that_fell_sick_between_filter_and_bind_is_not_used() -> None:
    cluster = Cluster(cards=1)
    item = pod("a", spec(10))
    cluster.see(item, ChangeType.ADDED)
    cluster.decider.filter(read_pod(item), ["n0"])
    cluster.state.gpu_changed(told(gpu(0, health="Unhealthy"), ChangeType.MODIFIED))
    assert cluster.decider.reserve_on(read_pod(item), "n0") == "too few healthy GPUs on n0, by now"


def test_a_pod_that_may_be_bound_is_offered_its_own_node_only() -> None:
    cluster = Cluster(cards=1, nodes=2)
    made = cluster.bind(pod("a", spec(10)))
    other = next(node for node in ("n0", "n1") if node != made.node)
    again = read_pod(pod("a", spec(10)))
    assert cluster.decider.filter(again, ["n0", "n1"]).nodes == [made.node]
    assert cluster.decider.filter(again, [other]).nodes == []


def test_a_question_about_a_pod_that_is_gone_holds_nothing() -> None:
    cluster = Cluster(cards=1)
    item = pod("a", spec(10))
    cluster.see(item, ChangeType.ADDED)
    cluster.see(item, ChangeType.DELETED)
    assert not cluster.decider.filter(read_pod(item), ["n0"]).nodes
    assert cluster.free_gib() == [80]


def test_the_best_node_gets_the_highest_score_and_no_other_does() -> None:
    cluster = Cluster(cards=1, nodes=4)
    cluster.run("a", spec(40))
    busy = next(entry.reservation.node for entry in cluster.state.ledger)
    asks = read_pod(pod("b", spec(10)))
    nodes = ["n0", "n1", "n2", "n3"]
    cluster.decider.filter(asks, nodes)
    assert cluster.decider.scores(asks, nodes) == [(busy, 10)]


# Facts.


def test_a_node_without_tier_or_heartbeat_or_pool_takes_nothing() -> None:
    cluster = Cluster(cards=1)
    cluster.node("n0", tier="none")
    assert not cluster.fits(spec())
    cluster.node("n0")
    assert cluster.fits(spec())
    cluster.clock.now += 91
    cluster.state.liveness.check()
    assert not cluster.fits(spec())
    cluster.beat("n0")
    assert cluster.fits(spec())


def test_a_pool_has_the_nodes_that_its_selector_names() -> None:
    cluster = Cluster(cards=1)
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    cluster.pool(nodeManagerConfig={"nodeSelector": {"nodeSelectorTerms": [term]}})
    assert not cluster.fits(spec())
    cluster.node("n0", labels={"zone": "a"})
    assert cluster.fits(spec())


def selecting(zone: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
    return {"nodeManagerConfig": {"nodeSelector": {"nodeSelectorTerms": [term]}}}


def why(cluster: Cluster, pool: str) -> str:
    return cluster.decider.explain(read_pod(pod("asks", spec(pool=pool)))).text()


def test_a_pool_whose_nodes_belong_to_another_says_to_which() -> None:
    cluster = Cluster(cards=1, nodes=3)
    cluster.pool("a", **selecting("x"))
    cluster.pool("b", **selecting("x"))
    for name in ("n0", "n1", "n2"):
        cluster.node(name, labels={"zone": "x"})
    assert why(cluster, "a") == "fits 3 of 3 nodes now"
    assert why(cluster, "b") == (
        "pool b has no nodes: of the nodes that it selects 3 belong to pool a "
        "(a GPUNode's own pool goes first, then the first name that selects the node); 3 nodes: not in pool b"
    )
    cluster.pool("a", **selecting("y"))
    assert why(cluster, "b") == "fits 3 of 3 nodes now"


def test_a_pool_without_nodes_says_why() -> None:
    cluster = Cluster(cards=1)
    cluster.pool("b", **selecting("x"))
    assert why(cluster, "b").startswith("pool b has no nodes: its node selector matches none; ")
    assert why(cluster, "c").startswith("there is no pool c; ")
    cluster.node("n0", labels={"zone": "x"})  # what was said before is said no more
    assert why(cluster, "b") == "fits 1 of 1 nodes now"
    assert why(cluster, "p").startswith("pool p has no nodes: of the nodes 1 belong to pool b ")
    cluster.pool("q")  # a second default pool
    assert "as the default pool" in why(cluster, "q")


def test_a_changed_pool_changes_what_is_promised() -> None:
    cluster = Cluster(cards=1)
    full = spec(1, compute_request=Compute(Unit.PERCENT, Decimal(100)))
    cluster.run("a", full)
    assert not cluster.fits(full)
    cluster.pool(capacityConfig={"oversubscription": {"tflopsOversellRatio": 200}})
    assert cluster.fits(full)


def test_a_card_that_vanishes_takes_nothing_and_its_holder_is_there_when_it_returns() -> None:
    cluster = Cluster(cards=1)
    cluster.run("a", spec(60))
    cluster.state.gpu_changed(told(gpu(0), ChangeType.DELETED))
    assert not cluster.fits(spec(10))
    cluster.state.gpu_changed(told(gpu(0)))
    assert cluster.free_gib() == [20]


def test_a_node_name_that_comes_back_with_other_cards_is_empty() -> None:
    cluster = Cluster(cards=1)
    cluster.run("a", spec(80))
    cluster.state.gpu_changed(told(gpu(0), ChangeType.DELETED))
    cluster.state.gpu_changed(told(gpu(0, uuid="GPU-new")))
    assert cluster.free_gib() == [80]
    assert cluster.fits(spec(80))


@pytest.mark.parametrize(
    "broken", [{"capacity": {}}, {"capacity": {"tflops": "x", "vram": "1Gi"}}, {"capacity": None}, {"nodeName": None}]
)
def test_a_card_that_is_not_fully_described_is_not_used(broken: dict[str, Any]) -> None:
    cluster = Cluster(cards=0)
    cluster.state.gpu_changed(told(gpu(0, **broken) | {"metadata": {"name": "g", "uid": "g"}}))
    assert not cluster.fits(spec())


def test_the_oldest_quota_of_a_namespace_holds() -> None:
    cluster = Cluster(cards=1)
    for name, created, most in (("new", "2026-02-01T00:00:00Z", 100), ("old", "2026-01-01T00:00:00Z", 5)):
        cluster.state.quota_changed(told({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": created},
            "spec": {"total": {"maxWorkers": most}},
        }))  # fmt: skip
    quota = cluster.state.ledger.quota("ns")
    assert quota is not None
    assert (quota.name, quota.total.workers) == ("old", 5)


# Heartbeats.


def test_a_lease_that_is_long_out_of_date_at_first_sight_is_a_dead_agents_until_it_moves() -> None:
    clock, wall = Clock(), datetime.now(UTC)
    liveness = Liveness(clock, wall.timestamp)
    lease = {"metadata": {"name": "x", "namespace": "l", "uid": "x"}, "spec": {"holderIdentity": "n", "leaseDurationSeconds": 90}}

    def beat(at: datetime) -> None:
        lease["spec"] = lease["spec"] | {"renewTime": at.isoformat()}  # type: ignore[operator]
        liveness.take(told(lease))

    beat(wall - timedelta(hours=1))
    assert not liveness.is_live("n")
    beat(wall - timedelta(minutes=59))  # its clock is wrong, but it moves
    assert liveness.is_live("n")


# What is no pod of ours.


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {},
        {"metadata": None},
        {"metadata": {"name": "x"}},
        {"metadata": {"name": 1, "uid": "u"}},
        {"metadata": {"name": "x", "uid": "u", "annotations": {f"{PREFIX}resolved": "{}"}}},
        {"metadata": {"name": "x", "uid": "u", "annotations": []}},
    ],
)
def test_what_is_no_pod_of_ours_is_named_as_such(raw: object) -> None:
    with pytest.raises(NotOurPodError):
        read_pod(raw)


# Which nodes are named to kube-scheduler.


def owned(item: dict[str, Any], kind: str) -> dict[str, Any]:
    item["metadata"]["ownerReferences"] = [{"apiVersion": "x/v1", "kind": kind, "name": "owner", "uid": "u", "controller": True}]
    return item


def soft(kind: str) -> dict[str, Any]:
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}}


def test_of_many_nodes_that_fit_the_most_wanted_are_named_and_the_held_one_is_among_them() -> None:
    nodes = 130
    cluster = Cluster(cards=1, nodes=nodes)
    names = [f"n{at}" for at in range(nodes)]
    busy = set()
    for at in range(20):
        busy.add(cluster.run(f"p{at}", spec(70))["spec"]["nodeName"])
    asks = read_pod(owned(pod("asks", spec(10)), "ReplicaSet"))
    named = cluster.decider.filter(asks, names).nodes
    assert len(named) in (MOST_NAMED, MOST_NAMED + 1)
    assert named == [name for name in names if name in set(named)], "in the order of the question"
    held = cluster.state.ledger.get(asks.uid)
    assert held is not None
    assert held.reservation.node in named
    assert len(busy) == 20
    assert busy <= set(named), "the fullest are what the default placement wants"


@pytest.mark.parametrize(
    "wishes",
    [
        soft("nodeAffinity"),
        soft("podAffinity"),
        soft("podAntiAffinity"),
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}, {"whenUnsatisfiable": "ScheduleAnyway"}]},
    ],
)
def test_a_pod_with_preferences_of_its_own_gets_every_node_that_fits(wishes: dict[str, Any]) -> None:
    cluster = Cluster(cards=1, nodes=130)
    item = pod("asks", spec(40))
    item["spec"] |= wishes
    assert len(cluster.decider.filter(read_pod(item), [f"n{at}" for at in range(130)]).nodes) == 130


@pytest.mark.parametrize("owner", ["Job", "RayCluster", None])
def test_a_pod_that_kube_scheduler_need_not_spread_is_given_the_most_wanted_node_alone(owner: str | None) -> None:
    cluster = Cluster(cards=1, nodes=3)
    busy = cluster.run("first", spec(20))["spec"]["nodeName"]
    item = pod("asks", spec(10))
    assert cluster.decider.filter(read_pod(owned(item, owner) if owner else item), ["n0", "n1", "n2"]).nodes == [busy]


@pytest.mark.parametrize("owner", ["ReplicaSet", "StatefulSet", "ReplicationController"])
def test_a_replica_is_given_all_of_a_few_nodes(owner: str) -> None:
    cluster = Cluster(cards=1, nodes=3)
    assert cluster.decider.filter(read_pod(owned(pod("asks", spec(10)), owner)), ["n0", "n1", "n2"]).nodes == ["n0", "n1", "n2"]


def test_where_the_most_wanted_node_would_rather_have_no_pods_all_nodes_are_named() -> None:
    cluster = Cluster(cards=1, nodes=130)
    nodes = [f"n{at}" for at in range(130)]
    busy = cluster.run("first", spec(20))["spec"]["nodeName"]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": busy}}
    shunned = node | {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "PreferNoSchedule"}]}}
    for owner in ("Job", "ReplicaSet"):
        cluster.state.node_changed(told(shunned))
        assert len(cluster.decider.filter(read_pod(owned(pod(f"{owner}-1", spec(10)), owner)), nodes).nodes) == 130
        cluster.state.node_changed(told(node))
        assert len(cluster.decider.filter(read_pod(owned(pod(f"{owner}-2", spec(10)), owner)), nodes).nodes) < 130


def test_requirements_are_no_preferences() -> None:
    item = pod("asks", spec(40))
    item["spec"] |= {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}
    item["spec"] |= {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}
    assert not read_pod(item).prefers
    for junk in ("x", [1], {"affinity": {"nodeAffinity": "x"}}):
        item["spec"]["affinity"] = item["spec"]["topologySpreadConstraints"] = junk
        assert not read_pod(item).prefers
