"""`annotate` and `annotated_template`: the same for any workload, by either of pulumi's two hooks."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest
from declared import IMAGE, P, annotations_of, template_of
from mocked import Run

import tensorfusion_iac as tfi
from tensorfusion_iac.api import names

VGPU = tfi.VGPU(vram_request="2Gi", tflops_request=5)
SELECTOR = {"match_labels": {"a": "b"}}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "indexer", "image": IMAGE}]}}
ASKED = {"tflops-request": "5", "vram-request": "2Gi"}


def hooked(vgpu: tfi.VGPU = VGPU, **more: Any) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(transformations=[tfi.annotate(vgpu, **more)])


def stateful_set(opts: pulumi.ResourceOptions, name: str = "search") -> k8s.apps.v1.StatefulSet:
    spec: Any = {"service_name": "s", "selector": SELECTOR, "template": TEMPLATE}
    return k8s.apps.v1.StatefulSet(name, spec=spec, opts=opts)


@pytest.mark.parametrize(
    "declare",
    [
        lambda opts: stateful_set(opts),
        lambda opts: k8s.apps.v1.Deployment("x", spec={"selector": SELECTOR, "template": TEMPLATE}, opts=opts),
        lambda opts: k8s.apps.v1.DaemonSet("x", spec={"selector": SELECTOR, "template": TEMPLATE}, opts=opts),
        lambda opts: k8s.apps.v1.ReplicaSet("x", spec={"selector": SELECTOR, "template": TEMPLATE}, opts=opts),
        lambda opts: k8s.core.v1.ReplicationController("x", spec={"template": TEMPLATE}, opts=opts),
        lambda opts: k8s.batch.v1.Job("x", spec={"template": TEMPLATE}, opts=opts),
        lambda opts: k8s.batch.v1.CronJob(
            "x", spec={"schedule": "@daily", "job_template": {"spec": {"template": TEMPLATE}}}, opts=opts
        ),
        lambda opts: k8s.apps.v1.Deployment(
            "x",
            spec=k8s.apps.v1.DeploymentSpecArgs(
                selector=k8s.meta.v1.LabelSelectorArgs(match_labels={"a": "b"}),
                template=k8s.core.v1.PodTemplateSpecArgs(
                    metadata=k8s.meta.v1.ObjectMetaArgs(labels={"a": "b"}),
                    spec=k8s.core.v1.PodSpecArgs(containers=[k8s.core.v1.ContainerArgs(name="indexer", image=IMAGE)]),
                ),
            ),
            opts=opts,
        ),
        lambda opts: k8s.apps.v1.Deployment(
            "x", spec=pulumi.Output.from_input({"selector": SELECTOR, "template": TEMPLATE}), opts=opts
        ),
    ],
    ids=["StatefulSet", "Deployment", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CronJob", "Args", "Output"],
)
def test_every_kind_of_workload_and_spelling_is_annotated(run: Run, declare: Any) -> None:
    ran = run(lambda: declare(hooked()) and None)
    assert ran.error is None
    (sent,) = ran.registered
    template = template_of(sent.inputs)
    assert annotations_of(sent.inputs) == ASKED
    assert template["metadata"]["labels"][names.ENABLED_LABEL] == "true"
    assert template["spec"]["containers"] == [{"name": "indexer", "image": IMAGE}]


def test_a_pod_is_its_own_template(run: Run) -> None:
    metadata: Any = {"name": "p", "labels": {"a": "b"}}
    pod = run(lambda: k8s.core.v1.Pod("p", metadata=metadata, spec=TEMPLATE["spec"], opts=hooked()) and None).one(":Pod")  # type: ignore[arg-type]
    assert pod["metadata"]["annotations"] == {P + key: value for key, value in ASKED.items()}
    assert pod["metadata"]["name"] == "p"


def test_what_is_no_workload_is_left_alone(run: Run) -> None:
    ran = run(lambda: k8s.core.v1.ConfigMap("c", data={"spec": "x"}, opts=hooked()) and None)
    assert ran.one("ConfigMap") == {"apiVersion": "v1", "kind": "ConfigMap", "data": {"spec": "x"}}


def test_a_component_hands_it_to_its_children(run: Run) -> None:
    def program() -> None:
        component = pulumi.ComponentResource("x:y:Z", "c", None, hooked())
        stateful_set(pulumi.ResourceOptions(parent=component))

    assert annotations_of(run(program).one("StatefulSet")) == ASKED


def test_only_the_workloads_named_are_annotated(run: Run) -> None:
    def program() -> None:
        opts = hooked(only=["search", "web"])
        stateful_set(opts)
        stateful_set(opts, "other")
        k8s.apps.v1.Deployment("d", metadata={"name": "web"}, spec={"selector": SELECTOR, "template": TEMPLATE}, opts=opts)  # type: ignore[arg-type]

    ran = run(program)
    assert {item.name: bool(annotations_of(item.inputs)) for item in ran.registered} == {
        "search": True,
        "other": False,
        "d": True,
    }


def test_a_transform_sees_the_manifest_form_and_answers_in_it() -> None:
    options = pulumi.ResourceOptions()
    props = {
        "spec": {"selector": {"matchLabels": {}}, "template": {"spec": {"initContainers": [], "containers": [{"name": "a"}]}}}
    }
    given = pulumi.ResourceTransformArgs(True, "kubernetes:apps/v1:Deployment", "web", props, options)
    result = tfi.annotate(VGPU)(given)
    assert isinstance(result, pulumi.ResourceTransformResult)
    assert result.opts is options
    assert annotations_of(result.props) == ASKED  # type: ignore[arg-type]
    other = pulumi.ResourceTransformArgs(True, "kubernetes:core/v1:Service", "web", {}, options)
    assert tfi.annotate(VGPU)(other) is None


def test_enabled_false_makes_the_workload_plain(run: Run) -> None:
    template = {"metadata": {"labels": {"a": "b", names.ENABLED_LABEL: "true"}}, "spec": TEMPLATE["spec"]}
    opts = hooked(tfi.VGPU(vram_request="2Gi", enabled=False))
    sent = run(lambda: k8s.apps.v1.Deployment("x", spec={"selector": SELECTOR, "template": template}, opts=opts) and None)  # type: ignore[arg-type]
    assert template_of(sent.one("Deployment"))["metadata"] == {"labels": {"a": "b"}}


def test_a_late_value_is_judged_when_it_is_known(run: Run) -> None:
    def program(limit: str) -> None:
        stateful_set(hooked(tfi.VGPU(vram_request="2Gi", vram_limit=pulumi.Output.from_input(limit))))

    assert annotations_of(run(lambda: program("4Gi")).one("StatefulSet"))["vram-limit"] == "4Gi"
    ran = run(lambda: program("1Gi"))
    assert ran.refusal == (
        'StatefulSet "search": 1 problem\n  vgpu.vram_limit: 1Gi is below vram_request 2Gi; give at least 2Gi, or leave it out'
    )
    assert ran.registered == []


def test_a_template_of_anything_else_is_given_back_in_manifest_form(run: Run) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"init_containers": [], "containers": [{"name": "indexer"}]}}
    assert tfi.annotated_template(template, VGPU) == {
        "metadata": {
            "labels": {"a": "b", names.ENABLED_LABEL: "true"},
            "annotations": {P + "tflops-request": "5", P + "vram-request": "2Gi"},
        },
        "spec": {"initContainers": [], "containers": [{"name": "indexer"}]},
    }

    def late() -> dict[str, Any]:
        return {"template": tfi.annotated_template(pulumi.Output.from_input(template), VGPU)}

    assert run(late).outputs["template"] == tfi.annotated_template(template, VGPU)
