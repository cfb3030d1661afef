"""`tensorfusion validate`: which objects it judges, by what it knows, and how it says what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_runs import FIXTURES, fields, findings, pod_with, run, validated

A = "tensor-fusion.ai/"
POOL = """\
apiVersion: tensor-fusion.ai/v1
kind: GPUPool
metadata: {name: %s, annotations: {tensor-fusion.ai/is-default-pool: "%s"}}
spec: {defaultUsingLocalGPU: %s}
---
"""
PROFILE = """\
apiVersion: tensor-fusion.ai/v1
kind: WorkloadProfile
metadata: {name: small, namespace: ml}
spec: {resources: {requests: {vram: 4Gi}, limits: {vram: 8Gi}}}
---
"""
QUOTA = """\
apiVersion: tensor-fusion.ai/v1
kind: GPUResourceQuota
metadata: {name: %s, namespace: ml}
spec: {total: {requests: {vram: 6Gi}}, single: {defaultRequests: {vram: 1Gi}}}
---
"""


def pod(annotations: dict[str, Any], namespace: str = "ml", **spec: Any) -> str:
    document = yaml.safe_load(pod_with({A + key: value for key, value in annotations.items()}, **spec))
    document["metadata"]["namespace"] = namespace
    return yaml.safe_dump(document)


def problems(text: str, *options: str) -> list[str]:
    """The fields of all problems; the exit code must agree."""
    code, report = validated("-f", "-", *options, stdin=text)
    found = [finding["field"] for finding in findings(report)]
    assert code == bool(found or report["unreadable"])
    return found


# --- what the files know ---------------------------------------------------------------------------------------------


def test_nothing_asked_for_is_an_error_unless_a_quota_or_a_named_profile_may_give_it() -> None:
    assert problems(pod({})) == [f"{A}vram-request"]
    assert problems(pod({"gpupool": "elsewhere"})) == [f"{A}vram-request"]
    assert problems(POOL % ("given", "true", "true") + pod({})) == [f"{A}vram-request"]
    assert problems(QUOTA % "q" + pod({})) == []
    assert problems(pod({"workload-profile": "in-the-cluster"})) == []
    assert problems(PROFILE + pod({"workload-profile": "small"})) == []
    assert problems(pod({"isolation": "shared"})) == []


def test_a_profile_that_is_not_given_is_not_judged_and_one_that_is_is_used() -> None:
    assert problems(pod({"workload-profile": "small", "vram-request": "9Gi"})) == []
    assert problems(PROFILE + pod({"workload-profile": "small", "vram-request": "9Gi"})) == [
        "WorkloadProfile small spec.resources.limits.vram"
    ]
    other = pod({"workload-profile": "small", "vram-request": "9Gi"}, namespace="other")
    assert problems(PROFILE + other) == []  # the profile of that namespace isn't given


def test_a_profile_that_is_wrong_is_reported_and_nothing_concluded_from_it() -> None:
    wrong = PROFILE.replace("4Gi", "16Gi")  # above its own limit
    assert problems(wrong + pod({"workload-profile": "small", "vram-request": "20Gi"})) == ["spec.resources.limits.vram"]


def test_pools_that_are_not_given_are_not_judged() -> None:
    assert problems(POOL % ("a", "false", "true") + pod({"gpupool": "b", "vram-request": "1Gi"})) == []
    assert problems(POOL % ("a", "false", "true") + pod({"vram-request": "1Gi"})) == []
    assert problems(pod({"isolation": "partitioned", "vram-request": "1Gi"})) == []
    assert problems(pod({"partition-template": "1g.10gb", "vram-request": "1Gi"})) == []  # the pool may say partitioned


def test_a_given_pool_is_used() -> None:
    remote = POOL % ("a", "false", "false")
    assert problems(remote + pod({"gpupool": "a", "vram-request": "1Gi"})) == ["GPUPool a spec.defaultUsingLocalGPU"]
    assert problems(remote + pod({"gpupool": "a", "vram-request": "1Gi", "is-local-gpu": "true"})) == []
    two = POOL % ("a", "true", "true") + POOL % ("b", "true", "true")
    assert problems(two + pod({"vram-request": "1Gi"})) == [f"{A}gpupool"]
    assert problems(two + pod({"gpupool": "a", "vram-request": "1Gi"})) == []


def test_a_pool_that_a_given_profile_names_is_used() -> None:
    profile = PROFILE.replace("spec: {", "spec: {poolName: a, ")
    assert problems(POOL % ("a", "false", "false") + profile + pod({"workload-profile": "small"})) == [
        "GPUPool a spec.defaultUsingLocalGPU"
    ]
    assert problems(POOL % ("b", "true", "false") + profile + pod({"workload-profile": "small"})) == []


def test_a_pool_open_to_other_namespaces_is_judged_by_the_given_namespace() -> None:
    pool = (POOL % ("a", "true", "true")).replace("spec: {", "spec: {namespaceSelector: {matchLabels: {team: x}}, ")
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: ml, labels: {team: %s}}\n---\n"
    assert problems(pool + pod({"vram-request": "1Gi"})) == []  # its labels aren't known
    assert problems(pool + namespace % "x" + pod({"vram-request": "1Gi"})) == []
    assert problems(pool + namespace % "other" + pod({"vram-request": "1Gi"})) == [f"{A}gpupool"]


def test_the_first_quota_of_a_namespace_holds_and_the_second_is_warned_of() -> None:
    text = QUOTA % "first" + (QUOTA % "second").replace("6Gi", "99Gi") + pod({"vram-request": "7Gi"})
    code, report = validated("-f", "-", stdin=text)
    assert (code, fields(report)["pod"]) == (1, [f"{A}vram-request"])
    assert fields(report, "warnings")["second"] == ["metadata.name"]
    assert problems(QUOTA % "q" + pod({"vram-request": "7Gi"}, namespace="other")) == []


def test_isolation_hard_is_refused_for_a_pod_that_reaches_past_it() -> None:
    privileged = {"hostPID": True}
    assert problems(pod({"isolation": "hard", "is-local-gpu": "true", "vram-request": "1Gi"}, **privileged)) == ["spec.hostPID"]
    assert problems(pod({"isolation": "hard", "vram-request": "1Gi"}, **privileged)) == []  # where the GPU is is open
    assert problems(pod({"isolation": "soft", "is-local-gpu": "true", "vram-request": "1Gi"}, **privileged)) == []


# --- which objects ---------------------------------------------------------------------------------------------------

TEMPLATE = {
    "metadata": {"labels": {f"{A}enabled": "true", "app": "x"}, "annotations": {f"{A}vram-request": "0"}},
    "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
}
PLACES = {
    "Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "ReplicaSet": "apps/v1", "Job": "batch/v1",
    "CronJob": "batch/v1", "Rollout": "argoproj.io/v1alpha1", "Pod": "v1", "ReplicationController": "v1",
}  # fmt: skip


def workload(kind: str, template: dict[str, Any] = TEMPLATE) -> dict[str, Any]:
    spec: dict[str, Any] = {"template": template}
    head = {"apiVersion": PLACES[kind], "kind": kind}
    if kind == "Pod":
        return {**head, **template, "metadata": {**template["metadata"], "name": "x"}}
    if kind == "CronJob":
        spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": spec}}
    return {**head, "metadata": {"name": "x"}, "spec": spec}


@pytest.mark.parametrize("kind", PLACES)
def test_every_kind_with_a_pod_template_is_judged(kind: str) -> None:
    assert problems(yaml.safe_dump(workload(kind))) == [f"{A}vram-request"]


def test_lists_of_any_depth_are_taken_apart() -> None:
    inner = {"apiVersion": "v1", "kind": "List", "items": [workload("Deployment"), workload("Job")]}
    untyped = {key: value for key, value in workload("Pod").items() if key not in ("apiVersion", "kind")}
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [untyped]}
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [inner, pods]})
    assert problems(text) == [f"{A}vram-request"] * 3


def test_other_objects_are_left_alone() -> None:
    result = run("validate", "-f", "-", stdin="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b}\n")
    assert result.exit_code == 0
    assert result.stdout == "0 objects judged, none with problems; 1 left alone\n"


def test_our_resources_are_checked_whatever_their_version_says() -> None:
    assert problems("apiVersion: tensor-fusion.ai/v1\nkind: GPUPool\nmetadata: {name: x}\nspec: {nodeSelektor: {}}") == [
        "spec.nodeSelektor"
    ]
    assert problems("apiVersion: tensor-fusion.ai/v9\nkind: GPUPool\nmetadata: {name: x}") == ["apiVersion"]
    assert problems("apiVersion: tensor-fusion.ai/v1\nkind: Foo\nmetadata: {name: x}") == ["kind"]


def test_an_object_that_stands_twice_is_warned_of() -> None:
    code, report = validated("-f", "-", stdin=pod({"vram-request": "1Gi"}) + "---\n" + pod({"vram-request": "1Gi"}))
    assert code == 0
    assert [warning["field"] for warning in findings(report, "warnings")] == ["metadata.name"]


# --- label and annotations gone astray -------------------------------------------------------------------------------


def warned(text: str) -> list[str]:
    code, report = validated("-f", "-", stdin=text)
    assert code == 0
    return [warning["field"] for warning in findings(report, "warnings")]


def test_annotations_without_the_label_are_warned_of() -> None:
    assert warned(pod_with({f"{A}vram-request": "oops"}, enabled=None)) == [f"label {A}enabled"]
    assert warned(pod_with({f"{A}vram-request": "oops"}, enabled="false")) == []
    assert warned(pod_with({f"{A}enabled": "true"}, enabled=None)) == [f"{A}enabled"]
    assert warned(pod_with({"other": "x"}, enabled=None)) == []


def test_a_label_that_turns_nothing_on_is_warned_of_and_one_that_is_no_text_refused() -> None:
    assert warned(pod_with({}, enabled="True")) == [f"label {A}enabled"]
    assert problems(pod_with({f"{A}vram-request": "1Gi"}, enabled=True)) == [f"metadata.labels.{A}enabled"]


def test_annotations_on_the_workload_itself_are_warned_of() -> None:
    template = {**TEMPLATE, "metadata": {**TEMPLATE["metadata"], "annotations": {f"{A}vram-request": "1Gi"}}}
    document = workload("CronJob", template)
    document["metadata"] |= {"annotations": {f"{A}qos": "low"}, "labels": {f"{A}enabled": "true"}}
    document["spec"]["jobTemplate"]["metadata"] = {"annotations": {f"{A}qos": "low"}}
    assert warned(yaml.safe_dump(document)) == [
        "metadata.annotations",
        "metadata.labels",
        "spec.jobTemplate.metadata.annotations",
    ]


def test_pods_of_namespaces_that_the_webhook_never_sees_are_warned_of() -> None:
    assert warned(pod({"vram-request": "1Gi"}, namespace="kube-system")) == ["metadata.namespace"]


# --- what is said ----------------------------------------------------------------------------------------------------

TWO_PROBLEMS = """\
# a comment
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: ml}
spec:
  template:
    metadata:
      labels: {tensor-fusion.ai/enabled: "true"}
      annotations:
        tensor-fusion.ai/vram-limit: 2Gi
        tensor-fusion.ai/vram-request: 4Gi
        tensor-fusion.ai/qos: urgent
        tensor-fusion.ai/gpu-modell: A100
    spec: {containers: [{name: main}]}
