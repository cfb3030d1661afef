"""`GPUResourceQuota`: what a namespace may ask for, in all and per pod, and the defaults of its pods (SPEC §4).

Unlike everywhere else, 0 in `total` and in `single.max*` means none; an omitted member means no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from tensorfusion_iac.api.levels import Feature, Isolation, QoS
from tensorfusion_iac.api.names import API_VERSION
from tensorfusion_iac.api.resources.amounts import Amounts, limits_cover_requests
from tensorfusion_iac.api.resources.base import Column, Conditions, Kind, Model, ObjectMeta, Quantity, Status
from tensorfusion_iac.api.resources.text import distinct
from tensorfusion_iac.api.values import MAX_INT32

Count = Annotated[int, Field(ge=0, le=MAX_INT32)]


class QuotaAmounts(Model):
    """A ceiling. An omitted member means no limit, 0 means none."""

    tflops: Quantity | None = Field(default=None, description="FP16 TFLOPS.")
    vram: Quantity | None = Field(default=None, description="Bytes of GPU memory.")
    compute: Quantity | None = Field(default=None, description="Percent of a card.")


class QuotaTotal(Model):
    """Ceilings of the whole namespace; amounts count once per GPU."""

    requests: QuotaAmounts | None = Field(default=None, description="Sum of requests x GPUs.")
    limits: QuotaAmounts | None = Field(default=None, description="Sum of limits x GPUs.")
    max_workers: Count | None = Field(default=None, description="vGPU workers.")
    alert_threshold_percent: Annotated[int, Field(ge=0, le=100)] | None = Field(
        default=None, description="Warn above; default 95."
    )


class QuotaSingle(Model):
    """Ceilings and defaults of one worker, per GPU."""

    max_requests: QuotaAmounts | None = Field(default=None, description="Highest request.")
    max_limits: QuotaAmounts | None = Field(default=None, description="Highest limit.")
    max_gpu_count: Count | None = Field(default=None, alias="maxGPUCount", description="Most GPUs per worker.")
    default_requests: Amounts | None = Field(default=None, description="Request where neither pod nor profile gives one.")
    default_limits: Amounts | None = Field(default=None, description="Limit where neither pod nor profile gives one.")
    max_qos: QoS | None = Field(default=None, alias="maxQoS", description="Highest QoS.")
    isolation_modes: Annotated[tuple[Isolation, ...], Field(max_length=4), *distinct()] | None = Field(
        default=None, description="Isolation modes allowed; default all."
    )
    disable_features: Annotated[tuple[Feature, ...], Field(max_length=8), *distinct()] | None = Field(
        default=None, description="Features that pods may turn off; default all."
    )

    RULES: ClassVar = limits_cover_requests("defaultLimits", "defaultRequests")


class QuotaSpec(Model):
    """What the namespace may ask for."""

    total: QuotaTotal | None = Field(default=None, description="Of all pods together.")
    single: QuotaSingle | None = Field(default=None, description="Of one pod.")


class QuotaUsed(Status):
    """Present use."""

    requests: QuotaAmounts | None = Field(default=None, description="Sum of requests x GPUs.")
    limits: QuotaAmounts | None = Field(default=None, description="Sum of limits x GPUs.")
    workers: int | None = Field(default=None, description="vGPU workers.")


class QuotaStatus(Status):
    """State of the quota, by the controller."""

    used: QuotaUsed | None = Field(default=None, description="Present use.")
    available_percent: QuotaAmounts | None = Field(default=None, description="What is left of total.requests, in percent.")
    conditions: Conditions | None = Field(default=None, description="Conditions of the quota.")
    last_update_time: Annotated[str, Field(max_length=64)] | None = Field(default=None, description="When used was counted.")


class GPUResourceQuota(Model):
    """The quota of one namespace. The oldest holds; a second is warned of."""

    model_config = ConfigDict(extra="forbid")
    api_version: str = API_VERSION
    kind: str = "GPUResourceQuota"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: QuotaSpec = Field(default_factory=QuotaSpec)
    status: QuotaStatus | None = None

    KIND: ClassVar = Kind(
        "GPUResourceQuota", "gpuresourcequotas", "gpuresourcequota", ("tfquota", "gpuquota"), "Namespaced",
        (
            Column("Used TFLOPS", ".status.used.requests.tflops"),
            Column("TFLOPS", ".spec.total.requests.tflops"),
            Column("Used VRAM", ".status.used.requests.vram"),
            Column("VRAM", ".spec.total.requests.vram"),
            Column("Workers", ".status.used.workers", "integer"),
            Column("Max Workers", ".spec.total.maxWorkers", "integer"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        "What a namespace may ask for.",
    )  # fmt: skip

    def layer(self) -> Mapping[str, Any]:
        """The namespace's default amounts, by the short key of the annotation that means the same."""
        return self._layer

    @cached_property
    def _layer(self) -> Mapping[str, Any]:
        single = self.spec.single or QuotaSingle()
        requests, limits = single.default_requests or Amounts(), single.default_limits or Amounts()
        given = {
            "tflops-request": requests.tflops,
            "tflops-limit": limits.tflops,
            "vram-request": requests.vram,
            "vram-limit": limits.vram,
            "compute-percent-request": requests.compute,
            "compute-percent-limit": limits.compute,
        }
        return {key: value for key, value in given.items() if value}
