"""`GPUPool`: a set of GPU nodes, how they are shared, and who may use them (SPEC §4). Cluster-scoped."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from tensorfusion_iac.api.levels import Isolation, QoS
from tensorfusion_iac.api.names import API_VERSION, DEFAULT_POOL_ANNOTATION
from tensorfusion_iac.api.resources.base import (
    Column,
    Conditions,
    FreeObject,
    Kind,
    Model,
    Name,
    ObjectMeta,
    Quantity,
    Rule,
    ShortText,
    Status,
    VendorName,
    ignored,
)
from tensorfusion_iac.api.resources.selectors import LabelSelector, NodeSelector, Toleration
from tensorfusion_iac.api.resources.text import DurationText
from tensorfusion_iac.api.values import MAX_INT32

MAX_NAME = 63  # of a pool, as of any label value
Image = Annotated[str, Field(max_length=512)]
Percentage = Annotated[int, Field(ge=0, le=100)]


class PoolAmounts(Model):
    """Amounts of a whole pool."""

    tflops: Quantity | None = Field(default=None, description="FP16 TFLOPS.")
    vram: Quantity | None = Field(default=None, description="Bytes of GPU memory.")
    cpu: Quantity | None = Field(default=None, description="CPU cores.")
    memory: Quantity | None = Field(default=None, description="Bytes of host memory.")


class Oversubscription(Model):
    """How much more than the cards have may be promised."""

    tflops_oversell_ratio: Annotated[int, Field(ge=100, le=100_000)] | None = Field(
        default=None,
        description="Percent of the cards' TFLOPS that requests may add up to; default 100. Soft pods below high get the extra.",
    )
    vram_expand_to_host_mem: Percentage | None = Field(default=None, description="Percent of host memory in the virtual figures.")
    vram_expand_to_host_disk: Percentage | None = Field(default=None, description="Percent of host disk in the virtual figures.")


class CapacityConfig(Model):
    """Size of the pool."""

    min_resources: PoolAmounts | None = Field(default=None, description="Never shrink below.")
    max_resources: PoolAmounts | None = Field(default=None, description="Never grow above.")
    warm_resources: PoolAmounts | None = Field(default=None, description="Kept free for what comes.")
    oversubscription: Oversubscription | None = Field(default=None, description="Oversell of compute; virtual memory figures.")


class NodeProvisioner(Model):
    """How nodes are made, for provisioningMode Provisioned and Karpenter."""

    node_class: Name | None = Field(default=None, description="Name of the node class.")
    karpenter_node_class_ref: FreeObject | None = Field(default=None, description="Karpenter node class.")
    gpu_requirements: tuple[FreeObject, ...] | None = ignored()
    gpu_taints: tuple[FreeObject, ...] | None = ignored()
    gpu_node_labels: dict[str, str] | None = ignored()
    gpu_node_annotations: dict[str, str] | None = ignored()
    cpu_requirements: tuple[FreeObject, ...] | None = ignored()
    cpu_taints: tuple[FreeObject, ...] | None = ignored()
    cpu_node_labels: dict[str, str] | None = ignored()
    budget: FreeObject | None = ignored()


class NodeCompaction(Model):
    """Emptying of nodes that are little used."""

    period: DurationText | None = Field(default=None, description="Time between two looks; default 5m.")
    defrag: FreeObject | None = ignored()


class RollingUpdatePolicy(Model):
    """How agents and workers are updated."""

    auto_update: bool | None = Field(default=None, description="Update without being asked.")
    batch_percentage: Percentage | None = Field(default=None, description="Share of nodes at a time; default 100.")
    batch_interval: DurationText | None = Field(default=None, description="Pause between batches; default 1s.")
    max_duration: DurationText | None = Field(default=None, description="Give up after; default 10m.")
    maintenance_window: FreeObject | None = ignored()
    auto_update_worker: bool | None = ignored()
    auto_update_hypervisor: bool | None = ignored()
    auto_update_client: bool | None = ignored()


class NodeManagerConfig(Model):
    """Which nodes belong to the pool, and their defaults."""

    provisioning_mode: Literal["AutoSelect", "Provisioned", "Karpenter"] | None = Field(
        default=None, description="AutoSelect (default): nodes that nodeSelector matches."
    )
    node_selector: NodeSelector | None = Field(default=None, description="Nodes of the pool.")
    default_vendor: VendorName | None = Field(default=None, description="Vendor where the pod names none.")
    default_isolation_mode: Isolation | None = Field(
        default=None, description="Isolation where the pod names none; default soft."
    )
    node_provisioner: NodeProvisioner | None = Field(default=None, description="How nodes are made.")
    node_compaction: NodeCompaction | None = Field(default=None, description="Emptying of nodes that are little used.")
    rolling_update_policy: RollingUpdatePolicy | None = Field(default=None, description="How agents are updated.")
    node_pool_rolling_update_policy: FreeObject | None = ignored()
    isolation_mode_rules: tuple[FreeObject, ...] | None = ignored()
    multi_vendor_node_selector: FreeObject | None = ignored()


class QosDefinition(Model):
    """A class of service that the pool offers."""

    name: QoS = Field(description="The class.")
    description: ShortText | None = Field(default=None, description="What it is for.")
    priority: Annotated[int, Field(ge=-MAX_INT32, le=MAX_INT32)] | None = Field(
        default=None, description="For reading only; the priority classes decide."
    )


class QosPricing(Model):
    """Price of a class, for reports."""

    qos: QoS = Field(description="The class.")
    requests: FreeObject | None = Field(
        default=None, description="Price per unit of request: perFP16TFlopsPerHour, perGBOfVRAMPerHour."
    )
    limits_over_requests: Annotated[str, Field(max_length=32)] | None = Field(
        default=None, description="Price of a unit of limit above the request, as a share of a requested one."
    )


class QosConfig(Model):
    """Classes of service and their prices."""

    definitions: Annotated[tuple[QosDefinition, ...], Field(max_length=8)] | None = Field(
        default=None, description="Classes offered."
    )
    default_qos: QoS | None = Field(default=None, alias="defaultQoS", description="Where the pod names none; default medium.")
    pricing: Annotated[tuple[QosPricing, ...], Field(max_length=8)] | None = Field(
        default=None, description="Prices, for reports."
    )
    eviction_protection_price_ratio: Annotated[str, Field(max_length=32)] | None = ignored()


class WorkerComponent(Model):
    """The worker of standalone and remote pods."""

    image: Image | None = Field(default=None, description="Image of the worker.")
    pod_template: FreeObject | None = ignored()


class ClientComponent(Model):
    """What the user's pods get."""

    image: Image | None = Field(default=None, description="Image of the client library (remote and standalone pods need it).")
    runtime_class_name: Annotated[str, Field(max_length=253)] | None = Field(
        default=None, description="Runtime class, if the pod names none."
    )
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] | None = Field(
        default=None, description="Added to GPU pods."
    )
    remote_mode_image: Image | None = ignored()
    embedded_mode_image: Image | None = ignored()
    operator_endpoint: Annotated[str, Field(max_length=2048)] | None = Field(
        default=None, description="Base URL that remote clients ask for their connection."
    )
    patch_to_pod: FreeObject | None = ignored()
    patch_to_container: FreeObject | None = ignored()
    patch_embedded_worker_to_pod: FreeObject | None = ignored()
    patch_to_embedded_worker_container: FreeObject | None = ignored()


