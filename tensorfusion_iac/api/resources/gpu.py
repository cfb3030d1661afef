"""`GPU` (one per card) and `GPUNode` (one per node): what the agents report and the scheduler mirrors (SPEC §4, §9)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.names import API_VERSION
from tensorfusion_iac.api.resources.base import (
    Column,
    Conditions,
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
from tensorfusion_iac.api.values import MAX_INT32

PHASES = ["Pending", "Provisioning", "Running", "Unknown", "Destroying", "Migrating"]
Index = Annotated[int, Field(ge=0, le=MAX_INT32)]
Uid = Annotated[str, Field(max_length=64)]


class CardAmounts(Status):
    """Compute and memory of one card."""

    tflops: Quantity | None = Field(default=None, description="FP16 TFLOPS.")
    vram: Quantity | None = Field(default=None, description="Bytes that can be used; driver-reserved memory is not in it.")
    compute: Quantity | None = ignored()


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

    template: str = Field(default="", description="MIG profile name.")
    start: int = Field(default=0, description="First memory slice.")
    size: int = Field(default=1, description="Memory slices.")
    uuid: str = Field(default="", description="The driver's UUID of the instance.")
    pod_uid: Uid | None = Field(default=None, alias="podUID", description="Pod that uses it.")


class Capabilities(Status):
    """What the node's driver and kernel can enforce on the card."""

    driver_version: ShortText | None = Field(default=None, description="Version of the driver.")
    vram_limit: ShortText | None = Field(default=None, description="How a VRAM limit is held: driver, watch, mps or none.")
    compute_limit: ShortText | None = Field(default=None, description="How a compute limit is held: freezer, mps or none.")
    mps: bool | None = Field(default=None, description="Whether MPS can be used.")
    mig: bool | None = Field(default=None, description="Whether the card can be partitioned.")


class PodOnCard(Status):
    """One container of a pod on the card, as the agent sees it."""

    uid: Uid = Field(default="", description="UID of the pod.")
    container: str = Field(default="", description="Container of the pod.")
    enforced_by: ShortText | None = Field(default=None, description="What holds the limits.")
    applied: CardAmounts | None = Field(default=None, description="Limits in force now.")
    compute_limit: ShortText | None = Field(default=None, description="Held, or Unreachable.")


class Allocation(Status):
    """One pod's reservation, by the scheduler: a mirror, the truth is on the pods."""

    uid: Uid = Field(default="", description="UID of the pod.")
    namespace: Name = Field(default="", description="Namespace of the pod.")
    name: Name = Field(default="", description="Name of the pod.")
    tflops: Quantity | None = Field(default=None, description="FP16 TFLOPS reserved.")
    vram: Quantity | None = Field(default=None, description="Bytes reserved.")


class NvLinkPeer(Status):
    """A card at the other end of a link."""

    peer_uuid: ShortText = Field(default="", alias="peerUUID", description="The driver's UUID of that card.")
    link_count: int = Field(default=0, description="Links to it.")
    link_version: int | None = ignored()
    bandwidth_mbps: int | None = ignored(alias="bandwidthMBps")


class NvLink(Status):
    """Links to other cards of the node."""

    peers: Annotated[tuple[NvLinkPeer, ...], Field(max_length=64)] | None = Field(default=None, description="The other cards.")
    peer_count: int | None = ignored()
    total_link_count: int | None = ignored()
    total_bandwidth_mbps: int | None = ignored(alias="totalBandwidthMBps")


