"""What a cluster needs beside programs: namespaces, service accounts with least rights, priority classes (SPEC §2, §9). Pure.

Manifests as values, so that a test can hold every right against a written list. The rights of a program are those that its
code uses: no wildcard, names where the API allows to name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tensorfusion_iac.admission.configuration import CONFIGURATION, TLS_SECRET
from tensorfusion_iac.api.levels import PRIORITY
from tensorfusion_iac.api.names import (
    AGENT_ACCOUNT,
    AGENT_LEASE_NAMESPACE,
    AGENT_NAMESPACE,
    CONTROLLER_ACCOUNT,
    GROUP,
    PRIORITY_CLASS_PREFIX,
    SCHEDULER_ACCOUNT,
    SYSTEM_NAMESPACE,
    WEBHOOK_ACCOUNT,
)

Manifest = dict[str, Any]

LABELS = {"app.kubernetes.io/part-of": "tensor-fusion"}

_READ = ["get", "list", "watch"]
_LEASES = "coordination.k8s.io"
_RBAC = "rbac.authorization.k8s.io"


def namespaces() -> Iterator[Manifest]:
    """The two namespaces and their Pod Security levels."""
    for name, level in ((SYSTEM_NAMESPACE, "restricted"), (AGENT_NAMESPACE, "privileged")):
        labels = LABELS | {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "audit", "warn")}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def priority_classes() -> Iterator[Manifest]:
    """A priority class per QoS."""
    for qos, value in PRIORITY.items():
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": PRIORITY_CLASS_PREFIX + qos.value, "labels": LABELS},
            "value": value,
            "description": f"vGPU pods of QoS {qos.value}.",
        }


def service_accounts() -> Iterator[Manifest]:
    """One account per program; the admission policies know them by name."""
    for name, namespace in (
        (WEBHOOK_ACCOUNT, SYSTEM_NAMESPACE),
        (SCHEDULER_ACCOUNT, SYSTEM_NAMESPACE),
        (CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE),
        (AGENT_ACCOUNT, AGENT_NAMESPACE),
    ):
        metadata = {"name": name, "namespace": namespace, "labels": LABELS}
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False}


def webhook_rights() -> Iterator[Manifest]:
    """What the webhook may do: read what it resolves with; in our namespace, its certificates, claims and leases."""
    configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    cluster = [
        _rule("", ["namespaces", "pods"], _READ),
        _rule("apps", ["replicasets"], _READ),
        _rule("batch", ["jobs"], _READ),
        _rule("scheduling.k8s.io", ["priorityclasses"], _READ),
        _rule(GROUP, ["gpupools", "workloadprofiles", "gpuresourcequotas"], _READ),
        _rule("admissionregistration.k8s.io", configurations, [*_READ, "patch"], [CONFIGURATION]),
    ]
    own = [
        _rule("", ["secrets"], [*_READ, "patch"], [TLS_SECRET]),
        _rule("", ["secrets"], ["create"]),
        _rule("", ["configmaps"], ["get", "list", "create", "patch", "delete"]),
        _rule(_LEASES, ["leases"], ["get", "list", "create", "patch", "delete"]),
    ]
    yield from _granted(WEBHOOK_ACCOUNT, None, cluster)
    yield from _granted(WEBHOOK_ACCOUNT, SYSTEM_NAMESPACE, own)


def scheduler_rights() -> Iterator[Manifest]:
    """What the extender may do: read what it places on; bind, wake, resize and evict pods; write its part of GPUs."""
    cluster = [
        _rule("", ["nodes"], _READ),
        _rule("", ["pods"], [*_READ, "patch"]),
        _rule("", ["pods/status"], ["patch"]),
        _rule("", ["pods/binding", "pods/eviction"], ["create"]),
        _rule("", ["events"], ["create"]),
        _rule("policy", ["poddisruptionbudgets"], _READ),
        _rule(GROUP, ["gpupools", "gpunodes", "gpuresourcequotas"], _READ),
        _rule(GROUP, ["gpus"], [*_READ, "patch"]),
        _rule(GROUP, ["gpus/status"], ["patch"]),
    ]
    yield from _granted(SCHEDULER_ACCOUNT, None, cluster)
    yield from _granted(SCHEDULER_ACCOUNT, "kube-system", [_rule(_LEASES, ["leases"], _READ, ["kube-scheduler"])])
    yield from _granted(SCHEDULER_ACCOUNT, AGENT_LEASE_NAMESPACE, [_rule(_LEASES, ["leases"], _READ)])


def controller_rights() -> Iterator[Manifest]:
    """What the controller may do: read what it tells of; keep workloads and statuses; write its annotations and conditions of
    pods; remove the objects of cards and nodes that are gone; in our namespace, its lease, histograms in ConfigMaps,
    and a token of its own for the agents.
    """
    cluster = [
        _rule("", ["nodes"], _READ),
        _rule("", ["pods"], [*_READ, "patch"]),
        _rule("", ["pods/status"], ["patch"]),
        _rule("", ["pods/eviction", "events"], ["create"]),
        _rule("apps", ["replicasets"], _READ),
        _rule("batch", ["jobs"], _READ),
        _rule(GROUP, ["gpupools", "gpuresourcequotas", "workloadprofiles"], _READ),
        _rule(GROUP, ["gpus", "gpunodes"], [*_READ, "delete"]),
        _rule(GROUP, ["tensorfusionworkloads"], [*_READ, "create", "patch", "delete"]),
        _rule(GROUP, ["gpupools/status", "gpuresourcequotas/status", "tensorfusionworkloads/status"], ["patch"]),
    ]
    own = [
        _rule("", ["configmaps"], ["get", "list", "create", "patch", "delete"]),
        _rule("", ["serviceaccounts/token"], ["create"], [CONTROLLER_ACCOUNT]),
        _rule(_LEASES, ["leases"], ["create"]),
        _rule(_LEASES, ["leases"], ["get", "patch"], [CONTROLLER_ACCOUNT]),
    ]
    yield from _granted(CONTROLLER_ACCOUNT, None, cluster)
    yield from _granted(CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE, own)
    yield from _granted(CONTROLLER_ACCOUNT, AGENT_LEASE_NAMESPACE, [_rule(_LEASES, ["leases"], _READ)])


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] | None = None) -> Manifest:
    rule = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return rule | ({"resourceNames": list(names)} if names else {})


def _granted(account: str, namespace: str | None, rules: list[Manifest]) -> Iterator[Manifest]:
    """A role with these rules, and its binding to an account of our namespace; no namespace: in the whole cluster."""
    prefix = "" if namespace else "Cluster"
    metadata = {"name": account, "labels": LABELS} | ({"namespace": namespace} if namespace else {})
    yield {"apiVersion": f"{_RBAC}/v1", "kind": f"{prefix}Role", "metadata": metadata, "rules": rules}
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{prefix}RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": f"{prefix}Role", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE}],
    }
