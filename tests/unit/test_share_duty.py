"""The duty controller: pulses within bounds, and a card's use that comes to the target on a fluid model."""

from __future__ import annotations

import pytest
from fluid_card import Job, run
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.api.levels import QoS
from tensorfusion_iac.planning.duty import (
    FREE,
    LONGEST_FREEZE_S,
    SHORTEST_RUN_S,
    Duty,
    lowest_duty,
    pulse,
    step,
)

FREEZES = sorted(LONGEST_FREEZE_S.values())
WARM_S, SECONDS = 6, 36


def mean(job: Job) -> float:
    return sum(job.use_by_second[WARM_S:]) / len(job.use_by_second[WARM_S:])


def worst_5_s(job: Job) -> float:
    use = job.use_by_second[WARM_S:]
    return max(abs(sum(use[at : at + 5]) / 5 - job.target) for at in range(len(use) - 4))


@given(st.floats(0, 1.5), st.sampled_from(FREEZES))
def test_a_pulse_never_runs_too_short_nor_freezes_too_long(duty: float, longest_s: float) -> None:
    found = pulse(duty, longest_s)
    assert found.running_s >= SHORTEST_RUN_S - 1e-12
    assert found.frozen_s <= longest_s + 1e-12
    if lowest_duty(longest_s) <= duty <= 1:
        assert found.duty == pytest.approx(duty, abs=1e-6)


def test_a_critical_container_is_never_frozen() -> None:
    assert LONGEST_FREEZE_S[QoS.CRITICAL] == 0
    assert pulse(0.01, LONGEST_FREEZE_S[QoS.CRITICAL]) == FREE


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 2), st.floats(0, 1), st.floats(0, 5)), max_size=30),
    st.sampled_from(FREEZES),
)
def test_whatever_was_measured_the_duty_stays_within_its_bounds(
    steps: list[tuple[float, float, float, float]], longest_s: float
) -> None:
    state = Duty()
    for target, use, ran, elapsed_s in steps:
        state = step(state, target=target, use=use, ran=ran, elapsed_s=elapsed_s, longest_freeze_s=longest_s)
        assert lowest_duty(longest_s) - 1e-9 <= state.duty <= 1.0
        assert abs(state.owed_s) <= 0.3 + 1e-9


def test_one_that_uses_less_than_its_target_is_left_alone() -> None:
    state = Duty()
    for _ in range(20):
        state = step(state, target=0.5, use=0.2, ran=1.0, elapsed_s=0.5, longest_freeze_s=0.25)
    assert not state.throttled
    assert state.owed_s == 0.0


def test_a_new_target_is_stepped_to_at_once() -> None:
    state = Duty(duty=0.7, gain=1.0, target=0.7)
    assert step(state, target=0.3, use=0.7, ran=0.7, elapsed_s=0.5, longest_freeze_s=0.25).duty == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("target", [0.1, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("longest_s", [0.25, 0.5])
@pytest.mark.parametrize("sync_s", [0.005, 0.02])
def test_a_job_that_syncs_is_held_to_its_target(target: float, longest_s: float, sync_s: float) -> None:
    job = Job(target, longest_s, sync_s=sync_s)
    run([job], SECONDS)
    assert mean(job) == pytest.approx(target, abs=0.02)
    assert worst_5_s(job) <= 0.05
    assert not job.state.unreachable


@pytest.mark.parametrize("target", [0.2, 0.5])
def test_a_deep_queue_is_held_where_the_freeze_may_be_longer_than_it(target: float) -> None:
    job = Job(target, 0.5, speed=10.0, sync_s=0.0, queue_most_s=0.3)
    run([job], SECONDS)
    assert mean(job) == pytest.approx(target, abs=0.03)


def test_a_queue_deeper_than_the_longest_freeze_is_said_to_be_unreachable() -> None:
    job = Job(0.2, 0.05, speed=10.0, sync_s=0.0)
    run([job], SECONDS)
    assert mean(job) > 0.25
    assert job.state.unreachable


@pytest.mark.parametrize(("low", "high"), [(0.285, 0.665), (0.095, 0.855)])
def test_two_hungry_tenants_keep_their_ratio(low: float, high: float) -> None:
    jobs = [Job(low, 0.25), Job(high, 0.25)]
    run(jobs, SECONDS)
    assert mean(jobs[0]) / mean(jobs[1]) == pytest.approx(low / high, rel=0.05)
    assert all(mean(job) == pytest.approx(job.target, abs=0.02) for job in jobs)


def test_the_neighbours_of_a_critical_tenant_are_held_and_it_is_not() -> None:
    jobs = [Job(0.48, 0.0), Job(0.25, 0.25), Job(0.22, 0.5)]
    run(jobs, SECONDS)
    assert mean(jobs[0]) >= 0.48
    assert [mean(job) for job in jobs[1:]] == pytest.approx([0.25, 0.22], abs=0.02)


def test_one_that_becomes_hungry_is_held_within_seconds_and_let_go_when_the_limit_goes() -> None:
    job = Job(0.3, 0.25)
    run([job], 10)
    job.target = 1.0
    run([job], 10)
    assert sum(job.use_by_second[12:]) / 8 > 0.97
    assert not job.state.throttled
