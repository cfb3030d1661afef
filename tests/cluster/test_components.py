"""The components with the real pulumi, the real provider and a real API server: from preview to destroy.

On a control plane of their own, since the shared one may have the webhook, which changes every pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pulumi_project import NO_CHANGES, Project, Step, new_project, prepare
from running_plane import ControlPlane, tools
from waiting import eventually

from tensorfusion_iac.api.names import ENABLED_LABEL
from tensorfusion_iac.local import control_plane as door
from tensorfusion_iac.local.layout import Layout

pytestmark = pytest.mark.cluster

P = "tensor-fusion.ai/"
KINDS = (
    "gpunodes",
    "gpupools",
    "gpuresourcequotas",
    "gpus",
    "tensorfusionconnections",
    "tensorfusionworkloads",
    "workloadprofiles",
)

HEAD = """
import pulumi
import pulumi_kubernetes as k8s
import tensorfusion_iac as tfi

ml = k8s.core.v1.Namespace("NAME", metadata={"name": "NAME"})
ns = ml.metadata["name"]
"""

PROGRAM = """
crds = tfi.CustomResourceDefinitions("crds")
after = pulumi.ResourceOptions(depends_on=[crds])
pool = tfi.GPUPool("NAME", default=True, default_using_local_gpu=True, opts=after,
    node_selector={"nvidia.com/gpu.present": "true"})
inference = tfi.WorkloadProfile("inference", namespace=ns, gpupool=pool, opts=after,
    vgpu=tfi.VGPU(tflops_request=10, tflops_limit=15, vram_request="4Gi", qos="medium"))
chat = tfi.AnnotatedDeployment("chat", namespace=ns, image="registry.example/vllm:1.4", replicas=2, ports=[8000],
    workload_profile=inference, args=["--gpu-memory-utilization=$(TENSOR_FUSION_VRAM_FRACTION)"],
    vgpu=tfi.VGPU(gpu_model="L40s", tflops_limit=20, vram_request="20Gi", qos="high", enabled_replicas=1))
train = tfi.AnnotatedJob("train", namespace=ns, gpupool=pool, pod_template={"spec": {"containers": [
        {"name": "trainer", "image": "registry.example/train:1"}, {"name": "evaluator", "image": "registry.example/train:1"}]}},
    vgpu=tfi.VGPU(gpu_model="A100", dedicated_gpu=True, container_gpu_count={"trainer": 3, "evaluator": 1}))
nightly = tfi.AnnotatedCronJob("nightly", namespace=ns, image="registry.example/train:1", schedule="0 3 * * *",
    vgpu=tfi.VGPU(compute_percent_request=50))
search = k8s.apps.v1.StatefulSet("search", metadata={"name": "search", "namespace": ns}, spec={
        "service_name": "search", "selector": {"match_labels": {"app": "search"}},
        "template": {"metadata": {"labels": {"app": "search"}},
                     "spec": {"containers": [{"name": "indexer", "image": "i:1"}, {"name": "proxy", "image": "i:1"}]}}},
    opts=pulumi.ResourceOptions(transformations=[
        tfi.annotate(tfi.VGPU(vram_request="2Gi", tflops_request=5, inject_container=["indexer"]))]))
pulumi.export("chat", chat.requested)
pulumi.export("names", [pool.name, inference.name, chat.name, chat.namespace, train.name])
"""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane without webhook and policies, ready for pulumi."""
    layout = Layout.at(tmp_path_factory.mktemp("components") / "plane")
    door.up(layout, door.Wish(), tools, lambda line: None)
    running = ControlPlane(layout)
    try:
        prepare(running)
        yield running
    finally:
        door.purge(layout, lambda line: None)


@pytest.fixture
def project(plane: ControlPlane, tmp_path: Path) -> Project:
    """An empty project. Each test has a namespace of its own, and what it leaves there goes with the control plane."""
    return new_project(plane, tmp_path, "project")


def program(name: str, *parts: str) -> str:
    """A program in a namespace called `name`."""
    return (HEAD + "".join(parts)).replace("NAME", name)


def annotations(workload: dict[str, Any]) -> dict[str, str]:
    return {
        key.removeprefix(P): value
        for key, value in workload["spec"]["template"]["metadata"].get("annotations", {}).items()
        if key.startswith(P)
    }


