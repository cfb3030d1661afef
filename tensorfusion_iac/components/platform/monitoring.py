"""What prometheus-operator is told: a headless Service and a ServiceMonitor for each program that has metrics (Part 6). Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tensorfusion_iac.api.names import (
    AGENT_ACCOUNT,
    AGENT_NAMESPACE,
    CONTROLLER_ACCOUNT,
    SCHEDULER_ACCOUNT,
    SYSTEM_NAMESPACE,
    WEBHOOK_ACCOUNT,
)
from tensorfusion_iac.components.platform import pods
from tensorfusion_iac.components.platform.agents import METRICS_PORT
from tensorfusion_iac.components.platform.foundation import LABELS, Manifest
from tensorfusion_iac.components.platform.programs import CONTROLLER_PORT
from tensorfusion_iac.components.platform.settings import Settings
from tensorfusion_iac.scheduling.profile import TELEMETRY_PORT

API_VERSION = "monitoring.coreos.com/v1"
_METRICS = "tensor-fusion.ai/metrics"
"""Label of the Services that are scraped; the webhook's other Service must not be found too."""


def service_monitors(settings: Settings) -> Iterator[Manifest]:
    """All of them; their CRDs are prometheus-operator's."""
    yield from _scraped(CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE, CONTROLLER_PORT)
    yield from _scraped(SCHEDULER_ACCOUNT, SYSTEM_NAMESPACE, TELEMETRY_PORT)
    yield from _scraped(WEBHOOK_ACCOUNT, SYSTEM_NAMESPACE, settings.webhook_port, scheme="https")
    if settings.agents is not None:
        yield from _scraped(AGENT_ACCOUNT, AGENT_NAMESPACE, METRICS_PORT)


def _scraped(program: str, namespace: str, port: int, scheme: str = "http") -> Iterator[Manifest]:
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
    endpoint: Manifest = {"port": "metrics", "scheme": scheme, "interval": "30s"}
    if scheme == "https":
        endpoint["tlsConfig"] = {"insecureSkipVerify": True}  # its authority is known to the API server alone
    yield {
        "apiVersion": API_VERSION,
        "kind": "ServiceMonitor",
        "metadata": {"name": program, "namespace": namespace, "labels": LABELS},
        "spec": {"selector": {"matchLabels": {_METRICS: program}}, "endpoints": [endpoint]},
    }
