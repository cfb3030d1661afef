"""What the scheduler counts and measures, for Prometheus.

kube-scheduler's own filter metric leaves extenders out, so the time of each verb is measured here. Names and meanings are those
of `api/metrics.py`.
"""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from tensorfusion_iac.api import metrics
from tensorfusion_iac.api.metrics import Metric
from tensorfusion_iac.kube.telemetry import ProgramMetrics

_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 20.0)


class Metrics(ProgramMetrics):
    """The scheduler's metrics."""

    def __init__(self) -> None:
        super().__init__()
        timed = metrics.SCHEDULER_CALL_DURATION
        self.duration = Histogram(timed.name, timed.help, timed.labels, buckets=_BUCKETS_S, registry=self.registry)
        self.answers = self._counter(metrics.SCHEDULER_CALLS)
        self.refusals = self._counter(metrics.SCHEDULER_REFUSED_NODES)
        self.events = self._counter(metrics.SCHEDULER_EVENTS)

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.help, metric.labels, registry=self.registry)
