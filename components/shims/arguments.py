"""The components' arguments in types that Pulumi's schema can carry: no unions, no enums, one level of nesting (API.md).

Each has the name and the meaning of the Python argument. Where that takes several forms, here is the one that reads best in
YAML: numbers for TFLOPS and percent, text for memory, lists and mappings for what an annotation packs into text. The
documentation strings below the fields become the schema's; those of VGPU come from the table of annotations.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict

from pulumi import Input

Labels = Mapping[str, Input[str]]
Object = Mapping[str, Input[Any]]
Objects = Sequence[Input[Any]]
Texts = Sequence[Input[str]]
Wholes = Sequence[Input[int]]


class VGPU(TypedDict, total=False):
    """What each vGPU worker of a workload asks for. Amounts are per worker per GPU."""

    tflops_request: Input[float]
    tflops_limit: Input[float]
    vram_request: Input[str]
    vram_limit: Input[str]
    compute_percent_request: Input[float]
    compute_percent_limit: Input[float]
    inject_container: Input[Texts]
    qos: Input[str]
    is_local_gpu: Input[bool]
    gpu_count: Input[int]
    gpupool: Input[str]
    vendor: Input[str]
    gpu_model: Input[str]
    dedicated_gpu: Input[bool]
    isolation: Input[str]
    gpu_indices: Input[Wholes]
    container_gpu_count: Input[Mapping[str, Input[int]]]
    workload: Input[str]
    workload_profile: Input[str]
    enabled_replicas: Input[int]
    autoscale: Input[bool]
    autoscale_target: Input[str]
    standalone_worker_mode: Input[bool]
    disable_features: Input[Texts]
    partition_template: Input[str]
    eviction_protection: Input[str]
    gang_min_members: Input[int]
    gang_timeout: Input[str]
    enabled: Input[bool]
    """False leaves the workload plain."""


class MetadataArgs(TypedDict, total=False):
    """The object's metadata."""

    metadata: Input[Object]
    """Metadata as in a manifest. The object is called as the resource is, unless `name` is given here."""
    labels: Input[Labels]
    """Labels of the object, and of its pods."""
    annotations: Input[Labels]
    """Annotations of the object. Those of vGPUs are given by `vgpu`."""


class WorkloadArgs(MetadataArgs, total=False):
    """What every workload takes: its pods, and what they ask of the GPUs."""

    vgpu: VGPU
    """What each vGPU worker of the workload asks for."""
    gpupool: Input[str]
    """The name of the GPUPool; without one, the profile's, else the default pool."""
    workload_profile: Input[str]
    """The name of a WorkloadProfile of the same namespace, for what `vgpu` does not say."""
    enabled: Input[bool]
    """False leaves the workload plain: no label, no annotations."""
    wait: bool
    """Whether `up` waits until the workload is ready."""
    timeout_s: float
    """How many seconds `up` waits at most."""
    namespace: Input[str]
    """The namespace; without one, the provider's."""
    pod_annotations: Input[Labels]
    """Further annotations of the pods."""
    image: Input[str]
    """The image of the only container; instead of `containers` and `podTemplate`."""
    command: Input[Texts]
    """The only container's command."""
    args: Input[Texts]
    """The only container's arguments."""
    env: Input[Object]
    """The only container's environment: text, or `valueFrom` of a manifest, by variable."""
    ports: Input[Objects]
    """The only container's ports: numbers, or ports as in a manifest."""
    resources: Input[Object]
    """The only container's resources, as in a manifest."""
    containers: Input[Objects]
    """The containers, as in a manifest; instead of `image` and `podTemplate`."""
    pod_spec: Input[Object]
    """The pods' spec, as in a manifest, beside `image` or `containers`."""
    pod_template: Input[Object]
    """The whole pod template, as in a manifest; instead of `image` and `containers`."""
    spec: Object
    """The workload's spec, as in a manifest, for what has no argument of its own."""


class DeploymentArgs(WorkloadArgs, total=False):
    """Arguments of AnnotatedDeployment."""

    replicas: Input[int]
    """How many pods; leave it out where an autoscaler sets it."""
    strategy: Input[Object]
    """The update strategy, as in a manifest."""
    selector: Input[Object]
    """The pods' selector, as in a manifest; without one, made of a label."""
    min_ready_seconds: Input[int]
    """As in a manifest."""
    progress_deadline_seconds: Input[int]
    """As in a manifest."""
    revision_history_limit: Input[int]
    """As in a manifest."""
    paused: Input[bool]
    """As in a manifest."""


