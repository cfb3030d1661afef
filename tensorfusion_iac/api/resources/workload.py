"""`WorkloadProfile` and `TensorFusionWorkload`: one spec, shared (SPEC §4).

A profile is a template that pods name; a workload is the object that groups the vGPU workers of one top owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from tensorfusion_iac.api import values
from tensorfusion_iac.api.levels import Feature, Isolation, QoS
from tensorfusion_iac.api.names import API_VERSION
from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.resources.amounts import Amounts, Resources
from tensorfusion_iac.api.resources.autoscaling import AutoScalingConfig, AutoSetResources
from tensorfusion_iac.api.resources.base import (
    Column,
    Conditions,
    FreeObject,
    Kind,
    Model,
    ObjectMeta,
    Rule,
    ShortText,
    Status,
    VendorName,
    ignored,
)
from tensorfusion_iac.api.resources.cel import any_given
from tensorfusion_iac.api.resources.text import (
    DurationText,
    ModelText,
    PoolNameText,
    TemplateText,
    distinct,
)

Index = Annotated[int, Field(ge=0, le=values.MAX_INT32)]


class GangScheduling(Model):
    """Pods that start together or not at all."""

    min_members: Annotated[int, Field(ge=0, le=values.MAX_INT32)] | None = Field(
        default=None, description="0: no gang; else at least 2."
    )
    timeout: DurationText | None = Field(default=None, description="How long the group may wait; 0 is forever.")
    mode: Literal["Strict", "BestEffort"] | None = Field(default=None, description="Strict (default): all or none.")

    RULES: ClassVar = (
        Rule(
            "!has(self.minMembers) || self.minMembers != 1",
            lambda gang: gang.min_members != 1,
            "minMembers",
            "a gang of 1 is none",
            "0, or a whole number from 2",
        ),
    )


def _has_amounts(resources: Resources | None) -> bool:
    sides = (resources.requests, resources.limits) if resources else ()
    return any(side and (side.tflops or side.vram or side.compute) for side in sides)


_AMOUNTS = tuple(f"resources.{side}.{what}" for side in ("requests", "limits") for what in ("tflops", "vram", "compute"))


class WorkloadSpec(Model):
    """What a vGPU worker is. Every field is optional; a pod's annotation beats it, per field (SPEC §3)."""

    replicas: Annotated[int, Field(ge=0, le=values.MAX_INT32)] | None = Field(
        default=None,
        description="Workers of a remote workload. Ignored with local GPUs: the Deployment's pods are the workers.",
    )
    pool_name: PoolNameText | None = Field(default=None, description="GPUPool; default: the default pool.")
    resources: Resources | None = Field(default=None, description="Requests and limits per worker per GPU.")
    qos: QoS | None = Field(default=None, description="Quality of service; default the pool's, else medium.")
    is_local_gpu: bool | None = Field(default=None, alias="isLocalGPU", description="GPUs on the pod's own node.")
    standalone_worker_mode: bool | None = Field(default=None, description="GPUs in a sidecar only (with local GPUs).")
    isolation: Isolation | None = Field(default=None, description="How workers on one card are kept apart; default the pool's.")
    partition_template_id: TemplateText | None = Field(default=None, description="MIG profile, for isolation partitioned.")
    gpu_model: ModelText | None = Field(default=None, description="A model or a family of models, any case.")
    dedicated_gpu: bool | None = Field(default=None, alias="dedicatedGPU", description="Takes idle whole cards; needs gpuModel.")
    gpu_count: Annotated[int, Field(ge=0, le=values.MAX_GPUS)] | None = Field(
        default=None, description="GPUs per worker, all on one node, 1..128; 0 means not given."
    )
    gpu_indices: Annotated[tuple[Index, ...], Field(max_length=values.MAX_GPUS), *distinct()] | None = Field(
        default=None, description="Device indices that may be used, each once."
    )
    vendor: VendorName | None = Field(default=None, description="GPU vendor, any case; default the pool's.")
    disable_features: Annotated[tuple[Feature, ...], Field(max_length=8), *distinct()] | None = Field(
        default=None, description="Built-in features to turn off, each once."
    )
    auto_scaling_config: AutoScalingConfig | None = Field(default=None, description="Autoscaling of the amounts.")
    worker_pod_template: FreeObject | None = Field(default=None, description="Pod template of remote workers.")
    gang_scheduling: GangScheduling | None = Field(default=None, description="Gang scheduling.")
    node_affinity: FreeObject | None = Field(default=None, description="Node affinity of the workers.")
    sidecar_worker: bool | None = ignored()

    RULES: ClassVar = (
        Rule(
            "!has(self.dedicatedGPU) || !self.dedicatedGPU || (has(self.gpuModel) && self.gpuModel != '')",
            lambda spec: not spec.dedicated_gpu or bool(spec.gpu_model),
            "dedicatedGPU",
            "dedicatedGPU without gpuModel",
            "gpuModel: which cards to take",
            needs=("gpuModel",),
        ),
        Rule(
            f"!has(self.dedicatedGPU) || !self.dedicatedGPU || !{any_given(_AMOUNTS)}",
            lambda spec: not spec.dedicated_gpu or not _has_amounts(spec.resources),
            "dedicatedGPU",
            "dedicatedGPU stands beside resources",
            "amounts or a dedicated card, not both",
        ),
        Rule(
            "!has(self.gpuIndices) || !has(self.gpuCount) || self.gpuIndices.size() == 0 || "
            "self.gpuIndices.size() >= self.gpuCount",
            lambda spec: not spec.gpu_indices or len(spec.gpu_indices) >= (spec.gpu_count or 0),
            "gpuIndices",
            "fewer gpuIndices than gpuCount",
            "at least gpuCount of them, or none",
        ),
        Rule(
            "!has(self.partitionTemplateId) || self.partitionTemplateId == '' || !has(self.isolation) || "
            "self.isolation == 'partitioned'",
            lambda spec: not spec.partition_template_id or spec.isolation in (None, Isolation.PARTITIONED),
            "partitionTemplateId",
            "partitionTemplateId without isolation partitioned",
            "isolation partitioned, or no template",
        ),
        Rule(
            "!has(self.gangScheduling) || !has(self.gangScheduling.minMembers) || !has(self.replicas) || self.replicas == 0 || "
            "self.gangScheduling.minMembers <= self.replicas",
            lambda spec: not spec.replicas or ((spec.gang_scheduling or GangScheduling()).min_members or 0) <= spec.replicas,
            "gangScheduling.minMembers",
            "gangScheduling.minMembers is above replicas",
            "at most as many as replicas",
        ),
    )

    def layer(self) -> Mapping[str, Any]:
        """What the spec gives, by the short key of the annotation that means the same; zeros are not given (SPEC §4)."""
        return self._layer

    @cached_property
    def _layer(self) -> Mapping[str, Any]:
        return _layer_of(self)


