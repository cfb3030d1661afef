"""How the platform is to run in a cluster: the values that every manifest is made from, and their defaults (Part 6). Pure.

Nothing here is found out from a cluster, so that a preview of one that does not exist yet is complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tensorfusion_iac._version import __version__

Json = Mapping[str, Any]

DEPLOYMENTS = ("controller", "scheduler", "webhook")
CONTAINERS = ("agent", "controller", "kube-scheduler", "scheduler", "watchdog", "webhook")
"""The containers that have resources of their own; `scheduler` is the extender, beside kube-scheduler."""
IMAGE = f"tensorfusion-iac:{__version__}"
"""What the Dockerfile makes, as it is called before it is pushed anywhere."""
KUBE_SCHEDULER = "registry.k8s.io/kube-scheduler"

RESOURCES: Mapping[str, Json] = {
    "controller": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
    "scheduler": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
    "kube-scheduler": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "2Gi"}},
    "webhook": {"requests": {"cpu": "100m", "memory": "192Mi"}, "limits": {"memory": "1Gi"}},
    "agent": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
    "watchdog": {"requests": {"cpu": "10m", "memory": "24Mi"}, "limits": {"memory": "64Mi"}},
}
"""No limit of CPU: a program of ours that is held back in the wrong moment delays pods, or leaves a process frozen longer."""

GPU_NODES: Mapping[str, str] = {"nvidia.com/gpu.present": "true"}
"""NVIDIA's feature discovery labels nodes so."""
GPU_TAINT: Json = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Agents:
    """The DaemonSet. `toolkit_folder` is where the node's container toolkit has its config.toml; `mps` gives `hard` isolation,
    at the price of a privileged container (agents.py says why).
    """

    node_selector: Mapping[str, str] = field(default_factory=lambda: GPU_NODES)
    tolerations: Sequence[Json] = (GPU_TAINT,)
    runtime_handler: str = "nvidia"
    toolkit_folder: str = "/etc/nvidia-container-runtime"
    mps: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it. Images and names of pull secrets may be Pulumi Outputs: they are only handed through."""

    kubernetes_version: str
    image: Any = IMAGE
    scheduler_image: Any = ""
    image_pull_secrets: Sequence[Any] = ()
    replicas: Mapping[str, int] = field(default_factory=dict)
    resources: Mapping[str, Json] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Json] = ()
    certificates: Literal["own", "cert-manager"] = "own"
    webhook_host_network: bool = False
    webhook_port: int = 9443
    api_server_ports: Sequence[int] = (443, 6443)
    api_server_cidrs: Sequence[str] = ()
    external_scaler_hosts: Sequence[str] = ()
    log_level: str = "INFO"
    monitoring: Literal["prometheus-operator"] | None = None
    monitoring_labels: Mapping[str, str] = field(default_factory=dict)
    agents: Agents | None = field(default_factory=Agents)

    def replicas_of(self, program: str) -> int:
        """How many pods a Deployment has: two, unless said otherwise."""
        return self.replicas.get(program, 2)

    def resources_of(self, container: str) -> Json:
        """Requests and limits of a container."""
        return self.resources.get(container, RESOURCES[container])

    @property
    def kube_scheduler_image(self) -> Any:
        """The one that was given, else Kubernetes' own of this version; `1.34` means its first release, `1.34.0`."""
        patch = "" if self.kubernetes_version.count(".") == 2 else ".0"
        return self.scheduler_image or f"{KUBE_SCHEDULER}:v{self.kubernetes_version}{patch}"
