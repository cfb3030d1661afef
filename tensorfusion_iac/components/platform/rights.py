"""Service accounts and the least rights of each program (SPEC §9, R9). Pure.

Manifests as values, so that a test can hold every right against a written list. The rights of a program are those that its
code uses: no wildcard, names where the API allows to name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorfusion_iac.admission.configuration import CONFIGURATION, TLS_SECRET
from tensorfusion_iac.api.names import (
    AGENT_ACCOUNT,
    AGENT_LEASE_NAMESPACE,
    AGENT_NAMESPACE,
    CONTROLLER_ACCOUNT,
    GROUP,
    SCHEDULER_ACCOUNT,
    SYSTEM_NAMESPACE,
    WEBHOOK_ACCOUNT,
)
from tensorfusion_iac.components.platform.foundation import LABELS, Manifest
from tensorfusion_iac.scheduling.profile import DEFAULT_LEASE

_READ = ["get", "list", "watch"]
_LEASES = "coordination.k8s.io"
_RBAC = "rbac.authorization.k8s.io"


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


def webhook_rights(certificates: str = "own") -> Iterator[Manifest]:
    """What the webhook may do: read what it resolves with; in our namespace, its claims and leases; and its own certificates,
    where it makes them itself.
    """
    configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    cluster = [
        _rule("", ["namespaces", "pods"], _READ),
        _rule("apps", ["replicasets"], _READ),
        _rule("batch", ["jobs"], _READ),
        _rule("scheduling.k8s.io", ["priorityclasses"], _READ),
        _rule(GROUP, ["gpupools", "workloadprofiles", "gpuresourcequotas"], _READ),
    ]
    own = [
        _rule("", ["configmaps"], ["get", "list", "create", "patch", "delete"]),
        _rule(_LEASES, ["leases"], ["get", "list", "create", "patch", "delete"]),
    ]
    if certificates == "own":
        cluster.append(_rule("admissionregistration.k8s.io", configurations, [*_READ, "patch"], [CONFIGURATION]))
        own += [_rule("", ["secrets"], [*_READ, "patch"], [TLS_SECRET]), _rule("", ["secrets"], ["create"])]
    yield from _granted(WEBHOOK_ACCOUNT, None, cluster)
    yield from _granted(WEBHOOK_ACCOUNT, SYSTEM_NAMESPACE, own)


def scheduler_rights(lease: str = DEFAULT_LEASE) -> Iterator[Manifest]:
    """What the extender may do: read what it places on; bind, wake, resize and evict pods; write its part of GPUs.

    `lease` is kube-scheduler's, NAMESPACE/NAME: the extender lives by it.
    """
    namespace, _, name = lease.partition("/")
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
    yield from _granted(SCHEDULER_ACCOUNT, namespace, [_rule(_LEASES, ["leases"], _READ, [name])])
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


def kube_scheduler_rights(lease: str) -> Iterator[Manifest]:
    """What a kube-scheduler beside the extender, under its account, needs: the cluster's own roles for one, and its lease.

    The cluster's roles (`system:kube-scheduler`, ...) are right for its version of Kubernetes whichever that is.
    """
    namespace, _, name = lease.partition("/")
    for role in ("system:kube-scheduler", "system:volume-scheduler"):
        yield _binding(f"{SCHEDULER_ACCOUNT}-{role.removeprefix('system:')}", None, "ClusterRole", role, SCHEDULER_ACCOUNT)
    reader = "extension-apiserver-authentication-reader"
    yield _binding(f"{SCHEDULER_ACCOUNT}-authentication", "kube-system", "Role", reader, SCHEDULER_ACCOUNT)
    rules = [_rule(_LEASES, ["leases"], ["create"]), _rule(_LEASES, ["leases"], ["get", "update"], [name])]
    yield from _granted(SCHEDULER_ACCOUNT, namespace, rules, role="tensor-fusion-kube-scheduler")


def agent_rights() -> Iterator[Manifest]:
    """What each node's agent may do. RBAC cannot tell nodes apart: admission/agent_policy.py holds each to its own objects."""
    cluster = [
        _rule("", ["pods", "nodes"], _READ),
        _rule("", ["events"], ["create"]),
        _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
        _rule(GROUP, ["gpus"], [*_READ, "create", "patch"]),
        _rule(GROUP, ["gpunodes"], ["create", "patch"]),
        _rule(GROUP, ["gpus/status", "gpunodes/status"], ["patch"]),
    ]
    yield from _granted(AGENT_ACCOUNT, None, cluster, home=AGENT_NAMESPACE)
    heartbeat = [_rule(_LEASES, ["leases"], ["create", "patch"])]
    yield from _granted(AGENT_ACCOUNT, AGENT_LEASE_NAMESPACE, heartbeat, home=AGENT_NAMESPACE)


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] | None = None) -> Manifest:
    rule = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return rule | ({"resourceNames": list(names)} if names else {})


def _granted(
    account: str, namespace: str | None, rules: list[Manifest], *, role: str = "", home: str = SYSTEM_NAMESPACE
) -> Iterator[Manifest]:
    """A role with these rules, and its binding to an account of ours, which lives in `home`; no namespace: in the whole
    cluster. `role` is its name, the account's if empty.
    """
    kind, name = "Role" if namespace else "ClusterRole", role or account
    metadata = {"name": name, "labels": LABELS} | ({"namespace": namespace} if namespace else {})
    yield {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}
    yield _binding(name, namespace, kind, name, account, home)


def _binding(name: str, namespace: str | None, role_kind: str, role: str, account: str, home: str = SYSTEM_NAMESPACE) -> Manifest:
    metadata = {"name": name, "labels": LABELS} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": role_kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": home}],
    }
