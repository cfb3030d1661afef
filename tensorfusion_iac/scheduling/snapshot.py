"""The scheduler's state from objects at hand: a list from the API server, or a dump of one, for `explain` and `simulate`.

The same code reads them as when it runs, so that what is said offline is what the scheduler would say of this cluster.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tensorfusion_iac.api.names import SCHEDULER_NAME
from tensorfusion_iac.kube.client import Client, Object
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.informer import Change, ChangeType, key_of
from tensorfusion_iac.kube.resource import (
    GPU_NODES,
    GPU_POOLS,
    GPU_RESOURCE_QUOTAS,
    GPUS,
    LEASES,
    NODES,
    PODS,
    Resource,
)
from tensorfusion_iac.scheduling.liveness import LEASE_NAMESPACE
from tensorfusion_iac.scheduling.state import ClusterState

log = logging.getLogger(__name__)

KINDS: tuple[tuple[Resource, str], ...] = (
    (GPU_POOLS, ""), (NODES, ""), (GPU_NODES, ""), (LEASES, LEASE_NAMESPACE), (GPUS, ""), (GPU_RESOURCE_QUOTAS, ""), (PODS, ""),
)  # fmt: skip
"""What a snapshot holds, and in which namespace (empty: everywhere)."""


def state_of(objects: Iterable[Mapping[str, Any]], *, agents_live: bool = False) -> ClusterState:
    """The state that the objects make; each has its `kind`. Others than those of `KINDS` are passed over.

    `agents_live`: every node's agent counts as alive; a dump's leases are as old as the dump.
    """
    state = ClusterState(time.monotonic)
    handlers: dict[str, Callable[[Change], None]] = {
        "GPUPool": state.pool_changed,
        "Node": state.node_changed,
        "GPUNode": state.gpu_node_changed,
        "Lease": state.lease_changed,
        "GPU": state.gpu_changed,
        "GPUResourceQuota": state.quota_changed,
        "Pod": state.pod_changed,
    }
    by_kind: dict[str, list[Object]] = {}
    for item in objects:
        by_kind.setdefault(str(item.get("kind")), []).append(_whole(item))
    if agents_live:
        state.liveness.assume_alive(item["metadata"]["name"] for item in by_kind.get("GPUNode", ()))
    for kind, handle in handlers.items():
        if kind == "Lease" and agents_live:
            continue
        for item in by_kind.get(kind, ()):
            if kind != "Pod" or (item.get("spec") or {}).get("schedulerName") == SCHEDULER_NAME:
                handle(Change(ChangeType.ADDED, key_of(item), item))
    return state


async def collect(client: Client, kinds: Iterable[tuple[Resource, str]] = KINDS) -> list[Object]:
    """The objects of a cluster that a snapshot holds."""
    found: list[Object] = []
    for resource, namespace in kinds:
        try:
            listing = await client.list(resource, namespace or None)
        except ApiError as error:
            if not error.not_found:  # without our CRDs there is none
                raise
            continue
        found += ({"apiVersion": resource.api_version, "kind": resource.kind} | item for item in listing.items)
    return found


def _whole(item: Mapping[str, Any]) -> Object:
    """The object with the metadata that a dump may have lost."""
    metadata = item.get("metadata") or {}
    name = str(metadata.get("name") or "")
    return {**item, "metadata": {"uid": f"{item.get('kind')}/{metadata.get('namespace')}/{name}", **metadata, "name": name}}