class StatefulSetArgs(WorkloadArgs, total=False):
    """Arguments of AnnotatedStatefulSet."""

    service_name: Input[str]
    """The headless service of the pods' names; without one, the resource's name."""
    replicas: Input[int]
    """How many pods; leave it out where an autoscaler sets it."""
    selector: Input[Object]
    """The pods' selector, as in a manifest; without one, made of a label."""
    volume_claim_templates: Input[Objects]
    """As in a manifest."""
    strategy: Input[Object]
    """The update strategy, as in a manifest."""
    pod_management_policy: Input[str]
    """OrderedReady or Parallel."""
    min_ready_seconds: Input[int]
    """As in a manifest."""
    revision_history_limit: Input[int]
    """As in a manifest."""


class JobFieldsArgs(WorkloadArgs, total=False):
    """What a Job takes, also as that of a CronJob."""

    parallelism: Input[int]
    """How many pods at once."""
    completions: Input[int]
    """How many pods must succeed."""
    completion_mode: Input[str]
    """NonIndexed or Indexed."""
    backoff_limit: Input[int]
    """How often a failed pod is tried again."""
    active_deadline_seconds: Input[int]
    """How long the job may run."""
    ttl_seconds_after_finished: Input[int]
    """After how long a finished job is deleted."""


class JobArgs(JobFieldsArgs, total=False):
    """Arguments of AnnotatedJob."""

    suspend: Input[bool]
    """Whether its pods are held back."""


class CronJobArgs(JobFieldsArgs, total=False):
    """Arguments of AnnotatedCronJob. `schedule` must be given."""

    schedule: Input[str]
    """Five cron fields, such as `0 3 * * *`."""
    time_zone: Input[str]
    """The schedule's time zone, such as Europe/Berlin."""
    concurrency_policy: Input[str]
    """Allow, Forbid or Replace."""
    suspend: Input[bool]
    """Whether no further jobs are started."""
    starting_deadline_seconds: Input[int]
    """As in a manifest."""
    successful_jobs_history_limit: Input[int]
    """As in a manifest."""
    failed_jobs_history_limit: Input[int]
    """As in a manifest."""


class GPUPoolArgs(MetadataArgs, total=False):
    """Arguments of GPUPool. `defaultUsingLocalGpu` must be given: nothing is remote by accident."""

    default_using_local_gpu: Required[Input[bool]]
    """True: GPUs of the pod's own node; false: GPUs over the network."""
    default: Input[bool]
    """Whether workloads that name no pool use this one."""
    node_selector: Input[Object]
    """Labels of the pool's nodes (a value or a list of values each), or node selector terms as in a manifest."""
    namespace_selector: Input[Object]
    """Labels of the namespaces that may use the pool, or a label selector as in a manifest."""
    provisioning_mode: Input[str]
    """AutoSelect, Provisioned or Karpenter."""
    default_vendor: Input[str]
    """The vendor of workloads that name none."""
    default_isolation_mode: Input[str]
    """shared, soft, hard or partitioned."""
    default_qos: Input[str]
    """low, medium, high or critical."""
    tflops_oversell_ratio: Input[int]
    """Percent of the cards' TFLOPS that may be handed out."""
    vram_expand_to_host_mem: Input[int]
    """Percent of host memory that extends the cards' memory."""
    vram_expand_to_host_disk: Input[int]
    """Percent of host disk that extends the cards' memory."""
    min_resources: Input[Object]
    """Amounts that the pool has at least (`tflops`, `vram`)."""
    max_resources: Input[Object]
    """Amounts that the pool has at most."""
    warm_resources: Input[Object]
    """Amounts that are kept free."""
    placement_mode: Input[str]
    """CompactFirst, LowLoadFirst or NodeCompactGPULowLoad."""
    worker_image: Input[str]
    """The image of remote workers."""
    client_image: Input[str]
    """The image of the client in remote pods."""
    runtime_class_name: Input[str]
    """The runtime class of the pool's pods."""
    tolerations: Input[Objects]
    """Tolerations of the pool's pods, as in a manifest."""
    operator_endpoint: Input[str]
    """Where clients reach the operator."""
    qos_definitions: Input[Objects]
    """What each level of quality of service means."""
    qos_pricing: Input[Objects]
    """Prices by level of quality of service."""
    node_provisioner: Input[Object]
    """How nodes are provisioned."""
    node_compaction: Input[Object]
    """When nodes are compacted."""
    rolling_update_policy: Input[Object]
    """How the pool's components are updated."""
    spec: Object
    """The pool's spec, as in a manifest, for what has no argument of its own."""


