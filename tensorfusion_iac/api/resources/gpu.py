"""`GPU` (one per card) and `GPUNode` (one per node): what the agents report and the scheduler mirrors (SPEC §4, §9)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.names import API_VERSION
from tensorfusion_iac.api.resources.base import (
    Column,
    Condition,
    FreeObject,
    Kind,
    Model,
    Name,
    ObjectMeta,
    Quantity,
    ShortText,
    Status,
    VendorName,
    ignored,
)

PHASES = ["Pending", "Provisioning", "Running", "Unknown", "Destroying", "Migrating"]
Uid = Annotated[str, Field(max_length=64)]


class CardAmounts(Status):
    """Compute and memory of one card."""

    tflops: Quantity | None = Field(default=None, description="FP16 TFLOPS.")
    vram: Quantity | None = Field(default=None, description="Bytes that can be used; driver-reserved memory is not in it.")


class PartitionPlacement(Model):
    """A MIG placement that the scheduler wants on the card."""

    template: Annotated[str, Field(max_length=32)] = Field(description="MIG profile name.")
    start: Annotated[int, Field(ge=0, le=15)] = Field(description="First memory slice.")
    size: Annotated[int, Field(ge=1, le=16)] = Field(description="Memory slices.")
    pod_uid: Uid | None = Field(default=None, alias="podUID", description="Pod that it is for.")


class GPUSpec(Model):
    """What the scheduler wants of the card."""

    partitions: Annotated[tuple[PartitionPlacement, ...], Field(max_length=16)] | None = Field(
        default=None, description="Wanted MIG placements."
    )


class Partition(Status):
    """A MIG instance that exists."""

    template: str = ""
    start: int = 0
    size: int = 1
    uuid: str = ""
    pod_uid: Uid | None = Field(default=None, alias="podUID")


class Capabilities(Status):
    """What the node's driver and kernel can enforce on the card."""

    driver_version: ShortText | None = None
    vram_limit: ShortText | None = Field(default=None, description="How a VRAM limit is held: driver, watch, mps or none.")
    compute_limit: ShortText | None = Field(default=None, description="How a compute limit is held: freezer, mps or none.")
    mps: bool | None = None
    mig: bool | None = None


class PodOnCard(Status):
    """One container of a pod on the card, as the agent sees it."""

    uid: Uid = ""
    container: str = ""
    enforced_by: ShortText | None = None
    applied: CardAmounts | None = Field(default=None, description="Limits in force now.")
    compute_limit: ShortText | None = Field(default=None, description="Held, or Unreachable.")


class Allocation(Status):
    """One pod's reservation, by the scheduler: a mirror, the truth is on the pods."""

    uid: Uid = ""
    namespace: Name = ""
    name: Name = ""
    tflops: Quantity | None = None
    vram: Quantity | None = None


class NvLink(Status):
    """A link to another card."""

    peer_uuid: ShortText = ""
    links: int = 0


class GPUStatus(Status):
    """Facts by the agent; `available`, `isolationMode` and `allocations` by the scheduler."""

    phase: Annotated[str, Field(json_schema_extra={"enum": PHASES})] | None = None
    health: Annotated[str, Field(json_schema_extra={"enum": ["Healthy", "Suspect", "Unhealthy", "Recovering"]})] | None = None
    used_by: Annotated[str, Field(json_schema_extra={"enum": ["tensor-fusion", "nvidia-device-plugin", "foreign"]})] | None = None
    uuid: ShortText | None = Field(default=None, description="The driver's UUID, verbatim.")
    vendor: VendorName | None = None
    model: ShortText | None = Field(default=None, description="Model, as the catalogue names it.")
    gpu_model: ShortText | None = ignored()
    index: int | None = Field(default=None, description="Device index on the node.")
    numa_node: int | None = None
    node_name: Name | None = None
    pool: Name | None = Field(default=None, description="Pool of the node.")
    capacity: CardAmounts | None = None
    available: CardAmounts | None = Field(default=None, description="What is not reserved.")
    isolation_mode: Isolation | None = Field(default=None, description="Kind of isolation that the card serves now.")
    partitions: Annotated[tuple[Partition, ...], Field(max_length=16)] | None = None
    capabilities: Capabilities | None = None
    nv_link: Annotated[tuple[NvLink, ...], Field(max_length=64)] | FreeObject | None = None
    pods: Annotated[tuple[PodOnCard, ...], Field(max_length=1024)] | None = None
    allocations: Annotated[tuple[Allocation, ...], Field(max_length=1024)] | None = None
    conditions: tuple[Condition, ...] | None = None
    message: ShortText | None = None
    node_selector: FreeObject | None = ignored()
    isolation_policy: ShortText | None = ignored()
    active_isolation_mode: ShortText | None = ignored()
    dynamic_isolation_conflict: bool | None = ignored()
    running_apps: FreeObject | tuple[FreeObject, ...] | None = ignored()
    allocated_partitions: FreeObject | None = ignored()
    topology: FreeObject | None = ignored()


