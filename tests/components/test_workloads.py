"""What the workload components send: the object, its pod template's label and annotations, and nothing of other writers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest
from declared import DEPLOYMENT, IMAGE, P, annotations_of, chat, pool, template_of, two_containers
from mocked import Run

import tensorfusion_iac as tfi
from tensorfusion_iac.api import names

VGPU = tfi.VGPU(vram_request="4Gi")


def test_the_usual_arguments_become_a_deployment(run: Run) -> None:
    sent = run(
        lambda: (
            chat(
                namespace="ml",
                replicas=6,
                command=["serve"],
                args=["--gpu-memory-utilization=$(TENSOR_FUSION_VRAM_FRACTION)"],
                env={"A": "b", "TOKEN": {"secret_key_ref": {"name": "s", "key": "token"}}},
                ports=[8000, {"container_port": 9000, "name": "metrics"}],
                resources={"requests": {"cpu": "1"}},
                labels={"team": "x"},
                annotations={"example.com/note": "y"},
                pod_annotations={"prometheus.io/scrape": "true"},
                pod_spec={"service_account_name": "runner"},
                strategy={"type": "Recreate"},
                min_ready_seconds=5,
                vgpu=tfi.VGPU(vram_request="4Gi", qos="high"),
            )
            and None
        )
    ).one(DEPLOYMENT)
    assert sent["metadata"] == {
        "name": "chat",
        "namespace": "ml",
        "labels": {"team": "x"},
        "annotations": {"example.com/note": "y"},
    }
    assert sent["spec"] == {
        "replicas": 6,
        "strategy": {"type": "Recreate"},
        "minReadySeconds": 5,
        "selector": {"matchLabels": {"app": "chat"}},
        "template": {
            "metadata": {
                "labels": {"app": "chat", "team": "x", names.ENABLED_LABEL: "true"},
                "annotations": {
                    "prometheus.io/scrape": "true",
                    P + "vram-request": "4Gi",
                    P + "qos": "high",
                },
            },
            "spec": {
                "serviceAccountName": "runner",
                "containers": [
                    {
                        "name": "chat",
                        "image": IMAGE,
                        "command": ["serve"],
                        "args": ["--gpu-memory-utilization=$(TENSOR_FUSION_VRAM_FRACTION)"],
                        "env": [
                            {"name": "A", "value": "b"},
                            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}},
                        ],
                        "ports": [{"containerPort": 8000}, {"containerPort": 9000, "name": "metrics"}],
                        "resources": {"requests": {"cpu": "1"}},
                    }
                ],
            },
        },
    }


def test_replicas_that_an_autoscaler_sets_are_not_sent(run: Run) -> None:
    assert "replicas" not in run(lambda: chat(vgpu=VGPU) and None).one(DEPLOYMENT)["spec"]


@pytest.mark.parametrize(
    "template",
    [
        {"metadata": {"labels": {"app": "x"}}, "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]}},
        {"metadata": {"labels": {"app": "x"}}, "spec": {"init_containers": [{"name": "i"}], "containers": [{"name": "a"}]}},
        k8s.core.v1.PodTemplateSpecArgs(
            metadata=k8s.meta.v1.ObjectMetaArgs(labels={"app": "x"}),
            spec=k8s.core.v1.PodSpecArgs(
                init_containers=[k8s.core.v1.ContainerArgs(name="i")], containers=[k8s.core.v1.ContainerArgs(name="a")]
            ),
        ),
    ],
    ids=["manifest", "python names", "Args classes"],
)
def test_a_template_of_any_spelling_is_taken(run: Run, template: Any) -> None:
    spec = run(lambda: tfi.AnnotatedDeployment("chat", pod_template=template, vgpu=VGPU) and None).one(DEPLOYMENT)["spec"]
    assert spec["selector"] == {"matchLabels": {"app": "x"}}
    assert spec["template"]["spec"] == {"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]}
    assert spec["template"]["metadata"]["labels"] == {"app": "x", names.ENABLED_LABEL: "true"}


def test_the_users_own_template_is_not_changed(run: Run) -> None:
    template = {"metadata": {"annotations": {"a": "b"}}, "spec": {"containers": [{"name": "a"}]}}
    run(lambda: tfi.AnnotatedDeployment("chat", pod_template=template, vgpu=VGPU) and None)
    assert template == {"metadata": {"annotations": {"a": "b"}}, "spec": {"containers": [{"name": "a"}]}}


def test_a_vgpu_goes_over_the_templates_own_annotations_key_by_key(run: Run) -> None:
    template = {
        "metadata": {"annotations": {P + "qos": "low", P + "vram-request": "1Gi", "a": "b"}},
        "spec": {"containers": [{"name": "a"}]},
    }
    sent = run(lambda: tfi.AnnotatedDeployment("chat", pod_template=template, vgpu=tfi.VGPU(qos="high")) and None)
    assert annotations_of(sent.one(DEPLOYMENT)) == {"qos": "high", "vram-request": "1Gi"}
    assert template_of(sent.one(DEPLOYMENT))["metadata"]["annotations"]["a"] == "b"


def test_what_only_the_system_writes_is_dropped_with_a_warning(run: Run) -> None:
    template = {
        "metadata": {"annotations": {P + "resolved": "{}", P + "gpu-ids.a": "GPU-1"}},
        "spec": {"containers": [{"name": "a"}]},
    }
    ran = run(lambda: tfi.AnnotatedDeployment("chat", pod_template=template, vgpu=VGPU) and None)
    assert annotations_of(ran.one(DEPLOYMENT)) == {"vram-request": "4Gi"}
    assert len(ran.messages("warning")) == 2


@pytest.mark.parametrize(
    "off", [{"enabled": False}, {"vgpu": tfi.VGPU(vram_request="4Gi", enabled=False)}], ids=["component", "VGPU"]
)
def test_enabled_false_leaves_the_plain_workload(run: Run, off: dict[str, Any]) -> None:
    template = {
        "metadata": {"labels": {"a": "b", names.ENABLED_LABEL: "true"}, "annotations": {P + "qos": "urgent"}},
        "spec": {"containers": [{"name": "a", "image": IMAGE}]},
    }

    def program() -> dict[str, Any]:
        arguments: dict[str, Any] = {"vgpu": VGPU, "gpupool": "p", **off}
        return {"requested": tfi.AnnotatedDeployment("chat", pod_template=template, **arguments).requested}

    ran = run(program)
    assert template_of(ran.one(DEPLOYMENT)) == {
        "metadata": {"labels": {"a": "b", "app": "chat"}},
        "spec": {"containers": [{"name": "a", "image": IMAGE}]},
    }
    assert ran.outputs["requested"] == {"workers": 0, "gpus": 0}


def test_profile_and_pool_are_named_by_component_or_by_name(run: Run) -> None:
    def program() -> None:
        profile = tfi.WorkloadProfile("inference", namespace="ml", vgpu=VGPU)
        chat(workload_profile=profile, gpupool=pool(metadata={"name": "gpus"}))

    assert annotations_of(run(program).one(DEPLOYMENT)) == {"workload-profile": "inference", "gpupool": "gpus"}
    named = run(lambda: chat(workload_profile="p", gpupool="q") and None)
    assert annotations_of(named.one(DEPLOYMENT)) == {"workload-profile": "p", "gpupool": "q"}


def test_the_component_shows_what_its_vgpu_says_as_its_own_input(run: Run) -> None:
    ran = run(lambda: chat(replicas=2, gpupool="p", vgpu=tfi.VGPU(vram_request="4Gi", tflops_limit=20)) and None)
    assert ran.one("AnnotatedDeployment") == {"gpupool": "p", "vgpu": "tflops_limit=20, vram_request=4Gi"}


def test_name_and_namespace_come_from_the_object_itself(run: Run) -> None:
    def program() -> dict[str, Any]:
        made = chat(vgpu=VGPU)
        return {"name": made.name, "namespace": made.namespace}

    assert run(program).outputs == {"name": "chat", "namespace": "default"}


@pytest.mark.parametrize(
    ("declare", "waits"),
    [
        (lambda: chat(vgpu=VGPU), True),
        (lambda: chat(vgpu=VGPU, wait=False), False),
        (lambda: tfi.AnnotatedStatefulSet("chat", image=IMAGE, vgpu=VGPU), True),
        (lambda: tfi.AnnotatedJob("chat", image=IMAGE, vgpu=VGPU), False),
        (lambda: tfi.AnnotatedJob("chat", image=IMAGE, vgpu=VGPU, wait=True), True),
        (lambda: tfi.AnnotatedCronJob("chat", image=IMAGE, vgpu=VGPU, schedule="0 3 * * *"), True),
    ],
)
def test_up_waits_for_deployments_and_not_for_jobs(run: Run, declare: Any, waits: bool) -> None:
    ran = run(lambda: declare() and None)
    child = next(item.inputs for item in ran.registered if item.type.startswith("kubernetes:"))
    annotations = child["metadata"].get("annotations", {})
    assert ("pulumi.com/skipAwait" not in annotations) is waits


def test_a_timeout_without_a_wait_is_warned_of(run: Run) -> None:
    ran = run(lambda: tfi.AnnotatedJob("train", image=IMAGE, timeout_s=60, vgpu=VGPU) and None)
    assert ran.messages("warning") == ["timeout_s: 60 says nothing without wait=True; ignored"]


def test_a_job_is_named_by_pulumi_and_does_not_restart(run: Run) -> None:
    job = run(lambda: tfi.AnnotatedJob("train", image=IMAGE, parallelism=4, completions=4, vgpu=VGPU) and None).one(":Job")
    assert "name" not in job["metadata"]
    assert job["spec"]["parallelism"] == 4
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    named = run(lambda: tfi.AnnotatedJob("train", image=IMAGE, metadata={"name": "t"}, vgpu=VGPU) and None).one(":Job")
    assert named["metadata"]["name"] == "t"


def test_a_jobs_own_restart_policy_stays(run: Run) -> None:
    job = run(lambda: tfi.AnnotatedJob("t", image=IMAGE, pod_spec={"restart_policy": "OnFailure"}, vgpu=VGPU) and None)
    assert template_of(job.one(":Job"))["spec"]["restartPolicy"] == "OnFailure"


def test_a_cron_jobs_template_is_two_levels_down(run: Run) -> None:
    sent = run(
        lambda: (
            tfi.AnnotatedCronJob(
                "nightly", image=IMAGE, schedule="0 3 * * *", time_zone="Europe/Rome", parallelism=2, backoff_limit=1, vgpu=VGPU
            )
            and None
        )
    ).one(":CronJob")
    assert sent["metadata"]["name"] == "nightly"
    assert (sent["spec"]["schedule"], sent["spec"]["timeZone"]) == ("0 3 * * *", "Europe/Rome")
    job = sent["spec"]["jobTemplate"]["spec"]
    assert (job["parallelism"], job["backoffLimit"]) == (2, 1)
    assert annotations_of(sent) == {"vram-request": "4Gi"}


def test_a_stateful_set_takes_its_own_arguments(run: Run) -> None:
    sent = run(
        lambda: tfi.AnnotatedStatefulSet(
            "search", image=IMAGE, service_name="search", strategy={"type": "OnDelete"}, replicas=2, vgpu=VGPU,
            volume_claim_templates=[{"metadata": {"name": "data"}, "spec": {"access_modes": ["ReadWriteOnce"]}}],
        ) and None
    ).one(":StatefulSet")  # fmt: skip
    assert sent["spec"]["serviceName"] == "search"
    assert sent["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert sent["spec"]["volumeClaimTemplates"][0]["spec"] == {"accessModes": ["ReadWriteOnce"]}


def test_spec_is_for_what_has_no_argument_and_arguments_go_over_it(run: Run) -> None:
    spec = {"replicas": 1, "paused": True, "selector": {"match_labels": {"x": "y"}}, "template": two_containers()}
    sent = run(
        lambda: (
            tfi.AnnotatedDeployment("t", spec=spec, replicas=3, vgpu=tfi.VGPU(vram_request="1Gi", inject_container="trainer"))
            and None
        )
    ).one(DEPLOYMENT)["spec"]
    assert (sent["replicas"], sent["paused"], sent["selector"]) == (3, True, {"matchLabels": {"x": "y"}})


MANIFEST = f"""
apiVersion: apps/v1
kind: Deployment
metadata:
  name: old-name
  namespace: ml
  uid: 0b1e2c60
  resourceVersion: "7"
  creationTimestamp: "2026-01-01T00:00:00Z"
  annotations:
    deployment.kubernetes.io/revision: "3"
    kubectl.kubernetes.io/last-applied-configuration: "{{}}"
    example.com/note: kept
