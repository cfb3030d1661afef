"""Which refused pods are woken when room was freed: those that would fit, on nodes that they may use (ARCHITECTURE)."""

from __future__ import annotations

from typing import Any

from test_scheduling_state import Cluster, pod, spec

from tensorfusion_iac.kube.informer import ChangeType
from tensorfusion_iac.scheduling.decide import UNSHOWN_S
from tensorfusion_iac.scheduling.metrics import Metrics
from tensorfusion_iac.scheduling.pending import REWAKE_S, Pending
from tensorfusion_iac.scheduling.pods import GpuPod, read_pod


def full(nodes: int) -> tuple[Cluster, Pending, list[dict[str, Any]]]:
    """Nodes of one card each, every one taken by a pod; what runs, in the order of the nodes."""
    cluster = Cluster(cards=1, nodes=nodes)
    client: Any = None
    pending = Pending(client, cluster.state, cluster.decider, Metrics(), lambda: True)
    pending.attach()
    running = [cluster.run(f"runs-{at}", spec(80)) for at in range(nodes)]
    return cluster, pending, sorted(running, key=lambda item: str(item["spec"]["nodeName"]))


def refused(cluster: Cluster, name: str, nodes: list[str], created: int = 1, *, shown: bool = True) -> GpuPod:
    item = pod(name, spec(80))
    item["metadata"]["creationTimestamp"] = f"2026-01-{created:02}T00:00:00Z"
    if shown:
        cluster.see(item)
    assert not cluster.decider.filter(read_pod(item), nodes).nodes
    return read_pod(item)


def woken(pending: Pending) -> list[str]:
    return [found.name for found in pending.would_fit()]


def test_a_pod_that_may_not_use_the_freed_node_is_not_woken_and_stands_in_nobodys_way() -> None:
    cluster, pending, running = full(nodes=2)
    refused(cluster, "elsewhere", ["n0"], created=1)
    refused(cluster, "anywhere", ["n0", "n1"], created=2)
    cluster.see(running[1], ChangeType.DELETED)
    assert woken(pending) == ["anywhere"]


def test_a_pod_for_which_a_node_was_freed_is_woken_beside_an_older_one_that_is_its_equal() -> None:
    cluster, pending, (running,) = full(nodes=1)
    refused(cluster, "old", ["n0"], created=1)
    young = refused(cluster, "young", ["n0"], created=2)
    cluster.state.inventory.nominate("n0", young.priority)
    cluster.decider.nominations = {young.uid: "n0"}
    cluster.see(running, ChangeType.DELETED)
    assert woken(pending) == ["young"]


def test_a_pod_that_is_refused_before_the_watch_shows_it_is_remembered() -> None:
    cluster, pending, (running,) = full(nodes=1)
    refused(cluster, "late", ["n0"], shown=False)
    assert woken(pending) == []
    cluster.see(pod("late", spec(80)), ChangeType.ADDED)
    cluster.see(running, ChangeType.DELETED)
    assert woken(pending) == ["late"]


def test_one_that_the_watch_never_shows_is_forgotten() -> None:
    cluster, pending, _ = full(nodes=1)
    refused(cluster, "never", ["n0"], shown=False)
    cluster.clock.now += UNSHOWN_S + 1
    assert woken(pending) == []
    assert not pending.waiting


def test_a_pod_that_is_being_deleted_is_not_woken() -> None:
    cluster, pending, (running,) = full(nodes=1)
    refused(cluster, "dying", ["n0"])
    item = pod("dying", spec(80), version=2)
    item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.see(item)
    cluster.see(running, ChangeType.DELETED)
    assert woken(pending) == []


def test_the_same_pod_is_not_woken_again_at_once() -> None:
    cluster, pending, (running,) = full(nodes=1)
    refused(cluster, "waits", ["n0"])
    cluster.see(running, ChangeType.DELETED)
    assert woken(pending) == ["waits"]
    assert woken(pending) == []
    cluster.clock.now += REWAKE_S
    assert woken(pending) == ["waits"]
