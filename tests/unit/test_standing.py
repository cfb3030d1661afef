"""`status` and `top`: what is made of the objects and of the agents' answers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import observed_cluster as cluster
import pytest
from observed_cluster import NOW

from tensorfusion_iac.api.effective import Amount, Effective, EffectiveCard, to_text
from tensorfusion_iac.controller.scaling import Row
from tensorfusion_iac.kube.resource import DEPLOYMENTS, GPU_POOLS, GPU_RESOURCE_QUOTAS, GPUS, PODS, TENSOR_FUSION_WORKLOADS
from tensorfusion_iac.operations.observed import Observed
from tensorfusion_iac.operations.sampling import from_metrics, newest
from tensorfusion_iac.operations.standing import standing
from tensorfusion_iac.operations.use import Sample, use

GIB = 2**30


def pod(name: str, namespace: str = "ml", phase: str = "Running", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "annotations": more.pop("annotations", {})}
    return {"metadata": metadata, "spec": {"nodeName": "node-1"}, "status": {"phase": phase, **more}}


def condition(kind: str, message: str, status: str = "False") -> dict[str, Any]:
    return {"type": kind, "status": status, "message": message}


def rows(title: str, seen: Observed, namespace: str | None = None) -> tuple[tuple[str, ...], ...]:
    return next(table.rows for table in standing(seen, namespace) if table.title == title)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"conditions": [condition("tensor-fusion.ai/GPUsAllocated", "3 nodes: 2 are full")]}, "3 nodes: 2 are full"),
        ({"conditions": [condition("PodScheduled", "0/3 nodes are available")]}, "0/3 nodes are available"),
        (
            {"conditions": [condition("PodScheduled", "0/3"), condition("tensor-fusion.ai/GPUsAllocated", "no free card")]},
            "no free card",
        ),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]},
            "ImagePullBackOff: not found",
        ),
        ({}, "it is not started yet"),
    ],
)  # fmt: skip
def test_a_pending_pod_is_shown_with_its_reason(status: dict[str, Any], why: str) -> None:
    seen = Observed(NOW, {PODS: [pod("a", phase="Pending", **status), pod("runs")]})
    assert rows("Waiting", seen) == (("ml", "pod a", why),)


def test_a_running_pod_whose_amounts_cannot_change_now_waits_too() -> None:
    seen = Observed(
        NOW, {PODS: [pod("a", conditions=[condition("tensor-fusion.ai/ResizePending", "no room on the card", "True")])]}
    )
    assert rows("Waiting", seen) == (("ml", "pod a", "its new amounts wait: no room on the card"),)


def test_a_deployment_whose_pods_are_refused_is_shown_with_the_webhooks_words() -> None:
    def deployment(name: str, enabled: str) -> dict[str, Any]:
        template = {"metadata": {"labels": {"tensor-fusion.ai/enabled": enabled}}}
        refused = condition("ReplicaFailure", "admission webhook denied the request: qos", "True")
        return {
            "metadata": {"name": name, "namespace": "ml"}, "spec": {"template": template}, "status": {"conditions": [refused]},
        }  # fmt: skip

    seen = Observed(NOW, {DEPLOYMENTS: [deployment("chat", "true"), deployment("other", "false")]})
    refused = "its pods are refused: admission webhook denied the request: qos"
    assert rows("Waiting", seen) == (("ml", "deployment chat", refused),)


def test_pools_workloads_and_quotas_are_rows() -> None:
    status = {
        "phase": "Running", "readyNodes": 2, "totalNodes": 3, "totalGPUs": 16, "availableTFlops": "100", "totalTFlops": "400",
        "availableVRAM": "10Gi", "totalVRAM": "80Gi", "runningAppsCnt": 4,
    }  # fmt: skip
    workload = {"metadata": {"name": "chat", "namespace": "ml"}, "status": {
        "phase": "Running", "readyWorkers": 1, "workerCount": 2,
        "conditions": [condition("ResizePending", "no room", "True"), condition("Ready", "1 of 2")],
    }}  # fmt: skip
    quota = {
        "metadata": {"name": "q", "namespace": "ml"}, "spec": {"total": {"requests": {"tflops": "50"}, "maxWorkers": 4}},
        "status": {"used": {"requests": {"tflops": "20", "vram": "8Gi"}, "workers": 2},
                   "conditions": [condition("NearlyUsed", "TFLOPS at 96 %", "True")]},
    }  # fmt: skip
    seen = Observed(
        NOW,
        {
            GPU_POOLS: [{"metadata": {"name": "p"}, "status": status}],
            GPUS: [cluster.gpu(0, health="Unhealthy")],
            TENSOR_FUSION_WORKLOADS: [workload],
            GPU_RESOURCE_QUOTAS: [quota],
        },
    )
    assert rows("Pools", seen) == (("p", "Running", "2 of 3", "16 (1 not healthy)", "100 of 400", "10Gi of 80Gi", "4"),)
    assert rows("Workloads", seen) == (("ml", "chat", "Running", "1 of 2", "ResizePending: no room"),)
    assert rows("Quotas", seen) == (("ml", "q", "20 of 50", "8Gi of -", "2 of 4", "TFLOPS at 96 %"),)


def test_amounts_are_shown_in_one_unit_with_one_decimal_and_given_to_programs_as_numbers() -> None:
    status = {
        "readyNodes": 3, "totalNodes": 3, "totalGPUs": 12, "availableTFlops": "3098.528572", "totalTFlops": "4000",
        "availableVRAM": "601290Mi", "totalVRAM": "832Gi", "runningAppsCnt": 4,
    }  # fmt: skip
    seen = Observed(NOW, {GPU_POOLS: [{"metadata": {"name": "p"}, "status": status}]})
    (row,) = rows("Pools", seen)
    assert row[4:6] == ("3098.5 of 4000", "587.2Gi of 832Gi")
    (record,) = standing(seen, None)[0].records
    assert record == {
        "pool": "p", "phase": "", "readyNodes": 3, "totalNodes": 3, "gpus": 12, "unhealthyGpus": 0,
        "availableTflops": 3098.528572, "totalTflops": 4000.0,
        "availableVramBytes": 601290 * 2**20, "totalVramBytes": 832 * GIB, "workloads": 4,
    }  # fmt: skip


def a_deployment(name: str, replicas: int | None, pods: int, **annotations: str) -> dict[str, Any]:
    marks = {f"tensor-fusion.ai/{key.replace('_', '-')}": value for key, value in annotations.items()}
    template = {"metadata": {"labels": {"tensor-fusion.ai/enabled": "true"}, "annotations": marks}}
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "spec": {"replicas": replicas, "template": template}, "status": {"replicas": pods},
    }  # fmt: skip


def a_workload(name: str, *owners: str, ready: int, there: int) -> dict[str, Any]:
    references = [{"kind": "Deployment", "name": owner, "uid": f"uid-{owner}"} for owner in owners]
    status = {"phase": "Running", "readyWorkers": ready, "workerCount": there}
    return {"metadata": {"name": name, "namespace": "ml", "ownerReferences": references}, "status": status}


@pytest.mark.parametrize(
    ("owners", "deployments", "ready"),
    [
        (("web",), [a_deployment("web", 4, 3)], "3 of 4"),
        (("web",), [a_deployment("web", None, 3)], "3 of 1"),
        (("web", "api"), [a_deployment("web", 4, 3), a_deployment("api", 2, 0)], "3 of 6"),
        (("web",), [a_deployment("web", 9, 3, enabled_replicas="5")], "3 of 5"),
        (("web", "job"), [a_deployment("web", 4, 3)], "3 of 3"),
        ((), [], "3 of 3"),
    ],
)
def test_ready_pods_are_counted_against_those_wanted(
    owners: tuple[str, ...], deployments: list[dict[str, Any]], ready: str
) -> None:
    seen = Observed(NOW, {TENSOR_FUSION_WORKLOADS: [a_workload("web", *owners, ready=3, there=3)], DEPLOYMENTS: deployments})
    assert next(row[3] for row in rows("Workloads", seen) if row[1] == "web") == ready


def test_a_deployment_that_has_no_pods_at_all_is_shown() -> None:
    plain = a_deployment("plain", 2, 0)
    plain["spec"]["template"]["metadata"]["labels"] = {}
    deployments = [
        a_deployment("web", 4, 0), a_deployment("known", 2, 0), a_deployment("zero", 0, 0), a_deployment("runs", 1, 1),
        a_deployment("shares", 1, 0, workload="known"), plain,
    ]  # fmt: skip
    seen = Observed(NOW, {TENSOR_FUSION_WORKLOADS: [a_workload("known", "known", ready=0, there=0)], DEPLOYMENTS: deployments})
    assert rows("Workloads", seen) == (
        ("ml", "known", "Running", "0 of 2", ""),
        ("ml", "web", "Pending", "0 of 4", "it has no pods"),
    )


def test_a_namespace_leaves_the_others_out() -> None:
    seen = Observed(NOW, {PODS: [pod("a", phase="Pending"), pod("b", "web", phase="Pending")]})
    assert [row[1] for row in rows("Waiting", seen, "web")] == ["pod b"]


def effective(percent: int, vram_gib: int, *, exclusive: bool = False, gpu: str = "GPU-node-1-0") -> dict[str, str]:
    amount = Amount(Decimal(10), vram_gib * GIB, Decimal(percent))
    return {"tensor-fusion.ai/effective": to_text(Effective((EffectiveCard(gpu, amount, amount),), exclusive=exclusive))}


def test_cards_and_pods_are_joined_with_what_was_measured() -> None:
    held = [{"uid": "uid-a", "enforcedBy": "vram=driver,compute=freezer", "container": "main"}]
    gpus = [cluster.gpu(1), cluster.gpu(0, pods=held, available={"tflops": "100", "vram": "12Gi"})]
    pods = [
        pod("a", annotations=effective(30, 8)),
        pod("idle", annotations=effective(50, 4)),
        pod("done", phase="Succeeded", annotations=effective(50, 4)),
        pod("unread", annotations={"tensor-fusion.ai/effective": "{}"}),
        pod("plain"),
    ]
    found = use(gpus, pods, [Sample("uid-a", "GPU-node-1-0", 25.0, 6 * GIB), Sample("uid-gone", "GPU-node-1-0", 5.0, GIB)])
    busy, idle = found.cards
    assert (busy.index, busy.compute_percent, busy.vram_bytes, busy.pods, busy.reserved_percent) == (0, 30.0, 7 * GIB, 1, 75.0)
    assert (idle.index, idle.compute_percent, idle.vram_bytes, idle.reserved_percent) == (1, None, None, None)
    first, second = found.pods
    assert (first.pod, first.compute_percent, first.limit_percent, first.enforced_by) == (
        "a", 25.0, 30.0, "vram=driver,compute=freezer"
    )  # fmt: skip
    assert (second.pod, second.compute_percent, second.vram_bytes) == ("idle", None, None)


def test_a_pod_that_has_the_card_to_itself_may_use_all_of_it() -> None:
    (row,) = use([cluster.gpu(0)], [pod("a", annotations=effective(30, 8, exclusive=True))], []).pods
    assert row.limit_percent == 100.0


def test_metrics_of_an_agent_become_samples_of_known_pods() -> None:
    labels = 'namespace="ml",workload="w",pod="a",gpu="GPU-1"'
    text = f"""
# TYPE tensor_fusion_pod_compute_percent gauge
tensor_fusion_pod_compute_percent{{{labels},container="x"}} 10
tensor_fusion_pod_compute_percent{{{labels},container="y"}} 5
tensor_fusion_pod_compute_percent{{namespace="ml",workload="w",pod="unknown",gpu="GPU-1",container="x"}} 7
# TYPE tensor_fusion_pod_vram_used_bytes gauge
tensor_fusion_pod_vram_used_bytes{{{labels},container="x"}} 100
tensor_fusion_pod_vram_used_bytes{{{labels},container="y"}} 50
"""
    assert from_metrics(text, {("ml", "a"): "uid-a"}) == [Sample("uid-a", "GPU-1", 15.0, 150)]
    assert from_metrics("", {}) == []


def test_the_newest_row_of_a_history_counts() -> None:
    rows_ = [Row("u", "g", 30.0, 0.5, 9), Row("u", "g", 60.0, 0.25, 7), Row("u", "g", 0.0, 1.0, 8)]
    assert newest(rows_) == [Sample("u", "g", 25.0, 7)]
