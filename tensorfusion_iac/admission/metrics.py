"""What the webhook counts and measures, for Prometheus.

Names and meanings are those of `api/metrics.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from tensorfusion_iac.api import metrics
from tensorfusion_iac.api.metrics import Metric
from tensorfusion_iac.kube.telemetry import ProgramMetrics

_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0)


class Metrics(ProgramMetrics):
    """The webhook's metrics."""

    def __init__(self) -> None:
        super().__init__()
        decided, timed = metrics.ADMISSION_DECISIONS, metrics.ADMISSION_DURATION
        self.decisions = Counter(decided.name, decided.help, decided.labels, registry=self.registry)
        self.duration = Histogram(timed.name, timed.help, timed.labels, buckets=_BUCKETS_S, registry=self.registry)

    def watch_count(self, metric: Metric, read: Callable[[], float]) -> None:
        """A counter that is kept elsewhere, and read when it is asked for."""
        self.registry.register(_Count(metric, read))


@dataclass(frozen=True)
class _Count(Collector):
    metric: Metric
    read: Callable[[], float]

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(self.metric.name, self.metric.help, self.read())
