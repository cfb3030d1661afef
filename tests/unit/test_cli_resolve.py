"""`tensorfusion resolve`: the webhook's own answer, from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_runs import CASES, pod_with, run

from tensorfusion_iac.admission import AdmissionFacts, Grey, apply, mutate
from tensorfusion_iac.api import GPUPool, GPUResourceQuota, Namespace, Owner, WorkloadProfile

A = "tensor-fusion.ai/"
POOL = {
    "apiVersion": f"{A}v1", "kind": "GPUPool", "metadata": {"name": "default", "annotations": {f"{A}is-default-pool": "true"}},
    "spec": {"defaultUsingLocalGPU": True, "qosConfig": {"defaultQoS": "high"}},
}  # fmt: skip
PROFILE = {
    "apiVersion": f"{A}v1", "kind": "WorkloadProfile", "metadata": {"name": "small"},
    "spec": {"resources": {"requests": {"tflops": "5", "vram": "3Gi"}}},
}  # fmt: skip
QUOTA = {
    "apiVersion": f"{A}v1", "kind": "GPUResourceQuota", "metadata": {"name": "quota"},
    "spec": {"total": {"requests": {"vram": "4Gi"}}},
}  # fmt: skip
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": {"team": "x"}}}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """The objects above, each in a file of its own."""
    found = {}
    for name, item in (("pool", POOL), ("profile", PROFILE), ("quota", QUOTA), ("namespace", NAMESPACE)):
        found[name] = tmp_path / f"{name}.yaml"
        found[name].write_text(yaml.safe_dump(item))
    return found


def options(files: dict[str, Path], *names: str) -> list[str | Path]:
    return [word for name in names for word in (f"--{name}", files[name])]


PODS: dict[str, dict[str, Any]] = {
    "local": {f"{A}vram-request": "2Gi"},
    "by profile": {f"{A}workload-profile": "small"},
    "grey": {f"{A}vram-request": "2Gi", f"{A}enabled-replicas": "1"},
    "dedicated": {f"{A}dedicated-gpu": "true", f"{A}gpu-model": "A100"},
    "hard": {f"{A}vram-request": "2Gi", f"{A}isolation": "hard"},
    "forged": {f"{A}vram-request": "2Gi", f"{A}gpu-ids": "GPU-1"},
}


@pytest.mark.parametrize("grey", ["on", "off"])
@pytest.mark.parametrize("annotations", PODS.values(), ids=PODS)
def test_the_patch_is_the_webhooks_byte_for_byte(annotations: dict[str, Any], grey: str, files: dict[str, Path]) -> None:
    text = pod_with(annotations)
    known = options(files, "pool", "profile", "namespace")
    claim = ["--claim", "slot-1"] if f"{A}enabled-replicas" in annotations else []
    result = run("resolve", "-f", "-", *known, "--owner", "Deployment/chat", "--grey", grey, *claim, "-o", "patch", stdin=text)
    labels = {"team": "x", "kubernetes.io/metadata.name": "ml"}
    decision = mutate(
        json.loads(text),
        AdmissionFacts(Namespace("ml", labels), Owner("Deployment", "chat")),
        profile=WorkloadProfile.model_validate(PROFILE) if f"{A}workload-profile" in annotations else None,
        pools={"default": GPUPool.model_validate(POOL)},
        grey=Grey(grey),
        claim=claim[1] if claim else None,
    )
    assert decision.allowed == (result.exit_code == 0)
    assert result.stdout.encode() == (decision.patch_json() + b"\n" if decision.allowed else b"")


def test_yaml_shows_the_pod_and_the_patch_and_json_everything(files: dict[str, Path]) -> None:
    text = pod_with(PODS["by profile"])
    known = options(files, "pool", "profile")
    pod, patch = yaml.safe_load_all(run("resolve", "-f", "-", *known, stdin=text).stdout)
    data = json.loads(run("resolve", "-f", "-", *known, "-o", "json", stdin=text).stdout)
    assert apply(json.loads(text), patch) == pod == data["pod"]
    assert patch == data["patch"]
    assert pod["spec"]["schedulerName"] == "tensor-fusion-scheduler"
    assert data["allowed"]
    assert data["resolved"]["qos"] == "high"
    assert data["resolved"]["requests"] == {"tflops": "5", "vram": 3 * 2**30}
    assert data["resolved"]["sources"]["vram-request"] == "profile"


def test_the_pods_of_a_workload_are_meant(files: dict[str, Path], tmp_path: Path) -> None:
    template = json.loads(pod_with(PODS["local"]))
    template = {"metadata": {key: template["metadata"][key] for key in ("labels", "annotations")}, "spec": template["spec"]}
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": "ml"},
        "spec": {"template": template},
    }
    (tmp_path / "workload.yaml").write_text(yaml.safe_dump(workload))
    data = json.loads(run("resolve", "-f", tmp_path / "workload.yaml", *options(files, "pool"), "-o", "json").stdout)
    assert data["pod"]["metadata"]["generateName"] == "chat-"
    assert data["pod"]["metadata"]["namespace"] == "ml"
    assert (data["resolved"]["workload"], data["resolved"]["sources"]["workload"]) == ("chat", "owner")


def test_what_is_not_given_is_said(files: dict[str, Path]) -> None:
    result = run("resolve", "-f", "-", stdin=pod_with({f"{A}workload-profile": "small", f"{A}is-local-gpu": "true"}))
    assert result.exit_code == 0
    assert "WorkloadProfile small is not given" in result.stderr
    assert "the pod's pool is not given, so its defaults are not in this answer" in result.stderr


REMOTE = {**POOL, "spec": {"componentConfig": {"worker": {"image": "worker:1"}, "client": {"image": "client:1"}}}}


def test_a_remote_pod_without_its_pool_is_resolved_but_for_the_images(tmp_path: Path) -> None:
    result = run("resolve", "-f", "-", "-o", "json", stdin=pod_with(PODS["local"]))
    assert result.exit_code == 0
    assert "images are the pool's: give it with --pool FILE, or with -f pool.yaml" in result.stderr
    assert f'{A}is-local-gpu: "true"' in result.stderr
    resolved = json.loads(result.stdout)["resolved"]
    assert (resolved["mode"], resolved["requests"]) == ("remote", {"vram": 2 * 2**30})
    assert "pool" not in resolved
    (tmp_path / "pool.yaml").write_text(yaml.safe_dump(REMOTE))
    with_pool = run("resolve", "-f", "-", "-f", tmp_path / "pool.yaml", "-o", "json", stdin=pod_with(PODS["local"]))
    assert (with_pool.exit_code, with_pool.stderr) == (0, "")
    assert "client:1" in with_pool.stdout
    assert "client:1" not in result.stdout


def test_what_is_really_wrong_is_refused_without_the_pool_too() -> None:
    result = run("resolve", "-f", "-", stdin=pod_with({f"{A}vram-request": "2 Gi"}))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "images" not in result.stderr


def test_pools_profiles_quotas_and_the_namespace_may_stand_beside_the_pod(tmp_path: Path) -> None:
    pod = json.loads(pod_with({**PODS["by profile"], f"{A}qos": "low"}))
    pod["metadata"]["namespace"] = "ml"
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump_all([pod, PROFILE, NAMESPACE]))
    (tmp_path / "pool.yaml").write_text(yaml.safe_dump(REMOTE))
    both = ["resolve", "-f", tmp_path / "pod.yaml", "-f", tmp_path / "pool.yaml", "-o", "json"]
    result = run(*both)
    assert (result.exit_code, result.stderr) == (0, "")
    resolved = json.loads(result.stdout)["resolved"]
    assert (resolved["mode"], resolved["pool"], resolved["requests"]["tflops"]) == ("remote", "default", "5")
    (tmp_path / "quota.yaml").write_text(yaml.safe_dump({**QUOTA, "spec": {"single": {"maxRequests": {"vram": "2Gi"}}}}))
    refused = run(*both, "-f", tmp_path / "quota.yaml")
    assert (refused.exit_code, json.loads(refused.stdout)["status"]) == (1, 403)


def test_pools_beside_the_pod_are_not_taken_for_all_of_the_cluster(files: dict[str, Path]) -> None:
    local = pod_with({f"{A}gpupool": "other", f"{A}vram-request": "1Gi", f"{A}is-local-gpu": "true"})
    result = run("resolve", "-f", "-", "-f", files["pool"], stdin=local)
    assert result.exit_code == 0, "another pool may be in the cluster"
    assert "the pod's pool is not given" in result.stderr


def test_given_objects_are_all_that_there_are(files: dict[str, Path]) -> None:
    known = options(files, "pool", "profile")
    missing = run("resolve", "-f", "-", *known, stdin=pod_with({f"{A}workload-profile": "other"}))
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert f'{A}workload-profile: "other" does not exist' in missing.stderr
    assert run("resolve", "-f", "-", *known, stdin=pod_with({f"{A}gpupool": "other", f"{A}vram-request": "1Gi"})).exit_code == 1
    elsewhere = run("resolve", "-f", "-", *known, "-n", "ml", stdin=pod_with(PODS["by profile"]))
    assert elsewhere.exit_code == 0  # a profile without a namespace is the pod's


def test_a_quota_is_held_against_the_pod(files: dict[str, Path]) -> None:
    known = options(files, "pool", "quota")
    result = run("resolve", "-f", "-", *known, "-o", "json", stdin=pod_with({f"{A}vram-request": "5Gi"}))
    data = json.loads(result.stdout)
    assert (result.exit_code, data["allowed"], data["status"]) == (1, False, 403)
    assert [problem["field"] for problem in data["problems"]] == [f"{A}vram-request"]
    assert data["pod"] is None


def test_the_namespace_is_a_name_or_a_manifest(files: dict[str, Path]) -> None:
    pool = files["pool"].with_name("open.yaml")
    pool.write_text(yaml.safe_dump({**POOL, "spec": {**POOL["spec"], "namespaceSelector": {"matchLabels": {"team": "other"}}}}))
    text = pod_with(PODS["local"])
    assert run("resolve", "-f", "-", "--pool", pool, "-n", "ml", stdin=text).exit_code == 0  # its labels aren't known
    refused = run("resolve", "-f", "-", "--pool", pool, "-n", files["namespace"], stdin=text)
    assert (refused.exit_code, "is not open to namespace ml" in refused.stderr) == (1, True)


def test_a_pod_that_is_not_enabled_stays_as_written() -> None:
    text = pod_with({}, enabled=None)
    result = run("resolve", "-f", "-", stdin=text)
    pod, patch = yaml.safe_load_all(result.stdout)
    assert (result.exit_code, pod, patch) == (0, json.loads(text), [])
    assert "not enabled" in result.stderr


def test_a_given_object_that_is_wrong_is_told(files: dict[str, Path]) -> None:
    files["pool"].write_text(yaml.safe_dump({**POOL, "spec": {"oops": 1}}))
    result = run("resolve", "-f", "-", *options(files, "pool"), stdin=pod_with(PODS["local"]))
    assert (result.exit_code, "spec.oops: unknown field" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        ((), "a: [", "did not find expected"),
        ((), "3", "not a Kubernetes object"),
        ((), "apiVersion: v1\nkind: Service\nmetadata: {name: x}", "describes no pods"),
        ((), "apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Pod\n", "there are 2 objects that describe pods"),
        ((), "apiVersion: v1\nkind: List\nitems: []", "describes no pods"),
        (("--owner", "chat"), pod_with({}), "is not KIND/NAME"),
        (("--grey", "maybe"), pod_with({}), "maybe"),
        (("--pool", "missing.yaml"), pod_with({}), "No such file"),
        (("--namespace", "missing.yaml"), pod_with({}), "No such file"),
        (("--namespace", str(CASES / "fractions.yaml")), pod_with({}), "not one Namespace"),
    ],
)
def test_a_call_that_cannot_be_followed_ends_in_a_message(words: tuple[str, ...], stdin: str, said: str) -> None:
    result = run("resolve", "-f", "-", *words, stdin=stdin)
    assert result.exit_code in (1, 2)
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("spec", [None, 3, [], {"containers": 3}, {"containers": [3]}, {"containers": [{"name": "a", "env": 3}]}])
def test_a_malformed_pod_is_refused(spec: Any) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {f"{A}enabled": "true"}}, "spec": spec}
    result = run("resolve", "-f", "-", stdin=json.dumps(pod))
    assert result.exit_code == 1
    assert "error: pod default/x:" in result.stderr


def test_a_quota_of_another_namespace_does_not_hold(files: dict[str, Path]) -> None:
    quota = {**QUOTA, "metadata": {"name": "quota", "namespace": "other"}}
    files["quota"].write_text(yaml.safe_dump(quota))
    assert GPUResourceQuota.model_validate(quota)
    assert run("resolve", "-f", "-", *options(files, "pool", "quota"), stdin=pod_with({f"{A}vram-request": "5Gi"})).exit_code == 0
