"""What prometheus-operator is told: a headless Service and a ServiceMonitor for each program, and the alerts (Part 6). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tensorfusion_iac.api.names import (
    AGENT_ACCOUNT,
    AGENT_NAMESPACE,
    CONTROLLER_ACCOUNT,
    SCHEDULER_ACCOUNT,
    SYSTEM_NAMESPACE,
    WEBHOOK_ACCOUNT,
)
from tensorfusion_iac.components.alerts import prometheus_rule
from tensorfusion_iac.components.platform import pods
from tensorfusion_iac.components.platform.agents import METRICS_PORT
from tensorfusion_iac.components.platform.foundation import LABELS, Manifest
from tensorfusion_iac.components.platform.programs import CONTROLLER_PORT
from tensorfusion_iac.components.platform.settings import Settings
from tensorfusion_iac.scheduling.profile import TELEMETRY_PORT

API_VERSION = "monitoring.coreos.com/v1"
_METRICS = "tensor-fusion.ai/metrics"
"""Label of the Services that are scraped; the webhook's other Service must not be found too."""


def monitors(settings: Settings) -> Iterator[Manifest]:
    """All of them, with the labels by which a Prometheus selects its own; their CRDs are prometheus-operator's."""
    ports = {CONTROLLER_ACCOUNT: CONTROLLER_PORT, SCHEDULER_ACCOUNT: TELEMETRY_PORT, WEBHOOK_ACCOUNT: settings.webhook_port}
    labels = {**settings.monitoring_labels, **LABELS}
    for program, port in ports.items():
        yield from _scraped(program, SYSTEM_NAMESPACE, port, labels)
    if settings.agents is not None:
        yield from _scraped(AGENT_ACCOUNT, AGENT_NAMESPACE, METRICS_PORT, labels)
    yield prometheus_rule("tensor-fusion", SYSTEM_NAMESPACE, labels)


def _scraped(program: str, namespace: str, port: int, labels: Mapping[str, str]) -> Iterator[Manifest]:
    metadata = {"name": f"{program}-metrics", "namespace": namespace, "labels": LABELS | {_METRICS: program}}
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "selector": {pods.NAME: program},
            "ports": [{"name": "metrics", "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }
    # Of pods that use a card our metrics say themselves which they are: not the agent's.
    endpoint: Manifest = {"port": "metrics", "scheme": "http", "interval": "30s", "honorLabels": True}
    if program == WEBHOOK_ACCOUNT:
        # Its authority is known to the API server alone.
        endpoint |= {"scheme": "https", "tlsConfig": {"insecureSkipVerify": True}}
    yield {
        "apiVersion": API_VERSION,
        "kind": "ServiceMonitor",
        "metadata": {"name": program, "namespace": namespace, "labels": dict(labels)},
        "spec": {"selector": {"matchLabels": {_METRICS: program}}, "endpoints": [endpoint]},
    }
