"""The kube-scheduler's configuration file: profiles, extenders, and the lease that it keeps (ARCHITECTURE.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tensorfusion_iac.api.names import RESOURCE, SCHEDULER_NAME

DEFAULT_PROFILE: Mapping[str, Any] = {"schedulerName": "default-scheduler"}
VGPU_PROFILE: Mapping[str, Any] = {
    "schedulerName": SCHEDULER_NAME,
    # No node has the resource; without this, vGPU pods would wait for one that does.
    "pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": [RESOURCE]}}],
}


def render(
    kubeconfig: Path,
    profiles: Sequence[Mapping[str, Any]] = (DEFAULT_PROFILE, VGPU_PROFILE),
    extenders: Sequence[Mapping[str, Any]] = (),
) -> str:
    """A KubeSchedulerConfiguration as YAML; `profiles` and `extenders` are parts of it, in its own words."""
    config: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000},
        "leaderElection": {"leaderElect": True, "leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"},
        "enableProfiling": False,
        "profiles": [dict(profile) for profile in profiles],
    }
    if extenders:
        config["extenders"] = [dict(extender) for extender in extenders]
    return yaml.safe_dump(config, sort_keys=False)
