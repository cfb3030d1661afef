"""What a workload object becomes, from the pods that name it (SPEC §2a, §4)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from controller_values import DEPLOYMENT, NOW, member, pod, worker
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.api import TensorFusionWorkload
from tensorfusion_iac.api.levels import AutoscaleTarget, Isolation, Mode
from tensorfusion_iac.api.worker import Compute, Unit
from tensorfusion_iac.controller.owners import OwnerRef, top_owner
from tensorfusion_iac.controller.pods import Member, member_of, reservation
from tensorfusion_iac.controller.workloads import Changes, Observed, reconcile

OTHER = OwnerRef("StatefulSet", "chat", "uid-set", "apps/v1")
SHARING = OwnerRef("Deployment", "batch", "uid-batch", "apps/v1")


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def after(stored: dict[str, Any] | None, changes: Changes) -> dict[str, Any] | None:
    if changes.delete:
        return None
    item = copy.deepcopy(changes.create or stored)
    if item is None:
        return None
    if changes.create is not None:
        item["metadata"]["uid"] = "uid-workload"
    item = merge(item, changes.patch or {})
    return merge(item, {"status": changes.status} if changes.status else {})  # type: ignore[no-any-return]


def settle(*members: Member, stored: dict[str, Any] | None = None, **more: Any) -> dict[str, Any] | None:
    """The object once nothing changes any more; it has to be so at the second look."""
    seen = Observed("ml", "chat", NOW, stored, members, **more)
    made = after(stored, reconcile(seen))
    assert not reconcile(replace(seen, stored=made, now="2026-01-01T00:01:00Z")), "a second look writes again"
    return made


def condition(item: dict[str, Any] | None, name: str) -> dict[str, Any] | None:
    assert item is not None
    return next((one for one in item["status"]["conditions"] if one["type"] == name), None)


# Owners.


def item(owner: OwnerRef | None, name: str = "x", uid: str = "u") -> dict[str, Any]:
    references = [owner.reference(controller=True)] if owner else []
    return {"metadata": {"name": name, "namespace": "ml", "uid": uid, "ownerReferences": references}}


REPLICA_SET = OwnerRef("ReplicaSet", "chat-1", "uid-rs", "apps/v1")
JOB = OwnerRef("Job", "night-1", "uid-job", "batch/v1")
CRON_JOB = OwnerRef("CronJob", "night", "uid-cron", "batch/v1")


@pytest.mark.parametrize(
    ("direct", "above", "top"),
    [
        (REPLICA_SET, DEPLOYMENT, DEPLOYMENT),
        (JOB, CRON_JOB, CRON_JOB),
        (JOB, None, JOB),
        (REPLICA_SET, None, REPLICA_SET),
        (OTHER, None, OTHER),
        (None, None, OwnerRef("Pod", "x", "u")),
    ],
    ids=["deployment", "cron job", "job", "replica set of its own", "stateful set", "bare pod"],
)
def test_the_owner_at_the_top(direct: OwnerRef | None, above: OwnerRef | None, top: OwnerRef) -> None:
    middle = item(above, uid=direct.uid if direct else "")
    assert top_owner(item(direct), lambda kind, namespace, name: middle) == top


@pytest.mark.parametrize("middle", [None, item(DEPLOYMENT, uid="another")], ids=["unknown", "of the same name"])
def test_no_owner_is_told_while_the_replica_set_is_not_known(middle: dict[str, Any] | None) -> None:
    assert top_owner(item(REPLICA_SET), lambda kind, namespace, name: middle) is None
    assert member_of(pod(owner=REPLICA_SET), lambda kind, namespace, name: middle) is None


# Pods.


def test_a_pod_that_no_webhook_resolved_is_no_member_and_holds_nothing() -> None:
    strange = pod(annotations={"tensor-fusion.ai/resolved": '{"version": 99}'}, node="n0", card="GPU-0")
    assert member_of(strange, lambda *_: None) is None
    assert reservation(strange) is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_holds_nothing(phase: str) -> None:
    assert reservation(pod(node="n0", card="GPU-0")) is not None
    assert reservation(pod(node="n0", card="GPU-0", phase=phase)) is None


# Creation.


def test_one_object_is_made_for_an_owner_and_belongs_to_it() -> None:
    made = settle(member("chat-0"), member("chat-1", ready=False))
    assert made is not None
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Deployment", "uid-chat", True)
    assert "blockOwnerDeletion" not in owner
    status = made["status"]
    assert (status["workerCount"], status["readyWorkers"], status["replicas"]) == (2, 1, 2)
    assert (status["phase"], status["podTemplateHash"]) == ("Running", "h1")
    assert status["selector"] == "tensor-fusion.ai/workload=chat,tensor-fusion.ai/component=worker"


@pytest.mark.parametrize(
    "spec",
    [
        worker(),
        worker(compute_request=Compute(Unit.PERCENT, Decimal("12.5")), compute_limit=None),
        worker(mode=Mode.STANDALONE, autoscale=AutoscaleTarget.ALL, gpu_indices=(0, 3), gpu_count=2),
        worker(dedicated=True, gpu_model="A100_SXM_80G", compute_request=None, compute_limit=None, vram_request_bytes=None),
        worker(isolation=Isolation.PARTITIONED, partition_template="1g.10gb"),
        worker(mode=Mode.REMOTE, pool=None),
    ],
    ids=["amounts", "percent", "standalone", "dedicated", "partitioned", "remote"],
)
def test_the_spec_is_what_the_pod_was_resolved_to_and_is_valid(spec: Any) -> None:
    made = settle(member(worker=spec))
    assert made is not None
    read = TensorFusionWorkload.model_validate({key: made[key] for key in ("metadata", "spec", "status")})
    assert read.spec.gpu_count == spec.gpu_count
    assert all(rule.holds(read.spec) for rule in read.spec.RULES)


def test_nothing_is_made_of_pods_that_are_going_or_have_ended() -> None:
    assert settle(member(terminating=True), member("b", phase="Succeeded")) is None


def test_replicas_of_the_profile_are_written_once_and_then_left_to_the_user() -> None:
    made = settle(member(), profile={"replicas": 3})
    assert made is not None
    assert made["spec"]["replicas"] == 3
    made["spec"]["replicas"] = 7
    scaled = settle(member(), stored=made, profile={"replicas": 3})
    assert scaled is not None
    assert scaled["spec"]["replicas"] == 7
    ignored = condition(scaled, "ReplicasIgnored")
    assert ignored is not None
    assert "7" in ignored["message"]
    del scaled["spec"]["replicas"]
    assert condition(settle(member(), stored=scaled), "ReplicasIgnored") is None


def test_autoscaling_comes_from_the_profile_and_the_annotation() -> None:
    profile = {"autoScalingConfig": {"autoSetResources": {"marginFraction": "0.2"}, "cronScalingRules": [{"name": "night"}]}}
    made = settle(member(worker=worker(autoscale=AutoscaleTarget.VRAM)), profile=profile)
    assert made is not None
    config = made["spec"]["autoScalingConfig"]
    assert config["autoSetResources"] == {"marginFraction": "0.2", "enable": True, "targetResource": "vram"}
    assert config["cronScalingRules"] == [{"name": "night"}]


# Later.


def test_what_a_new_template_no_longer_asks_for_is_taken_away() -> None:
    made = settle(member(worker=worker(gpu_model="A100", autoscale=AutoscaleTarget.ALL)))
    lean = worker(compute_request=None, compute_limit=None)
    changed = settle(member("chat-9", created="2026-01-02T00:00:00Z", worker=lean, template_hash="h2"), stored=made)
    assert changed is not None
    assert "gpuModel" not in changed["spec"]
    assert "autoScalingConfig" not in changed["spec"]
    assert changed["spec"]["resources"] == {"requests": {"vram": "4Gi"}, "limits": {"vram": "8Gi"}}
    assert changed["status"]["podTemplateHash"] == "h2"


@pytest.mark.parametrize(
    ("members", "phase", "reason"),
    [
        ((), "Pending", "ScaledToZero"),
        ((member(ready=False, node=""),), "Pending", "WaitingForWorkers"),
        ((member(phase="Unknown", ready=False),), "Unknown", "WorkersLost"),
        ((member(phase="Failed", ready=False),), "Failed", "WorkerFailed"),
        ((member(phase="Succeeded", ready=False),), "Pending", "Completed"),
        ((member("old", phase="Failed", ready=False), member("new")), "Running", "WorkloadReady"),
        ((member(worker=worker(mode=Mode.REMOTE)),), "Pending", "WaitingForWorkers"),
    ],
    ids=["scaled to zero", "waiting", "lost", "failed", "completed", "replaced", "remote client"],
)
def test_phases(members: tuple[Member, ...], phase: str, reason: str) -> None:
    found = settle(*members, stored=settle(member()))
    ready = condition(found, "Ready")
    assert found is not None
    assert ready is not None
    assert (found["status"]["phase"], ready["reason"]) == (phase, reason)


def test_the_time_of_a_condition_is_that_of_its_last_turn() -> None:
    made = settle(member(), member("b", ready=False))
    later = reconcile(Observed("ml", "chat", "2026-02-02T00:00:00Z", made, (member(), member("b"))))
    assert later.status is not None
    (ready,) = later.status["conditions"]
    assert (ready["message"], ready["lastTransitionTime"]) == ("2 of 2 workers are ready", NOW)


# Names and owners.


def test_an_owner_that_is_scaled_to_zero_keeps_its_object() -> None:
    made = settle(stored=settle(member()))
    assert made is not None
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-chat"


def test_the_object_goes_when_all_pods_of_its_owner_name_another_workload() -> None:
    assert settle(stored=settle(member()), moved=frozenset({"uid-chat"})) is None


def test_a_default_name_belongs_to_the_owner_that_came_first() -> None:
    late = member("chat-9", owner=OTHER, created="2025-01-01T00:00:00Z", worker=worker(gpu_count=2))
    made = settle(member(), late, stored=settle(member()))
    assert made is not None
    assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == ["uid-chat"]
    assert made["status"]["workerCount"] == 1
    assert made["spec"]["gpuCount"] == 1
    conflict = condition(made, "NameConflict")
    assert conflict is not None
    assert "StatefulSet chat" in conflict["message"]
    assert condition(settle(member(), stored=made), "NameConflict") is None


def test_an_owner_that_came_back_under_its_name_waits_for_the_collector_and_then_has_its_own() -> None:
    reborn = member(owner=replace(DEPLOYMENT, uid="uid-new"))
    waiting = settle(reborn, stored=settle(member()))
    assert waiting is not None
    assert waiting["status"]["workerCount"] == 0
    made = settle(reborn)
    assert made is not None
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-new"


def test_owners_that_name_one_workload_share_the_object_and_its_fate() -> None:
    made = settle(member(named=True), member("batch-0", owner=SHARING, named=True))
    assert made is not None
    assert {owner["uid"] for owner in made["metadata"]["ownerReferences"]} == {"uid-chat", "uid-batch"}
    assert not any("controller" in owner for owner in made["metadata"]["ownerReferences"])
    left = settle(member(named=True), stored=made, moved=frozenset({"uid-batch"}))
    assert left is not None
    assert [owner["uid"] for owner in left["metadata"]["ownerReferences"]] == ["uid-chat"]


def test_owners_that_share_a_workload_and_ask_for_different_things_are_told() -> None:
    other = member("batch-0", owner=SHARING, named=True, worker=worker(gpu_count=2), created="2025-01-01T00:00:00Z")
    conflict = condition(settle(member(named=True), other), "SpecConflict")
    assert conflict is not None
    assert "Deployment batch" in conflict["message"]


def test_two_templates_of_one_owner_during_a_rollout_are_no_conflict() -> None:
    new = member("chat-9", created="2026-01-02T00:00:00Z", worker=worker(gpu_count=2), template_hash="h2")
    made = settle(member(), new)
    assert condition(made, "SpecConflict") is None
    assert made is not None
    assert made["spec"]["gpuCount"] == 2


def test_what_a_user_made_keeps_its_spec_and_owners_and_gets_a_status_only() -> None:
    users = {"metadata": {"name": "chat", "namespace": "ml", "uid": "u"}, "spec": {"replicas": 2, "gpuCount": 4}}
    changes = reconcile(Observed("ml", "chat", NOW, users, (member(),)))
    assert (changes.delete, changes.create, changes.patch) == (False, None, None)
    assert changes.status is not None
    assert changes.status["workerCount"] == 1
    made = settle(member(), stored=users)
    assert made is not None
    assert made["spec"] == users["spec"]
    assert settle(stored=users) is not None, "it is never deleted"


OWNERS = st.sampled_from([DEPLOYMENT, OTHER, SHARING])
MEMBERS = st.lists(
    st.builds(
        lambda at, owner, named, phase, ready, going, count: member(
            f"pod-{at}", owner=owner, named=named, phase=phase, ready=ready, terminating=going,
            worker=worker(gpu_count=count), created=f"2026-01-0{1 + at % 5}T00:00:00Z",
        ),
        st.integers(0, 9), OWNERS, st.booleans(), st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
        st.booleans(), st.booleans(), st.integers(1, 2),
    ),
    max_size=6, unique_by=lambda one: one.uid,
)  # fmt: skip


@given(MEMBERS, MEMBERS, st.sets(st.sampled_from(["uid-chat", "uid-set", "uid-batch"])))
def test_a_second_look_never_writes_and_counts_are_of_live_pods(
    first: list[Member], second: list[Member], moved: set[str]
) -> None:
    made = settle(*first)
    made = settle(*second, stored=made, moved=frozenset(moved - {one.owner.uid for one in second}))
    if made is not None:
        owners = {owner["uid"] for owner in made["metadata"]["ownerReferences"]}
        assert owners
        mine = [one for one in second if one.live and (one.named or one.owner.uid in owners)]
        assert made["status"]["workerCount"] == len(mine)
        assert made["status"]["readyWorkers"] == sum(one.ready for one in mine)


# Pools.


def test_pods_of_a_pool_that_was_deleted_go_on_and_their_workload_says_so() -> None:
    one = member(worker=worker(pool="p"))
    assert condition(settle(one, pools=frozenset({"p"})), "PoolGone") is None
    gone = settle(one, pools=frozenset({"q"}))
    told = condition(gone, "PoolGone")
    assert told is not None
    assert "GPUPool p was deleted: the pods that run go on" in told["message"]
    assert gone is not None
    assert gone["status"]["phase"] == "Running"
    back = settle(one, stored=gone, pools=frozenset({"p"}))
    assert condition(back, "PoolGone") is None
