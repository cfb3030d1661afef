"""Our part of kube-scheduler's configuration: the profile `tensor-fusion-scheduler`, and the extender (ARCHITECTURE).

Values are in the words of KubeSchedulerConfiguration; `local` and the ControlPlane component write them into its file.
"""

from __future__ import annotations

from typing import Any

from tensorfusion_iac.api.names import RESOURCE, SCHEDULER_NAME

EXTENDER_PORT = 9480
DEFAULT_LEASE = "kube-system/kube-scheduler"
"""The lease that kube-scheduler keeps, NAMESPACE/NAME."""
HTTP_TIMEOUT = "30s"
"""Longer than a bind waits for a hardware partition to be made."""
WEIGHT = 5


def profile() -> dict[str, Any]:
    """The profile: every node is looked at, and how full a node is of CPU and memory does not count; its GPUs do."""
    off = [{"name": "NodeResourcesFit"}, {"name": "NodeResourcesBalancedAllocation"}]
    return {
        "schedulerName": SCHEDULER_NAME,
        "percentageOfNodesToScore": 100,
        "plugins": {"score": {"disabled": off}},
    }


def extender(port: int = EXTENDER_PORT, host: str = "127.0.0.1") -> dict[str, Any]:
    """The extender, for pods that ask for our resource and for no others."""
    return {
        "urlPrefix": f"http://{host}:{port}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
        "weight": WEIGHT,
        "enableHTTPS": False,
        "httpTimeout": HTTP_TIMEOUT,
        "nodeCacheCapable": True,
        "ignorable": False,
        "managedResources": [{"name": RESOURCE, "ignoredByScheduler": True}],
    }


def settings() -> dict[str, Any]:
    """Settings of the whole scheduler: a refused pod is tried again soon, once room was freed."""
    return {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 5}
