"""What the webhook counts and measures, for Prometheus. One registry per server, so that tests may run several."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0)


class Metrics:
    """The webhook's metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.decisions = Counter(
            "tensor_fusion_admission_decisions", "Decisions by path and result.", ["path", "result"], registry=self.registry
        )
        self.duration = Histogram(
            "tensor_fusion_admission_seconds", "Time from request to decision.", ["path"],
            buckets=_BUCKETS_S, registry=self.registry,
        )  # fmt: skip

    def watch(self, name: str, description: str, read: Callable[[], float]) -> None:
        """A gauge that is read when it is asked for."""
        Gauge(name, description, registry=self.registry).set_function(read)

    def text(self) -> bytes:
        """All of them, in Prometheus' text format."""
        return generate_latest(self.registry)
