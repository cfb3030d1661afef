"""The webhook configurations: for which requests the API server asks us, and what it does without an answer (SPEC §1, §5).

Pods that are not enabled, other Deployments, kube-system and our own namespaces never reach us, so that nothing of theirs
waits for us or fails with us. `caBundle` is not in here: the webhook writes it (`certificates.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.admission.templates import TEMPLATE_KINDS
from tensorfusion_iac.api.names import AGENT_NAMESPACE, ENABLED_LABEL, GROUP, SYSTEM_NAMESPACE, VERSION

CONFIGURATION = "tensor-fusion-webhook"
"""The name of both webhook configurations, and of the Service."""
TLS_SECRET = "tensor-fusion-webhook-tls"  # noqa: S105 - a name
"""The Secret of its certificates."""
TIMEOUT_S = 3
EXCLUDED_NAMESPACES = ("kube-system", "kube-node-lease", SYSTEM_NAMESPACE, AGENT_NAMESPACE)
_REGISTRATION = "admissionregistration.k8s.io/v1"
_JUDGED_RESOURCES = ("workloadprofiles", "tensorfusionworkloads", "gpupools", "gpuresourcequotas")
_APPS = tuple(kind for kind in TEMPLATE_KINDS if kind not in ("Job", "CronJob"))


@dataclass(frozen=True, slots=True)
class Service:
    """The webhook runs in the cluster, behind a Service."""

    name: str = CONFIGURATION
    namespace: str = SYSTEM_NAMESPACE
    port: int = 443

    def client_config(self, path: str) -> dict[str, Any]:
        """Where the API server asks."""
        return {"service": {"name": self.name, "namespace": self.namespace, "port": self.port, "path": path}}


@dataclass(frozen=True, slots=True)
class Address:
    """The webhook runs beside the API server, at an https URL."""

    url: str

    def client_config(self, path: str) -> dict[str, Any]:
        """Where the API server asks."""
        return {"url": self.url.rstrip("/") + path}


def webhook_configurations(reach: Service | Address) -> tuple[dict[str, Any], dict[str, Any]]:
    """The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration."""
    mutating = _hook("pods", reach, "/mutate-pods", [_rule("", "v1", ["pods"], ["CREATE"])]) | {
        "failurePolicy": "Fail",
        "sideEffects": "NoneOnDryRun",
        "reinvocationPolicy": "IfNeeded",
        "objectSelector": {"matchLabels": {ENABLED_LABEL: "true"}},
    }
    judging = {"failurePolicy": "Ignore", "sideEffects": "None"}
    workloads = [
        _rule("apps", "v1", [f"{kind.lower()}s" for kind in _APPS], ["CREATE", "UPDATE"]),
        _rule("batch", "v1", ["jobs"], ["CREATE", "UPDATE"]),
    ]
    cron_jobs = [_rule("batch", "v1", ["cronjobs"], ["CREATE", "UPDATE"])]
    own = [_rule(GROUP, VERSION, _JUDGED_RESOURCES, ["CREATE", "UPDATE"])]
    validating = [
        _hook("templates", reach, "/validate", workloads) | judging | _template_conditions("spec.template"),
        _hook("cron-templates", reach, "/validate", cron_jobs) | judging | _template_conditions("spec.jobTemplate.spec.template"),
        _hook("resources", reach, "/validate", own) | judging,
    ]
    return (
        _object("MutatingWebhookConfiguration", [mutating]),
        _object("ValidatingWebhookConfiguration", validating),
    )


def excluded() -> dict[str, Any]:
    """A namespaceSelector for all namespaces but those that are never ours to judge."""
    requirement = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(EXCLUDED_NAMESPACES)}
    return {"matchExpressions": [requirement]}


def _object(kind: str, webhooks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": _REGISTRATION,
        "kind": kind,
        "metadata": {"name": CONFIGURATION, "labels": {"app.kubernetes.io/part-of": "tensor-fusion"}},
        "webhooks": [dict(webhook) for webhook in webhooks],
    }


def _hook(name: str, reach: Service | Address, path: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": f"{name}.admission.{GROUP}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": reach.client_config(path),
        "matchPolicy": "Equivalent",
        "timeoutSeconds": TIMEOUT_S,
        "namespaceSelector": excluded(),
        "rules": rules,
    }


def _rule(group: str, version: str, resources: Sequence[str], operations: list[str]) -> dict[str, Any]:
    return {
        "apiGroups": [group], "apiVersions": [version], "resources": list(resources), "operations": operations, "scope": "*",
    }  # fmt: skip


def _template_conditions(path: str) -> dict[str, Any]:
    """Only templates that are enabled, and on an update only changed ones, so that other workloads never call us."""
    labels = f"object.{path}.metadata.labels"
    exists = " && ".join(f"has(object.{part})" for part in _prefixes(f"{path}.metadata.labels"))
    enabled = f"{exists} && '{ENABLED_LABEL}' in {labels} && {labels}['{ENABLED_LABEL}'] == 'true'"
    changed = f"oldObject == null || object.{path} != oldObject.{path}"
    return {
        "matchConditions": [
            {"name": "enabled", "expression": enabled},
            {"name": "changed", "expression": changed},
        ]
    }


def _prefixes(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]