class ComponentConfig(Model):
    """Images and settings of what runs for the pool."""

    worker: WorkerComponent | None = Field(default=None, description="The worker.")
    client: ClientComponent | None = Field(default=None, description="The client side.")
    hypervisor: FreeObject | None = ignored()
    node_discovery: FreeObject | None = ignored()


class Placement(Model):
    """How GPUs are chosen."""

    mode: Literal["CompactFirst", "LowLoadFirst", "NodeCompactGPULowLoad"] | None = Field(
        default=None, description="Default NodeCompactGPULowLoad: nodes by fullness, cards within a node by emptiness."
    )


class GPUPoolSpec(Model):
    """A pool of GPU nodes."""

    default_using_local_gpu: bool | None = Field(
        default=None,
        alias="defaultUsingLocalGPU",
        description="Whether pods that do not say use GPUs of their own node; default false (remote).",
    )
    namespace_selector: LabelSelector | None = Field(default=None, description="Namespaces that may use the pool; default all.")
    capacity_config: CapacityConfig | None = Field(default=None, description="Size and oversell.")
    node_manager_config: NodeManagerConfig | None = Field(default=None, description="Nodes of the pool and their defaults.")
    qos_config: QosConfig | None = Field(default=None, description="Classes of service.")
    component_config: ComponentConfig | None = Field(default=None, description="Images and settings.")
    placement: Placement | None = Field(default=None, description="How GPUs are chosen.")
    scheduling_config_template: Name | None = ignored()


class ComponentStatus(Status):
    """Version of one component in the pool."""

    name: str = Field(default="", description="The component.")
    version: str | None = Field(default=None, description="Its image or version.")
    synced: bool | None = Field(default=None, description="Whether all of it runs that version.")
    progress: int | None = Field(default=None, description="Percent that runs that version.")


