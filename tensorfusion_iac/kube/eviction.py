"""The request by which a pod is evicted, as far as disruption budgets allow: of scheduler and controller."""

from __future__ import annotations

from tensorfusion_iac.kube.client import Object
from tensorfusion_iac.kube.resource import Resource


def eviction_of(namespace: str, name: str, uid: str) -> tuple[Resource, Object]:
    """What is created where, so that this very pod goes and none that has its name by then."""
    body: Object = {
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }  # fmt: skip
    return Resource("", "v1", f"pods/{name}/eviction", "Eviction"), body
