"""The four dashboards: pools, cards, workloads, and the scheduler with the programs around it (Part 6). Pure.

Their queries name metrics of `api/metrics.py` alone. `Observability` puts them into ConfigMaps, which Grafana's sidecar loads.
"""

from __future__ import annotations

from tensorfusion_iac.api import metrics as m
from tensorfusion_iac.api.metrics import Metric
from tensorfusion_iac.components.grafana import Dashboard, Panel, Query, Variable

_RATE = "[$__rate_interval]"
_POOL, _GPU = '{pool=~"$pool"}', '{node=~"$node", gpu=~"$gpu"}'
_ON_GPU = '{gpu=~"$gpu"}'
_WORKLOAD = '{namespace=~"$namespace", workload=~"$workload"}'
_NAMESPACE = '{namespace=~"$namespace"}'


def _pool(metric: Metric, state: str) -> str:
    """A pool's figure: all replicas of the controller tell the same."""
    return f'max by (pool) ({metric.name}{{pool=~"$pool", state="{state}"}})'


def _held_percent(metric: Metric) -> str:
    return f"100 * (1 - {_pool(metric, 'available')} / {_pool(metric, 'total')})"


def _quantile(share: float, metric: Metric, by: str) -> str:
    return f"histogram_quantile({share}, sum by (le, {by}) (rate({metric.name}_bucket{_RATE})))"


def _rate(metric: Metric, by: str) -> str:
    return f"sum by ({by}) (rate({metric.name}{_RATE}))"


POOLS = Dashboard(
    "tensor-fusion-pools", "TensorFusion / Pools",
    (Variable("pool", m.POOL_GPUS),),
    (
        Panel("Cards", [Query(f"max by (pool) ({m.POOL_GPUS.name}{_POOL})", "{{pool}}")], look="stat", width=6, height=5),
        Panel("Nodes that take pods", [Query(_pool(m.POOL_NODES, "ready"), "{{pool}}")], look="stat", width=6, height=5),
        Panel("Nodes that do not", [Query(_pool(m.POOL_NODES, "not-ready"), "{{pool}}")], look="stat", width=6, height=5),
        Panel("Pods that wait", [Query(f"max({m.SCHEDULER_WAITING.name})", "pods")], look="stat", width=6, height=5),
        Panel("Compute held", [Query(_held_percent(m.POOL_TFLOPS), "{{pool}}")], "percent"),
        Panel("Memory held", [Query(_held_percent(m.POOL_VRAM), "{{pool}}")], "percent"),
        Panel("Compute that new pods could get, FP16 TFLOPS", [Query(_pool(m.POOL_TFLOPS, "available"), "{{pool}}")]),
        Panel("Memory that new pods could get", [Query(_pool(m.POOL_VRAM, "available"), "{{pool}}")], "bytes"),
        Panel("Quota left", [Query(
            f"max by (namespace, resource) ({m.QUOTA_AVAILABLE.name})", "{{namespace}} {{resource}}"
        )], "percent", width=24),
    ),
)  # fmt: skip

GPUS = Dashboard(
    "tensor-fusion-gpus", "TensorFusion / GPUs",
    (Variable("node", m.GPU_HEALTHY), Variable("gpu", m.GPU_HEALTHY, 'node=~"$node"')),
    (
        Panel("Cards", [Query(f"count({m.GPU_HEALTHY.name}{_GPU})", "cards")], look="stat", width=8, height=5),
        Panel("Cards that take no pods", [Query(f"count({m.GPU_HEALTHY.name}{_GPU} == 0) or vector(0)", "cards")], look="stat",
              width=8, height=5),
        Panel("Mean of how busy they are", [Query(f"avg({m.GPU_BUSY.name}{_GPU})", "busy")], "percent", "stat", 8, 5),
        Panel("Busy", [Query(f"{m.GPU_BUSY.name}{_GPU}", "{{node}} {{index}} {{model}}")], "percent"),
        Panel("Memory in use", [Query(
            f"100 * {m.GPU_VRAM_USED.name}{_GPU} / {m.GPU_VRAM_USABLE.name}{_GPU}", "{{node}} {{index}} {{model}}"
        )], "percent"),
        Panel("Compute by pod", [Query(f"sum by (namespace, pod) ({m.POD_COMPUTE.name}{_ON_GPU})", "{{namespace}}/{{pod}}")],
              "percent"),
        Panel("Memory by pod", [Query(f"sum by (namespace, pod) ({m.POD_VRAM_USED.name}{_ON_GPU})", "{{namespace}}/{{pod}}")],
              "bytes"),
        Panel("Health", [Query(f"{m.GPU_HEALTHY.name}{_GPU}")], look="table", width=24),
    ),
)  # fmt: skip

