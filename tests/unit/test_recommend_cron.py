"""Cron rules: when one holds, in its own time zone (SPEC §8)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.resources.autoscaling import CronScalingRule
from tensorfusion_iac.planning.recommend_cron import holding, is_active, parse_cron


def rule(start: str, end: str, name: str = "r", zone: str | None = None, *, enable: bool = True) -> CronScalingRule:
    return CronScalingRule.model_validate({"name": name, "start": start, "end": end, "timeZone": zone, "enable": enable})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "after", "then"),
    [
        ("0 9 * * *", "2026-01-01T08:59:59", "2026-01-01T09:00:00"),
        ("0 9 * * *", "2026-01-01T09:00:00", "2026-01-02T09:00:00"),
        ("*/15 * * * *", "2026-01-01T00:50:00", "2026-01-01T01:00:00"),
        ("5/20 0 * * *", "2026-01-01T00:30:00", "2026-01-01T00:45:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 8 * * mon-fri", "2026-01-02T12:00:00", "2026-01-05T08:00:00"),
        ("0 8 * * 7", "2026-01-01T00:00:00", "2026-01-04T08:00:00"),
        ("0 8 13 * 5", "2026-01-01T00:00:00", "2026-01-02T08:00:00"),
        ("0 8 13 * 5", "2026-01-10T00:00:00", "2026-01-13T08:00:00"),
        ("0 0 1 JAN,jul *", "2026-02-01T00:00:00", "2026-07-01T00:00:00"),
    ],
)
def test_the_next_time(cron: str, after: str, then: str) -> None:
    assert parse_cron(cron).after(datetime.fromisoformat(after)) == datetime.fromisoformat(then)


@pytest.mark.parametrize(
    "cron",
    ["60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *", "* * * *", "x * * * *"],
)
def test_times_that_do_not_exist_are_refused(cron: str) -> None:
    with pytest.raises(Fault):
        parse_cron(cron)


def test_a_day_that_never_comes_is_told_and_holds_nothing() -> None:
    held = holding([rule("0 0 31 2 *", "0 1 * * *")], at("2026-01-01T00:30:00"))
    assert held.rule is None
    assert "31 2" in held.problems[0]


@pytest.mark.parametrize(
    ("moment", "active"),
    [("08:59", False), ("09:00", True), ("17:59", True), ("18:00", False), ("23:00", False)],
)
def test_a_rule_holds_from_its_start_to_its_end(moment: str, active: bool) -> None:
    assert is_active(rule("0 9 * * *", "0 18 * * *"), at(f"2026-01-01T{moment}:00")) is active


@pytest.mark.parametrize(
    ("moment", "active"), [("2026-01-15T07:30", False), ("2026-01-15T08:30", True), ("2026-07-15T07:30", True)]
)
def test_a_rule_keeps_to_the_wall_clock_of_its_zone(moment: str, active: bool) -> None:
    assert is_active(rule("0 9 * * *", "0 18 * * *", zone="Europe/Berlin"), at(moment)) is active


def test_of_two_rules_that_hold_the_first_counts_and_both_are_told() -> None:
    rules = [
        rule("0 0 * * *", "0 6 * * *", "off", enable=False),
        rule("0 9 * * *", "0 18 * * *", "day"),
        rule("0 8 * * *", "0 12 * * *", "am"),
    ]
    held = holding(rules, at("2026-01-01T10:00:00"))
    assert held.rule is rules[1]
    assert "day, am" in held.problems[0]
    assert holding(rules, at("2026-01-01T13:00:00")) == holding([rules[1]], at("2026-01-01T13:00:00"))


def test_a_zone_that_is_not_known_holds_nothing_and_is_told() -> None:
    held = holding([rule("0 9 * * *", "0 18 * * *", zone="Mars/Base")], at("2026-01-01T10:00:00"))
    assert held.rule is None
    assert "Mars/Base" in held.problems[0]


FIELD = st.sets(st.integers(0, 59), min_size=1, max_size=3)
HOURS = st.sets(st.integers(0, 23), min_size=1, max_size=3)


@given(FIELD, HOURS, st.integers(0, 3 * 24 * 60))
def test_the_next_time_is_the_one_that_is_found_minute_by_minute(minutes: set[int], hours: set[int], offset: int) -> None:
    moment = datetime(2026, 2, 27) + timedelta(minutes=offset)
    found = parse_cron(f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *").after(moment)
    step = moment + timedelta(minutes=1)
    while step.minute not in minutes or step.hour not in hours:
        step += timedelta(minutes=1)
    assert found == step
