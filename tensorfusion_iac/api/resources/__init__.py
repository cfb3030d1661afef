"""The custom resources of group `tensor-fusion.ai/v1` as typed, frozen models (SPEC §4)."""

from tensorfusion_iac.api.resources.base import Column, Kind, Model, ObjectMeta, OwnerReference, Rule
from tensorfusion_iac.api.resources.connection import TensorFusionConnection
from tensorfusion_iac.api.resources.gpu import GPU, GPUNode
from tensorfusion_iac.api.resources.gpupool import GPUPool, GPUPoolSpec
from tensorfusion_iac.api.resources.quota import GPUResourceQuota
from tensorfusion_iac.api.resources.workload import TensorFusionWorkload, WorkloadProfile, WorkloadSpec

KINDS = (WorkloadProfile, TensorFusionWorkload, GPUPool, GPU, GPUNode, TensorFusionConnection, GPUResourceQuota)

__all__ = [
    "GPU", "KINDS", "Column", "GPUNode", "GPUPool", "GPUPoolSpec", "GPUResourceQuota", "Kind", "Model", "ObjectMeta",
    "OwnerReference", "Rule", "TensorFusionConnection", "TensorFusionWorkload", "WorkloadProfile", "WorkloadSpec",
]  # fmt: skip
