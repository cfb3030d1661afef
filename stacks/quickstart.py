"""The quick start's two halves: what a platform team declares once, and what an application team declares.

`stacks/` deploys both as one stack; `stacks/platform` and `stacks/workloads` deploy them as two, joined by a StackReference.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

import tensorfusion_iac as tfi


@dataclass(frozen=True, slots=True)
class Platform:
    """What the workloads need of the platform."""

    pool: pulumi.Output[str]
    namespace: pulumi.Output[str]
    depends_on: list[pulumi.Resource]


def cluster() -> k8s.Provider:
    """The cluster to deploy to: the configured kubeconfig, else KUBECONFIG, else the default one."""
    return k8s.Provider("cluster", kubeconfig=pulumi.Config().get("kubeconfig") or None)


def declare_platform(provider: k8s.Provider) -> Platform:
    """What makes the annotations true, a namespace, and a default pool whose pods use the GPUs of their own node."""
    config = pulumi.Config()
    label, _, value = config.require("nodeLabel").partition("=")
    platform = declare_control_plane(pulumi.ResourceOptions(provider=provider))
    pool = tfi.GPUPool(
        config.require("pool"),
        default=True,
        default_using_local_gpu=True,
        node_selector={label: value},
        opts=pulumi.ResourceOptions(provider=provider, depends_on=[platform]),
    )
    namespace = k8s.core.v1.Namespace(
        "ml", metadata={"name": config.require("namespace")}, opts=pulumi.ResourceOptions(provider=provider)
    )
    return Platform(pool.name, namespace.metadata.apply(lambda metadata: str(metadata.name)), [pool, namespace])


def declare_control_plane(opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """The control plane of `tensorfusion local`, where its webhook is; a real cluster's, where its version is; else the custom
    resource definitions alone.
    """
    config = pulumi.Config()
    if url := config.get("webhookUrl"):
        return tfi.ControlPlane("tensor-fusion", runtime="local", webhook_url=url, opts=opts)
    version = config.get("kubernetesVersion")
    if not version:
        return tfi.CustomResourceDefinitions("tensor-fusion-crds", opts=opts)
    image = config.get("platformImage") or f"tensorfusion-iac:{tfi.__version__}"
    return tfi.ControlPlane("tensor-fusion", kubernetes_version=version, image=image, opts=opts)


def declare_workloads(provider: k8s.Provider, platform: Platform) -> None:
    """Four kinds of workload: fractions with a profile, amounts that follow use, a pod whose containers split its GPUs, and a
    dedicated card; and the namespace's quota.
    """
    config = pulumi.Config()
    image = config.require("image")
    opts = pulumi.ResourceOptions(provider=provider, depends_on=platform.depends_on)

    inference = tfi.WorkloadProfile(
        "inference",
        namespace=platform.namespace,
        gpupool=platform.pool,
        vgpu=tfi.VGPU(tflops_request=10, tflops_limit=config.require_int("tflopsLimit"), vram_request="4Gi", qos="medium"),
        opts=opts,
    )
    chat = tfi.AnnotatedDeployment(
        "chat",
        namespace=platform.namespace,
        image=image,
        replicas=config.require_int("replicas"),
        args=["--gpu-memory-utilization=$(TENSOR_FUSION_VRAM_FRACTION)"],
        ports=[8000],
        workload_profile=inference,
        vgpu=tfi.VGPU(gpu_model="L40S", vram_request="20Gi", qos="high"),
        opts=opts,
    )
    elastic = tfi.WorkloadProfile(
        "elastic",
        namespace=platform.namespace,
        gpupool=platform.pool,
        vgpu=tfi.VGPU(tflops_request=100, tflops_limit=200, vram_request="8Gi", vram_limit="32Gi"),
        auto_set_resources={"enable": True, "initialDelayPeriod": "4s", "historyDataPeriod": "1m"},  # so short to be watched
        opts=opts,
    )
    embed = tfi.AnnotatedDeployment(
        "embed",
        namespace=platform.namespace,
        image=image,
        replicas=2,
        workload_profile=elastic,
        vgpu=tfi.VGPU(gpu_model="A100"),
        pod_annotations={"simulated.tensor-fusion.ai/load": config.require("embedLoad")},
        opts=opts,
    )
    train = tfi.AnnotatedDeployment(
        "train",
        namespace=platform.namespace,
        containers=[{"name": "trainer", "image": image}, {"name": "evaluator", "image": image}],
        gpupool=platform.pool,
        vgpu=tfi.VGPU(
            gpu_model="A100", tflops_request=60, vram_request="16Gi", container_gpu_count={"trainer": 3, "evaluator": 1}
        ),
        opts=opts,
    )
    simulate = tfi.AnnotatedDeployment(
        "simulate",
        namespace=platform.namespace,
        image=image,
        gpupool=platform.pool,
        vgpu=tfi.VGPU(gpu_model="A100", dedicated_gpu=True),
        opts=opts,
    )
    k8s.apiextensions.CustomResource(
        "quota",
        api_version="tensor-fusion.ai/v1",
        kind="GPUResourceQuota",
        metadata={"name": "quota", "namespace": platform.namespace},
        spec={"total": {"requests": {"tflops": "1500", "vram": "500Gi"}, "maxWorkers": 20}},
        opts=opts,
    )
    for workload in ("chat", chat), ("embed", embed), ("train", train), ("simulate", simulate):
        pulumi.export(workload[0], workload[1].requested)