def test_from_preview_to_destroy_and_up_again(project: Project) -> None:
    project.write(program("life", PROGRAM))
    assert Step("create", "Deployment chat") in project.steps()
    assert "life" not in project.plane.kubectl("get", "namespaces", "-o", "name"), "a preview creates nothing"

    project.up()
    chat = project.object("deployment", "chat", "life")
    assert chat["spec"]["template"]["metadata"]["labels"][ENABLED_LABEL] == "true"
    assert annotations(chat) == {
        "gpu-model": "L40s", "tflops-limit": "20", "vram-request": "20Gi", "qos": "high", "enabled-replicas": "1",
        "workload-profile": "inference",
    }  # fmt: skip
    assert chat["status"]["readyReplicas"] == 2, "up waits for a Deployment"
    assert annotations(project.object("statefulset", "search", "life")) == {
        "vram-request": "2Gi", "tflops-request": "5", "inject-container": "indexer",
    }  # fmt: skip
    profile = project.object("workloadprofile", "inference", "life")
    assert profile["spec"]["resources"] == {"requests": {"tflops": "10", "vram": "4Gi"}, "limits": {"tflops": "15"}}
    assert project.outputs()["chat"] == {
        "workers": 1, "gpus_per_worker": 1, "gpus": 1, "qos": "high", "gpu_model": "L40s", "gpupool": "life",
        "tflops_request": "10", "tflops_limit": "20", "vram_request": "20Gi", "vram_limit": "20Gi",
    }  # fmt: skip
    names = project.outputs()["names"]
    assert names[:4] == ["life", "inference", "chat", "life"]
    assert names[4].startswith("train-")

    project.ok("preview", NO_CHANGES)
    project.ok("refresh", "--yes", "--skip-preview", NO_CHANGES)

    project.write(program("life", PROGRAM.replace("tflops_limit=20", "tflops_limit=40")))
    shown = project.ok("preview", "--diff")
    vgpu = "tflops_limit={}, vram_request=20Gi, qos=high, gpu_model=L40s, enabled_replicas=1"
    assert f'"{vgpu.format(20)}" => "{vgpu.format(40)}"' in shown
    assert '~ tensor-fusion.ai/tflops-limit: "20" => "40"' in shown
    assert "~ 2 to update" in shown
    shown = project.up()
    assert re.search(r"~  tensorfusion:index:AnnotatedDeployment chat updat\w+ \(\w+\) \[diff: ~vgpu\]", shown)
    assert re.search(r"~  kubernetes:apps/v1:Deployment chat updat\w+ \(\w+\) \[diff: ~spec\]", shown)
    assert annotations(project.object("deployment", "chat", "life"))["tflops-limit"] == "40"

    project.ok("destroy", "--yes", "--skip-preview")
    assert "life" not in project.plane.kubectl("get", "gpupools", "-o", "name")
    left = project.plane.kubectl("get", "crds", "-o", "name")
    assert all(f"{kind}.tensor-fusion.ai" in left for kind in KINDS), "destroying the CRDs would delete everyone's objects"
    project.up()
    project.ok("preview", NO_CHANGES)


CRD = """
import tensorfusion_iac.components.crds as module
if CHANGE:
    import copy
    changed = copy.deepcopy(module.crds())
    for crd in changed:
        version = crd["spec"]["versions"][0]
        version["schema"]["openAPIV3Schema"]["description"] = "of an older version"
        version.get("additionalPrinterColumns", []).reverse()
    module.crds = lambda: changed
tfi.CustomResourceDefinitions("crds")
"""


def described(project: Project) -> str:
    definition = project.object("crd", "gpupools.tensor-fusion.ai")
    text: str = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"]
    return text


def test_a_changed_schema_is_updated_also_where_others_applied_it(project: Project) -> None:
    project.write(program("schema", CRD.replace("CHANGE", "True")))
    project.up()
    assert described(project) == "of an older version"
    project.write(program("schema", CRD.replace("CHANGE", "False")))
    project.up()
    new = described(project)
    assert new != "of an older version"

    patch = '[{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "by hand"}]'
    project.plane.kubectl("patch", "crd", "gpupools.tensor-fusion.ai", "--type=json", "-p", patch)
    project.ok("up", "--yes", "--skip-preview", "--refresh")
    assert described(project) == new