class GPUStatus(Status):
    """Facts by the agent; `available`, `isolationMode` and `allocations` by the scheduler."""

    phase: Annotated[str, Field(json_schema_extra={"enum": PHASES})] | None = Field(
        default=None, description="Running while its agent reports it."
    )
    health: Annotated[str, Field(json_schema_extra={"enum": ["Healthy", "Suspect", "Unhealthy", "Recovering"]})] | None = Field(
        default=None, description="A card that is not Healthy takes nothing new."
    )
    used_by: Annotated[str, Field(json_schema_extra={"enum": ["tensor-fusion", "nvidia-device-plugin", "foreign"]})] | None = (
        Field(default=None, description="Who gives the card to pods; foreign: a process of no pod of ours is on it.")
    )
    uuid: ShortText | None = Field(default=None, description="The driver's UUID, verbatim.")
    vendor: VendorName | None = Field(default=None, description="Who made the card.")
    model: ShortText | None = Field(default=None, description="Model, as the catalogue names it.")
    gpu_model: ShortText | None = ignored()
    index: int | None = Field(default=None, description="Device index on the node.")
    numa_node: int | None = Field(default=None, description="NUMA node of the card.")
    node_name: Name | None = Field(default=None, description="Node of the card.")
    pool: Name | None = Field(default=None, description="Pool of the node.")
    capacity: CardAmounts | None = Field(default=None, description="What the card has.")
    available: CardAmounts | None = Field(default=None, description="What is not reserved.")
    isolation_mode: Isolation | None = Field(default=None, description="Kind of isolation that the card serves now.")
    partitions: Annotated[tuple[Partition, ...], Field(max_length=16)] | None = Field(
        default=None, description="MIG instances that exist."
    )
    capabilities: Capabilities | None = Field(default=None, description="What can be enforced on the card.")
    nv_link: NvLink | None = Field(default=None, description="Links to other cards.")
    pods: Annotated[tuple[PodOnCard, ...], Field(max_length=1024)] | None = Field(
        default=None, description="Containers on the card, as the agent sees them."
    )
    allocations: Annotated[tuple[Allocation, ...], Field(max_length=1024)] | None = Field(
        default=None, description="Reservations on the card: a mirror, the truth is on the pods."
    )
    conditions: Conditions | None = Field(default=None, description="Conditions of the card.")
    message: ShortText | None = Field(default=None, description="What is wrong, for people.")
    node_selector: FreeObject | None = ignored()
    isolation_policy: ShortText | None = ignored()
    active_isolation_mode: ShortText | None = ignored()
    dynamic_isolation_conflict: bool | None = ignored()
    running_apps: tuple[FreeObject, ...] | None = ignored()
    allocated_partitions: FreeObject | None = ignored()
    topology: FreeObject | None = ignored()


class GPU(Model):
    """One card."""

    model_config = ConfigDict(extra="forbid")
    api_version: str = API_VERSION
    kind: str = "GPU"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: GPUSpec | None = Field(default=None, description="What the scheduler wants of the card.")
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

    manage_mode: Literal["Manual", "AutoSelect", "Provisioned"] | None = Field(
        default=None, description="Who chose the node; default AutoSelect."
    )
    pool_name: Annotated[str, Field(max_length=63)] | None = Field(default=None, description="Pool of the node.")
    cost_per_hour: ShortText | None = ignored()
    gpu_card_indices: tuple[Index, ...] | None = ignored()
    cloud_vendor_param: ShortText | None = ignored()


class GPUNodeStatus(Status):
    """State of a node, by its agent."""

    phase: Annotated[str, Field(json_schema_extra={"enum": [*PHASES, "Succeeded", "Failed"]})] | None = Field(
        default=None, description="Running while the agent's Lease is fresh."
    )
    conditions: Conditions | None = Field(default=None, description="Conditions of the node.")
    capacity: CardAmounts | None = Field(default=None, description="Sum of the cards.")
    agent_version: ShortText | None = Field(default=None, description="Version of the agent.")
    injection_tier: Annotated[str, Field(json_schema_extra={"enum": ["env", "device-plugin", "dra", "none"]})] | None = Field(
        default=None, description="How devices reach containers on the node."
    )
    cgroups: ShortText | None = Field(default=None, description="The node's cgroup hierarchy: v1, v2, hybrid or none.")
    total_gpus: int | None = Field(default=None, alias="totalGPUs", description="Cards of the node.")
    managed_gpus: int | None = Field(default=None, alias="managedGPUs", description="Cards that are given to pods by us.")
    message: ShortText | None = Field(default=None, description="What is wrong, for people.")
    managed_gpu_device_ids: tuple[str, ...] | None = Field(
        default=None, alias="managedGPUDeviceIDs", description="UUIDs of the cards."
    )
    total_tflops: Quantity | None = Field(default=None, alias="totalTFlops", description="FP16 TFLOPS of the cards.")
    total_vram: Quantity | None = Field(default=None, alias="totalVRAM", description="Usable bytes of the cards.")
    virtual_tflops: Quantity | None = ignored(alias="virtualTFlops")
    virtual_vram: Quantity | None = ignored(alias="virtualVRAM")
    virtual_available_tflops: Quantity | None = ignored(alias="virtualAvailableTFlops")
    virtual_available_vram: Quantity | None = ignored(alias="virtualAvailableVRAM")
    available_tflops: Quantity | None = ignored(alias="availableTFlops")
    available_vram: Quantity | None = ignored(alias="availableVRAM")
    hypervisor_status: FreeObject | None = ignored()
    node_info: FreeObject | None = ignored()
    loaded_models: tuple[str, ...] | None = ignored()
    observed_generation: int | None = ignored()
    total_gpu_pods: int | None = ignored(alias="totalGPUPods")
    allocated_pods: FreeObject | None = ignored()


class GPUNode(Model):
    """One node with GPUs. Its name is the node's."""

    model_config = ConfigDict(extra="forbid")
    api_version: str = API_VERSION
    kind: str = "GPUNode"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: GPUNodeSpec | None = Field(default=None, description="How the node is managed.")
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
