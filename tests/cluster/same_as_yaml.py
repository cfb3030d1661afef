"""The program of stacks/yaml in Python: the test of languages deploys both and compares what is on the server."""

import pulumi

import tensorfusion_iac as tfi

config = pulumi.Config()
image = config.get("image") or "registry.example/ml/app:1.0"
namespace = config.get("namespace") or "default"


def after(*resources: pulumi.Resource) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(depends_on=list(resources))


definitions = tfi.CustomResourceDefinitions("definitions")
platform = tfi.ControlPlane(
    "platform", runtime="local", webhook_url=config.require("webhookUrl"), crds=False, opts=after(definitions)
)
pool = tfi.GPUPool(
    "pool",
    default=True,
    default_using_local_gpu=True,
    node_selector={"nvidia.com/gpu.present": "true"},
    tflops_oversell_ratio=500,
    opts=after(platform),
)
inference = tfi.WorkloadProfile(
    "inference",
    namespace=namespace,
    gpupool=pool,
    vgpu=tfi.VGPU(tflops_request=10, tflops_limit=20, vram_request="4Gi", qos="medium"),
    opts=after(platform),
)
shared = tfi.TensorFusionWorkload(
    "shared",
    namespace=namespace,
    gpupool=pool,
    replicas=1,
    vgpu=tfi.VGPU(compute_percent_request=25, vram_request="2Gi"),
    opts=after(platform),
)
chat = tfi.AnnotatedDeployment(
    "chat",
    namespace=namespace,
    image=image,
    replicas=2,
    args=["--gpu-memory-utilization=$(TENSOR_FUSION_VRAM_FRACTION)"],
    env={"LOG_LEVEL": "info"},
    ports=[8000, {"name": "metrics", "containerPort": 9090}],
    workload_profile=inference,
    vgpu=tfi.VGPU(gpu_model="L40S", vram_request="20Gi", qos="high", enabled_replicas=1),
    opts=after(platform, inference),
)
train = tfi.AnnotatedJob(
    "train",
    namespace=namespace,
    metadata={"name": "train"},
    containers=[{"name": "trainer", "image": image}, {"name": "evaluator", "image": image}],
    backoff_limit=0,
    gpupool=pool,
    vgpu=tfi.VGPU(gpu_model="A100", tflops_request=62.5, vram_request="16Gi", container_gpu_count={"trainer": 3, "evaluator": 1}),
    opts=after(platform),
)
nightly = tfi.AnnotatedCronJob(
    "nightly",
    namespace=namespace,
    image=image,
    schedule="0 3 * * *",
    gpupool=pool,
    vgpu=tfi.VGPU(vram_request="2Gi", tflops_request=5, eviction_protection="30m"),
    opts=after(platform),
)
search = tfi.AnnotatedStatefulSet(
    "search",
    namespace=namespace,
    pod_template={
        "metadata": {"labels": {"tier": "search"}},
        "spec": {"containers": [{"name": "indexer", "image": image}, {"name": "proxy", "image": image}]},
    },
    replicas=1,
    gpupool=pool,
    vgpu=tfi.VGPU(vram_request="2Gi", tflops_request=5, inject_container=["indexer"]),
    opts=after(platform),
)
board = tfi.Observability("board", namespace=namespace, opts=after(platform))
pulumi.export("chat", chat.requested)