class GPU(Model):
    """One card."""

    model_config = ConfigDict(extra="forbid")
    api_version: str = API_VERSION
    kind: str = "GPU"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: GPUSpec | None = None
    status: GPUStatus | None = None

    KIND: ClassVar = Kind(
        "GPU", "gpus", "gpu", ("tfgpu",), "Cluster",
        (
            Column("Phase", ".status.phase"),
            Column("Health", ".status.health"),
            Column("Model", ".status.model"),
            Column("Node", ".status.nodeName"),
            Column("Index", ".status.index", "integer"),
            Column("TFLOPS", ".status.capacity.tflops"),
            Column("VRAM", ".status.capacity.vram"),
            Column("Free TFLOPS", ".status.available.tflops"),
            Column("Free VRAM", ".status.available.vram"),
            Column("Isolation", ".status.isolationMode", wide_only=1),
            Column("Used By", ".status.usedBy", wide_only=1),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        "One GPU card of a node.",
    )  # fmt: skip


class GPUNodeSpec(Model):
    """How the node is managed."""

    manage_mode: Annotated[str, Field(json_schema_extra={"enum": ["Manual", "AutoSelect", "Provisioned"]})] | None = Field(
        default=None, description="Who chose the node; default AutoSelect."
    )
    pool_name: Annotated[str, Field(max_length=63)] | None = Field(default=None, description="Pool of the node.")
    cost_per_hour: ShortText | None = ignored()
    gpu_card_indices: tuple[int, ...] | None = ignored()
    cloud_vendor_param: ShortText | None = ignored()


class GPUNodeStatus(Status):
    """State of a node, by its agent."""

    phase: Annotated[str, Field(json_schema_extra={"enum": [*PHASES, "Succeeded", "Failed"]})] | None = None
    conditions: tuple[Condition, ...] | None = None
    capacity: CardAmounts | None = Field(default=None, description="Sum of the cards.")
    agent_version: ShortText | None = None
    injection_tier: Annotated[str, Field(json_schema_extra={"enum": ["env", "device-plugin", "dra", "none"]})] | None = Field(
        default=None, description="How devices reach containers on the node."
    )
    total_gpus: int | None = Field(default=None, alias="totalGPUs")
    managed_gpus: int | None = Field(default=None, alias="managedGPUs")
    message: ShortText | None = None
    managed_gpu_device_ids: tuple[str, ...] | None = Field(
        default=None, alias="managedGPUDeviceIDs", description="UUIDs of the cards."
    )
    total_tflops: Quantity | None = Field(default=None, alias="totalTFlops")
    total_vram: Quantity | None = Field(default=None, alias="totalVRAM")
    virtual_tflops: Quantity | None = ignored()
    virtual_vram: Quantity | None = ignored()
    available_tflops: Quantity | None = ignored()
    available_vram: Quantity | None = ignored()
    hypervisor_status: FreeObject | None = ignored()
    node_info: FreeObject | None = ignored()
    loaded_models: tuple[str, ...] | None = ignored()
    observed_generation: int | None = None
    total_gpu_pods: int | None = ignored()
    allocated_pods: FreeObject | None = ignored()


class GPUNode(Model):
    """One node with GPUs. Its name is the node's."""

    model_config = ConfigDict(extra="forbid")
    api_version: str = API_VERSION
    kind: str = "GPUNode"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: GPUNodeSpec | None = None
    status: GPUNodeStatus | None = None

    KIND: ClassVar = Kind(
        "GPUNode", "gpunodes", "gpunode", ("tfnode",), "Cluster",
        (
            Column("Phase", ".status.phase"),
            Column("GPUs", ".status.totalGPUs", "integer"),
            Column("TFLOPS", ".status.capacity.tflops"),
            Column("VRAM", ".status.capacity.vram"),
            Column("Injection", ".status.injectionTier"),
            Column("Agent", ".status.agentVersion", wide_only=1),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        "One node with GPUs, as its agent reports it.",
    )  # fmt: skip
