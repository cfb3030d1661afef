"""NetworkPolicies: nothing is reached and reaches nothing, but for what each program needs (R9). Pure.

A kubelet's probes always pass. The API server cannot be selected by a policy, so what comes from it and goes to it is told
by port alone; where its addresses are known, it alone may call the webhook, and read the agents' metrics (`tensorfusion top`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorfusion_iac.api.names import (
    AGENT_ACCOUNT,
    AGENT_NAMESPACE,
    CONTROLLER_ACCOUNT,
    SCHEDULER_ACCOUNT,
    SYSTEM_NAMESPACE,
    WEBHOOK_ACCOUNT,
)
from tensorfusion_iac.components.platform import pods
from tensorfusion_iac.components.platform.agents import HISTORY_PORT, METRICS_PORT
from tensorfusion_iac.components.platform.foundation import LABELS, Manifest
from tensorfusion_iac.components.platform.programs import CONTROLLER_PORT
from tensorfusion_iac.components.platform.settings import Settings
from tensorfusion_iac.scheduling.profile import TELEMETRY_PORT

_PODS_OF_ALL: list[Manifest] = [{"namespaceSelector": {}}]
_NAMESPACE = "kubernetes.io/metadata.name"


def network_policies(settings: Settings) -> Iterator[Manifest]:
    """One that denies all in each namespace, and one for each program."""
    server = {"ports": _ports(settings.api_server_ports)}
    monitored = settings.monitoring is not None
    yield _denied(SYSTEM_NAMESPACE)
    from_server: Manifest = {"from": [{"ipBlock": {"cidr": cidr}} for cidr in settings.api_server_cidrs]}
    called = {"ports": _ports([settings.webhook_port])} | (from_server if settings.api_server_cidrs else {})
    yield _policy(WEBHOOK_ACCOUNT, SYSTEM_NAMESPACE, [called], [server])
    yield _policy(SCHEDULER_ACCOUNT, SYSTEM_NAMESPACE, _scraped(TELEMETRY_PORT) if monitored else [], [server])
    # A policy knows no names of hosts, so external scalers open the way to all; the controller itself keeps to those listed.
    reached: list[Manifest] = [{}] if settings.external_scaler_hosts else [server, {"ports": _ports([HISTORY_PORT])}]
    yield _policy(CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE, _scraped(CONTROLLER_PORT) if monitored else [], reached)
    if settings.agents is None:
        return
    controller = {"namespaceSelector": {"matchLabels": {_NAMESPACE: SYSTEM_NAMESPACE}}}
    controller |= {"podSelector": pods.selector_of(CONTROLLER_ACCOUNT)}
    asked = [{"from": [controller], "ports": _ports([HISTORY_PORT])}, *(_scraped(METRICS_PORT) if monitored else [])]
    if settings.api_server_cidrs:
        asked.append({**from_server, "ports": _ports([METRICS_PORT])})
    yield _denied(AGENT_NAMESPACE)
    yield _policy(AGENT_ACCOUNT, AGENT_NAMESPACE, asked, [server])


def _scraped(port: int) -> list[Manifest]:
    """Prometheus, which is in a namespace that we do not know."""
    return [{"from": _PODS_OF_ALL, "ports": _ports([port])}]


def _ports(numbers: Sequence[int]) -> list[Manifest]:
    return [{"port": number, "protocol": "TCP"} for number in numbers]


def _denied(namespace: str) -> Manifest:
    return _object("deny", namespace, {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})


def _policy(program: str, namespace: str, ingress: list[Manifest], egress: list[Manifest]) -> Manifest:
    spec: Manifest = {"podSelector": pods.selector_of(program), "policyTypes": ["Ingress", "Egress"], "egress": egress}
    return _object(program, namespace, spec | ({"ingress": ingress} if ingress else {}))


def _object(name: str, namespace: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": namespace, "labels": LABELS}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}