WORKLOADS = Dashboard(
    "tensor-fusion-workloads", "TensorFusion / Workloads",
    (
        Variable("namespace", m.WORKLOAD_WORKERS),
        Variable("workload", m.WORKLOAD_WORKERS, 'namespace=~"$namespace"'),
    ),
    (
        Panel("Workers", [
            Query(f"max by (namespace, workload, state) ({m.WORKLOAD_WORKERS.name}{_WORKLOAD})",
                  "{{namespace}}/{{workload}} {{state}}"),
        ]),
        Panel("Compute used, FP16 TFLOPS", [
            Query(f"sum by (namespace, workload) ({m.POD_TFLOPS.name}{_WORKLOAD})", "{{namespace}}/{{workload}}"),
        ]),
        Panel("Compute used and allowed, of the card", [
            Query(f"sum by (pod, gpu) ({m.POD_COMPUTE.name}{_WORKLOAD})", "{{pod}} used"),
            Query(f"max by (pod, gpu) ({m.POD_COMPUTE_TARGET.name}{_WORKLOAD})", "{{pod}} allowed"),
        ], "percent"),
        Panel("Memory used, of the limit", [
            Query(
                f"100 * sum by (pod, gpu) ({m.POD_VRAM_USED.name}{_WORKLOAD})"
                f" / max by (pod, gpu) ({m.POD_VRAM_LIMIT.name}{_WORKLOAD})", "{{pod}}",
            ),
        ], "percent"),
        Panel("Frozen, part of the time", [Query(f"max by (pod) ({m.POD_FROZEN.name}{_WORKLOAD})", "{{pod}}")], "percentunit"),
        Panel("Compute limit not kept", [
            Query(f"max by (namespace, pod) ({m.POD_UNREACHABLE.name}{_WORKLOAD})", "{{namespace}}/{{pod}}"),
        ]),
        Panel("Age of the newest sample", [Query(f"max by (pod) ({m.POD_SAMPLE_AGE.name}{_WORKLOAD})", "{{pod}}")], "s"),
        Panel("Quota left", [
            Query(f"max by (namespace, resource) ({m.QUOTA_AVAILABLE.name}{_NAMESPACE})", "{{namespace}} {{resource}}"),
        ], "percent"),
        Panel("How limits are held", [Query(f"{m.POD_ENFORCEMENT.name}{_WORKLOAD}")], look="table", width=24),
    ),
)  # fmt: skip

SCHEDULER = Dashboard(
    "tensor-fusion-scheduler", "TensorFusion / Scheduler and programs", (),
    (
        Panel("Pods that wait", [Query(f"max({m.SCHEDULER_WAITING.name})", "pods")], look="stat", width=6, height=5),
        Panel("Pods with GPUs", [Query(f"max({m.SCHEDULER_PODS.name})", "pods")], look="stat", width=6, height=5),
        Panel("Schedulers that lead", [Query(f"sum({m.SCHEDULER_LEADER.name})", "leader")], look="stat", width=6, height=5),
        Panel("Controllers that lead", [Query(f"sum({m.CONTROLLER_LEADER.name})", "leader")], look="stat", width=6, height=5),
        Panel("Calls a second", [Query(_rate(m.SCHEDULER_CALLS, "verb, result"), "{{verb}} {{result}}")], "reqps"),
        Panel("Time of a call", [
            Query(_quantile(0.5, m.SCHEDULER_CALL_DURATION, "verb"), "{{verb}} p50"),
            Query(_quantile(0.99, m.SCHEDULER_CALL_DURATION, "verb"), "{{verb}} p99"),
        ], "s"),
        Panel("Why nodes are refused", [Query(_rate(m.SCHEDULER_REFUSED_NODES, "reason"), "{{reason}}")], "cps"),
        Panel("Woken, evicted, resized", [Query(_rate(m.SCHEDULER_EVENTS, "event"), "{{event}}")], "cps"),
        Panel("Admissions a second", [Query(_rate(m.ADMISSION_DECISIONS, "result"), "{{result}}")], "reqps"),
        Panel("Time of an admission", [
            Query(_quantile(0.5, m.ADMISSION_DURATION, "path"), "{{path}} p50"),
            Query(_quantile(0.99, m.ADMISSION_DURATION, "path"), "{{path}} p99"),
        ], "s"),
        Panel("The webhook's certificate ends in", [Query(f"min({m.ADMISSION_CERTIFICATE_EXPIRY.name}) - time()", "certificate")],
              "s", "stat", 8, 5),
        Panel("Grey-release claims made twice", [Query(f"sum(rate({m.ADMISSION_GREY_CONFLICTS.name}{_RATE}))", "claims")], "cps",
              width=8, height=5),
        Panel("Objects that the controller is to look at", [
            Query(f"max({m.CONTROLLER_WAITING.name})", "waiting"), Query(f"max({m.CONTROLLER_PODS.name})", "pods known"),
        ], width=8, height=5),
        Panel("Writes of the controller", [Query(_rate(m.CONTROLLER_WRITES, "resource"), "{{resource}}")], "cps", width=24),
    ),
)  # fmt: skip

DASHBOARDS = (POOLS, GPUS, WORKLOADS, SCHEDULER)
