"""Pods that admission refuses: with which status, and every reason at once."""

from __future__ import annotations

from typing import Any

import pytest
from admission_objects import FACTS, POOLS, POOLS_WITH_IMAGES, changed, container, pod, pool

from tensorfusion_iac.admission import AdmissionFacts, Grey, mutate
from tensorfusion_iac.api import GPUPool, GPUResourceQuota, Namespace, key

HARD = {"vram-request": "4Gi", "isolation": "hard"}


def test_every_problem_of_a_pod_is_in_one_answer() -> None:
    decision = mutate(pod({"vram-request": "4 Gi", "qos": "urgent", "gpupool": "nowhere"}, hostPID=True), FACTS, pools=POOLS)
    assert decision.status == 422
    assert decision.message.splitlines()[0] == "pod ml/chat-5d9f-: 3 problems"
    for name in ("vram-request", "qos", "gpupool"):
        assert f"  {key(name)}: " in decision.message


def test_what_hard_isolation_forbids_is_told_beside_other_problems() -> None:
    decision = mutate(pod({**HARD, "qos": "urgent"}, hostPID=True), FACTS, pools=POOLS)
    assert {problem.field for problem in decision.problems} == {"qos", "spec.hostPID"}
    assert decision.status == 422


QUOTA = GPUResourceQuota.model_validate({"metadata": {"name": "q"}, "spec": {"single": {"maxRequests": {"vram": "2Gi"}}}})


def test_a_pod_over_its_quota_is_forbidden() -> None:
    decision = mutate(pod(), FACTS, pools=POOLS, quota=QUOTA)
    assert (decision.allowed, decision.status) == (False, 403)
    assert "GPUResourceQuota q" in decision.message


def test_a_pod_that_asks_for_nothing_is_wrong_in_itself_whatever_the_quota() -> None:
    assert mutate(pod({}), FACTS, pools=POOLS).status == 422
    assert mutate(pod({}), FACTS, pools=POOLS, quota=QUOTA).status == 422
    defaults = {"defaultRequests": {"vram": "4Gi"}, "maxRequests": {"vram": "2Gi"}}
    above = GPUResourceQuota.model_validate({"metadata": {"name": "q"}, "spec": {"single": defaults}})
    assert mutate(pod({}), FACTS, pools=POOLS, quota=above).status == 403


def test_a_pool_that_is_closed_to_the_namespace_is_forbidden() -> None:
    spec = {"defaultUsingLocalGPU": True, "namespaceSelector": {"matchLabels": {"team": "a"}}}
    closed = GPUPool.model_validate({"metadata": {"name": "closed"}, "spec": spec})
    decision = mutate(pod({"vram-request": "4Gi", "gpupool": "closed"}), FACTS, pools={"closed": closed})
    assert decision.status == 403


@pytest.mark.parametrize(
    ("spec", "main", "field"),
    [
        ({"hostPID": True}, {}, "spec.hostPID"),
        ({}, {"securityContext": {"privileged": True}}, "container main securityContext.privileged"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/dev"}}]}, {}, "volume v hostPath"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/dev/nvidia0"}}]}, {}, "volume v hostPath"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, {}, "volume v hostPath"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "//var/../dev//"}}]}, {}, "volume v hostPath"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "///dev"}}]}, {}, "volume v hostPath"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "////"}}]}, {}, "volume v hostPath"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "//sys"}}]}, {}, "volume v hostPath"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/proc"}}]}, {}, "volume v hostPath"),
        (
            {"initContainers": [container("setup", securityContext={"privileged": True})]},
            {},
            "container setup securityContext.privileged",
        ),
    ],
)
@pytest.mark.parametrize("mode", [{}, {"standalone-worker-mode": "true"}], ids=["local", "standalone"])
def test_hard_isolation_refuses_what_passes_it_by(
    spec: dict[str, Any], main: dict[str, Any], field: str, mode: dict[str, str]
) -> None:
    before = pod({**HARD, **mode}, container(**main), **spec)
    decision = mutate(before, FACTS, pools=POOLS_WITH_IMAGES)
    assert [problem.field for problem in decision.problems] == [field]
    assert decision.status == 403
    soft = pod({"vram-request": "4Gi", **mode}, container(**main), **spec)
    assert mutate(soft, FACTS, pools=POOLS_WITH_IMAGES).allowed


def test_an_innocent_host_path_is_no_reason_to_refuse() -> None:
    assert mutate(pod(HARD, volumes=[{"name": "v", "hostPath": {"path": "/devices"}}]), FACTS, pools=POOLS).allowed


@pytest.mark.parametrize(("level", "allowed"), [("privileged", True), ("baseline", False), ("restricted", False), (None, True)])
def test_hard_isolation_is_refused_where_pod_security_forbids_host_paths(level: str | None, allowed: bool) -> None:
    labels = {"pod-security.kubernetes.io/enforce": level} if level else {}
    decision = mutate(pod(HARD), AdmissionFacts(Namespace("team", labels)), pools=POOLS)
    assert decision.allowed is allowed
    if not allowed:
        assert decision.status == 403
        assert f"Pod Security level {level} of namespace team forbids" in decision.message