_NO_AMOUNTS, _NO_SCALING, _NO_GANG = Amounts(), AutoSetResources(), GangScheduling()


def _layer_of(spec: WorkloadSpec) -> dict[str, Any]:
    resources, config = spec.resources, spec.auto_scaling_config
    requests = (resources and resources.requests) or _NO_AMOUNTS
    limits = (resources and resources.limits) or _NO_AMOUNTS
    scaling = (config and config.auto_set_resources) or _NO_SCALING
    gang = spec.gang_scheduling or _NO_GANG
    given = {
        "tflops-request": requests.tflops or None,
        "tflops-limit": limits.tflops or None,
        "vram-request": requests.vram or None,
        "vram-limit": limits.vram or None,
        "compute-percent-request": requests.compute or None,
        "compute-percent-limit": limits.compute or None,
        "qos": spec.qos,
        "is-local-gpu": spec.is_local_gpu,
        "gpu-count": spec.gpu_count or None,
        "gpupool": spec.pool_name or None,
        "vendor": spec.vendor,
        "gpu-model": spec.gpu_model or None,
        "dedicated-gpu": spec.dedicated_gpu,
        "isolation": spec.isolation,
        "gpu-indices": spec.gpu_indices or None,
        "autoscale": scaling.enable or None,
        "autoscale-target": scaling.target_resource,
        "standalone-worker-mode": spec.standalone_worker_mode,
        "disable-features": spec.disable_features or None,
        "partition-template": spec.partition_template_id or None,
        "gang-min-members": gang.min_members,
        "gang-timeout": _duration(gang.timeout),
    }
    return {key: value for key, value in given.items() if value is not None}


