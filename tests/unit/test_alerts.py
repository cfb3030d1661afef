"""Each alert fires when it should and not before, as Prometheus' own engine evaluates it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from promql import ask

from tensorfusion_iac.api.metrics import METRICS
from tensorfusion_iac.components.alerts import ALERTS, Alert, prometheus_rule, rule_groups

BY_NAME = {alert.name: alert for alert in ALERTS}
DECISIONS = 'tensor_fusion_admission_decisions_total{path="/mutate-pods",result="patched"}'
POD = '{namespace="ml",workload="chat",pod="chat-0",container="main",gpu="GPU-1"}'
CARD = '{gpu="GPU-1",index="0",model="A100_SXM_80G",node="node-1"}'
DAY_S = 86400


def bucket(metric: str, le: str, labels: str = "") -> str:
    return f'{metric}_bucket{{le="{le}"{labels}}}'


@dataclass(frozen=True)
class Case:
    """`bad` series fire the alert with these labels; `good` ones, one step on the right side of the threshold, do not."""

    alert: str
    bad: Mapping[str, str]
    good: Mapping[str, str]
    labels: Mapping[str, str]


ADMISSION, CALL = "tensor_fusion_admission_duration_seconds", "tensor_fusion_scheduler_call_duration_seconds"
CASES = (
    Case("TensorFusionWebhookAbsent", {}, {DECISIONS: "0+1x90"}, {}),
    Case(
        "TensorFusionSchedulerWithoutLeader",
        {'tensor_fusion_scheduler_leader{pod="a"}': "0x90", 'tensor_fusion_scheduler_leader{pod="b"}': "0x90"},
        {'tensor_fusion_scheduler_leader{pod="a"}': "0x90", 'tensor_fusion_scheduler_leader{pod="b"}': "1x90"},
        {},
    ),
    Case(
        "TensorFusionControllerWithoutLeader",
        {"tensor_fusion_controller_leader": "0x90"}, {"tensor_fusion_controller_leader": "1x90"}, {},
    ),
    Case(
        "TensorFusionCertificateEnding",
        {"tensor_fusion_admission_certificate_expiry_timestamp_seconds": f"{14 * DAY_S - 1}x90"},
        {"tensor_fusion_admission_certificate_expiry_timestamp_seconds": f"{14 * DAY_S + 90 * 60}x90"},
        {},
    ),
    Case(
        "TensorFusionAdmissionSlow",  # 2 of 100 above a second, then 0.5 of 100
        {bucket(ADMISSION, "1.0"): "0+98x90", bucket(ADMISSION, "3.0"): "0+100x90", bucket(ADMISSION, "+Inf"): "0+100x90"},
        {bucket(ADMISSION, "1.0"): "0+199x90", bucket(ADMISSION, "3.0"): "0+200x90", bucket(ADMISSION, "+Inf"): "0+200x90"},
        {},
    ),
    Case(
        "TensorFusionSchedulerSlow",
        {
            bucket(CALL, "5.0", ',verb="bind"'): "0+98x90",
            bucket(CALL, "20.0", ',verb="bind"'): "0+100x90",
            bucket(CALL, "+Inf", ',verb="bind"'): "0+100x90",
        },
        {bucket(CALL, "5.0", ',verb="bind"'): "0+100x90", bucket(CALL, "+Inf", ',verb="bind"'): "0+100x90"},
        {"verb": "bind"},
    ),
    Case(
        "TensorFusionPodsWaiting",
        {"tensor_fusion_scheduler_waiting_pods": "1x90"}, {"tensor_fusion_scheduler_waiting_pods": "0x90"}, {},
    ),
    Case(
        "TensorFusionPoolFull",  # two replicas of the controller tell the same
        {
            f'tensor_fusion_pool_vram_bytes{{pool="p",state="{state}",instance="{replica}"}}': f"{amount}x90"
            for replica in "ab"
            for state, amount in (("total", 1000), ("available", 49))
        },
        {
            'tensor_fusion_pool_vram_bytes{pool="p",state="total"}': "1000x90",
            'tensor_fusion_pool_vram_bytes{pool="p",state="available"}': "50x90",
        },
        {"pool": "p"},
    ),
    Case(
        "TensorFusionNodesNotReady",
        {'tensor_fusion_pool_nodes{pool="p",state="not-ready"}': "1x90"},
        {'tensor_fusion_pool_nodes{pool="p",state="not-ready"}': "0x90"},
        {"pool": "p"},
    ),
    Case(
        "TensorFusionGpuUnhealthy", {f"tensor_fusion_gpu_healthy{CARD}": "0x90"}, {f"tensor_fusion_gpu_healthy{CARD}": "1x90"},
        {"node": "node-1", "index": "0"},
    ),
    Case(
        "TensorFusionMemoryOverLimit",
        {f"tensor_fusion_pod_vram_used_bytes{POD}": "101x90", f"tensor_fusion_pod_vram_limit_bytes{POD}": "100x90"},
        {f"tensor_fusion_pod_vram_used_bytes{POD}": "100x90", f"tensor_fusion_pod_vram_limit_bytes{POD}": "100x90"},
        {"namespace": "ml", "pod": "chat-0"},
    ),
    Case(
        "TensorFusionComputeLimitUnreachable",
        {f"tensor_fusion_pod_compute_limit_unreachable{POD}": "1x90"},
        {f"tensor_fusion_pod_compute_limit_unreachable{POD}": "0x90"},
        {"namespace": "ml", "pod": "chat-0"},
    ),
    Case(
        "TensorFusionWorkloadNotReady",
        {
            'tensor_fusion_workload_workers{namespace="ml",workload="chat",state="wanted"}': "3x90",
            'tensor_fusion_workload_workers{namespace="ml",workload="chat",state="ready"}': "2x90",
        },
        {
            'tensor_fusion_workload_workers{namespace="ml",workload="chat",state="wanted"}': "3x90",
            'tensor_fusion_workload_workers{namespace="ml",workload="chat",state="ready"}': "3x90",
        },
        {"namespace": "ml", "workload": "chat"},
    ),
    Case(
        "TensorFusionQuotaNearlyUsed",
        {'tensor_fusion_quota_available_percent{namespace="ml",resource="vram"}': "4x90"},
        {'tensor_fusion_quota_available_percent{namespace="ml",resource="vram"}': "5x90"},
        {"namespace": "ml", "resource": "vram"},
    ),
)  # fmt: skip


def fires(alert: Alert, series: Mapping[str, str]) -> list[Mapping[str, str]]:
    """The labels with which it fires after 70 minutes: series that the expression gave at every minute of `for`."""
    minutes = range(70 - alert.for_minutes, 71)
    answers = ask([(alert.expr, minute) for minute in minutes], series)
    assert not any(answer.error for answer in answers), answers[0].error
    held = [{tuple(sorted(sample["labels"].items())) for sample in answer.samples} for answer in answers]
    return [dict(labels) for labels in set.intersection(*held)]


def test_every_alert_has_a_case() -> None:
    assert sorted(case.alert for case in CASES) == sorted(BY_NAME)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_it_fires_when_it_should(case: Case) -> None:
    (labels,) = fires(BY_NAME[case.alert], case.bad)
    assert {name: labels.get(name) for name in case.labels} == case.labels


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_it_does_not_fire_on_the_right_side_of_the_threshold(case: Case) -> None:
    assert fires(BY_NAME[case.alert], case.good) == []


def test_a_break_starts_the_time_anew() -> None:
    series = {"tensor_fusion_scheduler_waiting_pods": " ".join(["1"] * 64 + ["0"] + ["1"] * 10)}
    assert fires(BY_NAME["TensorFusionPodsWaiting"], series) == []


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_it_asks_for_metrics_that_exist_and_names_labels_that_it_has(alert: Alert) -> None:
    known = {name: set(metric.labels) | {"le"} for metric in METRICS for name in metric.series}
    (answer,) = ask([(alert.expr, 0)])
    assert answer.metrics
    for name, labels in answer.metrics.items():
        assert name in known, alert.expr
        assert set(labels) <= known[name], alert.expr
    every = set().union(*(known[name] for name in answer.metrics))
    kept = set(answer.groups) if answer.groups else every
    named = set(re.findall(r"\$labels\.(\w+)", alert.summary + alert.what_to_do))
    assert named <= kept & every


def test_the_groups_are_what_prometheus_reads() -> None:
    (group,) = rule_groups()
    assert [rule["alert"] for rule in group["rules"]] == [alert.name for alert in ALERTS]
    for rule in group["rules"]:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+m", rule["for"])
    assert prometheus_rule("a", "b", {"release": "x"})["spec"] == {"groups": [group]}


def test_the_guide_has_every_alert_with_its_time() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "observability.md").read_text()
    rows = re.findall(r"^\| `(TensorFusion\w+)` \|.*\| (\d+) min \|$", page, re.MULTILINE)
    assert rows == [(alert.name, str(alert.for_minutes)) for alert in ALERTS]
