"""What the controller counts, for Prometheus. One registry per controller, so that tests may run several."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The controller's metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.writes = Counter(
            "tensor_fusion_controller_writes",
            "Writes to the API server, by kind of object.",
            ["resource"],
            registry=self.registry,
        )

    def watch(self, name: str, description: str, read: Callable[[], float]) -> None:
        """A gauge that is read when it is asked for."""
        Gauge(name, description, registry=self.registry).set_function(read)

    def text(self) -> bytes:
        """All of them, in Prometheus' text format."""
        return generate_latest(self.registry)