PLAIN = """
k8s.apps.v1.Deployment("chat", metadata={"name": "chat", "namespace": ns}, spec={
    "replicas": 2, "selector": {"match_labels": {"app": "web"}},
    "template": {"metadata": METADATA, "spec": {"containers": [{"name": "app", "image": "i:1"}]}}})
"""
MOVED = """
tfi.AnnotatedDeployment("chat", namespace=ns, replicas=2, pod_template={
    "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "i:1"}]}}, MORE)
"""


@pytest.mark.parametrize(
    ("metadata", "more"),
    [
        ('{"labels": {"app": "web"}}', 'vgpu=tfi.VGPU(vram_request="4Gi"), enabled=False'),
        (
            '{"labels": {"app": "web", "tensor-fusion.ai/enabled": "true"}, '
            '"annotations": {"tensor-fusion.ai/vram-request": "4Gi"}}',
            'vgpu=tfi.VGPU(vram_request="4Gi")',
        ),
    ],
    ids=["plain", "annotated by hand"],
)
def test_a_live_deployment_moves_into_a_component_and_no_pod_is_touched(project: Project, metadata: str, more: str) -> None:
    def state() -> tuple[str, int, set[str]]:
        found = project.object("deployment", "chat", "moving")["metadata"]
        return found["uid"], found["generation"], {pod["metadata"]["uid"] for pod in project.objects("pods", "moving")}

    project.write(program("moving", PLAIN.replace("METADATA", metadata)))
    project.up()
    before = state()
    assert len(before[2]) == 2

    project.write(program("moving", MOVED.replace("MORE", more)))
    assert project.steps() == {Step("create", "AnnotatedDeployment chat")}
    project.up()
    assert state() == before
    project.ok("preview", NO_CHANGES)


def test_turning_it_off_is_one_line_and_updates_in_place(project: Project) -> None:
    on = MOVED.replace("MORE", 'vgpu=tfi.VGPU(vram_request="4Gi")')
    project.write(program("switch", on))
    project.up()
    before = project.object("deployment", "chat", "switch")
    project.write(program("switch", on.replace("vgpu=", "enabled=False, vgpu=")))
    assert project.steps() == {Step("update", "AnnotatedDeployment chat"), Step("update", "Deployment chat")}
    project.up()
    now = project.object("deployment", "chat", "switch")
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert now["spec"]["template"]["metadata"] == {"labels": {"app": "web"}}, "what remains is the plain workload"


SCALED = """
tfi.AnnotatedDeployment("chat", namespace=ns, image="i:1", vgpu=tfi.VGPU(vram_request=VRAM))
"""


def test_replicas_of_an_autoscaler_are_left_alone(project: Project) -> None:
    project.write(program("scaled", SCALED.replace("VRAM", '"4Gi"')))
    project.up()
    project.plane.kubectl("scale", "deployment", "chat", "-n", "scaled", "--replicas=3")
    project.ok("preview", "--refresh", NO_CHANGES)
    project.write(program("scaled", SCALED.replace("VRAM", '"8Gi"')))
    project.ok("up", "--yes", "--skip-preview", "--refresh")
    chat = project.object("deployment", "chat", "scaled")
    assert (chat["spec"]["replicas"], annotations(chat)["vram-request"]) == (3, "8Gi")


JOB = """
job = tfi.AnnotatedJob("train", namespace=ns, image="i:1", pod_spec={"node_selector": {"nowhere": "true"}},
    vgpu=tfi.VGPU(vram_request=VRAM))
pulumi.export("job", job.name)
"""


def test_an_edited_job_is_started_anew_before_the_old_one_goes(project: Project) -> None:
    project.write(program("jobs", JOB.replace("VRAM", '"4Gi"')))
    project.up()  # does not wait: its pods never run
    first = project.outputs()["job"]
    project.write(program("jobs", JOB.replace("VRAM", '"8Gi"')))
    shown = project.up()
    assert shown.index("created replacement") < shown.index("deleted original")
    second = project.outputs()["job"]
    assert second != first
    assert eventually(lambda: [job["metadata"]["name"] for job in project.objects("jobs", "jobs")] == [second])


