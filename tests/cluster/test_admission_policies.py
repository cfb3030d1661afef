"""The policies at a real API server, with no webhook: what would take a GPU past the scheduler is refused all the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import yaml
from audited_apiserver import AuditedServer, audited
from running_plane import ControlPlane
from running_webhook import apply, pod, tried, warnings_of, without_webhook
from waiting import eventually

from tensorfusion_iac.admission.policies import CONTROLLER_USER, SCHEDULER_USER
from tensorfusion_iac.api import ENABLED_LABEL, key
from tensorfusion_iac.kube.client import Client, PatchType
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import PODS, Resource

pytestmark = pytest.mark.cluster

SPACE, QUOTED = "policy-tests", "policy-quota-tests"
RESOLVED = json.dumps({"mode": "local"}, separators=(",", ":"))
OURS = {"schedulerName": "tensor-fusion-scheduler"}


@pytest.fixture(scope="module")
def plane(admission: ControlPlane) -> Iterator[ControlPlane]:
    with without_webhook(admission):
        apply(
            admission,
            *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (SPACE, QUOTED)),
            {
                "apiVersion": "tensor-fusion.ai/v1",
                "kind": "GPUResourceQuota",
                "metadata": {"name": "q", "namespace": QUOTED},
                "spec": {},
            },
        )
        yield admission
        admission.kubectl("delete", "namespace", SPACE, QUOTED, "--wait=false")


def verdict(plane: ControlPlane, item: dict[str, Any]) -> str:
    """What the API server says against a pod; empty if it takes it."""
    found = plane.ask(lambda client: tried(client, item))
    return found.message if isinstance(found, ApiError) else ""


def other(annotations: dict[str, str] | None = None, namespace: str = SPACE, **spec: Any) -> dict[str, Any]:
    """A pod that is not enabled."""
    item = pod(annotations or {}, namespace=namespace, **spec)
    item["metadata"]["labels"] = {}
    return item


def test_an_enabled_pod_that_was_not_mutated_is_refused(plane: ControlPlane) -> None:
    assert "the TensorFusion webhook has not seen this pod" in verdict(plane, pod({"vram-request": "1Gi"}, namespace=SPACE))


@pytest.mark.parametrize(
    ("annotations", "spec"),
    [
        ({"grey": "off"}, {}),
        ({"resolved": RESOLVED}, OURS),
        ({"resolved": json.dumps({"mode": "remote"}, separators=(",", ":"))}, {}),
    ],
    ids=["grey", "local", "remote"],
)
def test_a_pod_that_was_mutated_is_taken(plane: ControlPlane, annotations: dict[str, str], spec: dict[str, Any]) -> None:
    assert verdict(plane, pod(annotations, namespace=SPACE, **spec)) == ""


def test_a_pod_with_a_vgpu_stays_with_our_scheduler(plane: ControlPlane) -> None:
    assert "needs schedulerName" in verdict(plane, pod({"resolved": RESOLVED}, namespace=SPACE))


def test_an_enabled_pod_names_no_node(plane: ControlPlane) -> None:
    item = pod({"resolved": RESOLVED}, namespace=SPACE, nodeName="some-node", **OURS)
    assert "spec.nodeName passes by the scheduler" in verdict(plane, item)


def test_our_scheduler_is_for_enabled_pods(plane: ControlPlane) -> None:
    assert "is for pods with the label" in verdict(plane, other(**OURS))
    labelled_off = other(**OURS)
    labelled_off["metadata"]["labels"] = {ENABLED_LABEL: "false"}
    assert "is for pods with the label" in verdict(plane, labelled_off)


@pytest.mark.parametrize(
    "name", ["resolved", "gpu-ids", "gpu-ids.main", "visible-devices.main", "container-gpus", "grey", "wake"]
)
def test_a_pod_that_is_not_enabled_has_no_system_annotation(plane: ControlPlane, name: str) -> None:
    assert "annotations that only TensorFusion writes" in verdict(plane, other({name: "x"}))


def test_other_pods_are_none_of_our_business(plane: ControlPlane) -> None:
    assert verdict(plane, other({"vram-request": "anything", "visible-devices": "no family"})) == ""


class As(Client):
    """The administrator in the name of a user who may do anything."""

    user = ""

    def _headers(self) -> dict[str, str]:
        return super()._headers() | {"Impersonate-User": self.user, "Impersonate-Group": "system:masters"}


def told(plane: ControlPlane, user: str, act: Callable[[Client], Awaitable[object]]) -> str:
    """What the API server says against what a user does; empty if it lets it pass."""

    async def run() -> str:
        client = await As.from_kubeconfig(plane.kubeconfig)
        client.user = user
        async with client:
            try:
                await act(client)
            except ApiError as error:
                return error.message
        return ""

    return asyncio.run(run())


def patch(
    plane: ControlPlane, user: str, change: dict[str, str | None], subresource: str = "", members: str = "annotations"
) -> str:
    """Try to change annotations (or labels) of the pod `held`; what is said against it, empty if nothing."""
    body = {"metadata": {members: {name if "/" in name else key(name): text for name, text in change.items()}}}
    where = {"subresource": subresource or None, "query": {"dryRun": "All"}}
    return told(plane, user, lambda client: client.patch(PODS, "held", body, PatchType.MERGE, SPACE, **where))


@pytest.fixture(scope="module")
def held(plane: ControlPlane) -> Iterator[None]:
    """A pod with a GPU, as the scheduler left it."""
    item = pod({"resolved": RESOLVED, "visible-devices.main": "GPU-1", "qos": "low"}, name="held", namespace=SPACE, **OURS)
    item["metadata"]["labels"] |= {key("component"): "worker", key("gpupool"): "default"}
    apply(plane, item)
    yield
    plane.kubectl("delete", "pod", "held", "-n", SPACE, "--grace-period=0", "--force")


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("subresource", ["", "status"])
@pytest.mark.parametrize(
    "change",
    [
        {"visible-devices.main": "GPU-2"},
        {"visible-devices.main": None},
        {"gpu-ids": "GPU-2"},
        {"effective": "{}"},
        {"container-gpus": ""},
    ],
    ids=["other card", "removed", "added", "amounts", "added empty"],
)
def test_nobody_else_changes_system_annotations(plane: ControlPlane, change: dict[str, str | None], subresource: str) -> None:
    assert "only TensorFusion's scheduler and controller change" in patch(plane, "jane", change, subresource)
    for user in (SCHEDULER_USER, CONTROLLER_USER):
        assert patch(plane, user, change, subresource) == ""


@pytest.mark.usefixtures("held")
def test_everyone_may_change_what_is_theirs(plane: ControlPlane) -> None:
    assert patch(plane, "jane", {"qos": "high", "eviction-protection": "30m"}) == ""
    assert patch(plane, "jane", {"qos": None}) == ""
    assert patch(plane, "jane", {"example.com/team": "a", "note": "b"}, members="labels") == ""


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("subresource", ["", "status"])
@pytest.mark.parametrize(
    "change",
    [{"enabled": None}, {"enabled": "false"}, {"component": "client"}, {"gpupool": None}, {"workload": "x"}, {"workload": ""}],
    ids=["off", "false", "other component", "no pool", "workload added", "empty workload added"],
)
def test_nobody_else_changes_our_labels(plane: ControlPlane, change: dict[str, str | None], subresource: str) -> None:
    assert "hold for its life" in patch(plane, "jane", change, subresource, "labels")
    for user in (SCHEDULER_USER, CONTROLLER_USER):
        assert patch(plane, user, change, subresource, "labels") == ""


def bind(plane: ControlPlane, user: str, path: str, **metadata: dict[str, str]) -> str:
    binding = {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "held", "namespace": SPACE, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "nowhere"},
    }  # fmt: skip
    resource = Resource("", "v1", path, "Binding")
    return told(plane, user, lambda client: client.create(resource, binding, SPACE, query={"dryRun": "All"}))


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("path", ["pods/held/binding", "bindings"])
@pytest.mark.parametrize("members", ["annotations", "labels"])
def test_only_our_scheduler_binds_with_our_annotations_and_labels(plane: ControlPlane, path: str, members: str) -> None:
    """By either resource the API server writes them to the pod."""
    carrying = {members: {key("gpu-ids"): "GPU-9"}}
    refused = f"only TensorFusion's scheduler binds pods with TensorFusion's {members}"
    for user in ("jane", CONTROLLER_USER):
        assert refused in bind(plane, user, path, **carrying)
    # The scheduler of the control plane may have been faster: then these end in a conflict, past the policies.
    assert refused not in bind(plane, "jane", path, **{members: {"other": "x"}})
    assert refused not in bind(plane, SCHEDULER_USER, path, **carrying)


def asking(side: str, group: str, item: dict[str, Any]) -> dict[str, Any]:
    """The pod with one of its containers asking for our resource."""
    containers = item["spec"].setdefault(group, [{"name": "first", "image": "app:1"}])
    containers[0]["resources"] = {"limits": {key("vgpu"): "1"}} | ({side: {key("vgpu"): "1"}} if side else {})
    return item


@pytest.mark.parametrize("group", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("annotations", "enabled"),
    [({}, False), ({"grey": "off"}, True), ({"resolved": json.dumps({"mode": "remote"}, separators=(",", ":"))}, True)],
    ids=["not enabled", "off in its grey release", "remote"],
)
def test_nobody_else_hands_out_our_resource(plane: ControlPlane, group: str, annotations: dict[str, str], enabled: bool) -> None:
    """Under another scheduler the pod would wait for ever."""
    make = pod if enabled else other
    said = verdict(plane, asking("requests", group, make(annotations, namespace=SPACE)))
    assert "would wait for it for ever; remove the resource, and say how much GPU it needs by annotations" in said


def test_a_pod_that_was_mutated_asks_for_our_resource(plane: ControlPlane) -> None:
    assert verdict(plane, asking("limits", "containers", pod({"resolved": RESOLVED}, namespace=SPACE, **OURS))) == ""


def with_devices(namespace: str, entry: dict[str, Any], group: str = "containers") -> dict[str, Any]:
    item = other(namespace=namespace)
    item["spec"].setdefault(group, [{"name": "first", "image": "app:1"}])[0]["env"] = [{"name": "A", "value": "b"}, entry]
    return item


@pytest.mark.parametrize("group", ["containers", "initContainers"])
def test_devices_by_hand_are_refused_where_there_is_a_quota(plane: ControlPlane, group: str) -> None:
    entry = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
    assert "is set by hand" in verdict(plane, with_devices(QUOTED, entry, group))
    assert verdict(plane, with_devices(SPACE, entry, group)) == ""


def from_annotation(name: str) -> dict[str, Any]:
    return {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{name}']"}}}


@pytest.mark.parametrize(
    ("source", "taken"),
    [
        ({"value": "void"}, True),
        ({"value": ""}, True),
        (from_annotation(key("visible-devices.main")), True),
        (from_annotation("mine"), False),
        ({"value": "GPU-1"}, False),
        ({"valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}, False),
    ],
)
def test_what_we_set_ourselves_is_no_device_by_hand(plane: ControlPlane, source: dict[str, Any], taken: bool) -> None:
    found = verdict(plane, with_devices(QUOTED, {"name": "NVIDIA_VISIBLE_DEVICES", **source}))
    assert ("is set by hand" not in found) is taken


@pytest.fixture(scope="module")
def audited_server(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditedServer]:
    by_hand = with_devices(QUOTED, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"})
    with audited(plane, tmp_path_factory.mktemp("audited")) as server:
        # It is ready before it has read the quotas that the policies ask for.
        eventually(lambda: isinstance(asyncio.run(created(server, by_hand)), ApiError), "the second server's policies")
        yield server


async def created(server: AuditedServer, item: dict[str, Any]) -> dict[str, Any] | ApiError:
    async with await Client.from_kubeconfig(server.kubeconfig) as client:
        return await tried(client, item)


@pytest.mark.parametrize("namespace", [SPACE, QUOTED])
@pytest.mark.parametrize(("value", "by_hand"), [("all", True), ("void", False)])
def test_devices_by_hand_are_in_the_audit_log_everywhere(
    plane: ControlPlane, audited_server: AuditedServer, namespace: str, value: str, by_hand: bool
) -> None:
    item = with_devices(namespace, {"name": "NVIDIA_VISIBLE_DEVICES", "value": value})
    before = len(audited_server.entries())
    refused = isinstance(asyncio.run(created(audited_server, item)), ApiError)
    assert refused is (by_hand and namespace == QUOTED)
    (entry,) = [one for one in audited_server.entries()[before:] if one["verb"] == "create"]
    assert (entry["objectRef"]["namespace"], entry["responseStatus"]["code"]) == (namespace, 422 if refused else 201)
    failures = json.loads(entry.get("annotations", {}).get("validation.policy.admission.k8s.io/validation_failure", "[]"))
    told = [(one["policy"], one["validationActions"]) for one in failures]
    assert told == ([("tensor-fusion-devices-audit", ["Audit"])] if by_hand else [])
    assert all("is set by hand and shows the container GPUs that others may hold" in one["message"] for one in failures)


def test_an_ephemeral_container_gets_no_devices_either(plane: ControlPlane) -> None:
    apply(plane, other(namespace=QUOTED) | {"metadata": {"name": "debugged", "namespace": QUOTED}})
    entry = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
    debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "app:1", "env": [entry]}]}}

    def add() -> str:
        return told(plane, "jane", lambda client: client.patch(
            PODS, "debugged", debug, PatchType.STRATEGIC, QUOTED, subresource="ephemeralcontainers"))  # fmt: skip

    assert "is set by hand" in add()
    entry["value"] = "void"
    assert add() == ""


def workload(labels: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "a", **labels}, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": SPACE}, "spec": spec}


def test_words_that_turn_nothing_on_are_warned_of(plane: ControlPlane) -> None:
    odd, annotated = {ENABLED_LABEL: "yes"}, {ENABLED_LABEL: "true"}
    wrong_label, wrong_place = other(), other()
    wrong_label["metadata"]["labels"] = odd
    wrong_place["metadata"]["annotations"] = annotated
    cron = workload(odd, annotated)["spec"]["template"]
    cron["spec"]["restartPolicy"] = "Never"
    value, place = 'with "true" only', "is a label, not an annotation"
    for item, said in (
        (wrong_label, (value,)), (wrong_place, (place,)), (workload(odd, {}), (value,)), (workload({}, annotated), (place,)),
        (cron_job(cron), (value, place)), (workload({ENABLED_LABEL: "false"}, {}), ()),
    ):  # fmt: skip
        heard = warnings_of(plane, yaml.safe_dump(item))
        assert [text in heard for text in (value, place)] == [text in said for text in (value, place)], item["kind"]


def cron_job(template: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a", "namespace": SPACE},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}},
    }  # fmt: skip


def test_a_template_whose_pods_will_be_refused_for_our_resource_is_warned_of(plane: ControlPlane) -> None:
    bare = asking("", "containers", other(restartPolicy="Never"))["spec"]
    off, on = workload({}, {}), workload({ENABLED_LABEL: "true"}, {})
    for item in (off, on):
        asking("", "containers", item["spec"]["template"])
    for item, warned in ((off, True), (cron_job({"spec": bare}), True), (on, False), (workload({}, {}), False)):
        assert ("the pods will be refused" in warnings_of(plane, yaml.safe_dump(item))) is warned, item


def test_the_policies_have_no_type_errors(plane: ControlPlane) -> None:
    async def looked_at() -> list[dict[str, Any]]:
        for _ in range(50):
            found = json.loads(plane.kubectl("get", "validatingadmissionpolicies", "-o", "json"))["items"]
            if all((item.get("status") or {}).get("observedGeneration") for item in found):
                return list(found)
            await asyncio.sleep(0.2)
        pytest.fail("the policies are not looked at")

    warned = {
        item["metadata"]["name"]: found
        for item in asyncio.run(looked_at())
        if (found := (item["status"].get("typeChecking") or {}).get("expressionWarnings"))
    }
    assert warned == {}
