"""The configuration of the embedded control plane's only scheduler: the default profile and ours (scheduling/profile.py)."""

from __future__ import annotations

from pathlib import Path

from tensorfusion_iac.local.ports import HOST
from tensorfusion_iac.scheduling import profile


def render_default(kubeconfig: Path) -> str:
    """The same with the default profile alone, where another kube-scheduler has ours."""
    default = [{"schedulerName": "default-scheduler"}]
    return profile.configuration(profile.DEFAULT_LEASE, default, kubeconfig=str(kubeconfig), port=None)


def render(kubeconfig: Path, extender_port: int) -> str:
    """A KubeSchedulerConfiguration as YAML: the default profile, and ours with the extender on this port."""
    profiles = [{"schedulerName": "default-scheduler"}, profile.profile()]
    return profile.configuration(profile.DEFAULT_LEASE, profiles, kubeconfig=str(kubeconfig), port=extender_port, host=HOST)
