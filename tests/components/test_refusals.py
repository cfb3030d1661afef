"""What a mistake looks like (API.md): the whole text, for every component. Each problem is also logged on its resource."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest
from declared import IMAGE, chat, pool, two_containers
from mocked import Run

import tensorfusion_iac as tfi
from tensorfusion_iac.components.errors import collecting

VGPU = tfi.VGPU


def _job(**arguments: Any) -> tfi.AnnotatedJob:
    return tfi.AnnotatedJob("train", **{"pod_template": two_containers(), **arguments})


def _profile(**arguments: Any) -> tfi.WorkloadProfile:
    return tfi.WorkloadProfile("inference", **arguments)


REFUSED: list[tuple[str, Callable[[], object], str]] = [
    (
        "the example of API.md",
        lambda: chat(vgpu=VGPU(vram_request="4Gi", vram_limit="2Gi", qos="urgent")),  # type: ignore[arg-type]
        'AnnotatedDeployment "chat": 2 problems\n'
        "  vgpu.vram_limit: 2Gi is below vram_request 4Gi; give at least 4Gi, or leave it out\n"
        '  vgpu.qos: "urgent" is not one of low, medium, high, critical',
    ),
    (
        "a misspelled argument",
        lambda: chat(replica=3, vgpu=VGPU(vram_request="4Gi")),
        'AnnotatedDeployment "chat": 1 problem\n  replica: no such argument; did you mean replicas?',
    ),
    (
        "a misspelled image is not also missing",
        lambda: tfi.AnnotatedDeployment("chat", imge=IMAGE, vgpu=VGPU(vram_request="4Gi")),  # type: ignore[call-arg]
        'AnnotatedDeployment "chat": 1 problem\n  imge: no such argument; did you mean image?',
    ),
    (
        "a setting of the GPUs beside the VGPU",
        lambda: chat(enabled_replicas=1, vgpu=VGPU(vram_request="4Gi")),
        'AnnotatedDeployment "chat": 1 problem\n'
        "  enabled_replicas: no argument of its own; give vgpu.enabled_replicas",
    ),
    (
        "values of the wrong kind",
        lambda: chat(replicas="six", enabled="yes", wait=1, timeout_s=0, vgpu={"qos": "low"}, labels=["a"]),
        'AnnotatedDeployment "chat": 6 problems\n'
        '  vgpu: a dict is not a VGPU; give tfi.VGPU(vram_request="4Gi", ...)\n'
        '  enabled: "yes" is not True or False\n'
        "  wait: 1 is not True or False\n"
        "  timeout_s: 0 is not a number of seconds above 0\n"
        '  replicas: "six" is not a whole number from 0\n'
        "  labels: a list is not a mapping",
    ),
    (
        "no container at all",
        lambda: tfi.AnnotatedDeployment("chat", vgpu=VGPU(vram_request="4Gi")),
        'AnnotatedDeployment "chat": 1 problem\n  image: not given; give image, containers or pod_template',
    ),
    (
        "two ways to say the containers",
        lambda: chat(containers=[{"name": "a"}], vgpu=VGPU(vram_request="4Gi")),
        'AnnotatedDeployment "chat": 1 problem\n  image: stands beside containers; give one of them',
    ),
    (
        "what only goes with image",
        lambda: tfi.AnnotatedDeployment("chat", pod_template=two_containers(), args=["x"], env={"A": "b"},
                                        vgpu=VGPU(vram_request="4Gi", inject_container="trainer")),
        'AnnotatedDeployment "chat": 2 problems\n'
        "  args: without image it says nothing; give it in the container itself\n"
        "  env: without image it says nothing; give it in the container itself",
    ),
    (
        "more pods enabled than there are",
        lambda: chat(replicas=2, vgpu=VGPU(vram_request="4Gi", enabled_replicas=3)),
        'AnnotatedDeployment "chat": 1 problem\n'
        "  vgpu.enabled_replicas: 3 is above replicas 2; give at most 2, or leave it out for all",
    ),
    (
        "several containers and none named",
        lambda: _job(vgpu=VGPU(vram_request="4Gi")),
        'AnnotatedJob "train": 1 problem\n'
        "  vgpu.inject_container: 2 containers, and none is named; give inject_container one or more of trainer, evaluator",
    ),
    (
        "a container that does not exist",
        lambda: _job(vgpu=VGPU(vram_request="4Gi", inject_container=["trainr"])),
        'AnnotatedJob "train": 1 problem\n'
        '  vgpu.inject_container: "trainr": not a container of the pod; its containers are trainer, evaluator',
    ),
    (
        "a dedicated card beside amounts",
        lambda: chat(vgpu=VGPU(dedicated_gpu=True, gpu_model="A100", vram_request="1Gi")),
        'AnnotatedDeployment "chat": 1 problem\n'
        "  vgpu.dedicated_gpu: true stands beside vram_request; give amounts or a dedicated card, not both",
    ),
    (
        "a dedicated card of no model",
        lambda: chat(vgpu=VGPU(dedicated_gpu=True)),
        'AnnotatedDeployment "chat": 1 problem\n  vgpu.dedicated_gpu: true needs gpu_model: which cards to take',
    ),
    (
        "the same thing said by two arguments",
        lambda: chat(gpupool="a", workload_profile="p", vgpu=VGPU(gpupool="b", workload_profile="q")),
        'AnnotatedDeployment "chat": 2 problems\n'
        "  gpupool: given twice; give it here or in vgpu.gpupool\n"
        "  workload_profile: given twice; give it here or in vgpu.workload_profile",
    ),
    (
        "a pool's name that is none",
        lambda: chat(gpupool="Default Pool", vgpu=VGPU(vram_request="4Gi")),
        'AnnotatedDeployment "chat": 1 problem\n'
        '  gpupool: "Default Pool" is not an object name (lower-case letters, digits, - and ., at most 253)',
    ),
    (
        "an annotation of the template itself",
        lambda: tfi.AnnotatedDeployment("chat", vgpu=VGPU(vram_limit="2Gi"), pod_template={
            "metadata": {"annotations": {"tensor-fusion.ai/vram-request": "4Gi", "tensor-fusion.ai/qos": "urgent"}},
            "spec": {"containers": [{"name": "a"}]}}),
        'AnnotatedDeployment "chat": 2 problems\n'
        "  vgpu.vram_limit: 2Gi is below tensor-fusion.ai/vram-request 4Gi; give at least 4Gi, or leave it out\n"
        '  tensor-fusion.ai/qos: "urgent" is not one of low, medium, high, critical',
    ),
    (
        "a limit below the request of a profile declared here",
        lambda: chat(workload_profile=_profile(vgpu=VGPU(vram_request="8Gi")), vgpu=VGPU(vram_limit="2Gi")),
        'AnnotatedDeployment "chat": 1 problem\n'
        "  vgpu.vram_limit: 2Gi is below WorkloadProfile inference spec.resources.requests.vram 8Gi; "
        "give vram_limit of at least 8Gi",
    ),
    (
        "a split of GPUs in a pool of remote ones, declared here",
        lambda: _job(gpupool=pool(default_using_local_gpu=False, worker_image="w:1", client_image="c:1"),
                     vgpu=VGPU(vram_request="4Gi", container_gpu_count={"trainer": 1, "evaluator": 1})),
        'AnnotatedJob "train": 1 problem\n'
        '  vgpu.container_gpu_count: a split of the GPUs works with local GPUs only; set is_local_gpu to true, or leave it out',
    ),
    (
        "an object name that is none",
        lambda: tfi.AnnotatedDeployment("My_Chat", image=IMAGE, vgpu=VGPU(vram_request="4Gi")),
        'AnnotatedDeployment "My_Chat": 1 problem\n'
        '  metadata.name: "My_Chat" is not an object name (lower-case letters, digits, - and ., at most 253)',
    ),
    (
        "two namespaces",
        lambda: chat(namespace="a", metadata={"namespace": "b"}, vgpu=VGPU(vram_request="4Gi")),
        'AnnotatedDeployment "chat": 1 problem\n'
        '  namespace: "a" stands beside metadata.namespace "b"; give one of the two',
    ),
    (
        "a cron job without a schedule",
        lambda: tfi.AnnotatedCronJob("nightly", image=IMAGE, vgpu=VGPU(vram_request="4Gi")),
        'AnnotatedCronJob "nightly": 1 problem\n  schedule: not given; give five cron fields, such as 0 3 * * *',
    ),
    (
        "a pool that does not say where its GPUs are",
        lambda: tfi.GPUPool("p"),  # type: ignore[call-arg]
        'GPUPool "p": 1 problem\n'
        "  default_using_local_gpu: not given; give True (GPUs of the pod's own node) or False (GPUs over the network)",
    ),
    (
        "a pool's arguments",
        lambda: pool(tflops_oversell_ratio=50, node_selector={"gpu": True}, placement_mode="Compact", defalt=True),
        'GPUPool "default-pool": 4 problems\n'
        "  defalt: no such argument; did you mean default?\n"
        '  node_selector.gpu: true is not text, such as "true"\n'
        "  tflops_oversell_ratio: 50 is too small; give at least 100\n"
        '  placement_mode: "Compact" is not one of CompactFirst, LowLoadFirst, NodeCompactGPULowLoad',
    ),
    (
        "a pool's full spec",
        lambda: pool(spec={"node_manager_config": {"node_compaction": {"perod": "5m"}}}),
        'GPUPool "default-pool": 1 problem\n'
        "  spec.nodeManagerConfig.nodeCompaction.perod: unknown field; did you mean period?",
    ),
    (
        "an argument and the spec say the same field",
        lambda: pool(default_qos="low", spec={"qos_config": {"default_qos": "high"}}),
        'GPUPool "default-pool": 1 problem\n  default_qos: given twice; give it here or in spec.qosConfig.defaultQoS',
    ),
    (
        "a profile's VGPU",
        lambda: _profile(vgpu=VGPU(vram_request="4Gi", vram_limit="2Gi", gpu_count=0, enabled_replicas=3), replicas=-1),
        'WorkloadProfile "inference": 4 problems\n'
        "  replicas: -1 is not a whole number from 0\n"
        '  vgpu.gpu_count: "0" is not a whole number from 1 to 128\n'
        "  vgpu.enabled_replicas: not a setting of a profile; give it on the workload\n"
        "  vgpu.vram_limit: 2Gi is below vram_request 4Gi; give at least 4Gi, or leave it out",
    ),
    (
        "a profile's other arguments",
        lambda: _profile(auto_set_resources={"target_resource": "gpu"}, gang_scheduling={"min_members": 1}),
        'WorkloadProfile "inference": 2 problems\n'
        '  auto_set_resources.targetResource: "gpu" is not one of compute, vram, all\n'
        "  gang_scheduling.minMembers: a gang of 1 is none, found 1; give 0, or a whole number from 2",
    ),
    (
        "arguments of what takes none",
        lambda: tfi.CustomResourceDefinitions("crds", keep=False),  # type: ignore[call-arg]
        'CustomResourceDefinitions "crds": 1 problem\n  keep: no such argument; it takes no arguments',
    ),
    (
        "annotate, when it is called",
        lambda: tfi.annotate(VGPU(qos="urgent", tflops_request=1, compute_percent_request=10)),  # type: ignore[arg-type]
        "annotate: 2 problems\n"
        '  vgpu.qos: "urgent" is not one of low, medium, high, critical\n'
        "  vgpu.compute_percent_request: 10 stands beside tflops_request; give one of the two",
    ),
    (
        "annotate, where it acts",
        lambda: k8s.apps.v1.StatefulSet("search", spec={"template": two_containers()}, opts=pulumi.ResourceOptions(
            transformations=[tfi.annotate(VGPU(vram_request="2Gi", inject_container="indexer"))])),
        'StatefulSet "search": 1 problem\n'
        '  vgpu.inject_container: "indexer": not a container of the pod; its containers are trainer, evaluator',
    ),
    (
        "a template",
        lambda: tfi.annotated_template(two_containers(), VGPU(vram_request="2Gi")),
        "pod template: 1 problem\n"
        "  vgpu.inject_container: 2 containers, and none is named; give inject_container one or more of trainer, evaluator",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("declare", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
@pytest.mark.parametrize("preview", [True, False], ids=["preview", "up"])
def test_a_mistake_ends_the_program_with_every_problem(run: Run, declare: Callable[[], object], text: str, preview: bool) -> None:
    ran = run(lambda: declare() and None, preview=preview)
    assert isinstance(ran.error, pulumi.RunError), ran.error
    assert ran.refusal == text


def test_each_problem_is_logged_on_its_resource_and_no_child_is_registered(run: Run) -> None:
    ran = run(lambda: chat(vgpu=VGPU(vram_request="4Gi", vram_limit="2Gi", qos="urgent")) and None)  # type: ignore[arg-type]
    assert ran.logged == [
        ("error", "chat", "vgpu.vram_limit: 2Gi is below vram_request 4Gi; give at least 4Gi, or leave it out"),
        ("error", "chat", 'vgpu.qos: "urgent" is not one of low, medium, high, critical'),
    ]
    assert [item.type for item in ran.registered] == ["tensorfusion:index:AnnotatedDeployment"]
    assert str(ran.error) == 'AnnotatedDeployment "chat": 2 problems, listed with the resource', "the stack does not repeat them"


def test_a_program_that_catches_a_refusal_reads_all_of_it(run: Run) -> None:
    def program() -> None:
        with pytest.raises(tfi.SpecError, match=r"vgpu\.vram_limit: 2Gi is below"):
            chat(vgpu=VGPU(vram_request="4Gi", vram_limit="2Gi"))

    assert run(program).error is None


@pytest.mark.parametrize(
    ("declare", "inputs"),
    [
        (lambda: chat(replica=3, gpupool="big", vgpu=VGPU(vram_request="4Gi")), {"gpupool": "big", "vgpu": "vram_request=4Gi"}),
        (lambda: chat(gpupool="big", vgpu=VGPU(vram_request="x")), {"gpupool": "big", "vgpu": "vram_request=x"}),
        (lambda: chat(gpupool="big", vgpu={"vram_request": "4Gi"}), {"gpupool": "big"}),
        (lambda: chat(gpupool=object(), vgpu=VGPU(vram_request="4Gi")), {"gpupool": "<object>", "vgpu": "vram_request=4Gi"}),
        (lambda: _profile(vgu=1, replicas=2, vgpu=VGPU(vram_request="4Gi")), {"replicas": 2, "vgpu": {"vram_request": "4Gi"}}),
        (lambda: pool(defalt=True, default_using_local_gpu=True), {"default_using_local_gpu": True}),
    ],
)  # fmt: skip
def test_a_refused_component_is_shown_with_what_the_program_says_of_it(
    run: Run, declare: Callable[[], object], inputs: dict[str, Any]
) -> None:
    """Else a preview would tell of inputs that go, beside the mistake."""
    ran = run(lambda: declare() and None)
    assert isinstance(ran.error, tfi.SpecError)
    (component,) = ran.registered
    assert {name: value for name, value in component.inputs.items() if name != "default"} == inputs


def test_a_vgpu_that_is_none_is_not_also_said_to_ask_for_nothing(run: Run) -> None:
    ran = run(lambda: chat(vgpu={"vramRequest": "4Gi"}) and None)
    assert ran.messages("warning") == []
    assert ran.messages("error") == ['vgpu: a dict is not a VGPU; give tfi.VGPU(vram_request="4Gi", ...)']


def test_problems_of_all_objects_can_be_collected(run: Run) -> None:
    texts: list[str] = []

    def program() -> None:
        with collecting() as found:
            profile = _profile(vgpu=VGPU(qos="urgent"))  # type: ignore[arg-type]
            chat(workload_profile=profile, vgpu=VGPU(vram_request="x"))
            pool(tflops_oversell_ratio=50)
        texts.extend(str(error) for error in found)

    assert run(program).error is None
    assert [text.partition(":")[0] for text in texts] == [
        'WorkloadProfile "inference"',
        'AnnotatedDeployment "chat"',
        'GPUPool "default-pool"',
    ]


def test_records_carry_field_found_accepted_and_message(run: Run) -> None:
    ran = run(lambda: chat(vgpu=VGPU(vram_request="4Gi", vram_limit="2Gi")) and None)
    assert isinstance(ran.error, tfi.SpecError)
    assert ran.error.records() == [
        {
            "field": "vgpu.vram_limit",
            "found": "2Gi",
            "accepted": "at least 4Gi",
            "message": "2Gi is below vram_request 4Gi; give at least 4Gi, or leave it out",
        }
    ]


MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: legacy}
spec: {}
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (MANIFEST + "---" + MANIFEST, "manifest: the text holds 2 objects; give a file of one, or yaml.safe_load_all"),
        ("a: [\n", "manifest: the text is not YAML: while parsing a flow node expected the node content"),
        (MANIFEST.replace("Deployment", "StatefulSet"), 'manifest kind: "StatefulSet" is not Deployment'),
        (MANIFEST.replace("spec: {}", ""), "manifest spec: null is not an object"),
        ("- a\n- b\n", "manifest: a list is not a Kubernetes object"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_told_in_one_sentence(run: Run, text: str, told: str) -> None:
    ran = run(lambda: tfi.AnnotatedDeployment.from_manifest("legacy", text) and None)
    assert isinstance(ran.error, tfi.SpecError)
    assert ran.refusal.startswith('AnnotatedDeployment "legacy": 1 problem\n  ' + told)


def test_a_manifest_that_is_not_there_names_the_path(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    ran = run(lambda: tfi.AnnotatedDeployment.from_manifest("legacy", path) and None)
    assert ran.refusal == (
        'AnnotatedDeployment "legacy": 1 problem\n'
        f'  manifest: "{path}" can\'t be read: No such file or directory; '
        "give the path of a file, from the folder that pulumi runs the program in"
    )


def test_a_manifest_that_cannot_be_read_does_not_hide_what_else_is_wrong(run: Run) -> None:
    found = []

    def program() -> None:
        with collecting() as errors:
            read = tfi.AnnotatedDeployment.from_manifest("first", "none.yaml", replicas="six", vgpu=VGPU(qos="urgent"))  # type: ignore[arg-type]
            assert read.resource is None
            tfi.AnnotatedJob.from_manifest("second", {"kind": "Pod"})
            chat(vgpu=VGPU(qos="urgent"))  # type: ignore[arg-type]
        found.extend(errors)

    run(program)
    assert [(error.subject, [problem.field for problem in error.problems]) for error in found] == [
        ('AnnotatedDeployment "first"', ["manifest", "replicas", "qos"]),
        ('AnnotatedJob "second"', ["manifest kind", "manifest apiVersion", "manifest metadata", "manifest spec"]),
        ('AnnotatedDeployment "chat"', ["qos"]),
    ]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"containers": [{"name": "a", "volume_mounts": [], "volumeMounts": []}]}, "containers[0].volumeMounts"),
        ({"containers": [k8s.core.v1.ContainerArgs(name="a", env=[{"value_from": {}, "valueFrom": {}}])]},  # type: ignore[list-item]
         "containers[0].env[0].valueFrom"),
        ({"image": IMAGE, "pod_spec": {"node_name": "a", "nodeName": "a"}}, "pod_spec.nodeName"),
        ({"pod_template": {"spec": {"containers": [{"name": "a"}], "host_pid": True, "hostPID": False}}},
         "pod_template.spec.hostPID"),
        ({"image": IMAGE, "spec": {"min_ready_seconds": 1, "minReadySeconds": 2}}, "spec.minReadySeconds"),
        ({"image": IMAGE, "metadata": {"generate_name": "a", "generateName": "b"}}, "metadata.generateName"),
    ],
)  # fmt: skip
def test_a_field_in_both_spellings_is_refused(run: Run, arguments: dict[str, Any], field: str) -> None:
    ran = run(lambda: tfi.AnnotatedDeployment("chat", vgpu=VGPU(vram_request="1Gi"), **arguments) and None)
    assert isinstance(ran.error, tfi.SpecError)
    assert [problem.field for problem in ran.error.problems] == [field]
    assert ran.refusal.endswith(f" beside {field.rpartition('.')[2]}; give one of the two")


def test_labels_may_differ_in_spelling_only(run: Run) -> None:
    labels = {"match_labels": "a", "matchLabels": "b"}
    ran = run(lambda: chat(metadata={"labels": labels}, vgpu=VGPU(vram_request="1Gi")) and None)
    assert ran.error is None
