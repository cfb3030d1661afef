"""What the controller counts, and what it keeps of pools, workloads and quotas, for Prometheus.

Pools, workloads and quotas are told from their statuses, as they are when they are asked for, by every replica alike: a query
takes the maximum over replicas. Names: `api/metrics.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tensorfusion_iac.api import metrics
from tensorfusion_iac.api.metrics import Metric
from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.quantity import parse_quantity
from tensorfusion_iac.kube.telemetry import ProgramMetrics

Manifest = Mapping[str, Any]


class Metrics(ProgramMetrics):
    """The controller's metrics."""

    def __init__(self) -> None:
        super().__init__()
        written = metrics.CONTROLLER_WRITES
        self.writes = Counter(written.name, written.help, written.labels, registry=self.registry)

    def watch_statuses(self, statuses: Statuses) -> None:
        """Gauges of what objects' statuses say."""
        self.registry.register(statuses)


@dataclass(frozen=True)
class Statuses(Collector):
    """The objects that are told of: whatever gives them anew at each scrape."""

    pools: Iterable[Manifest]
    workloads: Iterable[Manifest]
    quotas: Iterable[Manifest]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families, with their values of now."""
        yield from _of_pools(self.pools)
        yield _of_workloads(self.workloads)
        yield _of_quotas(self.quotas)


def _of_pools(pools: Iterable[Manifest]) -> Iterator[GaugeMetricFamily]:
    nodes, gpus, tflops, vram = (
        _gauge(metric) for metric in (metrics.POOL_NODES, metrics.POOL_GPUS, metrics.POOL_TFLOPS, metrics.POOL_VRAM)
    )
    for item in pools:
        name, status = item["metadata"]["name"], item.get("status") or {}
        _add(nodes, (name, "ready"), status.get("readyNodes"))
        _add(nodes, (name, "not-ready"), status.get("notReadyNodes"))
        _add(gpus, (name,), status.get("totalGPUs"))
        for state in ("total", "available"):
            _add(tflops, (name, state), status.get(f"{state}TFlops"))
            _add(vram, (name, state), status.get(f"{state}VRAM"))
    yield from (nodes, gpus, tflops, vram)


def _of_workloads(workloads: Iterable[Manifest]) -> GaugeMetricFamily:
    workers = _gauge(metrics.WORKLOAD_WORKERS)
    for item in workloads:
        metadata, status = item["metadata"], item.get("status") or {}
        for state, field in (("wanted", "workerCount"), ("ready", "readyWorkers")):
            _add(workers, (metadata.get("namespace", ""), metadata["name"], state), status.get(field))
    return workers


def _of_quotas(quotas: Iterable[Manifest]) -> GaugeMetricFamily:
    left = _gauge(metrics.QUOTA_AVAILABLE)
    for item in quotas:
        namespace, available = item["metadata"].get("namespace", ""), (item.get("status") or {}).get("availablePercent")
        for resource, percent in (available or {}).items():
            _add(left, (namespace, resource), percent)
    return left


def _gauge(metric: Metric) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)


def _add(family: GaugeMetricFamily, labels: tuple[str, ...], amount: Any) -> None:
    """A sample, if the status has the amount: a number or a quantity."""
    if amount is None:
        return
    try:
        family.add_metric(labels, float(parse_quantity(str(amount))))
    except Fault:
        return  # somebody else wrote it: no sample is better than a wrong one
