"""Which pod of a grey release has to make room (SPEC §5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from controller_values import NOW, pod, worker
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.api import names
from tensorfusion_iac.controller.grey import GreyPod, grey_pod, to_evict
from tensorfusion_iac.controller.owners import OwnerRef
from tensorfusion_iac.controller.pods import kept

SET = OwnerRef("ReplicaSet", "chat-1", "uid-rs", "apps/v1")


def off(name: str = "off", wanted: str | None = "2", **more: Any) -> dict[str, Any]:
    """A pod on the other side of a grey release, as the cache keeps it."""
    marks = {names.key("grey"): "off"} | ({} if wanted is None else {names.key("enabled-replicas"): wanted})
    metadata = {
        "name": name, "namespace": "ml", "uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": NOW,
        "annotations": marks, "ownerReferences": [SET.reference(controller=True)],
    }  # fmt: skip
    return kept({"metadata": metadata | more, "spec": {}, "status": {"phase": "Running"}})


def one(name: str, *, enabled: bool, **more: Any) -> GreyPod:
    return replace(GreyPod("ml", name, f"uid-{name}", "uid-rs", enabled, 2, True, NOW), **more)


def test_both_sides_of_a_release_are_known_as_such() -> None:
    on = grey_pod(pod("on", owner=SET, spec=worker(enabled_replicas=2)))
    other = grey_pod(off())
    assert on is not None
    assert other is not None
    assert (on.enabled, on.wanted, other.enabled, other.wanted) == (True, 2, False, 2)


@pytest.mark.parametrize(
    "item",
    [
        pod("a", owner=SET),
        pod("a", spec=worker(enabled_replicas=2)),
        pod("a", owner=SET, spec=worker(enabled_replicas=2), terminating=True),
        pod("a", owner=SET, spec=worker(enabled_replicas=2), phase="Failed"),
        off(wanted=None),
        off(wanted="many"),
        off(wanted="²"),
        off(deletionTimestamp=NOW),
    ],
    ids=["no release", "no owner", "terminating", "finished", "no number", "no number at all", "a strange digit", "going"],
)
def test_what_does_not_count(item: dict[str, Any]) -> None:
    assert grey_pod(item) is None


def test_a_users_own_pod_annotations_are_not_kept_otherwise() -> None:
    item = pod("on", owner=SET, spec=worker(enabled_replicas=2), annotations={names.key("enabled-replicas"): "9"})
    assert names.key("enabled-replicas") not in item["metadata"]["annotations"]


def test_the_pod_that_is_not_ready_goes_first_and_then_the_newest() -> None:
    pods = [one("a", enabled=True), one("b", enabled=False), one("c", enabled=False, created="2026-02-01T00:00:00Z")]
    assert to_evict(pods) is pods[2]
    pods[1] = replace(pods[1], ready=False)
    assert to_evict(pods) is pods[1]


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))
def test_one_goes_exactly_if_fewer_are_enabled_than_should_and_there_are_others(enabled: int, others: int, wanted: int) -> None:
    pods = [one(f"e{at}", enabled=True, wanted=wanted) for at in range(enabled)]
    pods += [one(f"o{at}", enabled=False, wanted=wanted) for at in range(others)]
    victim = to_evict(pods)
    assert (victim is not None) == (enabled < wanted and others > 0)
    assert victim is None or not victim.enabled
