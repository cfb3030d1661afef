"""Pods of a workload that cannot be created, beside pods of it that run: `operations.refused`, and `explain` of a dump."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_runs import run

from tensorfusion_iac.operations.refused import refused

SPACE, WHY = "ml", "exceeded quota: team"


def item(kind: str, name: str, owner: str = "", **parts: Any) -> dict[str, Any]:
    group = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    metadata = {"name": name, "namespace": SPACE, "uid": f"uid-{name}", "annotations": parts.pop("annotations", {})}
    metadata |= {"ownerReferences": [{"uid": f"uid-{owner}"}]} if owner else {}
    return {"apiVersion": group, "kind": kind, "metadata": metadata, **parts}


def replica_set(name: str, revision: int, there: int, wanted: int, why: str = "") -> dict[str, Any]:
    failure = [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": why}] if why else []
    status = {"replicas": there, "conditions": failure}
    marks = {"deployment.kubernetes.io/revision": str(revision)}
    return item("ReplicaSet", name, "chat", annotations=marks, spec={"replicas": wanted}, status=status)


def event(about: str, message: str, at: str = "2026-01-01T00:00:00Z", reason: str = "FailedCreate") -> dict[str, Any]:
    metadata = {"name": f"{about}.{at}.{reason}", "namespace": SPACE}
    involved = {"name": about, "namespace": SPACE, "uid": f"uid-{about}"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": involved, "reason": reason,
            "message": message, "lastTimestamp": at}  # fmt: skip


CHAT = item("Deployment", "chat", spec={"replicas": 2}, status={"replicas": 2})


def texts(kind: str, name: str, *objects: dict[str, Any]) -> list[str]:
    return [one.text for one in refused(kind, SPACE, name, objects)]


def test_the_refused_revision_of_a_rolling_update_is_told_beside_the_old_one() -> None:
    found = texts("deployment", "chat", CHAT, replica_set("chat-a", 1, 2, 2), replica_set("chat-b", 2, 0, 1, WHY))
    assert found == [f"revision 2 (ReplicaSet chat-b) has 0 of 1 pods: {WHY}"]


def test_the_newest_revision_comes_first() -> None:
    found = texts("deployment", "chat", CHAT, replica_set("chat-a", 9, 1, 2, WHY), replica_set("chat-b", 10, 0, 1, WHY))
    assert [text.split(" (")[0] for text in found] == ["revision 10", "revision 9"]


def test_events_tell_what_no_condition_does_the_newest_first_and_each_reason_once() -> None:
    told = [
        event("chat-b", 'pods "chat-b-abcde" is forbidden: old', "2026-01-01T00:00:01Z"),
        event("chat-b", 'pods "chat-b-fghij" is forbidden: new', "2026-01-01T00:00:03Z"),
        event(
            "chat-b",
            '(combined from similar events): Error creating: pods "chat-b-klmno" is forbidden: new',
            "2026-01-01T00:00:02Z",
        ),
        event("chat-b", "created", reason="SuccessfulCreate"),
        event("chat-two-b", "of another workload, whose name begins alike"),
    ]
    (found,) = refused("deployment", SPACE, "chat", [CHAT, replica_set("chat-b", 2, 0, 1), *told])
    assert found.reasons == ('pods "chat-b-fghij" is forbidden: new', 'pods "chat-b-abcde" is forbidden: old')


def test_a_condition_and_an_event_of_one_refusal_are_one_reason() -> None:
    objects = [CHAT, replica_set("chat-b", 2, 0, 1, WHY), event("chat-b", f"Error creating: {WHY}")]
    assert texts("deployment", "chat", *objects) == [f"revision 2 (ReplicaSet chat-b) has 0 of 1 pods: {WHY}"]


def test_a_refusal_that_is_over_is_not_told() -> None:
    assert texts("deployment", "chat", CHAT, replica_set("chat-b", 2, 2, 2), event("chat-b", WHY)) == []


def test_pods_that_are_only_not_there_yet_are_not_refused() -> None:
    assert texts("deployment", "chat", CHAT, replica_set("chat-b", 2, 0, 2)) == []


@pytest.mark.parametrize(
    ("kind", "objects", "expected"),
    [
        ("StatefulSet", [item("StatefulSet", "w", spec={"replicas": 3}, status={"replicas": 2, "updateRevision": "w-7f"})],
         ["revision w-7f (StatefulSet w) has 2 of 3 pods"]),
        ("DaemonSet", [item("DaemonSet", "w", status={"currentNumberScheduled": 1, "desiredNumberScheduled": 4})],
         ["DaemonSet w has 1 of 4 pods"]),
        ("Job", [item("Job", "w", spec={"parallelism": 4, "completions": 6}, status={"active": 1, "succeeded": 3})],
         ["Job w has 1 of 3 pods"]),
        ("Job", [item("Job", "w")], ["Job w has 0 of 1 pods"]),
        ("Job", [item("Job", "w", spec={"suspend": True})], []),
        ("Job", [item("Job", "w", status={"conditions": [{"type": "Complete", "status": "True"}]})], []),
        ("CronJob", [item("CronJob", "c"), item("Job", "w", "c")], ["Job w has 0 of 1 pods"]),
        ("ReplicaSet", [replica_set("w", 4, 0, 1)], ["revision 4 (ReplicaSet w) has 0 of 1 pods"]),
        ("Deployment", [item("StatefulSet", "w", spec={"replicas": 3})], []),
        ("workload", [item("StatefulSet", "w", spec={"replicas": 3})], ["StatefulSet w has 0 of 3 pods"]),
    ],
)  # fmt: skip
def test_each_kind_that_creates_pods_is_read(kind: str, objects: list[dict[str, Any]], expected: list[str]) -> None:
    name = "c" if kind == "CronJob" else "w"
    assert texts(kind.lower(), name, *objects, event("w", WHY)) == [f"{text}: {WHY}" for text in expected]


def test_explain_tells_of_refused_pods_from_a_dump(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(yaml.safe_dump_all([CHAT, replica_set("chat-b", 2, 0, 1, WHY)]))
    found = run("explain", "deployment/chat", "-n", SPACE, "-f", dump)
    assert (found.exit_code, found.stdout) == (1, f"ml/chat: refused: revision 2 (ReplicaSet chat-b) has 0 of 1 pods: {WHY}\n")
    told = json.loads(run("explain", "deployment/chat", "-n", SPACE, "-f", dump, "-o", "json").stdout)
    assert told == {"pods": [], "refused": [
        {"kind": "ReplicaSet", "name": "chat-b", "revision": "2", "there": 0, "wanted": 1, "reasons": [WHY]},
    ]}  # fmt: skip
