"""The alerts: what should wake or tell somebody, when, and what to do then (Part 6). Pure.

Every expression asks for metrics of `api/metrics.py` alone. Thresholds are those of a cluster in use; each alert has
its test, in which Prometheus' own engine evaluates it (tests/unit/test_alerts.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tensorfusion_iac.api import metrics as m
from tensorfusion_iac.api.metrics import Metric

Severity = Literal["critical", "warning"]

TROUBLESHOOTING = "docs/troubleshooting.md"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. It fires when `expr` gives a series for `for_minutes` without a break; `what_to_do` is for whoever is woken."""

    name: str
    expr: str
    for_minutes: int
    severity: Severity
    summary: str
    what_to_do: str


def _highest(metric: Metric, by: str, state: str = "") -> str:
    """Over replicas, all of which tell the same."""
    selector = f'{{state="{state}"}}' if state else ""
    return f"max by ({by}) ({metric.name}{selector})"


def _slowest(metric: Metric, by: str = "") -> str:
    """The 99th percentile, in seconds."""
    return f"histogram_quantile(0.99, sum by (le{by}) (rate({metric.name}_bucket[5m])))"


ALERTS = (
    Alert(
        "TensorFusionWebhookAbsent", f"absent({m.ADMISSION_DECISIONS.name})", 5, "critical",
        "No webhook is scraped: pods that ask for GPUs are refused while it is down.",
        "Look at the pods of the Deployment tensor-fusion-webhook; `tensorfusion doctor` says what it sees.",
    ),
    Alert(
        "TensorFusionSchedulerWithoutLeader", f"absent({m.SCHEDULER_LEADER.name} == 1)", 3, "critical",
        "No scheduler holds the lease: no GPU pod is placed.",
        "Look at the pods of the Deployment tensor-fusion-scheduler, and at the Lease of its kube-scheduler.",
    ),
    Alert(
        "TensorFusionControllerWithoutLeader", f"absent({m.CONTROLLER_LEADER.name} == 1)", 5, "critical",
        "No controller holds the lease: statuses get old, and nothing is scaled.",
        "Look at the pods of the Deployment tensor-fusion-controller.",
    ),
    Alert(
        "TensorFusionCertificateEnding", f"min({m.ADMISSION_CERTIFICATE_EXPIRY.name}) - time() < 14 * 86400", 60, "critical",
        "The webhook's certificate ends in less than two weeks, and was not renewed.",
        "Look at the webhook's log: it renews its certificate long before this. cert-manager's is cert-manager's matter.",
    ),
    Alert(
        "TensorFusionAdmissionSlow", f"{_slowest(m.ADMISSION_DURATION)} > 1", 10, "warning",
        "One of a hundred admissions takes more than a second.",
        "Give the webhook more CPU or replicas; look at the API server's own latency.",
    ),
    Alert(
        "TensorFusionSchedulerSlow", f"{_slowest(m.SCHEDULER_CALL_DURATION, ', verb')} > 5", 10, "warning",
        "One of a hundred calls of {{ $labels.verb }} takes more than five seconds.",
        "Give the scheduler's pod more CPU. A bind that waits for a MIG partition may take some seconds.",
    ),
    Alert(
        "TensorFusionPodsWaiting", f"max({m.SCHEDULER_WAITING.name}) > 0", 15, "warning",
        "Pods have waited for GPUs for a quarter of an hour.",
        "`tensorfusion status` lists them with the reason of each, `tensorfusion explain pod/NAME` says more.",
    ),
    Alert(
        "TensorFusionPoolFull",
        f'{_highest(m.POOL_VRAM, "pool", "available")} < 0.05 * {_highest(m.POOL_VRAM, "pool", "total")}',
        15, "warning",
        "Pool {{ $labels.pool }} has less than 5 % of its memory left.",
        "Add nodes to the pool, or lower what its workloads ask for: `tensorfusion status` shows who holds what.",
    ),
    Alert(
        "TensorFusionNodesNotReady", f'{_highest(m.POOL_NODES, "pool", "not-ready")} > 0', 15, "warning",
        "{{ $value }} nodes of pool {{ $labels.pool }} take no pods.",
        "`tensorfusion doctor` says for each node what is wrong: cordoned, not Ready, no agent, or no injection tier.",
    ),
    Alert(
        "TensorFusionGpuUnhealthy", f"{m.GPU_HEALTHY.name} == 0", 2, "critical",
        "Card {{ $labels.index }} of node {{ $labels.node }} takes no new pods.",
        "`kubectl get gpu` shows why; pods that use the card have an event. Drain the node if the driver asks for a reset.",
    ),
    Alert(
        "TensorFusionMemoryOverLimit", f"{m.POD_VRAM_USED.name} > {m.POD_VRAM_LIMIT.name}", 2, "warning",
        "{{ $labels.namespace }}/{{ $labels.pod }} holds more memory of a card than its limit.",
        "On a driver without memory limits the agent ends the process after a grace; if it does not, look at its log.",
    ),
    Alert(
        "TensorFusionComputeLimitUnreachable", f"{m.POD_UNREACHABLE.name} == 1", 15, "warning",
        "{{ $labels.namespace }}/{{ $labels.pod }} uses more compute than its limit, although all is done to hold it.",
        "The pod's kernels are long, or it is `critical`: use isolation hard or partitioned where a bound must hold.",
    ),
    Alert(
        "TensorFusionWorkloadNotReady",
        f'{_highest(m.WORKLOAD_WORKERS, "namespace, workload", "ready")}'
        f' < {_highest(m.WORKLOAD_WORKERS, "namespace, workload", "wanted")}',
        30, "warning",
        "Workload {{ $labels.namespace }}/{{ $labels.workload }} has {{ $value }} ready workers, fewer than it wants.",
        "`tensorfusion status -n {{ $labels.namespace }}` shows its pods and why they wait.",
    ),
    Alert(
        "TensorFusionQuotaNearlyUsed", f'{_highest(m.QUOTA_AVAILABLE, "namespace, resource")} < 5', 15, "warning",
        "Namespace {{ $labels.namespace }} has less than 5 % of its {{ $labels.resource }} quota left.",
        "Raise the GPUResourceQuota, or scale its workloads down; new pods beyond it wait.",
    ),
)  # fmt: skip


def rule_groups() -> list[dict[str, Any]]:
    """Prometheus' rule groups: one, with all alerts."""
    return [{"name": "tensor-fusion", "rules": [dict(_rule(alert)) for alert in ALERTS]}]


def _rule(alert: Alert) -> Iterator[tuple[str, Any]]:
    yield "alert", alert.name
    yield "expr", alert.expr
    yield "for", f"{alert.for_minutes}m"
    yield "labels", {"severity": alert.severity}
    yield "annotations", {"summary": alert.summary, "description": alert.what_to_do, "runbook": TROUBLESHOOTING}


def prometheus_rule(name: str, namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """The alerts as prometheus-operator takes them. `labels` have to match its `ruleSelector`."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"groups": rule_groups()},
    }
