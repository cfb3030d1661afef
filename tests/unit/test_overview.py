"""The tables of the demo's last screen, from the API's objects."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tensorfusion_iac.api import resolve
from tensorfusion_iac.api.effective import Amount, Effective, EffectiveCard, to_text
from tensorfusion_iac.local.overview import Table, is_told, tables

P = "tensor-fusion.ai/"
TEMPLATE: dict[str, Any] = {
    "metadata": {
        "labels": {f"{P}enabled": "true"},
        "annotations": {f"{P}vram-request": "20Gi", f"{P}gpu-model": "L40S", "x": "y"},
    },
    "spec": {"containers": [{"name": "main"}]},
}
GPUS = [{"status": {"uuid": f"GPU-{n}", "index": n, "model": "L40S", "nodeName": "n0"}} for n in range(2)]


def _tables(**given: list[dict[str, Any]]) -> dict[str, Table]:
    kinds = ("pools", "profiles", "workloads", "quotas", "deployments", "pods", "gpus")
    return {table.title: table for table in tables(*(given.get(kind, []) for kind in kinds))}


def _pod(**annotations: str) -> dict[str, Any]:
    marks = {f"{P}{name.replace('_', '-')}": value for name, value in annotations.items()}
    metadata = {"namespace": "ml", "name": "chat-0", "labels": {f"{P}enabled": "true"}, "annotations": marks}
    return {"metadata": metadata, "spec": {"nodeName": "n0"}, "status": {"phase": "Running"}}


def test_a_pod_is_shown_with_its_cards_and_what_it_was_resolved_to() -> None:
    resolved = resolve(TEMPLATE).resolved()
    shown = _tables(gpus=GPUS, pods=[_pod(resolved=resolved, gpu_ids="GPU-1,GPU-0")])["Pods"]
    assert shown.rows == (("ml", "chat-0", "Running", "n0", "0, 1", "1 x L40S (20Gi), soft, medium", ""),)


def test_a_pod_that_no_webhook_saw_has_no_cards() -> None:
    assert _tables(pods=[_pod()])["Pods"].rows == (("ml", "chat-0", "Running", "n0", "", "", ""),)


def test_pods_and_deployments_that_are_not_enabled_are_left_out() -> None:
    other = {"metadata": {"name": "web"}, "spec": {"template": {"metadata": {"labels": {f"{P}enabled": "false"}}}}}
    shown = _tables(deployments=[other], pods=[{"metadata": {"name": "web-0", "labels": {}}}])
    assert (shown["Deployments"].rows, shown["Pods"].rows) == ((), ())


def test_a_deployment_is_shown_with_our_annotations_alone() -> None:
    deployment = {
        "metadata": {"namespace": "ml", "name": "chat"},
        "spec": {"replicas": 2, "template": TEMPLATE},
        "status": {"readyReplicas": 1},
    }
    assert _tables(deployments=[deployment])["Deployments"].rows == (
        ("ml", "chat", "1/2", "gpu-model: L40S\nvram-request: 20Gi"),
    )


def test_pools_profiles_and_cards_are_counted() -> None:
    pool = {"metadata": {"name": "p", "annotations": {f"{P}is-default-pool": "true"}}, "spec": {"defaultUsingLocalGPU": True}}
    profile = {
        "metadata": {"namespace": "ml", "name": "small"},
        "spec": {"qos": "low", "resources": {"requests": {"vram": "4Gi"}}},
    }
    shown = _tables(pools=[pool], profiles=[profile], gpus=GPUS)
    assert shown["Pools"].rows == (("p", "yes", "yes", "", "", "", ""),)
    assert shown["Profiles"].rows == (("ml", "small", "vram 4Gi", "", "low"),)
    assert shown["Cards"].rows == (("L40S", "2", "n0"),)


def test_workloads_are_shown_where_there_are_any() -> None:
    assert "Workloads" not in _tables()
    status = {"phase": "Running", "readyWorkers": 1, "workerCount": 2}
    workload = {"metadata": {"namespace": "ml", "name": "chat"}, "status": status}
    assert _tables(workloads=[workload])["Workloads"].rows == (("ml", "chat", "Running", "1/2", ""),)


def test_a_pool_is_shown_with_what_the_controller_says_of_it() -> None:
    status = {
        "phase": "Running", "readyNodes": 2, "totalNodes": 3, "availableTFlops": "300", "totalTFlops": "400",
        "availableVRAM": "10Gi", "totalVRAM": "80Gi",
    }  # fmt: skip
    pool = {"metadata": {"name": "p"}, "spec": {}, "status": status}
    assert _tables(pools=[pool])["Pools"].rows == (("p", "no", "no", "Running", "2/3", "300 of 400", "10Gi of 80Gi"),)


def test_the_last_screen_waits_for_the_controller_to_have_told_of_running_pods() -> None:
    running, waiting = {"status": {"phase": "Running"}}, {"status": {"phase": "Pending"}}
    told = {"status": {"readyWorkers": 1}}
    counted = {"status": {"runningAppsCnt": 1}}
    assert is_told([running], [told], [counted])
    assert not is_told([], [], [])
    assert not is_told([running, waiting], [told], [counted])
    assert not is_told([running], [], [counted])
    assert not is_told([running], [told], [{}])


def test_amounts_in_force_and_what_autoscaling_asks_for_are_shown() -> None:
    amount = Amount(Decimal("71.5"), 9 * 2**30, Decimal(23))
    effective = to_text(Effective(tuple(EffectiveCard(f"GPU-{n}", amount, amount) for n in range(2))))
    assert _tables(gpus=GPUS, pods=[_pod(effective=effective)])["Pods"].rows[0][-1] == "71.5 TFLOPS, 9Gi"
    recommendation = {"resources": {"limits": {"tflops": "71.5", "vram": "9Gi"}}, "reason": "by use", "applied": True}
    workload = {"metadata": {"name": "embed"}, "status": {"recommendation": recommendation}}
    assert _tables(workloads=[workload])["Workloads"].rows[0][-1] == "71.5 TFLOPS, 9Gi, by use"
    early = {"metadata": {"name": "embed"}, "status": {"recommendation": {"reason": "nothing is known", "resources": {}}}}
    assert _tables(workloads=[early])["Workloads"].rows[0][-1] == "nothing is known"


def test_quotas_are_shown_with_what_is_used_of_them() -> None:
    used = {"requests": {"tflops": "30", "vram": "8Gi"}, "workers": 2}
    quota = {
        "metadata": {"namespace": "ml", "name": "quota"}, "spec": {"total": {"requests": {"tflops": "100"}, "maxWorkers": 5}},
        "status": {"used": used},
    }  # fmt: skip
    assert _tables(quotas=[quota])["Quotas"].rows == (("ml", "quota", "30 of 100", "8Gi of any", "2 of 5"),)


def test_the_last_screen_waits_until_amounts_have_followed_use() -> None:
    pod = {"status": {"phase": "Running"}}
    spec = {"autoScalingConfig": {"autoSetResources": {"enable": True}}}
    workload: dict[str, Any] = {"spec": spec, "status": {"readyWorkers": 1, "recommendation": {"applied": False}}}
    assert not is_told([pod], [workload], [{"status": {"runningAppsCnt": 1}}])
    workload["status"]["recommendation"]["applied"] = True
    assert is_told([pod], [workload], [{"status": {"runningAppsCnt": 1}}])
