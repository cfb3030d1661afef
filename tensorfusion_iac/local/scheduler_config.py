"""The kube-scheduler's configuration file: profiles, our extender, and the lease that it keeps (ARCHITECTURE.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tensorfusion_iac.local.ports import HOST
from tensorfusion_iac.scheduling import profile


def render(kubeconfig: Path, extender_port: int) -> str:
    """A KubeSchedulerConfiguration as YAML: the default profile, and ours with the extender on this port."""
    config: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000},
        "leaderElection": {"leaderElect": True, "leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"},
        "enableProfiling": False,
        **profile.settings(),
        "profiles": [{"schedulerName": "default-scheduler"}, profile.profile()],
        "extenders": [profile.extender(extender_port, HOST)],
    }
    return yaml.safe_dump(config, sort_keys=False)
