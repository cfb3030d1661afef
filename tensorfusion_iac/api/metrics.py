"""Every Prometheus metric of the four programs: its name as it is scraped, type, labels, unit and meaning (ARCHITECTURE.md).

The programs make their metrics from these rows, the dashboards and alerts ask for them, and docs/reference/metrics.md is
written from them: a metric that is not here does not exist. Units are Prometheus' base units, except where the domain's own
is what people compare (percent of a card, FP16 TFLOPS); the name ends with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Program(StrEnum):
    """Who is scraped."""

    WEBHOOK = "webhook"
    SCHEDULER = "scheduler"
    CONTROLLER = "controller"
    AGENT = "agent"


class Type(StrEnum):
    """Prometheus' types. A histogram `x` is scraped as `x_bucket`, `x_sum` and `x_count`."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `name` is what a query says; a counter's ends with `_total`. `unit` is empty for a plain count or a 0/1."""

    program: Program
    name: str
    type: Type
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""

    @property
    def series(self) -> tuple[str, ...]:
        """The names under which samples are scraped."""
        if self.type is Type.HISTOGRAM:
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        return (self.name,)


_WEBHOOK, _SCHEDULER, _CONTROLLER, _AGENT = Program
_COUNTER, _GAUGE, _HISTOGRAM = Type
_CARD = ("gpu", "index", "model", "node")
_POD = ("namespace", "workload", "pod", "container", "gpu")

ADMISSION_DECISIONS = Metric(
    _WEBHOOK, "tensor_fusion_admission_decisions_total", _COUNTER,
    "Decisions of the webhook. result: patched, allowed, refused, malformed.", ("path", "result"),
)  # fmt: skip
ADMISSION_DURATION = Metric(
    _WEBHOOK, "tensor_fusion_admission_duration_seconds", _HISTOGRAM, "Time from a request to its decision.", ("path",), "seconds"
)
ADMISSION_GREY_CONFLICTS = Metric(
    _WEBHOOK, "tensor_fusion_admission_grey_conflicts_total", _COUNTER,
    "Grey-release claims that another replica made first, and that were tried again.",
)  # fmt: skip
ADMISSION_CERTIFICATE_EXPIRY = Metric(
    _WEBHOOK, "tensor_fusion_admission_certificate_expiry_timestamp_seconds", _GAUGE,
    "When the serving certificate ends, in seconds since the epoch. Only where the webhook makes its own.", (), "seconds",
)  # fmt: skip

SCHEDULER_CALL_DURATION = Metric(
    _SCHEDULER, "tensor_fusion_scheduler_call_duration_seconds", _HISTOGRAM,
    "Time of a call by kube-scheduler, whose own metrics leave extenders out.", ("verb",), "seconds",
)  # fmt: skip
SCHEDULER_CALLS = Metric(
    _SCHEDULER, "tensor_fusion_scheduler_calls_total", _COUNTER,
    "Calls by kube-scheduler. verb: filter, prioritize, preempt, bind.", ("verb", "result"),
)  # fmt: skip
SCHEDULER_REFUSED_NODES = Metric(
    _SCHEDULER, "tensor_fusion_scheduler_refused_nodes_total", _COUNTER,
    "Nodes refused to pods that fitted nowhere, by reason.", ("reason",),
)  # fmt: skip
SCHEDULER_EVENTS = Metric(
    _SCHEDULER, "tensor_fusion_scheduler_events_total", _COUNTER,
    "What else was done. event: woken, evicted, resized, gang-member-let-go.", ("event",),
)  # fmt: skip
SCHEDULER_PODS = Metric(_SCHEDULER, "tensor_fusion_scheduler_pods", _GAUGE, "Pods with reserved GPUs.")
SCHEDULER_WAITING = Metric(_SCHEDULER, "tensor_fusion_scheduler_waiting_pods", _GAUGE, "Pods that fit nowhere now.")
SCHEDULER_LEADER = Metric(
    _SCHEDULER, "tensor_fusion_scheduler_leader", _GAUGE, "1 if this replica holds the lease, and decides; else 0."
)

CONTROLLER_WRITES = Metric(
    _CONTROLLER, "tensor_fusion_controller_writes_total", _COUNTER, "Writes to the API server, by kind of object.", ("resource",)
)
CONTROLLER_LEADER = Metric(
    _CONTROLLER, "tensor_fusion_controller_leader", _GAUGE, "1 if this replica holds the lease, and writes; else 0."
)
CONTROLLER_WAITING = Metric(_CONTROLLER, "tensor_fusion_controller_waiting", _GAUGE, "Objects that are due for a look.")
CONTROLLER_PODS = Metric(_CONTROLLER, "tensor_fusion_controller_pods", _GAUGE, "GPU pods in the cache.")
POOL_NODES = Metric(
    _CONTROLLER, "tensor_fusion_pool_nodes", _GAUGE, "Nodes of a pool. state: ready (takes pods), not-ready.", ("pool", "state")
)
POOL_GPUS = Metric(_CONTROLLER, "tensor_fusion_pool_gpus", _GAUGE, "Cards of a pool.", ("pool",))
POOL_TFLOPS = Metric(
    _CONTROLLER, "tensor_fusion_pool_tflops", _GAUGE,
    "Compute of a pool. state: total, available (what new pods could get).", ("pool", "state"), "FP16 TFLOPS",
)  # fmt: skip
POOL_VRAM = Metric(
    _CONTROLLER, "tensor_fusion_pool_vram_bytes", _GAUGE,
    "Memory of a pool's cards. state: total, available (what new pods could get).", ("pool", "state"), "bytes",
)  # fmt: skip
WORKLOAD_WORKERS = Metric(
    _CONTROLLER, "tensor_fusion_workload_workers", _GAUGE,
    "vGPU workers of a workload. state: wanted, ready.", ("namespace", "workload", "state"),
)  # fmt: skip
QUOTA_AVAILABLE = Metric(
    _CONTROLLER, "tensor_fusion_quota_available_percent", _GAUGE,
    "What is left of a namespace's quota of requests. resource: tflops, vram, compute.", ("namespace", "resource"), "percent",
)  # fmt: skip

GPU_BUSY = Metric(_AGENT, "tensor_fusion_gpu_busy_percent", _GAUGE, "How busy a card is, by its driver.", _CARD, "percent")
GPU_VRAM_USED = Metric(_AGENT, "tensor_fusion_gpu_vram_used_bytes", _GAUGE, "Memory in use on a card.", _CARD, "bytes")
GPU_VRAM_USABLE = Metric(_AGENT, "tensor_fusion_gpu_vram_usable_bytes", _GAUGE, "Usable memory of a card.", _CARD, "bytes")
GPU_HEALTHY = Metric(_AGENT, "tensor_fusion_gpu_healthy", _GAUGE, "1 if a card takes new pods; else 0.", _CARD)
POD_COMPUTE = Metric(_AGENT, "tensor_fusion_pod_compute_percent", _GAUGE, "Compute used, of the card.", _POD, "percent")
POD_TFLOPS = Metric(_AGENT, "tensor_fusion_pod_tflops", _GAUGE, "Compute used, of the card's figure.", _POD, "FP16 TFLOPS")
POD_COMPUTE_TARGET = Metric(
    _AGENT, "tensor_fusion_pod_compute_target_percent", _GAUGE, "What a pod may use now, of the card.", _POD, "percent"
)
POD_VRAM_USED = Metric(_AGENT, "tensor_fusion_pod_vram_used_bytes", _GAUGE, "Memory used on the card.", _POD, "bytes")
POD_VRAM_LIMIT = Metric(_AGENT, "tensor_fusion_pod_vram_limit_bytes", _GAUGE, "Memory limit on the card.", _POD, "bytes")
POD_FROZEN = Metric(
    _AGENT, "tensor_fusion_pod_frozen_ratio", _GAUGE, "The part of the time in which a pod was frozen, 0 to 1.", _POD, "ratio"
)
POD_UNREACHABLE = Metric(
    _AGENT, "tensor_fusion_pod_compute_limit_unreachable", _GAUGE,
    "1 if the compute limit cannot be kept although all is done; else 0.", _POD,
)  # fmt: skip
POD_SAMPLE_AGE = Metric(
    _AGENT, "tensor_fusion_pod_sample_age_seconds", _GAUGE, "How old the newest sample of use is; an idle pod has none.",
    _POD, "seconds",
)  # fmt: skip
POD_ENFORCEMENT = Metric(
    _AGENT, "tensor_fusion_pod_enforcement_info", _GAUGE, "1, with how a pod's limits are held.", (*_POD, "enforced_by")
)

METRICS: tuple[Metric, ...] = tuple(value for value in globals().copy().values() if isinstance(value, Metric))


def of(program: Program) -> tuple[Metric, ...]:
    """A program's metrics, in the order of the page."""
    return tuple(metric for metric in METRICS if metric.program is program)