class GPUPoolStatus(Status):
    """State of a pool, by the controller."""

    phase: (
        Annotated[str, Field(json_schema_extra={"enum": ["Pending", "Running", "Updating", "Destroying", "Unknown"]})] | None
    ) = Field(default=None, description="Running once a node is ready.")
    conditions: Conditions | None = Field(default=None, description="Conditions of the pool.")
    total_nodes: int | None = Field(default=None, description="Nodes of the pool.")
    ready_nodes: int | None = Field(default=None, description="Nodes that take pods.")
    not_ready_nodes: int | None = Field(default=None, description="Nodes that do not.")
    total_gpus: int | None = Field(default=None, alias="totalGPUs", description="Cards of the pool.")
    vendors: Annotated[tuple[VendorName, ...], Field(max_length=16)] | None = Field(
        default=None, description="Vendors of the pool's cards."
    )
    total_tflops: Quantity | None = Field(default=None, alias="totalTFlops", description="What the cards have.")
    total_vram: Quantity | None = Field(default=None, alias="totalVRAM", description="What the cards have.")
    available_tflops: Quantity | None = Field(default=None, alias="availableTFlops", description="What is not reserved.")
    available_vram: Quantity | None = Field(default=None, alias="availableVRAM", description="What is not reserved.")
    virtual_tflops: Quantity | None = Field(default=None, alias="virtualTFlops", description="With oversell.")
    virtual_vram: Quantity | None = Field(default=None, alias="virtualVRAM", description="With oversell.")
    virtual_available_tflops: Quantity | None = Field(
        default=None, alias="virtualAvailableTFlops", description="With oversell, what is not reserved."
    )
    virtual_available_vram: Quantity | None = Field(
        default=None, alias="virtualAvailableVRAM", description="With oversell, what is not reserved."
    )
    running_apps_cnt: int | None = Field(default=None, description="Workloads that run.")
    component_status: tuple[ComponentStatus, ...] | None = Field(default=None, description="Versions of what runs for the pool.")
    saved_costs_per_month: ShortText | None = Field(default=None, description="US dollars, against one card per worker.")
    potential_savings_per_month: ShortText | None = Field(default=None, description="US dollars, of idle nodes.")
    cluster: Name | None = ignored()
    budget_exceeded: ShortText | None = ignored()
    provisioning_phase: ShortText | None = ignored()
    last_compaction_time: ShortText | None = ignored()
    last_defrag_time: ShortText | None = ignored()


class GPUPool(Model):
    """A set of GPU nodes."""

    model_config = ConfigDict(extra="forbid")
    api_version: str = API_VERSION
    kind: str = "GPUPool"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: GPUPoolSpec = Field(default_factory=GPUPoolSpec)
    status: GPUPoolStatus | None = None

    RULES: ClassVar = (
        Rule(
            f"self.metadata.name.size() <= {MAX_NAME}",
            lambda pool: len(pool.metadata.name) <= MAX_NAME,
            "metadata.name",
            "a pool's name is also a label value",
            f"at most {MAX_NAME} characters",
        ),
    )
    KIND: ClassVar = Kind(
        "GPUPool", "gpupools", "gpupool", ("tfpool", "gpool"), "Cluster",
        (
            Column("Phase", ".status.phase"),
            Column("Default", r".metadata.annotations.tensor-fusion\.ai/is-default-pool"),
            Column("Nodes", ".status.readyNodes", "integer"),
            Column("GPUs", ".status.totalGPUs", "integer"),
            Column("TFLOPS", ".status.totalTFlops"),
            Column("Free TFLOPS", ".status.availableTFlops"),
            Column("VRAM", ".status.totalVRAM"),
            Column("Free VRAM", ".status.availableVRAM"),
            Column("Workloads", ".status.runningAppsCnt", "integer", 1),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        "A set of GPU nodes, how they are shared, and who may use them.",
    )  # fmt: skip

    @property
    def is_default(self) -> bool:
        """Whether pods that name no pool use this one."""
        return self.metadata.annotations.get(DEFAULT_POOL_ANNOTATION) == "true"

    def layer(self) -> Mapping[str, Any]:
        """The pool's defaults, by the short key of the annotation that means the same."""
        return self._layer

    @cached_property
    def _layer(self) -> Mapping[str, Any]:
        nodes, qos = self.spec.node_manager_config, self.spec.qos_config
        vendors = set((self.status and self.status.vendors) or ())
        given = {
            "is-local-gpu": self.spec.default_using_local_gpu,
            "qos": qos and qos.default_qos,
            "vendor": (nodes and nodes.default_vendor) or (vendors.pop() if len(vendors) == 1 else None),
            "isolation": nodes and nodes.default_isolation_mode,
        }
        return {key: value for key, value in given.items() if value is not None}
