"""The Pulumi components: what a program declares (API.md). `import tensorfusion_iac as tfi` is their door.

chat = tfi.AnnotatedDeployment("chat", image="registry.example/vllm:1.4", vgpu=tfi.VGPU(vram_request="20Gi"))
"""

from tensorfusion_iac.components.annotate import annotate
from tensorfusion_iac.components.control_plane import ControlPlane
from tensorfusion_iac.components.crds import CustomResourceDefinitions
from tensorfusion_iac.components.cronjob import AnnotatedCronJob
from tensorfusion_iac.components.deployment import AnnotatedDeployment
from tensorfusion_iac.components.errors import SpecError
from tensorfusion_iac.components.gpupool import GPUPool
from tensorfusion_iac.components.job import AnnotatedJob
from tensorfusion_iac.components.statefulset import AnnotatedStatefulSet
from tensorfusion_iac.components.template import annotated_template
from tensorfusion_iac.components.vgpu import VGPU
from tensorfusion_iac.components.workload import TensorFusionWorkload
from tensorfusion_iac.components.workload_profile import WorkloadProfile

__all__ = [
    "VGPU", "AnnotatedCronJob", "AnnotatedDeployment", "AnnotatedJob", "AnnotatedStatefulSet", "ControlPlane",
    "CustomResourceDefinitions", "GPUPool", "SpecError", "TensorFusionWorkload", "WorkloadProfile", "annotate",
    "annotated_template",
]  # fmt: skip