def test_hard_isolation_of_a_remote_client_is_not_the_clients_matter() -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    before = pod({**HARD, "is-local-gpu": "false"}, hostPID=True)
    assert mutate(before, AdmissionFacts(Namespace("team", labels)), pools=POOLS_WITH_IMAGES).allowed


def test_the_other_side_of_a_grey_release_is_not_held_to_isolation() -> None:
    assert mutate(pod(HARD, hostPID=True), FACTS, pools=POOLS, grey=Grey.OFF).allowed


@pytest.mark.parametrize(
    "mode",
    [{}, {"is-local-gpu": "true", "standalone-worker-mode": "true"}, {"is-local-gpu": "false"}],
    ids=["local", "standalone", "remote"],
)
def test_a_preset_node_is_refused(mode: dict[str, str]) -> None:
    decision = mutate(pod({"vram-request": "4Gi", **mode}, nodeName="node-1"), FACTS, pools=POOLS_WITH_IMAGES)
    assert [problem.field for problem in decision.problems] == ["spec.nodeName"]


def test_a_preset_node_is_refused_on_the_other_side_of_a_grey_release_too() -> None:
    decision = mutate(pod(nodeName="node-1"), FACTS, pools=POOLS, grey=Grey.OFF)
    assert [problem.field for problem in decision.problems] == ["spec.nodeName"]


def test_a_label_of_ours_with_another_value_is_refused() -> None:
    before = pod()
    before["metadata"]["labels"][key("workload")] = "other"
    decision = mutate(before, FACTS, pools=POOLS)
    assert [problem.field for problem in decision.problems] == [f"label {key('workload')}"]
    before["metadata"]["labels"][key("workload")] = "chat"
    assert mutate(before, FACTS, pools=POOLS).allowed


@pytest.mark.parametrize(
    ("spec", "main", "name"),
    [
        ({"volumes": [{"name": "tensor-fusion-library", "hostPath": {"path": "/tmp"}}]}, {}, "tensor-fusion-library"),
        ({"initContainers": [container("tensor-fusion-client")]}, {}, "tensor-fusion-client"),
        ({}, {"volumeMounts": [{"name": "mine", "mountPath": "/tensor-fusion"}]}, "/tensor-fusion"),
    ],
)
def test_names_that_we_need_are_reserved(spec: dict[str, Any], main: dict[str, Any], name: str) -> None:
    decision = mutate(pod(None, container(**main), **spec), FACTS, pools=POOLS_WITH_IMAGES)
    assert [problem.found for problem in decision.problems] == [f'"{name}"']
    assert decision.status == 422


def test_a_remote_pool_without_images_is_refused_with_what_it_lacks() -> None:
    decision = mutate(pod({"vram-request": "4Gi", "is-local-gpu": "false"}), FACTS, pools={"default": pool(images=False)})
    assert "componentConfig.worker.image" in decision.message
    assert "componentConfig.client.image" in decision.message


RESTRICTED = {
    "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip
_RESTRICTED_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def is_restricted(spec: dict[str, Any]) -> bool:
    """The rules of the Pod Security level `restricted` that admission's additions can touch."""
    every = [*spec.get("initContainers", []), *spec["containers"]]
    return all(
        context.get("allowPrivilegeEscalation") is False
        and context.get("capabilities", {}).get("drop") == ["ALL"]
        and context.get("runAsNonRoot") is True
        and context.get("runAsUser") != 0
        and context.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost")
        for context in (item.get("securityContext", {}) for item in every)
    ) and all(set(volume) - {"name"} <= _RESTRICTED_VOLUMES for volume in spec.get("volumes", []))


@pytest.mark.parametrize("isolation", ["shared", "soft", "partitioned", "hard"])
@pytest.mark.parametrize(
    "mode",
    [{"is-local-gpu": "true"}, {"is-local-gpu": "true", "standalone-worker-mode": "true"}, {"is-local-gpu": "false"}],
    ids=["local", "standalone", "remote"],
)
def test_a_restricted_pod_stays_restricted_or_is_refused_with_the_reason(isolation: str, mode: dict[str, str]) -> None:
    facts = AdmissionFacts(Namespace("team", {"pod-security.kubernetes.io/enforce": "restricted"}))
    before = pod({"vram-request": "4Gi", "isolation": isolation, **mode}, container(securityContext=RESTRICTED))
    assert is_restricted(before["spec"])
    decision = mutate(before, facts, pools=POOLS_WITH_IMAGES)
    if decision.allowed:
        assert is_restricted(changed(before, facts=facts, pools=POOLS_WITH_IMAGES)["spec"])
    else:
        assert isolation == "hard"
        assert mode["is-local-gpu"] == "true"
        assert "forbids" in decision.message


@pytest.mark.parametrize("body", [None, {}, [], "pod", 0, {"metadata": None}, {"metadata": {"labels": []}}, {"spec": "x"}])
def test_what_is_no_pod_is_decided_without_a_crash(body: Any) -> None:
    decision = mutate(body, FACTS, pools=POOLS)
    assert decision.patch == ()
    assert decision.allowed or decision.status == 422
