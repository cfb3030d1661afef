"""Values that are known later: what is known fails at once, the rest is judged when it is known and gates the child."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from declared import DEPLOYMENT, IMAGE, P, annotations_of, chat, pool, template_of
from mocked import Recording, Run

import tensorfusion_iac as tfi
from tensorfusion_iac.api import names

Unknown = Callable[[], pulumi.Output[Any]]


def later(value: Any) -> pulumi.Output[Any]:
    """An Output that is known by the time the engine needs it."""
    return pulumi.Output.from_input(value)


def test_known_leaves_stay_visible_beside_an_unknown_one(run: Run, unknown: Unknown) -> None:
    ran = run(lambda: chat(replicas=2, vgpu=tfi.VGPU(vram_request=unknown(), qos="high")) and None, preview=True)
    assert ran.error is None
    sent = ran.one(DEPLOYMENT)
    annotations = annotations_of(sent)
    assert annotations["qos"] == "high"
    assert isinstance(annotations["vram-request"], pulumi.output.Unknown)
    assert template_of(sent)["spec"]["containers"] == [{"name": "chat", "image": IMAGE}]


def test_a_known_mistake_fails_beside_an_unknown_value(run: Run, unknown: Unknown) -> None:
    ran = run(
        lambda: chat(vgpu=tfi.VGPU(vram_request=unknown(), qos="urgent", tflops_request=2, tflops_limit=1)) and None,  # type: ignore[arg-type]
        preview=True,
    )
    assert ran.refusal == (
        'AnnotatedDeployment "chat": 2 problems\n'
        "  vgpu.tflops_limit: 1 is below tflops_request 2; give at least 2, or leave it out\n"
        '  vgpu.qos: "urgent" is not one of low, medium, high, critical'
    )


@pytest.mark.parametrize(
    "vgpu",
    [
        lambda unknown: tfi.VGPU(vram_limit="2Gi", vram_request=unknown()),
        lambda unknown: tfi.VGPU(vram_limit=unknown(), vram_request="2Gi"),
        lambda unknown: tfi.VGPU(vram_request=unknown()),
        lambda unknown: tfi.VGPU(dedicated_gpu=True, gpu_model=unknown()),
        lambda unknown: tfi.VGPU(vram_request="1Gi", partition_template="1g.10gb", isolation=unknown()),
        lambda unknown: tfi.VGPU(vram_request="1Gi", autoscale_target="vram", autoscale=unknown()),
        lambda unknown: tfi.VGPU(vram_request="1Gi", gang_timeout="5m", gang_min_members=unknown()),
        lambda unknown: tfi.VGPU(vram_request="1Gi", gpu_indices=[0, 1], gpu_count=unknown()),
        lambda unknown: tfi.VGPU(workload_profile=unknown()),
    ],
)
def test_nothing_is_said_that_rests_on_the_absence_of_an_unknown_value(run: Run, unknown: Unknown, vgpu: Any) -> None:
    ran = run(lambda: chat(vgpu=vgpu(unknown)) and None, preview=True)
    assert ran.error is None
    assert ran.logged == []


@pytest.mark.parametrize(
    "declare",
    [
        lambda unknown: chat(image=unknown(), vgpu=tfi.VGPU(vram_request="1Gi", qos="urgent")),  # type: ignore[arg-type]
        lambda unknown: chat(namespace=unknown(), vgpu=tfi.VGPU(vram_request="1Gi", qos="urgent")),  # type: ignore[arg-type]
        lambda unknown: chat(replicas=unknown(), vgpu=tfi.VGPU(vram_request="1Gi", qos="urgent")),  # type: ignore[arg-type]
        lambda unknown: chat(labels=unknown(), vgpu=tfi.VGPU(vram_request="1Gi", qos="urgent")),  # type: ignore[arg-type]
        lambda unknown: chat(enabled=unknown(), vgpu=tfi.VGPU(vram_request="1Gi", qos="urgent")),  # type: ignore[arg-type]
        lambda unknown: chat(metadata=unknown(), vgpu=tfi.VGPU(vram_request="1Gi", qos="urgent")),  # type: ignore[arg-type]
        lambda unknown: tfi.AnnotatedDeployment("chat", containers=unknown(), vgpu=tfi.VGPU(vram_request="1Gi", qos="urgent")),  # type: ignore[arg-type]
        lambda unknown: tfi.AnnotatedDeployment("chat", pod_template=unknown(), vgpu=tfi.VGPU(vram_request="1Gi", qos="urgent")),  # type: ignore[arg-type]
    ],
    ids=["image", "namespace", "replicas", "labels", "enabled", "metadata", "containers", "pod_template"],
)
def test_whatever_is_unknown_a_known_mistake_fails_in_the_preview(run: Run, unknown: Unknown, declare: Any) -> None:
    ran = run(lambda: declare(unknown) and None, preview=True)
    assert ran.refusal == (
        'AnnotatedDeployment "chat": 1 problem\n  vgpu.qos: "urgent" is not one of low, medium, high, critical'
    )


def test_a_value_known_later_is_judged_then_and_nothing_is_sent(run: Run) -> None:
    ran = run(lambda: chat(vgpu=tfi.VGPU(vram_request=later("4Gi"), vram_limit="2Gi")) and None)
    line = "vgpu.vram_limit: 2Gi is below vram_request 4Gi; give at least 4Gi, or leave it out"
    assert ran.refusal == f'AnnotatedDeployment "chat": 1 problem\n  {line}'
    assert ran.logged == [("error", "chat", line)]
    assert [item.type for item in ran.registered] == ["tensorfusion:index:AnnotatedDeployment"]


@pytest.mark.parametrize(
    ("declare", "line"),
    [
        (
            lambda: chat(replicas=later(2), vgpu=tfi.VGPU(vram_request="1Gi", enabled_replicas=3)),
            "vgpu.enabled_replicas: 3 is above replicas 2; give at most 2, or leave it out for all",
        ),
        (
            lambda: chat(vgpu=tfi.VGPU(qos=later(3))),
            "vgpu.qos: 3 is not taken here; give text",
        ),
        (
            lambda: tfi.AnnotatedDeployment(
                "chat", containers=later([{"name": "a"}, {"name": "b"}]), vgpu=tfi.VGPU(vram_request="1Gi")
            ),
            "vgpu.inject_container: 2 containers, and none is named; give inject_container one or more of a, b",
        ),
        (
            lambda: tfi.AnnotatedDeployment(
                "chat", pod_template=later({"spec": {"containers": [{"name": "a"}]}}),
                vgpu=tfi.VGPU(vram_request="1Gi", inject_container="b"),
            ),
            'vgpu.inject_container: "b": not a container of the pod; its containers are a',
        ),
        (
            lambda: chat(enabled=later(True), vgpu=tfi.VGPU(vram_request="1Gi", inject_container="b")),
            'vgpu.inject_container: "b": not a container of the pod; its containers are chat',
        ),
        (
            lambda: chat(pod_annotations={P + "qos": later("urgent")}, vgpu=tfi.VGPU(vram_request="1Gi")),
            'tensor-fusion.ai/qos: "urgent" is not one of low, medium, high, critical',
        ),
    ],
    ids=["replicas", "a wrong kind", "containers", "template", "enabled", "the template's own annotation"],
)  # fmt: skip
def test_every_deciding_part_gates_the_child(run: Run, declare: Any, line: str) -> None:
    ran = run(lambda: declare() and None)
    assert ran.refusal == f'AnnotatedDeployment "chat": 1 problem\n  {line}'
    assert [item.type for item in ran.registered] == ["tensorfusion:index:AnnotatedDeployment"]


def test_what_is_right_later_is_sent_as_if_it_had_been_known(run: Run) -> None:
    known = run(lambda: chat(replicas=2, vgpu=tfi.VGPU(vram_request="4Gi", qos="low", enabled_replicas=1)) and None)
    late = run(
        lambda: (
            chat(
                replicas=later(2),
                image=later(IMAGE),
                enabled=later(True),
                vgpu=tfi.VGPU(vram_request=later("4Gi"), qos=later("low"), enabled_replicas=later(1)),
            )
            and None
        )
    )
    leaf = run(
        lambda: chat(replicas=later(2), vgpu=tfi.VGPU(vram_request=later("4Gi"), qos="low", enabled_replicas=later(1))) and None
    )
    assert late.error is None
    assert late.one(DEPLOYMENT) == known.one(DEPLOYMENT) == leaf.one(DEPLOYMENT)


def test_the_usual_arguments_may_come_later_as_a_whole(run: Run) -> None:
    given = {
        "args": ["serve"],
        "env": {"A": "b"},
        "ports": [8000],
        "pod_spec": {"service_account_name": "runner"},
        "resources": {"requests": {"cpu": "1"}},
        "labels": {"a": "b"},
        "pod_annotations": {"c": "d"},
        "strategy": {"type": "Recreate"},
    }
    vgpu = tfi.VGPU(vram_request="1Gi")
    known = run(lambda: chat(**given, vgpu=vgpu) and None)
    late = run(lambda: chat(**{name: later(value) for name, value in given.items()}, vgpu=vgpu) and None)
    assert late.error is None
    assert late.one(DEPLOYMENT) == known.one(DEPLOYMENT)


def test_a_late_enabled_that_is_false_leaves_the_plain_workload(run: Run) -> None:
    def program() -> dict[str, Any]:
        return {"requested": chat(enabled=later(False), vgpu=tfi.VGPU(vram_request="4Gi")).requested}

    ran = run(program)
    assert template_of(ran.one(DEPLOYMENT))["metadata"] == {"labels": {"app": "chat"}}
    assert ran.outputs["requested"] == {"workers": 0, "gpus": 0}


def test_a_late_template_keeps_its_own_labels_and_is_selected_by_them(run: Run) -> None:
    template = later({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "a", "image": IMAGE}]}})
    spec = run(
        lambda: (
            tfi.AnnotatedDeployment("chat", pod_template=template, labels=later({"t": "u"}), vgpu=tfi.VGPU(vram_request="1Gi"))
            and None
        )
    ).one(DEPLOYMENT)["spec"]
    assert spec["selector"] == {"matchLabels": {"app": "x"}}
    assert spec["template"]["metadata"]["labels"] == {"app": "x", "t": "u", names.ENABLED_LABEL: "true"}


def test_late_metadata_is_merged_when_it_is_known(run: Run) -> None:
    sent = run(
        lambda: (
            chat(
                metadata=later({"labels": {"a": "b"}}),
                labels={"c": "d"},
                namespace=later("ml"),
                vgpu=tfi.VGPU(vram_request="1Gi"),
            )
            and None
        )
    ).one(DEPLOYMENT)
    assert sent["metadata"] == {"name": "chat", "namespace": "ml", "labels": {"a": "b", "c": "d"}}


@pytest.mark.parametrize("preview", [True, False])
def test_a_namespace_that_nobody_gave_does_not_end_the_program(run: Run, monkeypatch: pytest.MonkeyPatch, preview: bool) -> None:
    # In a preview the provider adds no namespace where the metadata is not all known.
    monkeypatch.setattr(Recording, "new_resource", lambda self, args: ("id", args.inputs))

    def program() -> dict[str, Any]:
        workload = chat(metadata={"labels": later({"a": "b"})}, vgpu=tfi.VGPU(vram_request="1Gi"))
        profile = tfi.WorkloadProfile("p", metadata={"labels": later({"a": "b"})}, vgpu=tfi.VGPU(vram_request="1Gi"))
        return {"workload": workload.namespace, "profile": profile.namespace}

    ran = run(program, preview=preview)
    assert ran.error is None
    assert ran.outputs == ({} if preview else {"workload": None, "profile": None})


def test_a_secret_stays_out_of_messages_and_reprs() -> None:
    import asyncio

    async def program() -> str:
        return repr(tfi.VGPU(gpu_model=pulumi.Output.secret("A100")))

    assert "A100" not in asyncio.run(program())


def test_a_pools_late_value_is_judged_when_it_is_known(run: Run) -> None:
    ran = run(lambda: pool(tflops_oversell_ratio=later(50)) and None)
    assert ran.refusal == 'GPUPool "default-pool": 1 problem\n  tflops_oversell_ratio: 50 is too small; give at least 100'
    assert [item.type for item in ran.registered] == ["tensorfusion:index:GPUPool"]


def test_a_pools_known_mistake_fails_beside_an_unknown_value(run: Run, unknown: Unknown) -> None:
    ran = run(lambda: pool(tflops_oversell_ratio=unknown(), default_qos="urgent", node_selector=unknown()) and None, preview=True)
    assert ran.refusal == ('GPUPool "default-pool": 1 problem\n  default_qos: "urgent" is not one of low, medium, high, critical')


def test_a_profiles_late_amounts_are_judged_together(run: Run) -> None:
    ran = run(lambda: tfi.WorkloadProfile("p", vgpu=tfi.VGPU(vram_request=later("4Gi"), vram_limit="2Gi")) and None)
    assert ran.refusal == (
        'WorkloadProfile "p": 1 problem\n'
        '  vgpu.vram_limit: limits.vram is below requests.vram, found "2Gi"; give at least as much, or leave it out'
    )
    wrong = run(lambda: tfi.WorkloadProfile("p", vgpu=tfi.VGPU(vram_request=later("x"))) and None)
    assert wrong.refusal == (
        'WorkloadProfile "p": 1 problem\n  vgpu.vram_request: "x" is not a Kubernetes quantity such as 10, 0.5, 500m, 4Gi or 4G'
    )


def test_a_rule_that_rests_on_an_unknown_field_is_not_judged(run: Run, unknown: Unknown) -> None:
    ran = run(lambda: tfi.WorkloadProfile("p", vgpu=tfi.VGPU(dedicated_gpu=True, gpu_model=unknown())) and None, preview=True)
    assert ran.error is None


HIDDEN = "hunter2"


@pytest.mark.parametrize(
    "declare",
    [
        *(
            lambda argument=argument: chat(vgpu=tfi.VGPU(**{argument: pulumi.Output.secret(HIDDEN)}))  # type: ignore[arg-type]
            for argument in ("vram_request", "qos", "gpu_count", "container_gpu_count", "tflops_limit", "inject_container")
        ),
        lambda: chat(enabled=later(True), vgpu=tfi.VGPU(vram_request=pulumi.Output.secret(HIDDEN))),
        lambda: chat(vgpu=tfi.VGPU(inject_container=[pulumi.Output.secret(HIDDEN)])),
        lambda: chat(pod_annotations={P + "qos": pulumi.Output.secret(HIDDEN)}, vgpu=tfi.VGPU(vram_request="1Gi")),
        lambda: tfi.AnnotatedDeployment(
            "chat", containers=[{"name": pulumi.Output.secret(HIDDEN)}], vgpu=tfi.VGPU(vram_request="1Gi", inject_container="b")
        ),
        lambda: tfi.WorkloadProfile("p", vgpu=tfi.VGPU(vram_request=pulumi.Output.secret(HIDDEN))),
        lambda: pool(default_qos=pulumi.Output.secret(HIDDEN)),
    ],
)  # fmt: skip
def test_a_secret_is_never_quoted(run: Run, declare: Any) -> None:
    ran = run(lambda: declare() and None)
    assert "[secret]" in ran.refusal
    assert HIDDEN not in ran.refusal
    assert HIDDEN not in str(ran.logged)


def test_what_is_no_secret_is_quoted_beside_one(run: Run) -> None:
    vgpu = tfi.VGPU
    ran = run(lambda: chat(vgpu=vgpu(vram_request=pulumi.Output.secret("x"), qos=later("urgent"))) and None)
    assert ran.refusal == (
        'AnnotatedDeployment "chat": 2 problems\n'
        "  vgpu.vram_request: [secret] is not a Kubernetes quantity such as 10, 0.5, 500m, 4Gi or 4G\n"
        '  vgpu.qos: "urgent" is not one of low, medium, high, critical'
    )


def test_a_comparison_with_a_secret_does_not_show_it(run: Run) -> None:
    ran = run(lambda: chat(vgpu=tfi.VGPU(vram_request=pulumi.Output.secret("4Gi"), vram_limit="2Gi")) and None)
    assert ran.refusal == (
        'AnnotatedDeployment "chat": 1 problem\n  vgpu.vram_limit: [secret] can\'t stand here; the reason would show it'
    )
