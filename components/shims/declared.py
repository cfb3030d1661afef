"""The components by name: what each takes and what it gives back. For the schema only: `plugin.py` makes the real ones."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

import pulumi

from shims import arguments


class Requested(TypedDict):
    """What all workers of a workload ask for together: sums over all GPUs, as text; a percentage is of one card."""

    workers: int
    gpus_per_worker: NotRequired[int]
    gpus: NotRequired[int]
    tflops_request: NotRequired[str]
    tflops_limit: NotRequired[str]
    compute_percent_request: NotRequired[str]
    compute_percent_limit: NotRequired[str]
    vram_request: NotRequired[str]
    vram_limit: NotRequired[str]
    dedicated_gpu: NotRequired[bool]
    qos: NotRequired[str]
    gpu_model: NotRequired[str]
    gpupool: NotRequired[str]
    workload_profile: NotRequired[str]


class AnnotatedDeployment(pulumi.ComponentResource):
    """A Deployment whose pods ask for vGPUs."""

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]
    requested: pulumi.Output[Requested]

    def __init__(self, name: str, args: arguments.DeploymentArgs, opts: pulumi.ResourceOptions) -> None: ...


class AnnotatedStatefulSet(pulumi.ComponentResource):
    """A StatefulSet whose pods ask for vGPUs."""

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]
    requested: pulumi.Output[Requested]

    def __init__(self, name: str, args: arguments.StatefulSetArgs, opts: pulumi.ResourceOptions) -> None: ...


class AnnotatedJob(pulumi.ComponentResource):
    """A Job whose pods ask for vGPUs. `up` does not wait for it to complete unless `wait` is true."""

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]
    requested: pulumi.Output[Requested]

    def __init__(self, name: str, args: arguments.JobArgs, opts: pulumi.ResourceOptions) -> None: ...


class AnnotatedCronJob(pulumi.ComponentResource):
    """A CronJob whose pods ask for vGPUs. An edit holds for the jobs that start after it."""

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]
    requested: pulumi.Output[Requested]

    def __init__(self, name: str, args: arguments.CronJobArgs, opts: pulumi.ResourceOptions) -> None: ...


class GPUPool(pulumi.ComponentResource):
    """A pool of GPU nodes, how they are shared, and who may use them."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: arguments.GPUPoolArgs, opts: pulumi.ResourceOptions) -> None: ...


class WorkloadProfile(pulumi.ComponentResource):
    """What pods that name the profile ask for, unless they say otherwise themselves."""

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]

    def __init__(self, name: str, args: arguments.WorkloadSpecArgs, opts: pulumi.ResourceOptions) -> None: ...


class TensorFusionWorkload(pulumi.ComponentResource):
    """The vGPU workers that pods naming this workload share."""

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]

    def __init__(self, name: str, args: arguments.WorkloadSpecArgs, opts: pulumi.ResourceOptions) -> None: ...


class ControlPlane(pulumi.ComponentResource):
    """What makes the annotations true in a cluster."""

    namespaces: pulumi.Output[Mapping[str, str]]

    def __init__(self, name: str, args: arguments.ControlPlaneArgs, opts: pulumi.ResourceOptions) -> None: ...


class CustomResourceDefinitions(pulumi.ComponentResource):
    """The custom resource definitions of tensor-fusion.ai, kept when the stack goes."""

    def __init__(self, name: str, args: arguments.CustomResourceDefinitionsArgs, opts: pulumi.ResourceOptions) -> None: ...


class Observability(pulumi.ComponentResource):
    """Dashboards and alerts of the platform."""

    dashboards: pulumi.Output[Sequence[str]]

    def __init__(self, name: str, args: arguments.ObservabilityArgs, opts: pulumi.ResourceOptions) -> None: ...


COMPONENTS: tuple[type[pulumi.ComponentResource], ...] = (
    AnnotatedCronJob, AnnotatedDeployment, AnnotatedJob, AnnotatedStatefulSet, ControlPlane, CustomResourceDefinitions, GPUPool,
    Observability, TensorFusionWorkload, WorkloadProfile,
)  # fmt: skip


def arguments_of(component: type[pulumi.ComponentResource]) -> Mapping[str, object]:
    """A component's arguments by their Python names, with their types."""
    declared: Mapping[str, object] = component.__init__.__annotations__["args"].__annotations__
    return declared


def outputs_of(component: type[pulumi.ComponentResource]) -> Mapping[str, object]:
    """What a component gives back, by its Python names."""
    return {name: kind for name, kind in component.__annotations__.items() if not name.startswith("_")}