class WorkloadSpecArgs(MetadataArgs, total=False):
    """Arguments of WorkloadProfile and TensorFusionWorkload."""

    vgpu: VGPU
    """What each vGPU worker asks for, as far as a profile can say it."""
    gpupool: Input[str]
    """The name of the GPUPool."""
    replicas: Input[int]
    """How many workers, where they run apart from the pods."""
    auto_set_resources: Input[Object]
    """Autoscaling of the amounts, as in a manifest."""
    cron_scaling_rules: Input[Objects]
    """Amounts by time, as in a manifest."""
    external_scaler: Input[Object]
    """A scaler of your own, as in a manifest."""
    gang_scheduling: Input[Object]
    """Which pods start together, as in a manifest."""
    worker_pod_template: Input[Object]
    """The template of worker pods, as in a manifest."""
    node_affinity: Input[Object]
    """As in a manifest."""
    spec: Object
    """The spec, as in a manifest, for what has no argument of its own."""
    namespace: Input[str]
    """The namespace; without one, the provider's."""


class ControlPlaneArgs(TypedDict, total=False):
    """Arguments of ControlPlane: what they mean, and which belong to which `runtime`, is in docs/components.md."""

    runtime: str
    """cluster (the programs run as pods), local (beside the API server, as in `tensorfusion local`) or external."""
    crds: bool
    """False where the custom resource definitions are managed elsewhere."""
    webhook_url: str
    """Only with runtime local: the https URL at which the API server reaches the webhook."""
    kubernetes_version: str
    """The cluster's version, such as 1.34."""
    image: Input[str]
    """The image of the project's own programs."""
    scheduler_image: Input[str]
    """The image of kube-scheduler."""
    image_pull_secrets: Sequence[Input[str]]
    """Names of the secrets with which images are pulled."""
    replicas: Any
    """How many pods of each program: a number, or numbers by program."""
    resources: Mapping[str, Any]
    """Resources by container, as in a manifest."""
    node_selector: Mapping[str, str]
    """Labels of the nodes on which the programs run."""
    tolerations: Sequence[Any]
    """Tolerations of the programs, as in a manifest."""
    certificates: str
    """own or cert-manager."""
    webhook_host_network: bool
    """Whether the webhook listens on its node's network, for API servers that do not reach pods."""
    webhook_port: int
    """The webhook's port."""
    api_server_ports: Sequence[int]
    """The API server's ports, for network policies."""
    api_server_cidrs: Sequence[str]
    """Networks that the API server calls from, for network policies."""
    external_scaler_hosts: Sequence[str]
    """Hosts that external scalers may be on."""
    log_level: str
    """DEBUG, INFO, WARNING or ERROR."""
    monitoring: str
    """prometheus-operator makes monitors."""
    monitoring_labels: Mapping[str, str]
    """Labels of the monitors."""
    timeout_s: float
    """How many seconds `up` waits at most."""
    agents: bool
    """Whether agents run on the GPU nodes."""
    agent_node_selector: Mapping[str, str]
    """Labels of the agents' nodes."""
    agent_tolerations: Sequence[Any]
    """Tolerations of the agents, as in a manifest."""
    agent_toolkit_folder: str
    """Where the vendor's libraries are on the nodes."""
    agent_mps: bool
    """Whether the agents run MPS."""
    container_runtime: str
    """How containers get their GPUs."""


class ObservabilityArgs(TypedDict, total=False):
    """Arguments of Observability."""

    namespace: Input[str]
    """Where the objects go."""
    rules: str
    """The form of the alerts: configmap, prometheus-operator or none."""
    labels: Mapping[str, Input[str]]
    """Labels of every object, for what selects them."""
    annotations: Mapping[str, Input[str]]
    """Annotations of every object."""


class CustomResourceDefinitionsArgs(TypedDict, total=False):
    """CustomResourceDefinitions takes no arguments."""
