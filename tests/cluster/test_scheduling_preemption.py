"""Preemption for GPUs under the real kube-scheduler: nodes with ample CPU and full cards (SPEC §7)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta

import pytest
from gpu_plane import GpuPlane, gpu_plane, percent, pod

from tensorfusion_iac.api.levels import QoS
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.resource import PODS
from tensorfusion_iac.local.state import NodeGroup

pytestmark = pytest.mark.cluster
GROUPS = (NodeGroup(model="A100_SXM_80G", gpus_per_node=2, nodes=2),)
LOW = {"qos": QoS.LOW, "priority_class": "tensor-fusion-low"}
HIGH = {"qos": QoS.HIGH, "priority_class": "tensor-fusion-high"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuPlane]:
    with gpu_plane(tmp_path_factory.mktemp("preemption") / "plane", GROUPS, os.getpid()) as made:
        yield made


@pytest.fixture
def ns(plane: GpuPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    name = plane.namespace(request.node.name.replace("_", "-")[5:60].strip("-"))
    yield name
    plane.delete(name, *(item["metadata"]["name"] for item in plane.pods(name)))


def names(plane: GpuPlane, namespace: str) -> set[str]:
    return {item["metadata"]["name"] for item in plane.pods(namespace)}


def test_a_high_pod_takes_the_place_of_as_few_low_ones_as_are_needed(plane: GpuPlane, ns: str) -> None:
    plane.create(*(pod(ns, f"low-{at}", percent(50, **LOW)) for at in range(8)))
    plane.bound(ns, 8)
    plane.create(pod(ns, "high", percent(100, **HIGH)))

    plane.until("the high pod's place", lambda client: _is_bound(client, ns, "high"))
    left = names(plane, ns)
    assert "high" in left
    assert len(left) == 7  # two halves of one card are gone, and no other


def test_equal_priority_never_goes(plane: GpuPlane, ns: str) -> None:
    plane.create(*(pod(ns, f"first-{at}", percent(100, **HIGH)) for at in range(4)))
    plane.bound(ns, 4)
    plane.create(pod(ns, "second", percent(100, **HIGH)))
    assert "2 nodes: compute" in plane.refused(ns, "second")
    plane.create(pod(ns, "low", percent(100, **LOW)))
    plane.refused(ns, "low")
    assert len(names(plane, ns)) == 6


def test_a_protected_pod_stays_and_an_unprotected_one_goes(plane: GpuPlane, ns: str) -> None:
    shielded = percent(100, eviction_protection=timedelta(hours=1), **LOW)
    plane.create(*(pod(ns, f"shielded-{at}", shielded) for at in range(3)), pod(ns, "bare", percent(100, **LOW)))
    plane.bound(ns, 4)
    plane.create(pod(ns, "high", percent(100, **HIGH)))
    plane.until("the high pod's place", lambda client: _is_bound(client, ns, "high"))
    assert names(plane, ns) == {"high", "shielded-0", "shielded-1", "shielded-2"}


def test_a_disruption_budget_is_kept(plane: GpuPlane, ns: str) -> None:
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "none", "namespace": ns},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "kept"}}},
    }  # fmt: skip
    plane.apply(budget)
    kept = {"labels": {"app": "kept"}}
    plane.create(*(pod(ns, f"kept-{at}", percent(100, **LOW), **kept) for at in range(3)), pod(ns, "bare", percent(100, **LOW)))
    plane.bound(ns, 4)
    plane.create(pod(ns, "high", percent(100, **HIGH)))
    plane.until("the high pod's place", lambda client: _is_bound(client, ns, "high"))
    assert names(plane, ns) == {"high", "kept-0", "kept-1", "kept-2"}


def test_a_pod_that_may_not_preempt_waits(plane: GpuPlane, ns: str) -> None:
    plane.create(*(pod(ns, f"low-{at}", percent(100, **LOW)) for at in range(4)))
    plane.bound(ns, 4)
    plane.apply({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "patient"}, "value": 5000,
        "preemptionPolicy": "Never",
    })  # fmt: skip
    plane.create(pod(ns, "patient", percent(100, priority_class="patient")))
    plane.refused(ns, "patient")
    plane.create(pod(ns, "high", percent(100, **HIGH)))
    plane.until("the high pod's place", lambda client: _is_bound(client, ns, "high"))
    assert len(names(plane, ns)) == 5


async def _is_bound(client: Client, namespace: str, name: str) -> bool:
    return bool((await client.get(PODS, name, namespace))["spec"].get("nodeName"))
