"""Our custom resources at admission: what rests on others is a warning, what cannot be read is refused."""

from __future__ import annotations

from typing import Any

import pytest
from admission_objects import json_values
from hypothesis import given

from tensorfusion_iac.admission import Neighbours, judge_resource


def resource(kind: str, spec: dict[str, Any], name: str = "it", **annotations: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "annotations": {f"tensor-fusion.ai/{key.replace('_', '-')}": text for key, text in annotations.items()},
    }
    if kind not in ("GPUPool",):
        metadata["namespace"] = "ml"
    return {"apiVersion": "tensor-fusion.ai/v1", "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("kind", ["WorkloadProfile", "TensorFusionWorkload"])
def test_an_unknown_pool_is_warned_of(kind: str) -> None:
    decision = judge_resource(resource(kind, {"poolName": "a100"}), Neighbours(pools=("t4", "l40s")))
    assert decision.allowed
    assert decision.warnings == (
        'spec.poolName: "a100" does not exist yet; its pods are refused until it does; the pools are l40s, t4',
    )
    assert judge_resource(resource(kind, {"poolName": "t4"}), Neighbours(pools=("t4",))).warnings == ()


def test_a_second_default_pool_is_warned_of() -> None:
    raw = resource("GPUPool", {}, "b", is_default_pool="true")
    assert "a are marked too" in judge_resource(raw, Neighbours(default_pools=("a", "b"))).warnings[0]
    assert judge_resource(raw, Neighbours(default_pools=("b",))).warnings == ()


def test_a_second_quota_is_warned_of() -> None:
    raw = resource("GPUResourceQuota", {}, "b")
    assert "a second quota" in judge_resource(raw, Neighbours(quotas=("a", "b"))).warnings[0]


def test_a_quota_whose_default_is_above_its_ceiling_is_warned_of() -> None:
    spec = {"single": {"defaultRequests": {"vram": "8Gi"}, "maxRequests": {"vram": "4Gi"}}}
    decision = judge_resource(resource("GPUResourceQuota", spec), Neighbours())
    assert decision.allowed
    assert decision.warnings[0].startswith("spec.single.defaultRequests.vram: ")


def cron(zone: str) -> dict[str, Any]:
    return {
        "autoScalingConfig": {"cronScalingRules": [{"name": "day", "start": "0 9 * * *", "end": "0 17 * * *", "timeZone": zone}]}
    }


def test_an_unknown_time_zone_is_refused() -> None:
    assert judge_resource(resource("WorkloadProfile", cron("Europe/Berlin")), Neighbours()).allowed
    decision = judge_resource(resource("WorkloadProfile", cron("Europe/Nowhere")), Neighbours())
    assert decision.status == 422
    assert [problem.field for problem in decision.problems] == ["spec.autoScalingConfig.cronScalingRules[0].timeZone"]


def test_an_old_object_may_still_change_where_it_is_not_wrong() -> None:
    old = resource("WorkloadProfile", cron("Europe/Nowhere"))
    new = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert judge_resource(new, Neighbours(), old).allowed
    worse = resource("WorkloadProfile", {**cron("Europe/Nowhere"), "qos": "high"})
    assert not judge_resource(worse, Neighbours(), old).allowed


@given(json_values, json_values)
def test_no_resource_is_too_broken_to_judge(spec: Any, old: Any) -> None:
    for kind in ("WorkloadProfile", "GPUPool", "GPUResourceQuota", "Other"):
        decision = judge_resource(
            {"apiVersion": "tensor-fusion.ai/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}, Neighbours(), old
        )
        assert decision.allowed or decision.problems
    judge_resource(spec, Neighbours(), old)
