"""A manifest as a typed Pulumi resource: the few kinds that the platform is made of, without a YAML resource in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

_KINDS: Mapping[str, Callable[..., pulumi.CustomResource]] = {
    "ConfigMap": k8s.core.v1.ConfigMap,
    "Namespace": k8s.core.v1.Namespace,
    "Service": k8s.core.v1.Service,
    "ServiceAccount": k8s.core.v1.ServiceAccount,
    "DaemonSet": k8s.apps.v1.DaemonSet,
    "Deployment": k8s.apps.v1.Deployment,
    "NetworkPolicy": k8s.networking.v1.NetworkPolicy,
    "PodDisruptionBudget": k8s.policy.v1.PodDisruptionBudget,
    "PriorityClass": k8s.scheduling.v1.PriorityClass,
    "RuntimeClass": k8s.node.v1.RuntimeClass,
    "Role": k8s.rbac.v1.Role,
    "RoleBinding": k8s.rbac.v1.RoleBinding,
    "ClusterRole": k8s.rbac.v1.ClusterRole,
    "ClusterRoleBinding": k8s.rbac.v1.ClusterRoleBinding,
    "MutatingWebhookConfiguration": k8s.admissionregistration.v1.MutatingWebhookConfiguration,
    "ValidatingWebhookConfiguration": k8s.admissionregistration.v1.ValidatingWebhookConfiguration,
    "ValidatingAdmissionPolicy": k8s.admissionregistration.v1.ValidatingAdmissionPolicy,
    "ValidatingAdmissionPolicyBinding": k8s.admissionregistration.v1.ValidatingAdmissionPolicyBinding,
}
_ARGUMENTS = {
    "roleRef": "role_ref",
    "automountServiceAccountToken": "automount_service_account_token",
}


def resource(name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
    """The Pulumi resource of `manifest`: of one of the kinds above, or a custom resource of somebody's CRD. Named objects are
    deleted before they are replaced.
    """
    options = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(delete_before_replace=True))
    typed = _KINDS.get(manifest["kind"])
    if typed is None:
        return k8s.apiextensions.CustomResource(
            name, manifest["apiVersion"], manifest["kind"], manifest["metadata"], manifest["spec"], opts=options
        )
    arguments = {
        _ARGUMENTS.get(member, member): value for member, value in manifest.items() if member not in ("apiVersion", "kind")
    }
    return typed(name, opts=options, **arguments)
