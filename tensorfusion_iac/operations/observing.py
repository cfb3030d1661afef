"""Reads a cluster for `doctor`, `status` and `top`: one list for each kind, and a trial pod as a dry run.

What may not be read, or is not there, is part of the answer; only a cluster that cannot be reached is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

from tensorfusion_iac.api.names import AGENT_LEASE_NAMESPACE, ENABLED_LABEL, SYSTEM_NAMESPACE
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import (
    CRDS,
    DEPLOYMENTS,
    GPU_NODES,
    GPU_POOLS,
    GPU_RESOURCE_QUOTAS,
    GPUS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    STATEFUL_SETS,
    TENSOR_FUSION_WORKLOADS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from tensorfusion_iac.operations.observed import Observed

_ADMISSION = "admissionregistration.k8s.io"
POLICIES = Resource(_ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy")
BINDINGS = Resource(_ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding")
OWN_DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment of tensor-fusion-system")
"""The Deployments of our own namespace, apart from those of users."""

EVERYTHING = (
    NAMESPACES, NODES, CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, POLICIES, BINDINGS, SECRETS, LEASES, OWN_DEPLOYMENTS,
    GPU_POOLS, GPU_NODES, GPUS,
)  # fmt: skip
"""What `doctor` looks at."""
USE = (GPU_POOLS, GPU_NODES, GPUS, GPU_RESOURCE_QUOTAS, TENSOR_FUSION_WORKLOADS, PODS, DEPLOYMENTS, STATEFUL_SETS)
"""What `status` looks at."""

_NAMESPACE = {SECRETS: SYSTEM_NAMESPACE, OWN_DEPLOYMENTS: SYSTEM_NAMESPACE}
_SELECTOR = {PODS: f"{ENABLED_LABEL}=true"}
_LEASE_NAMESPACES = (AGENT_LEASE_NAMESPACE, SYSTEM_NAMESPACE, "kube-system")


async def observe(client: Client, resources: Iterable[Resource]) -> Observed:
    """Read these kinds. Raises KubeError if the cluster cannot be reached, or knows us not at all."""
    asked = tuple(resources)
    answers = await asyncio.gather(*(_list(client, resource) for resource in asked))
    objects, absent, unreadable = {}, set(), {}
    for resource, answer in zip(asked, answers, strict=True):
        if isinstance(answer, list):
            objects[resource] = answer
        elif answer.not_found:
            absent.add(resource)
        else:
            unreadable[resource] = str(answer)
    return Observed(datetime.now(UTC), objects, frozenset(absent), unreadable)


async def there_is(client: Client, namespace: str) -> bool:
    """Whether there is such a namespace; who may not read namespaces is not told that there is none."""
    try:
        await client.get(NAMESPACES, namespace)
    except ApiError as error:
        return not error.not_found
    return True


async def try_a_pod(client: Client, namespace: str) -> str | None:
    """Ask the API server to make a pod that wants a GPU, as a dry run; why the webhook did not answer, or None if it did.

    A pod that the webhook refuses was judged, and so was one that it took.
    """
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "tensor-fusion-doctor-", "labels": {ENABLED_LABEL: "true"}},
        "spec": {"containers": [{"name": "main", "image": "doctor"}]},
    }
    try:
        await client.create(PODS, pod, namespace, query={"dryRun": "All"})
    except ApiError as error:
        return str(error) if "failed calling webhook" in str(error) else None
    return None


async def _list(client: Client, resource: Resource) -> list[dict[str, object]] | ApiError:
    namespaces = _LEASE_NAMESPACES if resource is LEASES else (_NAMESPACE.get(resource),)
    found: list[dict[str, object]] = []
    try:
        for namespace in namespaces:
            found += (await client.list(resource, namespace, label_selector=_SELECTOR.get(resource, ""))).items
    except ApiError as error:
        if error.status == 401:
            raise
        return error
    return found