WAITING = """
quota = k8s.core.v1.ResourceQuota("none", metadata={"name": "none", "namespace": ns}, spec={"hard": {"pods": "0"}})
tfi.AnnotatedDeployment("refused", namespace=ns, image="i:1", vgpu=tfi.VGPU(vram_request="4Gi"), timeout_s=5,
    opts=pulumi.ResourceOptions(depends_on=[quota]))
tfi.AnnotatedDeployment("unplaced", namespace="default", image="i:1", vgpu=tfi.VGPU(vram_request="4Gi"), timeout_s=5,
    pod_spec={"node_selector": {"nowhere": "true"}})
"""


def test_a_failed_wait_says_why_the_pods_are_missing(project: Project) -> None:
    project.write(program("waiting", WAITING))
    shown = project.refused("up", "--yes", "--skip-preview")
    by_resource = shown.partition("Diagnostics:")[2]
    assert "tensorfusion:index:AnnotatedDeployment (refused):\n    error: FailedCreate: Error creating: pods" in by_resource
    assert "is forbidden: exceeded quota: none" in by_resource
    assert "tensorfusion:index:AnnotatedDeployment (unplaced):\n    error: Unschedulable: 0/3 nodes are available" in by_resource
    assert by_resource.count("exceeded quota") == 1, "each reason once, however many pods it refuses"


def test_without_wait_up_does_not_wait(project: Project) -> None:
    project.write(program("waitless", WAITING.replace("timeout_s=5", "wait=False").replace("unplaced", "elsewhere")))
    project.up()
    assert project.object("deployment", "refused", "waitless")["status"].get("readyReplicas", 0) == 0


PROVIDED = """
provider = k8s.Provider("cluster", kubeconfig=open(pulumi.Config().require("path")).read())
opts = pulumi.ResourceOptions(provider=provider)
crds = tfi.CustomResourceDefinitions("crds", opts=opts)
after = pulumi.ResourceOptions(provider=provider, depends_on=[crds])
tfi.GPUPool("provided", default_using_local_gpu=True, opts=after)
tfi.AnnotatedDeployment("chat", image="i:1", gpupool="provided", vgpu=tfi.VGPU(vram_request="4Gi"), opts=after, timeout_s=3,
    pod_spec={"node_selector": {"nowhere": "true"}})
"""


def test_children_use_the_provider_of_their_component_and_no_default_one(project: Project) -> None:
    project.ok("config", "set", "path", str(project.plane.kubeconfig))
    project.ok("config", "set", "--path", "pulumi:disable-default-providers[0]", "kubernetes")
    project.environment.pop("KUBECONFIG")
    project.write("import pulumi\nimport pulumi_kubernetes as k8s\nimport tensorfusion_iac as tfi\n" + PROVIDED)
    shown = project.refused("up", "--yes", "--skip-preview")  # since the pod finds no node
    assert "Unschedulable: 0/3 nodes are available" in shown, "the reason is read with the provider's own kubeconfig"
    assert project.object("gpupool", "provided")["spec"] == {"defaultUsingLocalGPU": True}


TAKEN = """
tfi.GPUPool("taken", default_using_local_gpu=True)
tfi.WorkloadProfile("inference", namespace="default", vgpu=tfi.VGPU(vram_request="4Gi")FORCED)
"""
FOREIGN = """
apiVersion: tensor-fusion.ai/v1
kind: GPUPool
metadata: {name: taken}
spec: {defaultUsingLocalGPU: true}
---
apiVersion: tensor-fusion.ai/v1
kind: WorkloadProfile
metadata: {name: inference, namespace: default}
spec: {qos: high}
"""


