"""What the scheduler counts and measures, for Prometheus. One registry per server, so that tests may run several.

kube-scheduler's own filter metric leaves extenders out, so the time of each verb is measured here.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 20.0)


class Metrics:
    """The scheduler's metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.duration = Histogram(
            "tensor_fusion_scheduler_seconds", "Time of an extender call.", ["verb"], buckets=_BUCKETS_S, registry=self.registry
        )
        self.answers = Counter(
            "tensor_fusion_scheduler_answers", "Extender calls by verb and result.", ["verb", "result"], registry=self.registry
        )
        self.refusals = Counter(
            "tensor_fusion_scheduler_refused_nodes", "Nodes refused to pods that fit nowhere, by reason.", ["reason"],
            registry=self.registry,
        )  # fmt: skip
        self.events = Counter(
            "tensor_fusion_scheduler_events", "What else was done: pods woken, victims evicted, resizes, ...", ["event"],
            registry=self.registry,
        )  # fmt: skip

    def watch(self, name: str, description: str, read: Callable[[], float]) -> None:
        """A gauge that is read when it is asked for."""
        Gauge(name, description, registry=self.registry).set_function(read)

    def text(self) -> bytes:
        """All of them, in Prometheus' text format."""
        return generate_latest(self.registry)
