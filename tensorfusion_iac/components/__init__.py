"""The Pulumi components: what a program declares (API.md). `import tensorfusion_iac as tfi` is their door.

chat = tfi.AnnotatedDeployment("chat", image="registry.example/vllm:1.4", vgpu=tfi.VGPU(vram_request="20Gi"))

Each loads at its first use: a program of Deployments need not wait for the modules of the platform's webhooks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorfusion_iac.components.control_plane import ControlPlane
    from tensorfusion_iac.components.crds import CustomResourceDefinitions
    from tensorfusion_iac.components.cronjob import AnnotatedCronJob
    from tensorfusion_iac.components.deployment import AnnotatedDeployment
    from tensorfusion_iac.components.errors import SpecError
    from tensorfusion_iac.components.gpupool import GPUPool
    from tensorfusion_iac.components.job import AnnotatedJob
    from tensorfusion_iac.components.observability import Observability
    from tensorfusion_iac.components.statefulset import AnnotatedStatefulSet
    from tensorfusion_iac.components.template import annotated_template
    from tensorfusion_iac.components.transformations import annotate
    from tensorfusion_iac.components.vgpu import VGPU
    from tensorfusion_iac.components.workload import TensorFusionWorkload
    from tensorfusion_iac.components.workload_profile import WorkloadProfile

__all__ = [
    "VGPU", "AnnotatedCronJob", "AnnotatedDeployment", "AnnotatedJob", "AnnotatedStatefulSet", "ControlPlane",
    "CustomResourceDefinitions", "GPUPool", "Observability", "SpecError", "TensorFusionWorkload", "WorkloadProfile", "annotate",
    "annotated_template",
]  # fmt: skip

_MODULES = {
    "VGPU": "vgpu",
    "AnnotatedCronJob": "cronjob",
    "AnnotatedDeployment": "deployment",
    "AnnotatedJob": "job",
    "AnnotatedStatefulSet": "statefulset",
    "ControlPlane": "control_plane",
    "CustomResourceDefinitions": "crds",
    "GPUPool": "gpupool",
    "Observability": "observability",
    "SpecError": "errors",
    "TensorFusionWorkload": "workload",
    "WorkloadProfile": "workload_profile",
    "annotate": "transformations",
    "annotated_template": "template",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