"""


def test_every_problem_is_told_with_file_line_and_object() -> None:
    result = run("validate", "-f", "-", stdin=TWO_PROBLEMS)
    assert result.exit_code == 1
    assert result.stdout == "1 object judged, 1 with problems\n"
    assert (
        result.stderr
        == f"""\
<stdin>:2: Deployment ml/chat: 2 problems
  line 10: {A}vram-limit: 2Gi is below {A}vram-request 4Gi; give at least 4Gi, or leave it out
  line 12: {A}qos: "urgent" is not one of low, medium, high, critical
<stdin>:2: Deployment ml/chat: 1 warning
  line 13: {A}gpu-modell: unknown annotation, ignored; did you mean {A}gpu-model?
"""
    )


def test_json_tells_the_same_to_programs() -> None:
    code, report = validated("-f", "-", stdin=TWO_PROBLEMS)
    assert code == 1
    [item] = report["objects"]
    assert (item["kind"], item["namespace"], item["name"], item["line"]) == ("Deployment", "ml", "chat", 2)
    assert item["problems"][1] == {
        "line": 12,
        "field": f"{A}qos",
        "found": '"urgent"',
        "accepted": "low, medium, high, critical",
        "message": '"urgent" is not one of low, medium, high, critical',
    }


def test_a_syntax_error_names_file_and_line_and_the_rest_is_judged(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TWO_PROBLEMS + "---\na: [\n")
    (tmp_path / "b.yml").write_text("a: b: c\n")
    result = run("validate", "-f", tmp_path)
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[0] == f"{tmp_path}/a.yaml:17: while parsing a flow node, did not find expected node content (column 1)"
    assert lines[1] == f"{tmp_path}/b.yml:1: mapping values are not allowed in this context (column 5)"
    assert f"{tmp_path}/a.yaml:2: Deployment ml/chat: 2 problems" in lines


@pytest.mark.parametrize(
    "content", [b"", b"---\n---\n", b"# nothing\n", b"\x00\x01\x02", b"\xff\xfe\x00a", b"\x7fELF" + bytes(64)]
)
def test_files_without_an_object_are_no_success(content: bytes) -> None:
    code, report = validated("-f", "-", stdin=content)
    assert code == 1
    assert report["unreadable"]


def test_files_that_cannot_be_opened_are_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in (tmp_path / "missing.yaml", tmp_path / "empty", "x" * 5000, "a\0b"):
        result = run("validate", "-f", name)
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
    both = run("validate", "-f", tmp_path / "one", tmp_path / "two")
    assert "one: No such file" in both.stderr
    assert "two: No such file" in both.stderr
    assert run("validate").exit_code == 2


def test_a_file_larger_than_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tensorfusion_iac.cli import files

    monkeypatch.setattr(files, "MAX_FILE_BYTES", 2**20)
    (tmp_path / "large.yaml").write_bytes(b"#" * (2**20 + 1))
    result = run("validate", "-f", tmp_path / "large.yaml")
    assert (result.exit_code, "larger than 1 MiB" in result.stderr) == (2, True)


def test_a_file_given_twice_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(pod({"vram-request": "1Gi"}))
    assert "1 object judged" in run("validate", "-f", file, file).stdout


# --- the format's published examples ---------------------------------------------------------------------------------


def test_the_published_deployment_is_refused_for_the_missing_container_alone() -> None:
    code, report = validated("-f", FIXTURES / "published-deployment.yaml")
    assert code == 1
    assert [finding["field"] for finding in findings(report)] == ["spec.containers"]
    assert not list(findings(report, "warnings"))


def test_the_published_examples_are_accepted_once_completed(tmp_path: Path) -> None:
    deployment = yaml.safe_load((FIXTURES / "published-deployment.yaml").read_text())
    profile = yaml.safe_load((FIXTURES / "published-profile.yaml").read_text())
    deployment["metadata"]["namespace"] = profile["metadata"]["namespace"] = "ml"
    deployment["spec"]["selector"] = {"matchLabels": {f"{A}enabled": "true"}}
    deployment["spec"]["template"]["spec"]["containers"] = [{"name": "python", "image": "registry.example/python:3"}]
    (tmp_path / "examples.yaml").write_text(yaml.safe_dump_all([deployment, profile], allow_unicode=True))
    code, report = validated("-f", tmp_path / "examples.yaml")
    assert (code, list(findings(report)), list(findings(report, "warnings"))) == (0, [], [])


def test_the_published_profile_lacks_only_a_namespace() -> None:
    code, report = validated("-f", FIXTURES / "published-profile.yaml")
    assert (code, [finding["field"] for finding in findings(report)]) == (1, ["metadata.namespace"])


@pytest.mark.parametrize("command", ["validate", "resolve", "simulate", "import"])
def test_names_in_a_file_cannot_forge_what_is_said(command: str) -> None:
    forged = "\nFORGED\x1b[31m"
    annotations = {A + "qos": "urgent", A + "unknown" + forged: "x"}
    document = yaml.safe_load(pod_with(annotations))
    document["metadata"] |= {"name": "pod" + forged, "namespace": "ml" + forged}
    result = run(command, "-f", "-", *(["--nodes", "1xA100"] if command == "simulate" else []), stdin=yaml.safe_dump(document))
    assert result.exit_code == 1, result.stderr
    assert r"pod\nFORGED\x1b[31m" in result.stderr
    assert "\nFORGED" not in result.output
    assert "\x1b" not in result.output


def test_a_text_that_is_no_object_cannot_forge_a_line() -> None:
    assert r'the text "a\nFORGED", not' in run("validate", "-f", "-", stdin='"a\\nFORGED"').stderr
