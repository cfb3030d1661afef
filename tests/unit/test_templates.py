"""Pod templates of workloads: what is wrong whatever the cluster holds is refused, the rest is left to the pod."""

from __future__ import annotations

from typing import Any

import pytest
from admission_objects import container, json_values, junk_pods, pod
from hypothesis import given, settings

from tensorfusion_iac.admission import judge_template
from tensorfusion_iac.admission.templates import TEMPLATE_KINDS


def workload(kind: str, template: Any) -> dict[str, Any]:
    spec = {"template": template}
    return {"metadata": {"name": "chat"}, "spec": {"jobTemplate": {"spec": spec}} if kind == "CronJob" else spec}


@pytest.mark.parametrize("kind", TEMPLATE_KINDS)
def test_a_wrong_value_is_refused_in_every_kind(kind: str) -> None:
    decision = judge_template(kind, workload(kind, pod({"vram-request": "4 Gi", "qos": "urgent"})), "ml")
    assert decision.status == 422
    assert decision.message.splitlines()[0] == f"{kind} ml/chat pod template: 2 problems"


@pytest.mark.parametrize(
    "annotations",
    [
        {"vram-request": "4Gi"},
        {},
        {"workload-profile": "not-yet"},
        {"gpupool": "not-yet", "vram-request": "1Gi"},
        {"workload-profile": "p", "dedicated-gpu": "true"},
        {"partition-template": "1g.10gb", "vram-request": "1Gi"},
        {"is-local-gpu": "false", "vram-request": "1Gi"},
        {"container-gpu-count": '{"main":2}', "vram-request": "1Gi"},
    ],
)
def test_what_another_object_may_put_right_is_left_to_the_pod(annotations: dict[str, str]) -> None:
    decision = judge_template("Deployment", workload("Deployment", pod(annotations)))
    assert decision.allowed, decision.message


@pytest.mark.parametrize(
    ("annotations", "field"),
    [
        ({"dedicated-gpu": "true"}, "dedicated-gpu"),
        ({"dedicated-gpu": "true", "gpu-model": "A100", "vram-request": "1Gi"}, "dedicated-gpu"),
        ({"vram-request": "4Gi", "vram-limit": "2Gi", "workload-profile": "p"}, "vram-limit"),
        ({"partition-template": "1g.10gb", "isolation": "soft", "vram-request": "1Gi"}, "partition-template"),
        ({"inject-container": "nobody", "vram-request": "1Gi"}, "inject-container"),
    ],
)
def test_what_nothing_can_put_right_is_refused(annotations: dict[str, str], field: str) -> None:
    decision = judge_template("Deployment", workload("Deployment", pod(annotations)))
    assert [problem.field for problem in decision.problems] == [field]


def test_hard_isolation_beside_host_pid_is_refused_where_the_template_says_both() -> None:
    hard = {"isolation": "hard", "vram-request": "1Gi"}
    known = pod({**hard, "is-local-gpu": "true"}, hostPID=True)
    assert not judge_template("Deployment", workload("Deployment", known)).allowed
    unknown = pod(hard, hostPID=True)
    assert judge_template("Deployment", workload("Deployment", unknown)).allowed


def test_a_template_that_is_not_enabled_is_allowed_whatever_it_says() -> None:
    template = pod({"vram-request": "nonsense"})
    template["metadata"]["labels"] = {}
    assert judge_template("Job", workload("Job", template)).allowed


def test_warnings_are_given_where_nothing_is_refused() -> None:
    decision = judge_template("Deployment", workload("Deployment", pod({"vram-request": "4Gi", "vram-requests": "4Gi"})))
    assert decision.allowed
    assert any("did you mean tensor-fusion.ai/vram-request" in text for text in decision.warnings)


def test_several_containers_and_none_named_is_refused() -> None:
    decision = judge_template("Deployment", workload("Deployment", pod(None, container("a"), container("b"))))
    assert [problem.field for problem in decision.problems] == ["inject-container"]


@given(json_values | junk_pods())
@settings(max_examples=300)
def test_no_template_is_too_broken_to_judge(template: Any) -> None:
    for kind in TEMPLATE_KINDS:
        decision = judge_template(kind, workload(kind, template))
        assert decision.allowed or decision.problems
        judge_template(kind, template)