def _duration(text: str | None) -> timedelta | None:
    try:
        return values.parse_duration(text) if text else None
    except Fault:  # the model has read it once already
        return None


class WorkloadProfile(Model):
    """A named template of vGPU settings, for the pods of its namespace."""

    model_config = ConfigDict(extra="forbid")
    api_version: str = API_VERSION
    kind: str = "WorkloadProfile"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: WorkloadSpec = Field(default_factory=WorkloadSpec)
    status: FreeObject | None = Field(default=None, description="Nothing is reported on a profile.")

    KIND: ClassVar = Kind(
        "WorkloadProfile", "workloadprofiles", "workloadprofile", ("tfprofile", "wp"), "Namespaced",
        (
            Column("Pool", ".spec.poolName"),
            Column("QoS", ".spec.qos"),
            Column("TFLOPS", ".spec.resources.requests.tflops"),
            Column("Percent", ".spec.resources.requests.compute", wide_only=1),
            Column("VRAM", ".spec.resources.requests.vram"),
            Column("GPUs", ".spec.gpuCount", "integer"),
            Column("Model", ".spec.gpuModel", wide_only=1),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        "A named template of vGPU settings that pods of the same namespace refer to.",
    )  # fmt: skip


class Recommendation(Status):
    """What autoscaling would set."""

    resources: Resources | None = Field(default=None, description="The amounts.")
    reason: ShortText | None = Field(default=None, description="Where they come from, or why they are not applied.")
    applied: bool | None = Field(default=None, description="Whether they are in force.")
    requests: FreeObject | None = ignored()
    limits: FreeObject | None = ignored()


class WorkloadStatus(Status):
    """State of a workload, by the controller."""

    phase: Annotated[str, Field(json_schema_extra={"enum": ["Pending", "Running", "Failed", "Unknown"]})] | None = Field(
        default=None, description="Running once a worker is ready."
    )
    conditions: Conditions | None = Field(default=None, description="Conditions of the workload.")
    worker_count: int | None = Field(default=None, description="Workers that exist.")
    ready_workers: int | None = Field(default=None, description="Workers that are ready.")
    pod_template_hash: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, description="Which pod template the workers are made from."
    )
    recommendation: Recommendation | None = Field(default=None, description="What autoscaling would set.")
    active_cron_scaling_rule: Annotated[str, Field(max_length=63)] | None = Field(
        default=None, description="Name of the cron rule that holds now."
    )
    selector: ShortText | None = Field(default=None, description="Label selector of the workers (scale subresource).")
    replicas: int | None = Field(default=None, description="Workers that exist (scale subresource).")
    applied_recommended_replicas: int | None = ignored()
    gang: FreeObject | None = ignored()


class TensorFusionWorkload(Model):
    """The vGPU workers of one top owner."""

    model_config = ConfigDict(extra="forbid")
    api_version: str = API_VERSION
    kind: str = "TensorFusionWorkload"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: WorkloadSpec = Field(default_factory=WorkloadSpec)
    status: WorkloadStatus | None = None

    KIND: ClassVar = Kind(
        "TensorFusionWorkload", "tensorfusionworkloads", "tensorfusionworkload", ("tfworkload", "tfw"), "Namespaced",
        (
            Column("Phase", ".status.phase"),
            Column("Ready", ".status.readyWorkers", "integer"),
            Column("Workers", ".status.workerCount", "integer"),
            Column("Pool", ".spec.poolName"),
            Column("QoS", ".spec.qos"),
            Column("TFLOPS", ".spec.resources.requests.tflops"),
            Column("VRAM", ".spec.resources.requests.vram"),
            Column("GPUs", ".spec.gpuCount", "integer", 1),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        "The vGPU workers of one top owner (a Deployment, a Job, ...).",
        (".spec.replicas", ".status.replicas", ".status.selector"),
    )  # fmt: skip
