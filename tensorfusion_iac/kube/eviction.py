"""Eviction of a pod, as far as disruption budgets allow: for scheduler and controller."""

from __future__ import annotations

from tensorfusion_iac.kube.client import Client, Object
from tensorfusion_iac.kube.resource import PODS


async def evict(client: Client, namespace: str, name: str, uid: str) -> None:
    """Evict this very pod, and none that has its name by then. ApiError if it is gone, another, or protected by a budget."""
    body: Object = {
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }  # fmt: skip
    await client.create(PODS, body, namespace, name=name, subresource="eviction")
