"""The names of the format: group, labels, annotation keys, scheduler, namespaces, environment (SPEC §1, §2, §9).

Every other module takes them from here, so that a name is spelled once.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

GROUP = "tensor-fusion.ai"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"
PREFIX = f"{GROUP}/"

ENABLED_LABEL = f"{PREFIX}enabled"
COMPONENT_LABEL = f"{PREFIX}component"
POOL_LABEL = f"{PREFIX}gpupool"
WORKLOAD_LABEL = f"{PREFIX}workload"
DEFAULT_POOL_ANNOTATION = f"{PREFIX}is-default-pool"

RESOURCE = f"{PREFIX}vgpu"
RESOURCE_AMOUNT = "0"
"""The name alone brings a pod to the extender: an amount would only be compared with every node's (docs/decisions/0034)."""
SCHEDULER_NAME = "tensor-fusion-scheduler"
SYSTEM_NAMESPACE = "tensor-fusion-system"
AGENT_NAMESPACE = "tensor-fusion-agent"
AGENT_LEASE_NAMESPACE = "kube-node-lease"
"""Where each agent's heartbeat is, beside its node's own."""
AGENT_LEASE_PREFIX = "tensor-fusion-agent-"
"""Of the heartbeats' names; the node's follows."""
WEBHOOK_ACCOUNT = "tensor-fusion-webhook"
SCHEDULER_ACCOUNT = "tensor-fusion-scheduler"
CONTROLLER_ACCOUNT = "tensor-fusion-controller"
AGENT_ACCOUNT = "tensor-fusion-agent"
AGENT_AUDIENCE = "tensor-fusion-agent"
"""Whom tokens are for that read an agent's history."""
AGENT_METRICS_PORT = 9460
PRIORITY_CLASS_PREFIX = "tensor-fusion-"
WORKER_CONTAINER = "tensor-fusion-worker"
CLIENT_CONTAINER = "tensor-fusion-client"
ALLOCATED_CONDITION = f"{PREFIX}GPUsAllocated"
RESIZE_PENDING_CONDITION = f"{PREFIX}ResizePending"
GANG_GATE = f"{PREFIX}gang"
"""The scheduling gate of gang members: added by the webhook, removed by the scheduler (SPEC §9)."""
MPS_DIRECTORY = "/run/tensor-fusion/mps"
"""On the node: one folder per pod of isolation hard, named by its UID, prepared by the agent (ENFORCEMENT)."""

SYSTEM_KEYS = (
    "resolved", "effective", "desired", "grey", "gpu-ids", "container-gpus", "partition-ids", "enforced-by", "wake",
)  # fmt: skip
"""Annotations that only the system writes; policies protect exactly these and the families below (SPEC §2)."""

SYSTEM_KEYS_BY_CONTAINER = ("gpu-ids", "visible-devices", "sm-percent", "vram-fraction", "vram-limit-mib")
"""System annotations of which each injected container has its own: `<key>.<container>`."""

_MAX_NAME = 63


def key(name: str) -> str:
    """The full annotation key of a short name: `qos` -> `tensor-fusion.ai/qos`."""
    return PREFIX + name


def account_user(account: str, namespace: str = SYSTEM_NAMESPACE) -> str:
    """The user name under which the API server knows a service account."""
    return f"system:serviceaccount:{namespace}:{account}"


@lru_cache(maxsize=1024)
def container_key(name: str, container: str) -> str:
    """The full key of one container's system annotation; the part after the prefix is kept to 63 characters (SPEC §9)."""
    return PREFIX + bounded(f"{name}.{container}")


def bounded(name: str) -> str:
    """A name of at most 63 characters: a longer one is its first 40, `-`, and 8 hex digits of its SHA-256."""
    if len(name) <= _MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{name[:40]}-{digest[:8]}"


def is_system_key(annotation: str) -> bool:
    """Whether only the system may write this annotation (a full key)."""
    if not annotation.startswith(PREFIX):
        return False
    name = annotation[len(PREFIX) :]
    return name in SYSTEM_KEYS or any(name.startswith(f"{family}.") for family in SYSTEM_KEYS_BY_CONTAINER)