spec:
  replicas: 2
  selector: {{matchLabels: {{k: v}}}}
  template:
    metadata:
      labels: {{k: v}}
      annotations: {{tensor-fusion.ai/qos: low}}
    spec:
      containers: [{{name: app, image: "{IMAGE}"}}]
status:
  replicas: 2
"""


@pytest.mark.parametrize("form", ["path", "text", "mapping"])
def test_a_manifest_is_sent_as_it_is_without_what_the_server_wrote(run: Run, tmp_path: Path, form: str) -> None:
    import yaml

    path = tmp_path / "legacy.yaml"
    path.write_text(MANIFEST)
    manifest: Any = {"path": str(path), "text": MANIFEST, "mapping": yaml.safe_load(MANIFEST)}[form]
    sent = run(lambda: tfi.AnnotatedDeployment.from_manifest("legacy", manifest, vgpu=tfi.VGPU(vram_request="8Gi")) and None).one(
        DEPLOYMENT
    )
    assert sent["metadata"] == {"name": "old-name", "namespace": "ml", "annotations": {"example.com/note": "kept"}}
    assert "status" not in sent
    assert sent["spec"] == {
        "replicas": 2,
        "selector": {"matchLabels": {"k": "v"}},
        "template": {
            "metadata": {
                "labels": {"k": "v", names.ENABLED_LABEL: "true"},
                "annotations": {P + "qos": "low", P + "vram-request": "8Gi"},
            },
            "spec": {"containers": [{"name": "app", "image": IMAGE}]},
        },
    }


def test_arguments_go_over_a_manifest(run: Run) -> None:
    arguments: Any = {"replicas": 5, "labels": {"team": "x"}, "namespace": "prod", "metadata": {"name": "new"}, "vgpu": VGPU}
    sent = run(lambda: tfi.AnnotatedDeployment.from_manifest("legacy", MANIFEST, **arguments) and None).one(DEPLOYMENT)
    assert sent["spec"]["replicas"] == 5
    assert sent["metadata"] == {
        "name": "new",
        "namespace": "prod",
        "labels": {"team": "x"},
        "annotations": {"example.com/note": "kept"},
    }


def test_a_jobs_manifest_is_sent_without_the_labels_of_the_job_that_was_read(run: Run) -> None:
    uid = {"batch.kubernetes.io/controller-uid": "1"}
    template = {"metadata": {"labels": {**uid, "app": "t"}}, "spec": {"containers": [{"name": "a"}], "restartPolicy": "Never"}}
    spec = {"selector": {"matchLabels": uid}, "template": template}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "t"}, "spec": spec}
    sent = run(lambda: tfi.AnnotatedJob.from_manifest("t", job, vgpu=VGPU) and None).one(":Job")
    assert "selector" not in sent["spec"]
    assert sent["spec"]["template"]["metadata"]["labels"] == {"app": "t", names.ENABLED_LABEL: "true"}


def test_nothing_asked_is_a_warning_since_a_quota_may_give_defaults(run: Run) -> None:
    ran = run(lambda: chat() and None)
    assert ran.error is None
    assert ran.messages("warning") == [
        "vgpu.vram_request: nothing asked for: give vram_request, tflops_request or compute_percent_request; "
        "without one the pods start only if a GPUResourceQuota of the namespace gives defaults"
    ]


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        (
            {"vgpu": tfi.VGPU(vram_request="1Gi", gpu_model="A100x")},
            'vgpu.gpu_model: "A100x" is not in the catalogue; the pod waits until a node has it; did you mean A100?',
        ),
        (
            {"vgpu": tfi.VGPU(tflops_request=10, vram_request="200Gi", gpu_model="L40S")},
            "vgpu.vram_request: 200Gi fits no L40S, which has 48Gi; the pod waits",
        ),
        (
            {"vgpu": tfi.VGPU(isolation="hard", compute_percent_request=10, vram_request="1Gi")},
            "vgpu.isolation: hard without a compute limit bounds no compute, unless a quota of the namespace gives a limit; "
            "give compute_percent_limit or tflops_limit",
        ),
        (
            {"vgpu": VGPU, "annotations": {P + "qos": "low"}},
            'annotations: "tensor-fusion.ai/qos" says nothing on this object, only on its pods; give vgpu.qos',
        ),
        (
            {"vgpu": VGPU, "pod_annotations": {P + "vram-requests": "4Gi"}},
            "tensor-fusion.ai/vram-requests: unknown annotation, ignored; did you mean tensor-fusion.ai/vram-request?",
        ),
    ],
)
def test_what_is_suspicious_is_warned_of_on_the_resource(run: Run, arguments: dict[str, Any], warning: str) -> None:
    ran = run(lambda: chat(**arguments) and None)
    assert ran.error is None
    assert ran.logged == [("warning", "chat", warning)]


def test_children_take_the_components_provider(run: Run) -> None:
    def program() -> None:
        provider = k8s.Provider("cluster", kubeconfig="{}")
        opts = pulumi.ResourceOptions(provider=provider)
        chat(vgpu=VGPU, opts=opts)
        pool(opts=opts)
        tfi.CustomResourceDefinitions("crds", opts=opts)

    children = [item for item in run(program).registered if item.type.startswith("kubernetes:")]
    assert len(children) > 2
    assert {item.provider.rpartition("::")[0].rpartition("::")[2] for item in children} == {"cluster"}


@pytest.mark.parametrize(
    ("timeout_s", "expected"), [(None, ("11m", "12m", "13m")), (60, ("60s", "60s", "13m"))], ids=["alone", "beside timeout_s"]
)
def test_custom_timeouts_are_those_of_the_child(run: Run, timeout_s: float | None, expected: tuple[str, ...]) -> None:
    given: list[pulumi.CustomTimeouts | None] = []

    class Watched(tfi.AnnotatedDeployment):
        def _create(self, name: str, metadata: Any, spec: Any, opts: pulumi.ResourceOptions) -> Any:
            given.append(opts.custom_timeouts)
            return super()._create(name, metadata, spec, opts)

    timeouts = pulumi.CustomTimeouts(create="11m", update="12m", delete="13m")
    opts = pulumi.ResourceOptions(custom_timeouts=timeouts)
    ran = run(lambda: Watched("chat", image=IMAGE, vgpu=VGPU, timeout_s=timeout_s, opts=opts) and None)
    assert ran.error is None
    (found,) = given
    assert found is not None
    assert (found.create, found.update, found.delete) == expected
