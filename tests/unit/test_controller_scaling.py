"""What autoscaling learns, remembers and wants (SPEC §8)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from controller_values import GIB, worker
from hypothesis import given
from hypothesis import strategies as st
from planning_values import card

from tensorfusion_iac.api import desired
from tensorfusion_iac.api.levels import Isolation, QoS
from tensorfusion_iac.api.resources.autoscaling import AutoScalingConfig
from tensorfusion_iac.api.worker import Compute, Unit, WorkerSpec
from tensorfusion_iac.controller.scaling import Memory, Row, blank, from_text, learned, read_rows, to_text, with_policy
from tensorfusion_iac.controller.wanting import Subject, desired_of, fixed_because, in_status, original_of, want
from tensorfusion_iac.planning.recommend import Amounts, Ceiling, Policy, Side, policy_of
from tensorfusion_iac.planning.shares import CardShare

TFLOPS = 1_000_000
CARD = card("GPU-0")  # 100 TFLOPS, 80 GiB
CAPACITY = {"GPU-0": CARD.capacity_mflops}
T0 = 1_767_258_000.0  # 2026-01-01 09:00 UTC
HOUR = [Row("uid-a", "GPU-0", T0 + 30 * at, 0.3, 6 * GIB) for at in range(120)]
LATER = datetime.fromtimestamp(T0 + 3600, UTC)


def config(**auto: Any) -> AutoScalingConfig:
    return AutoScalingConfig.model_validate({"autoSetResources": {"enable": True} | auto})


def cron(**more: Any) -> AutoScalingConfig:
    rule = {"name": "day", "start": "0 8 * * *", "end": "0 12 * * *"} | more
    return AutoScalingConfig.model_validate({"cronScalingRules": [rule]})


def subject(settings: AutoScalingConfig, spec: WorkerSpec | None = None, ceiling: Ceiling | None = None) -> Subject:
    spec = spec or worker()
    auto = settings.auto_set_resources
    return Subject(
        settings, policy_of(auto) if auto else Policy(), spec, original_of(spec, CARD),
        ceiling or Ceiling(Side(100, 100), Side(80 * GIB, 80 * GIB)), card_tflops=100,
    )  # fmt: skip


def memory(rows: list[Row] = HOUR) -> Memory:
    return learned(blank(Policy()), rows, CAPACITY, {"uid-a"}, T0 + 3600)


def share(*, tflops: int = 10, gib: int = 4) -> CardShare:
    amounts = (tflops * TFLOPS, gib * GIB)
    return CardShare("GPU-0", *amounts, 2 * tflops * TFLOPS, 2 * gib * GIB, 100_000, 200_000, *amounts)


# Learning.


def test_rows_of_an_agent_are_read_and_what_is_none_is_left_out() -> None:
    rows = [[30, 0.25, 0.5, 1024], [60, "x", 0, 0], [90, float("nan"), 0, 0], [120, -1, 0, 0], [150], 7, [180, 2.0, 2.0, 5]]
    document = {"usage": [{"podUID": "a", "gpu": "GPU-0", "rows": rows}, {"podUID": "b", "rows": 3}, None]}
    assert read_rows(document) == [Row("a", "GPU-0", 30, 0.25, 1024), Row("a", "GPU-0", 180, 1.0, 5)]
    assert [read_rows(strange) for strange in (None, [], {}, {"usage": 1})] == [[], [], [], []]


@pytest.mark.parametrize(("said", "length_s"), [(5, 5), (None, 30), (0, 30), (1e9, 30), ("x", 30), (float("nan"), 30)])
def test_an_agent_says_how_long_its_rows_are_within_bounds(said: object, length_s: float) -> None:
    document = {"bucketSeconds": said, "usage": [{"podUID": "uid-a", "gpu": "GPU-0", "rows": [[T0, 0.3, 0.3, 1]]}]}
    (row,) = read_rows(document)
    assert row.length_s == length_s
    assert learned(blank(Policy()), [row], CAPACITY, {"uid-a"}, T0 + length_s - 1).compute.empty
    assert not learned(blank(Policy()), [row], CAPACITY, {"uid-a"}, T0 + length_s).compute.empty


@given(st.lists(st.tuples(st.integers(0, 119), st.integers(0, 119)), max_size=8))
def test_each_row_is_learned_once_however_often_it_is_told(parts: list[tuple[int, int]]) -> None:
    found = blank(Policy())
    upto = 0
    for start, end in [*((min(part), max(part)) for part in sorted(parts, key=max)), (0, 119)]:
        found = learned(found, HOUR[min(start, upto) : end + 1], CAPACITY, {"uid-a"}, T0 + 3600)
        upto = max(upto, end + 1)
    assert found.seen == memory().seen
    assert found.compute.weights == pytest.approx(memory().compute.weights)


def test_a_row_that_may_still_grow_or_is_not_of_its_pods_is_not_learned() -> None:
    rows = [Row("uid-a", "GPU-0", T0, 0.1, 1), Row("other", "GPU-0", T0 - 60, 0.1, 1), Row("uid-a", "GPU-9", T0 - 60, 0.1, 1)]
    assert learned(blank(Policy()), rows, CAPACITY, {"uid-a"}, T0 + 29).compute.empty
    assert not learned(blank(Policy()), rows, CAPACITY, {"uid-a"}, T0 + 30).compute.empty


def test_pods_that_are_gone_are_forgotten_and_what_was_learned_of_them_is_not() -> None:
    after = learned(memory(), [], CAPACITY, {"uid-b"}, T0 + 7200)
    assert after.seen == {}
    assert after.compute == memory().compute


def test_a_memory_survives_the_controller() -> None:
    assert from_text(to_text(memory())) == memory()
    again = learned(from_text(to_text(memory())), HOUR, CAPACITY, {"uid-a"}, T0 + 3600)
    assert again == memory(), "what is told again after a restart is known already"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 2}', json.dumps({"version": 1, "seen": 3}), "null"])
def test_a_checkpoint_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        from_text(text)


def test_the_length_of_the_history_may_change() -> None:
    policy = Policy(history_s=3600)
    assert with_policy(memory(), policy).compute.half_life_s == 1800
    assert with_policy(memory(), Policy()) == memory()


# Wanting.


def test_the_original_is_what_was_asked_for_on_the_card() -> None:
    assert original_of(worker(), CARD) == Amounts(Side(10, 20), Side(4 * GIB, 8 * GIB))
    percent = worker(compute_request=Compute(Unit.PERCENT, Decimal(25)), compute_limit=None)
    assert original_of(percent, CARD).compute == Side(25, 100)
    assert original_of(worker(compute_request=None, compute_limit=None), CARD).compute is None


def test_use_is_followed_once_it_was_learned_for_long_enough() -> None:
    found = want(subject(config()), memory(), 6 * GIB, LATER)
    assert found.amounts is not None
    assert found.amounts.compute is not None
    assert 34.5 <= found.amounts.compute.limit <= 36.5
    early = want(subject(config()), memory(), 0, datetime.fromtimestamp(T0 + 60, UTC))
    assert early.amounts is None
    assert "until 2026-01-01 09:30 UTC" in early.reason, "which does not change with every look"
    assert want(subject(config()), blank(Policy()), 0, LATER).amounts is None
    at_once = want(subject(config(initialDelayPeriod="1s")), memory(), 0, datetime.fromtimestamp(T0 + 60, UTC))
    assert at_once.amounts is not None


def test_a_cron_rule_works_alone_and_its_end_brings_back_what_was_asked_for() -> None:
    rule = cron(desiredResources={"requests": {"tflops": 30, "vram": "10Gi"}, "limits": {"tflops": 60, "vram": "12Gi"}})
    day = want(subject(rule), blank(Policy()), 0, LATER)
    assert (day.amounts, day.rule) == (Amounts(Side(30, 60), Side(10 * GIB, 12 * GIB)), "day")
    night = want(subject(rule), blank(Policy()), 0, LATER.replace(hour=20))
    assert (night.amounts, night.rule) == (original_of(worker(), CARD), None)


def test_a_cron_rule_that_leaves_amounts_out_keeps_the_original_and_limits_cover_requests() -> None:
    found = want(subject(cron(desiredResources={"requests": {"compute": 50}})), blank(Policy()), 0, LATER).amounts
    assert found == Amounts(Side(50, 50), Side(4 * GIB, 8 * GIB))
    wrong = cron(desiredResources={"requests": {"vram": "20Gi"}, "limits": {"vram": "10Gi"}})
    assert want(subject(wrong), blank(Policy()), 0, LATER).amounts == Amounts(Side(10, 20), Side(20 * GIB, 20 * GIB))


def test_a_cron_rule_is_held_to_the_card_and_never_takes_what_use_needs() -> None:
    huge = cron(desiredResources={"requests": {"tflops": 900}, "limits": {"tflops": 900}})
    assert want(subject(huge), blank(Policy()), 0, LATER).amounts == Amounts(Side(100, 100), Side(4 * GIB, 8 * GIB))
    small = cron(desiredResources={"requests": {"tflops": 1}, "limits": {"tflops": 2}})
    both = small.model_copy(update={"auto_set_resources": config().auto_set_resources})
    found = want(subject(both), memory(), 0, LATER).amounts
    assert found is not None
    assert found.compute is not None
    assert found.compute.limit > 30


def test_rules_that_cannot_be_read_are_told() -> None:
    found = want(subject(cron(timeZone="Mars/Base")), blank(Policy()), 0, LATER)
    assert "Mars/Base" in found.reason


@pytest.mark.parametrize(
    ("spec", "fixed"),
    [
        (worker(), False),
        (worker(qos=QoS.CRITICAL), False),
        (worker(isolation=Isolation.HARD), True),
        (worker(isolation=Isolation.PARTITIONED), True),
        (worker(dedicated=True), True),
    ],
)
def test_what_cannot_be_resized_only_gets_a_recommendation(spec: WorkerSpec, fixed: bool) -> None:
    assert bool(fixed_because(spec)) is fixed
    found = want(subject(config(), replace(spec, dedicated=False)), memory(), 0, LATER)
    assert found.amounts is not None


def test_an_edited_profile_is_followed_to_the_letter_where_nothing_else_decides() -> None:
    plain = replace(subject(AutoScalingConfig()), edited="small", original=Amounts(Side(10.1, 20), Side(4 * GIB, 8 * GIB)))
    found = want(plain, blank(Policy()), 0, LATER)
    assert found.amounts == plain.original
    assert "profile small" in found.reason
    assert desired_of(plain.original, (share(),), plain) == desired.Desired(Decimal("10.1"), Decimal(20), None, None)
    assert desired_of(original_of(worker(), CARD), (share(),), plain) is None
    assert want(replace(plain, edited=""), blank(Policy()), 0, LATER).amounts is None


# Asking.


def test_a_pod_is_asked_only_for_what_differs_enough_and_is_the_target() -> None:
    wanted = Amounts(Side(10.5, 20.5), Side(6 * GIB, 12 * GIB))
    found = desired_of(wanted, (share(),), subject(config()))
    assert found == desired.Desired(None, None, 6 * GIB, 12 * GIB)
    assert desired_of(wanted, (share(),), subject(config(targetResource="compute"))) is None
    assert desired.from_text(desired.to_text(found)) == found


@given(st.floats(0.5, 100), st.floats(1, 3), st.floats(0.5, 80), st.floats(1, 3))
def test_what_is_asked_for_is_never_more_than_what_is_wanted_and_is_near_enough_then(
    tflops: float, more: float, gib: float, more_gib: float
) -> None:
    wanted = Amounts(Side(tflops, tflops * more), Side(gib * GIB, gib * GIB * more_gib))
    found = desired_of(wanted, (share(tflops=1000, gib=1000),), subject(config()))
    assert found is not None
    assert found.tflops_request is not None
    assert found.tflops_limit is not None
    assert found.vram_request_bytes is not None
    assert found.vram_limit_bytes is not None
    assert float(found.tflops_request) <= tflops
    assert found.tflops_request <= found.tflops_limit
    assert found.vram_request_bytes <= found.vram_limit_bytes <= gib * GIB * more_gib
    now = CardShare(
        "GPU-0", int(found.tflops_request * TFLOPS), found.vram_request_bytes, int(found.tflops_limit * TFLOPS),
        found.vram_limit_bytes, 1, 1, 1, 1,
    )  # fmt: skip
    assert desired_of(wanted, (now,), subject(config())) is None


def test_a_recommendation_is_written_in_the_units_of_a_workload() -> None:
    assert in_status(Amounts(Side(1.239, 2), Side(1.5 * GIB, 3 * GIB))) == {
        "requests": {"tflops": "1.239", "vram": "1536Mi"},
        "limits": {"tflops": "2", "vram": "3Gi"},
    }
    assert in_status(Amounts(None, Side(GIB, GIB))) == {"requests": {"vram": "1Gi"}, "limits": {"vram": "1Gi"}}