def test_an_object_of_somebody_else_is_taken_over_only_on_purpose(project: Project) -> None:
    def identity() -> list[str]:
        found = project.object("gpupool", "taken"), project.object("workloadprofile", "inference")
        return [item["metadata"]["uid"] for item in found]

    project.plane.install_crds()
    project.plane.kubectl("apply", "--server-side", "--field-manager=platform-team", "-f", "-", stdin=FOREIGN)
    theirs = identity()
    project.write(program("takeover", TAKEN.replace("FORCED", "")))
    assert "is in the cluster already, managed by platform-team, and not in this stack" in project.refused("preview")
    shown = project.refused("up", "--yes", "--skip-preview", "--continue-on-error").partition("Diagnostics:")[2]
    assert "GPUPool taken is in the cluster already, managed by platform-team" in shown
    assert "WorkloadProfile default/inference is in the cluster already, managed by platform-team" in shown
    assert "pulumi import kubernetes:tensor-fusion.ai/v1:GPUPool taken taken`" in shown
    assert project.object("workloadprofile", "inference")["spec"] == {"qos": "high"}, "nothing was written"

    options = ("--yes", "--generate-code=false", "--protect=false")
    project.ok("import", *options, "kubernetes:tensor-fusion.ai/v1:GPUPool", "taken", "taken")
    project.write(program("takeover", TAKEN.replace("FORCED", ', annotations={"pulumi.com/patchForce": "true"}')))
    project.up()
    assert identity() == theirs, "both are the objects that were there"
    assert project.object("workloadprofile", "inference")["spec"]["resources"] == {"requests": {"vram": "4Gi"}}
    project.ok("preview", NO_CHANGES)
    replaced = ("--replace", "urn:pulumi:dev::project::tensorfusion:index:GPUPool$kubernetes:tensor-fusion.ai/v1:GPUPool::taken")
    project.ok("preview", *replaced)
    project.ok("up", "--yes", "--skip-preview", *replaced)
    assert identity()[0] != theirs[0], "a replacement is no takeover"
    project.ok("destroy", "--yes")


WRONG = {
    "two problems of one workload": (
        'tfi.AnnotatedDeployment("chat", image="i:1", vgpu=tfi.VGPU(vram_request="4Gi", vram_limit="2Gi", qos="urgent"))',
        "AnnotatedDeployment (chat)",
        [
            "vgpu.vram_limit: 2Gi is below vram_request 4Gi; give at least 4Gi, or leave it out",
            'vgpu.qos: "urgent" is not one of low, medium, high, critical',
        ],
    ),
    "a typo in the VGPU": (
        'tfi.AnnotatedDeployment("chat", image="i:1", vgpu=tfi.VGPU(vram_requst="4Gi"))',
        "VGPU (__main__.py:",
        ["vram_requst: no such argument; did you mean vram_request?"],
    ),
    "a value of another resource": (
        'tfi.AnnotatedDeployment("chat", image="i:1", vgpu=tfi.VGPU(vram_request="4Gi", vram_limit=ns.apply(lambda _: "2Gi")))',
        "AnnotatedDeployment (chat)",
        ["vgpu.vram_limit: 2Gi is below vram_request 4Gi; give at least 4Gi, or leave it out"],
    ),
}


def test_a_mistake_is_refused_by_the_preview_with_the_resource_and_the_field(project: Project) -> None:
    for wrong, resource, lines in WRONG.values():
        project.write(program("wrong", wrong))
        shown = project.refused("preview")
        assert resource in shown
        assert all(f"error: {line}" in shown or f"\n      {line}" in shown for line in lines), shown
        assert all(shown.partition("Diagnostics:")[2].count(line) == 1 for line in lines), shown
    assert "wrong" not in project.plane.kubectl("get", "namespaces", "-o", "name")


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: web\nversion: 0.1.0\n",
    "templates/all.yaml": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: indexer, image: "i:1"}, {name: proxy, image: "i:1"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {a: b}
""",
}
CHARTED = """
k8s.helm.v4.Chart("web", chart="./chart", namespace=ns, opts=pulumi.ResourceOptions(transforms=[
    tfi.annotate(tfi.VGPU(vram_request="2Gi", inject_container=CONTAINER))]))
"""


def test_a_charts_workloads_are_annotated_by_a_transform(project: Project) -> None:
    for name, text in CHART.items():
        path = project.folder / "chart" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    project.write(program("charts", CHARTED.replace("CONTAINER", '"indexr"')))
    shown = project.refused("preview")
    assert 'error: Deployment "web:charts/web": 1 problem' in shown
    assert 'vgpu.inject_container: "indexr": not a container of the pod; its containers are indexer, proxy' in shown

    project.write(program("charts", CHARTED.replace("CONTAINER", '"indexer"')))
    project.up()
    assert annotations(project.object("deployment", "web", "charts")) == {"vram-request": "2Gi", "inject-container": "indexer"}
    assert "annotations" not in project.object("configmap", "web", "charts")["metadata"]
    project.ok("preview", NO_CHANGES)
