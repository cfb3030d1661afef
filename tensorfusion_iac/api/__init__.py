"""The contract: what a vGPU workload is, read and written everywhere from here (SPEC). Pure: no I/O, no pulumi.

resolution = resolve(pod, owner=Owner("Deployment", "chat"), pools={"default": pool})
resolution.worker or resolution.problems
"""

from tensorfusion_iac.api.annotations import Parsed, annotation_naming, parse_annotations, write_annotations
from tensorfusion_iac.api.at_hand import profile_name
from tensorfusion_iac.api.context import UNJUDGED, Namespace, NotJudged, Owner
from tensorfusion_iac.api.fields import FIELDS, Field
from tensorfusion_iac.api.levels import PRIORITY, AutoscaleTarget, Feature, Isolation, Mode, QoS
from tensorfusion_iac.api.names import API_VERSION, ENABLED_LABEL, GROUP, PREFIX, SCHEDULER_NAME, container_key, key
from tensorfusion_iac.api.problem import Fault, Problem, SpecProblems, render
from tensorfusion_iac.api.quantity import format_bytes, format_decimal, parse_quantity, parse_tflops, parse_vram
from tensorfusion_iac.api.resolve import Resolution, resolve
from tensorfusion_iac.api.resources import (
    GPU,
    KINDS,
    GPUNode,
    GPUPool,
    GPUResourceQuota,
    TensorFusionConnection,
    TensorFusionWorkload,
    WorkloadProfile,
    WorkloadSpec,
)
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.vgpu import VGPUSpec
from tensorfusion_iac.api.worker import Compute, Source, Unit, WorkerSpec

__all__ = [
    "API_VERSION", "ENABLED_LABEL", "FIELDS", "GPU", "GROUP", "KINDS", "PREFIX", "PRIORITY", "SCHEDULER_NAME", "UNJUDGED",
    "AutoscaleTarget", "Compute", "Fault", "Feature", "Field", "GPUNode", "GPUPool", "GPUResourceQuota", "Isolation", "Mode",
    "Namespace", "NotJudged", "Owner", "Parsed", "Problem", "QoS", "Resolution", "Source", "SpecProblems",
    "TensorFusionConnection", "TensorFusionWorkload", "Unit", "VGPUSpec", "Vendor", "WorkerSpec", "WorkloadProfile",
    "WorkloadSpec", "annotation_naming", "container_key", "format_bytes", "format_decimal", "key", "parse_annotations",
    "parse_quantity", "parse_tflops", "parse_vram", "profile_name", "render", "resolve", "write_annotations",
]  # fmt: skip
