"""Why a workload is not ready: which of the cluster's conditions and warnings are about it, and each reason once."""

from __future__ import annotations

from typing import Any

import pulumi
from declared import chat
from mocked import Console, Run
from pulumi.runtime.settings import get_engine

import tensorfusion_iac as tfi
from tensorfusion_iac.components.waiting import Seen, Workload, reasons, tell

CHAT = Workload("Deployment", "chat", "ml", "app=chat")


def pod(uid: str, *conditions: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "name": f"chat-5b-{uid}"}, "status": {"conditions": list(conditions)}}


def unscheduled(message: str) -> dict[str, str]:
    return {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}


def warning(kind: str, name: str, uid: str, reason: str, message: str, last: str = "1") -> dict[str, Any]:
    return {
        "involvedObject": {"kind": kind, "name": name, "uid": uid},
        "reason": reason,
        "message": message,
        "lastTimestamp": last,
    }


REPLICA_SET = {"metadata": {"uid": "rs", "name": "chat-5b"}}
DENIED = 'Error creating: admission webhook "pods.tensor-fusion.ai" denied the request: tensor-fusion.ai/qos: "x" is not one of'


def test_the_webhooks_refusal_comes_from_the_replica_set() -> None:
    seen = Seen((), (REPLICA_SET,), (warning("ReplicaSet", "chat-5b", "rs", "FailedCreate", DENIED),))
    assert reasons(CHAT, seen) == [f"FailedCreate: {DENIED}"]


def test_the_schedulers_reason_comes_from_the_pods_and_is_said_once() -> None:
    text = "0/3 nodes are available: 3 no GPU of pool default-pool has 20Gi free."
    pods = (pod("a", unscheduled(text)), pod("b", unscheduled(text)), pod("c", {"type": "PodScheduled", "status": "True"}))
    failed = warning("Pod", "chat-5b-a", "a", "FailedScheduling", text)
    assert reasons(CHAT, Seen(pods, (REPLICA_SET,), (failed,))) == [f"Unschedulable: {text}"]


def test_refusals_that_differ_by_a_pods_name_only_are_one() -> None:
    refused = 'Error creating: pods "chat-5b-{}" is forbidden: exceeded quota: q'
    texts = ["(combined from similar events): " + refused.format("n8cg9"), refused.format("cgx4n"), refused.format("vnk2t")]
    events = tuple(warning("ReplicaSet", "chat-5b", "rs", "FailedCreate", text, str(n)) for n, text in enumerate(texts))
    assert reasons(CHAT, Seen((), (REPLICA_SET,), events)) == ["FailedCreate: " + refused.format("n8cg9")]


def test_what_is_about_others_is_not_said() -> None:
    events = (
        warning("ReplicaSet", "chat-api-77", "other", "FailedCreate", "x"),
        warning("StatefulSet", "chat", "other", "FailedCreate", "y"),
        warning("Pod", "else-1", "else", "BackOff", "z"),
    )
    assert reasons(CHAT, Seen((pod("a"),), (REPLICA_SET,), events)) == []


def test_a_stateful_sets_own_warnings_are_about_it() -> None:
    search = Workload("StatefulSet", "search", "ml", "app=search")
    event = warning("StatefulSet", "search", "ss", "FailedCreate", "create Pod search-0 failed: denied")
    assert reasons(search, Seen((), (), (event,))) == ["FailedCreate: create Pod search-0 failed: denied"]


def test_a_pod_without_a_status_yet_is_no_reason() -> None:
    assert reasons(CHAT, Seen(({"metadata": {"uid": "a"}},), (), ())) == []


def test_reasons_are_sent_before_the_engine_hears_that_the_hook_is_done(run: Run) -> None:
    sent: list[list[str]] = []

    def program() -> None:
        component = chat(vgpu=tfi.VGPU(vram_request="4Gi"))

        async def hook() -> None:
            await component.urn.future()  # registered, as where a wait has failed
            await tell(component, ["first", "second"])
            engine = get_engine()
            assert isinstance(engine, Console)
            sent.append([text for _, _, text in engine.logged])

        pulumi.Output.from_input(hook()).apply(lambda _: None)

    run(program)
    assert sent == [["first", "second"]]
