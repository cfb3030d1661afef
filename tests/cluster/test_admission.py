"""The real webhook over TLS at a real API server: what becomes of pods and templates that are sent there."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from running_plane import ControlPlane
from running_webhook import NAMESPACE, any_certificate, apply, get, pod, resolved, tried, url_of, warnings_of
from waiting import eventually

from tensorfusion_iac.admission.server import VALIDATE_PATH
from tensorfusion_iac.api import ENABLED_LABEL, key
from tensorfusion_iac.api.metrics import ADMISSION_DECISIONS
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import CONFIG_MAPS, DEPLOYMENTS, PODS, Resource

pytestmark = pytest.mark.cluster

CASES = Path(__file__).parents[1] / "cases"
AMOUNT = {"vram-request": "1Gi"}


def ask(plane: ControlPlane, item: dict[str, Any]) -> dict[str, Any] | ApiError:
    return plane.ask(lambda client: tried(client, item))


def admitted(plane: ControlPlane, item: dict[str, Any]) -> dict[str, Any]:
    found = ask(plane, item)
    assert not isinstance(found, ApiError), str(found)
    return found


def refused(plane: ControlPlane, item: dict[str, Any]) -> ApiError:
    found = ask(plane, item)
    assert isinstance(found, ApiError)
    return found


def pods_of(plane: ControlPlane, selector: str, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(plane.kubectl("get", "pods", "-n", namespace, "-l", selector, "-o", "json"))["items"]
    return found


def workload(kind: str, name: str, annotations: dict[str, str], labels: dict[str, str] | None = None) -> dict[str, Any]:
    marks = {ENABLED_LABEL: "true", "app": name} if labels is None else {**labels, "app": name}
    template = {
        "metadata": {"labels": marks, "annotations": {key(short): text for short, text in annotations.items()}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Always"},
    }  # fmt: skip
    spec: dict[str, Any] = {"template": template}
    if kind in ("Job", "CronJob"):
        template["spec"]["restartPolicy"] = "Never"
        spec = (
            {"template": template}
            if kind == "Job"
            else {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}
        )
    else:
        spec["selector"] = {"matchLabels": {"app": name}}
    if kind == "StatefulSet":
        spec["serviceName"] = name
    group = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


# Pods


def test_a_labelled_pod_comes_out_mutated(admission: ControlPlane) -> None:
    found = admitted(admission, pod(AMOUNT))
    assert resolved(found)["pool"] == "default"
    assert found["metadata"]["labels"][key("component")] == "worker"
    assert found["spec"]["schedulerName"] == "tensor-fusion-scheduler"
    assert found["spec"]["containers"][0]["resources"]["limits"] == {key("vgpu"): "0"}


@pytest.mark.parametrize(("qos", "priority"), [("low", -10), ("medium", 0), ("high", 10_000), ("critical", 100_000)])
def test_the_priority_is_that_of_the_qos(admission: ControlPlane, qos: str, priority: int) -> None:
    spec = admitted(admission, pod({**AMOUNT, "qos": qos}))["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == (f"tensor-fusion-{qos}", priority)


def test_a_global_default_priority_class_counts_as_none(admission: ControlPlane) -> None:
    apply(
        admission,
        {
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "cluster-default"},
            "globalDefault": True, "value": 7,
        },
    )  # fmt: skip
    try:
        eventually(
            lambda: (
                admitted(admission, pod({}, labels={}) | {"metadata": {"namespace": NAMESPACE, "generateName": "plain-"}})[
                    "spec"
                ]["priority"]
                == 7
            ),
            "the class is in force",
        )
        spec = eventually(
            lambda: (found := admitted(admission, pod({**AMOUNT, "qos": "high"}))["spec"])["priority"] == 10_000 and found,
            "the webhook knows of the class",
        )
        assert spec["priorityClassName"] == "tensor-fusion-high"
        named = admitted(admission, pod(AMOUNT, priorityClassName="system-node-critical", namespace="kube-system"))
        assert named["spec"]["priority"] == 2_000_001_000
    finally:
        admission.kubectl("delete", "priorityclass", "cluster-default")


def test_a_pod_that_is_not_enabled_is_left_as_written(admission: ControlPlane) -> None:
    for labels in ({}, {ENABLED_LABEL: "false"}):
        item = pod({"vram-request": "nonsense", "enabled-replicas": "x"})
        item["metadata"]["labels"] = labels
        found = admitted(admission, item)
        assert found["spec"]["schedulerName"] == "default-scheduler"
        assert found["metadata"]["annotations"] == item["metadata"]["annotations"]


@pytest.mark.parametrize("namespace", ["kube-system", "tensor-fusion-system", "tensor-fusion-agent"])
def test_pods_of_the_systems_namespaces_are_never_seen(admission: ControlPlane, namespace: str) -> None:
    item = pod({"vram-request": "nonsense"}, namespace=namespace)
    restricted = {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    item["spec"]["containers"][0]["securityContext"] = restricted
    found = admitted(admission, item)
    assert found["spec"]["schedulerName"] == "default-scheduler"


def test_every_problem_is_in_the_refusal(admission: ControlPlane) -> None:
    error = refused(admission, pod({"vram-request": "4 Gi", "qos": "urgent", "gpupool": "nowhere"}))
    assert error.status == 422
    assert "3 problems" in error.message
    for name in ("vram-request", "qos", "gpupool"):
        assert f"\n  {key(name)}: " in error.message


def test_users_see_warnings(admission: ControlPlane) -> None:
    manifest = yaml.safe_dump(pod({**AMOUNT, "vram-requests": "4Gi"}))
    assert "did you mean tensor-fusion.ai/vram-request?" in warnings_of(admission, manifest)


def test_the_second_look_of_the_api_server_changes_nothing(admission: ControlPlane) -> None:
    """A pod as it was stored, sent again, comes out the same: what a reinvocation does."""
    native = {"name": "main", "image": "app:1", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    for given in (
        AMOUNT,
        {**AMOUNT, "isolation": "hard"},
        {**AMOUNT, "gpupool": "images", "standalone-worker-mode": "true"},
        {**AMOUNT, "gpupool": "images", "is-local-gpu": "false"},
    ):
        once = admitted(admission, pod(given, native))
        again = admitted(
            admission,
            {
                **once,
                "metadata": {name: once["metadata"][name] for name in ("namespace", "labels", "annotations")}
                | {"generateName": "it-"},
            },
        )
        assert again["spec"] == once["spec"]
        assert again["metadata"]["annotations"] == once["metadata"]["annotations"]
        assert resolved(again)["gpuCount"] == 2


def test_each_mode_is_a_valid_pod_to_the_api_server(admission: ControlPlane) -> None:
    standalone = admitted(admission, pod({**AMOUNT, "gpupool": "images", "standalone-worker-mode": "true", "isolation": "hard"}))
    assert [item["name"] for item in standalone["spec"]["initContainers"]] == ["tensor-fusion-client", "tensor-fusion-worker"]
    remote = admitted(admission, pod({**AMOUNT, "gpupool": "images", "is-local-gpu": "false"}))
    assert [item["name"] for item in remote["spec"]["initContainers"]] == ["tensor-fusion-client"]
    assert remote["spec"]["schedulerName"] == "default-scheduler"


def test_gang_members_are_gated(admission: ControlPlane) -> None:
    found = admitted(admission, pod({**AMOUNT, "gang-min-members": "2"}))
    assert found["spec"]["schedulingGates"] == [{"name": "tensor-fusion.ai/gang"}]


@pytest.mark.parametrize(
    "annotations",
    [
        {"gpupool": "images"},
        {"gpupool": "images", "standalone-worker-mode": "true"},
        {"gpupool": "images", "is-local-gpu": "false"},
        {"isolation": "hard"},
    ],
    ids=["local", "standalone", "remote", "hard"],
)
def test_a_restricted_namespace_takes_the_pod_or_is_told_why_not(admission: ControlPlane, annotations: dict[str, str]) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    apply(admission, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "restricted-tests", "labels": labels}})
    confined = {
        "name": "main", "image": "app:1",
        "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }  # fmt: skip
    item = pod({**AMOUNT, **annotations}, confined, namespace="restricted-tests")
    if annotations.get("isolation") == "hard":
        error = refused(admission, item)
        assert error.status == 403
        assert "Pod Security level restricted of namespace restricted-tests forbids" in error.message
    else:
        admitted(admission, item)


@pytest.mark.parametrize(
    ("spec", "security"),
    [
        ({"hostPID": True}, {}),
        ({}, {"privileged": True}),
        ({"volumes": [{"name": "dev", "hostPath": {"path": "/dev"}}]}, {}),
    ],
    ids=["hostPID", "privileged", "hostPath of devices"],
)
def test_what_passes_hard_isolation_by_is_refused(
    admission: ControlPlane, spec: dict[str, Any], security: dict[str, bool]
) -> None:
    container = {"name": "main", "image": "app:1", "securityContext": security}
    error = refused(admission, pod({**AMOUNT, "isolation": "hard"}, container, **spec))
    assert error.status == 403
    assert "isolation" in error.message
    admitted(admission, pod(AMOUNT, container, **spec))


def test_a_profile_and_a_pool_made_just_before_the_pod_are_found(admission: ControlPlane) -> None:
    async def at_once(client: Client) -> list[dict[str, Any] | ApiError]:
        profiles = Resource("tensor-fusion.ai", "v1", "workloadprofiles", "WorkloadProfile")
        pools = Resource("tensor-fusion.ai", "v1", "gpupools", "GPUPool")
        answers = []
        for number in range(5):
            name = f"just-now-{number}"
            spec = {"resources": {"requests": {"vram": "1Gi"}}, "poolName": name, "isLocalGPU": True}
            metadata = {"name": name, "namespace": NAMESPACE}
            await client.create(
                pools, {"apiVersion": "tensor-fusion.ai/v1", "kind": "GPUPool", "metadata": {"name": name}, "spec": {}}
            )
            await client.create(
                profiles,
                {"apiVersion": "tensor-fusion.ai/v1", "kind": "WorkloadProfile", "metadata": metadata, "spec": spec},
                NAMESPACE,
            )
            answers.append(await tried(client, pod({"workload-profile": name})))
            await client.delete(profiles, name, NAMESPACE)
            await client.delete(pools, name)
        return answers

    assert [resolved(found)["pool"] for found in admission.ask(at_once)] == [f"just-now-{number}" for number in range(5)]


def test_a_profile_of_another_namespace_is_none(admission: ControlPlane) -> None:
    apply(
        admission,
        {
            "apiVersion": "tensor-fusion.ai/v1", "kind": "WorkloadProfile",
            "metadata": {"name": "elsewhere", "namespace": "default"},
            "spec": {"resources": {"requests": {"vram": "1Gi"}}},
        },
    )  # fmt: skip
    assert "does not exist in the pod's namespace" in refused(admission, pod({"workload-profile": "elsewhere"})).message


def test_a_quota_holds_and_gives_defaults(admission: ControlPlane) -> None:
    apply(
        admission,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "quota-tests"}},
        {
            "apiVersion": "tensor-fusion.ai/v1", "kind": "GPUResourceQuota",
            "metadata": {"name": "q", "namespace": "quota-tests"},
            "spec": {"single": {"maxRequests": {"vram": "2Gi"}, "defaultRequests": {"vram": "512Mi"}}},
        },
    )  # fmt: skip
    found = eventually(
        lambda: not isinstance(found := ask(admission, pod({}, namespace="quota-tests")), ApiError) and found, "the default holds"
    )
    assert resolved(found)["requests"] == {"vram": 512 << 20}
    error = refused(admission, pod({"vram-request": "3Gi"}, namespace="quota-tests"))
    assert error.status == 403
    assert "GPUResourceQuota q" in error.message


# Owners


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Job"])
def test_the_workload_is_the_top_owners_name(admission: ControlPlane, kind: str) -> None:
    name = f"owner-{kind.lower()}"
    apply(admission, workload(kind, name, AMOUNT))
    found = eventually(lambda: pods_of(admission, f"app={name}"), f"a pod of the {kind}")
    assert resolved(found[0])["workload"] == name
    assert found[0]["metadata"]["labels"][key("workload")] == name
    admission.kubectl("delete", kind, name, "-n", NAMESPACE)


def test_the_workload_of_a_cron_jobs_pod_is_the_cron_job(admission: ControlPlane) -> None:
    apply(admission, workload("CronJob", "owner-cron", AMOUNT))
    admission.kubectl("create", "job", "owner-cron-now", "--from=cronjob/owner-cron", "-n", NAMESPACE)
    found = eventually(lambda: pods_of(admission, "app=owner-cron"), "a pod of the CronJob")
    assert resolved(found[0])["workload"] == "owner-cron"
    admission.kubectl("delete", "cronjob,job", "--all", "-n", NAMESPACE)


# Templates


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "CronJob"])
def test_a_wrong_template_fails_where_it_is_applied(admission: ControlPlane, kind: str) -> None:
    resource = Resource("batch" if kind in ("Job", "CronJob") else "apps", "v1", f"{kind.lower()}s", kind)

    async def create(client: Client) -> str:
        item = workload(kind, f"wrong-{kind.lower()}", {"vram-request": "4 Gi", "qos": "urgent"})
        with pytest.raises(ApiError) as caught:
            await client.create(resource, item, NAMESPACE, query={"dryRun": "All"})
        return caught.value.message

    message = admission.ask(create)
    assert f"{kind} {NAMESPACE}/wrong-{kind.lower()} pod template: 2 problems" in message
    assert key("vram-request") in message


def test_a_template_whose_profile_does_not_exist_yet_is_taken(admission: ControlPlane) -> None:
    item = workload("Deployment", "early", {"workload-profile": "later"})
    admission.ask(lambda client: client.create(DEPLOYMENTS, item, NAMESPACE, query={"dryRun": "All"}))


def test_an_update_that_leaves_a_wrong_template_alone_is_taken(admission: ControlPlane) -> None:
    """The template was stored while the webhook was away; scaling must still work."""
    item = workload("Deployment", "old-mistake", {"vram-request": "4 Gi"}, labels={})
    item["spec"]["replicas"] = 0
    apply(admission, item)
    label = {"op": "add", "path": "/spec/template/metadata/labels/tensor-fusion.ai~1enabled", "value": "true"}
    denied = admission.ask(lambda client: _refusal(client, "old-mistake", [label]))
    assert denied is not None
    assert "pod template: 1 problem" in denied
    scaled = [{"op": "replace", "path": "/spec/replicas", "value": 1}]
    assert admission.ask(lambda client: _refusal(client, "old-mistake", scaled)) is None
    admission.kubectl("delete", "deployment", "old-mistake", "-n", NAMESPACE)


def test_other_workloads_are_never_asked_about(admission: ControlPlane) -> None:
    """Neither those without the label, nor enabled ones whose template stays as it is."""
    enabled, other = workload("Deployment", "scaled", AMOUNT), workload("Deployment", "elsewhere", AMOUNT, labels={})
    for item in (enabled, other):
        item["spec"]["replicas"] = 0
    before = asked(admission, VALIDATE_PATH)
    apply(admission, enabled)
    # The Deployment once, and its ReplicaSet once.
    eventually(lambda: asked(admission, VALIDATE_PATH) == before + 2, "the template is judged")
    apply(admission, other)
    for change in ({"spec": {"paused": True}}, {"metadata": {"labels": {"a": "b"}}}):
        for name in ("scaled", "elsewhere"):
            admission.kubectl("patch", "deployment", name, "-n", NAMESPACE, "--type=merge", "-p", json.dumps(change))
    assert asked(admission, VALIDATE_PATH) == before + 2
    admission.kubectl("delete", "deployment", "scaled", "elsewhere", "-n", NAMESPACE)


def asked(plane: ControlPlane, path: str) -> float:
    """How many requests the webhook has decided about, as its metrics say."""
    context = any_certificate()
    with urllib.request.urlopen(f"{url_of(plane)}/metrics", context=context, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    head = f'{ADMISSION_DECISIONS.name}{{path="{path}",'
    return sum(float(line.rsplit(maxsplit=1)[1]) for line in lines if line.startswith(head))


async def _refusal(client: Client, name: str, operations: list[dict[str, Any]]) -> str | None:
    from tensorfusion_iac.kube.client import PatchType

    try:
        await client.patch(DEPLOYMENTS, name, operations, PatchType.JSON, NAMESPACE, query={"dryRun": "All"})
    except ApiError as error:
        return error.message
    return None


# Cases from public bug reports


def cases(fixture: str) -> Iterator[dict[str, Any]]:
    for item in yaml.safe_load_all((CASES / fixture).read_text()):
        if item and item["kind"] == "Pod":
            item["metadata"]["namespace"] = NAMESPACE
            yield item


@pytest.mark.parametrize(
    ("fixture", "refusals"),
    [
        ("quantities-out-of-bounds.yaml", {"tflops-in-gibibytes": "tflops-request", "vram-of-2-to-the-63": "vram-request",
                                           "vram-of-1e30": "vram-request", "vram-below-zero": "vram-request"}),
        ("fractions.yaml", {"half-tflops-is-above-the-limit": "tflops-limit"}),
        ("unknown-key.yaml", {"misspelled-alone": "vram-request"}),
        ("blank-values.yaml", {"blank": "gpu-indices"}),
        ("containers-with-their-own-gpus.yaml", {"another-sum": "gpu-count"}),
        ("native-sidecar.yaml", {}),
        ("fewer-cards-than-asked.yaml", {"one-index": "gpu-indices", "one-index-twice": "gpu-indices"}),
    ],
)  # fmt: skip
def test_the_cases_of_similar_systems(admission: ControlPlane, fixture: str, refusals: dict[str, str]) -> None:
    found = {}
    for item in cases(fixture):
        answer = ask(admission, item)
        if isinstance(answer, ApiError):
            assert answer.status == 422
            found[item["metadata"]["name"]] = answer.message
    assert set(found) == set(refusals)
    for name, field in refusals.items():
        assert f"\n  {key(field)}: " in found[name]


def test_native_requests_of_a_sidecar_and_the_app_add_up(admission: ControlPlane) -> None:  # case 15
    (item,) = cases("native-sidecar.yaml")
    assert resolved(admitted(admission, item))["gpuCount"] == 2


@pytest.mark.parametrize(
    ("fixture", "refusals"),
    [
        ("quota-and-init-container.yaml", {"without-init": "vram-request", "with-init": "vram-request"}),  # case 14
        ("quota-counts-every-gpu.yaml", {"two-gpus": "vram-request"}),  # case 34
        ("quota-counts-percent-and-whole-cards.yaml", {  # case 35
            "all-of-a-card-in-percent": "compute-percent-request", "dedicated-card": "dedicated-gpu"}),
    ],
)  # fmt: skip
def test_the_quota_cases_of_similar_systems(admission: ControlPlane, fixture: str, refusals: dict[str, str]) -> None:
    namespace = fixture.removesuffix(".yaml")
    quota, *_ = yaml.safe_load_all((CASES / fixture).read_text())
    quota["metadata"]["namespace"] = namespace
    apply(admission, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, quota)
    pods = [{**item, "metadata": {**item["metadata"], "namespace": namespace}} for item in cases(fixture)]

    def judged() -> dict[str, str]:
        answers = {item["metadata"]["name"]: ask(admission, item) for item in pods}
        return {name: answer.message for name, answer in answers.items() if isinstance(answer, ApiError) and answer.status == 403}

    found = eventually(judged, "the webhook knows of the quota")
    assert set(found) == set(refusals)
    for name, field in refusals.items():
        assert f"\n  {key(field)}: " in found[name]
        assert "GPUResourceQuota quota" in found[name]
    admission.kubectl("delete", "namespace", namespace, "--wait=false")


def test_a_grey_release_of_less_than_none_is_refused_at_the_workload(admission: ControlPlane) -> None:  # case 25
    messages = {}
    for item in yaml.safe_load_all((CASES / "grey-release.yaml").read_text()):
        item["metadata"]["namespace"] = NAMESPACE
        name = item["metadata"]["name"]
        try:
            admission.ask(lambda client, item=item: client.create(DEPLOYMENTS, item, NAMESPACE, query={"dryRun": "All"}))
        except ApiError as error:
            messages[name] = error.message
    assert set(messages) == {"less-than-none"}
    assert f"\n  {key('enabled-replicas')}: " in messages["less-than-none"]


def test_percentages_that_are_none_are_refused(admission: ControlPlane) -> None:
    answers = [ask(admission, item) for item in cases("percentages-that-are-none.yaml")]
    assert len(answers) == 6
    assert all(isinstance(answer, ApiError) and key("compute-percent-request") in answer.message for answer in answers)


def test_a_forged_allocation_is_removed_or_refused(admission: ControlPlane) -> None:  # case 28
    by_name = {item["metadata"]["name"]: item for item in cases("forged-allocation.yaml")}
    assert key("container-gpus") not in admitted(admission, by_name["enabled"])["metadata"]["annotations"]
    assert "is not enabled" in refused(admission, by_name["not-enabled"]).message
    assert "schedulerName" in refused(admission, by_name["our-scheduler"]).message


def test_the_namespace_of_the_request_counts(admission: ControlPlane) -> None:  # case 27
    item = pod({"vram-request": "nonsense"})
    del item["metadata"]["namespace"]

    async def create(client: Client) -> str:
        with pytest.raises(ApiError) as caught:
            await client.create(PODS, item, NAMESPACE, query={"dryRun": "All"})
        return caught.value.message

    assert f"pod {NAMESPACE}/it-" in admission.ask(create)


def test_dry_runs_leave_nothing(admission: ControlPlane) -> None:
    before = admission.ask(lambda client: client.list(CONFIG_MAPS, "tensor-fusion-system")).items
    apply(admission, workload("Deployment", "dry", {**AMOUNT, "enabled-replicas": "1"}) | {"spec": {
        **workload("Deployment", "dry", {**AMOUNT, "enabled-replicas": "1"})["spec"], "replicas": 0}})  # fmt: skip
    owner = eventually(
        lambda: json.loads(admission.kubectl("get", "rs", "-n", NAMESPACE, "-l", "app=dry", "-o", "json"))["items"],
        "the ReplicaSet",
    )[0]

    async def burst(client: Client) -> list[dict[str, Any] | ApiError]:
        item = pod({**AMOUNT, "enabled-replicas": "1"})
        item["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ]
        return list(await asyncio.gather(*(tried(client, item) for _ in range(5))))

    assert all(not isinstance(found, ApiError) and resolved(found) for found in admission.ask(burst))
    assert len(admission.ask(lambda client: client.list(CONFIG_MAPS, "tensor-fusion-system")).items) == len(before)
    admission.kubectl("delete", "deployment", "dry", "-n", NAMESPACE)


def test_our_resources_are_judged_beyond_their_schema(admission: ControlPlane) -> None:
    rule = {"name": "a", "start": "0 9 * * *", "end": "0 17 * * *", "timeZone": "Mars/Base"}
    profile = {
        "apiVersion": "tensor-fusion.ai/v1",
        "kind": "WorkloadProfile",
        "metadata": {"name": "no-pool", "namespace": NAMESPACE},
        "spec": {"autoScalingConfig": {"cronScalingRules": [rule]}},
    }
    resource = Resource("tensor-fusion.ai", "v1", "workloadprofiles", "WorkloadProfile")

    async def create(client: Client) -> str:
        with pytest.raises(ApiError) as caught:
            await client.create(resource, profile, NAMESPACE, query={"dryRun": "All"})
        return caught.value.message

    assert "timeZone" in admission.ask(create)


def test_get_uses_what_is_stored(admission: ControlPlane) -> None:
    apply(admission, pod(AMOUNT, name="stored"))
    assert resolved(get(admission, "pod", "stored", NAMESPACE))["workload"] == "stored"
    admission.kubectl("delete", "pod", "stored", "-n", NAMESPACE, "--grace-period=0", "--force")
