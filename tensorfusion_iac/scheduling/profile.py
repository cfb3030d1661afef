"""kube-scheduler's configuration file: the profile `tensor-fusion-scheduler`, the extender, the lease (ARCHITECTURE).

Values are in the words of KubeSchedulerConfiguration; `local` writes it for the only scheduler of its control plane, the
ControlPlane component for one beside the cluster's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from tensorfusion_iac.api.names import RESOURCE, SCHEDULER_NAME

EXTENDER_PORT = 9480
TELEMETRY_PORT = 9481
"""Of metrics and health alone, for those who cannot reach the pod's loopback interface."""
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


def configuration(
    lease: str,
    profiles: Sequence[dict[str, Any]],
    *,
    kubeconfig: str = "",
    port: int | None = EXTENDER_PORT,
    host: str = "127.0.0.1",
) -> str:
    """The file as YAML. `lease` is NAMESPACE/NAME; without a kubeconfig, access is the pod's service account.

    `port` is the extender's, None: there is none.

    A refused pod is tried again soon, once room was freed.
    """
    namespace, _, name = lease.partition("/")
    config: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": 500, "burst": 1000},
        "leaderElection": {
            "leaderElect": True, "resourceNamespace": namespace, "resourceName": name,
            "leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s",
        },
        "enableProfiling": False,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 5,
        "profiles": list(profiles),
        "extenders": [] if port is None else [extender(port, host)],
    }  # fmt: skip
    return yaml.safe_dump(config, sort_keys=False)
