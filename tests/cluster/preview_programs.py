"""The program whose previews are recorded, and the changes of it: each is a few replacements in its text."""

from __future__ import annotations

from tensorfusion_iac.local.state import NodeGroup

GROUPS = (NodeGroup(model="A100_SXM_80G", gpus_per_node=4, nodes=2), NodeGroup(model="L40S", gpus_per_node=2, nodes=2))

PROGRAM = """
import pulumi
import pulumi_kubernetes as k8s
import tensorfusion_iac as tfi

crds = tfi.CustomResourceDefinitions("crds")
after = pulumi.ResourceOptions(depends_on=[crds])
ml = k8s.core.v1.Namespace("ml", metadata={"name": "ml"})
ns = ml.metadata["name"]
big = tfi.GPUPool("big", default_using_local_gpu=True, node_selector={"nvidia.com/gpu.product": "A100_SXM_80G"}, opts=after,
    qos_pricing=[{"qos": "high", "requests": {"perFP16TFlopsPerHour": "0.01", "perGBOfVRAMPerHour": "0.02"}}])
small = tfi.GPUPool("small", default_using_local_gpu=True, node_selector={"nvidia.com/gpu.product": "L40S"}, opts=after)
team = k8s.apiextensions.CustomResource("team", api_version="tensor-fusion.ai/v1", kind="GPUResourceQuota",
    metadata={"name": "team", "namespace": ns}, spec={"total": {"maxWorkers": 40}}, opts=after)
inference = tfi.WorkloadProfile("inference", namespace=ns, gpupool=small, opts=after,
    vgpu=tfi.VGPU(tflops_request=20, tflops_limit=60, vram_request="8Gi", qos="medium"))
chat = tfi.AnnotatedDeployment("chat", namespace=ns, image="registry.example/vllm:1.4", replicas=4, workload_profile=inference,
    vgpu=tfi.VGPU(gpu_model="L40s"), wait=False, opts=after)
training = tfi.AnnotatedDeployment("training", namespace=ns, image="registry.example/train:1", replicas=2, gpupool=big,
    vgpu=tfi.VGPU(tflops_request=10, vram_request="20Gi", qos="high", gpu_count=4), wait=False, opts=after)
search = tfi.AnnotatedDeployment("search", namespace=ns, image="registry.example/search:1", replicas=2, gpupool="big",
    vgpu=tfi.VGPU(compute_percent_request=25, vram_request="10Gi", qos="low"), wait=False,
    opts=pulumi.ResourceOptions(depends_on=[big]))
datasets = k8s.apiextensions.v1.CustomResourceDefinition("datasets", metadata={"name": "datasets.example.dev"}, spec={
    "group": "example.dev", "scope": "Namespaced", "names": {"kind": "Dataset", "plural": "datasets", "singular": "dataset"},
    "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]})
web = k8s.apps.v1.Deployment("web", metadata={"name": "web", "namespace": ns}, spec={
    "replicas": 1, "selector": {"match_labels": {"app": "web"}},
    "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "i:1"}]}}})
"""

_TRAINING = PROGRAM[PROGRAM.index("training = ") : PROGRAM.index("search = ")]
_SEARCH = PROGRAM[PROGRAM.index("search = ") : PROGRAM.index("datasets = ")]
_DATASETS = PROGRAM[PROGRAM.index("datasets = ") : PROGRAM.index("web = ")]

_LATER = """
import asyncio

def told(value):
    future = asyncio.get_event_loop().create_future()
    future.set_result(value)
    return future

later = pulumi.Output(told(set()), told(None), told(False))  # as of a resource that the deployment creates
fresh = tfi.AnnotatedDeployment("fresh", namespace=ns, image="i:1", gpupool=big, replicas=2,
    vgpu=tfi.VGPU(vram_request=later, tflops_request=5), wait=False, opts=after)
"""

EDITS: dict[str, tuple[tuple[str, str], ...]] = {
    "grow": (("tflops_request=10, vram", "tflops_request=40, vram"), ("tflops_request=20,", "tflops_request=30,")),
    "shrink": (("replicas=4", "replicas=2"), ('vram_request="20Gi"', 'vram_request="10Gi"')),
    "delete": ((_TRAINING, ""), (_SEARCH, ""), (_DATASETS, ""), ('crds = tfi.CustomResourceDefinitions("crds")\n', ""),
               ("depends_on=[crds]", "depends_on=[]")),
    "move-pool": (('gpupool="big"', 'gpupool="small"'), ("depends_on=[big]", "depends_on=[small]")),
    "no-change": (),
    "over-quota": (('"maxWorkers": 40', '"maxWorkers": 9'), ("replicas=4", "replicas=12"),
                   ("replicas=2, gpupool=big", "replicas=3, gpupool=big")),
    "unknown": (("inference = ", _LATER + "inference = "), ('qos="low"', 'qos="low", tflops_limit=later')),
    "broken": (('vram_request="20Gi"', 'vram_request="20 Gi"'), ('qos="low"', 'qos="lowest"')),
}  # fmt: skip
"""By the name of the change, what is replaced by what."""

CHANGES = tuple(EDITS)
SHOWING_SAMES = ("grow", "shrink", "no-change", "over-quota")
"""Previews that also tell what stays as it is."""


def program(change: str) -> str:
    """The program after a change; the empty name is the program before any."""
    text = PROGRAM
    for old, new in EDITS.get(change, ()):
        assert old in text, (change, old)
        text = text.replace(old, new)
    return text
