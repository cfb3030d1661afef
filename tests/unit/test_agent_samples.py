"""Utilisation samples: counted once, for the time that they cover, and never believed when they are garbage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.agent.samples import SHORTEST_WINDOW_S, Sample, UseMeter

WINDOW_US = round(SHORTEST_WINDOW_S * 1e6)
BEGIN_US = 1_700_000_000_000_000


def feed(meter: UseMeter, percents: list[dict[int, int]], begin_us: int = BEGIN_US) -> int:
    """One poll for each window, the moment after its samples."""
    now_us = begin_us
    for window in percents:
        now_us += WINDOW_US
        meter.add([Sample(pid, now_us, percent) for pid, percent in window.items()], now_us + 1000)
    return now_us


def test_use_is_percent_times_window() -> None:
    meter = UseMeter()
    feed(meter, [{7: 30, 8: 50}] * 60)
    taken = meter.take()
    assert taken[7] == pytest.approx(60 * 0.30 * SHORTEST_WINDOW_S, rel=0.01)
    assert taken[8] == pytest.approx(60 * 0.50 * SHORTEST_WINDOW_S, rel=0.01)


def test_a_sample_that_comes_twice_counts_once() -> None:
    meter = UseMeter()
    sample = Sample(7, BEGIN_US, 50)
    assert [meter.add([sample, sample], BEGIN_US + at) for at in (1, 2, 3)] == [1, 0, 0]
    assert meter.take()[7] == pytest.approx(0.5 * SHORTEST_WINDOW_S)


def test_what_was_taken_is_not_given_again() -> None:
    meter = UseMeter()
    feed(meter, [{7: 50}])
    assert meter.take()
    assert meter.take() == {}


@pytest.mark.parametrize("percent", [101, 4294967295])
def test_garbage_is_dropped(percent: int) -> None:
    meter = UseMeter()
    assert meter.add([Sample(7, BEGIN_US, percent)], BEGIN_US + 1) == 0
    assert meter.take() == {}


def test_windows_without_a_sample_are_windows_without_use() -> None:
    meter = UseMeter()
    feed(meter, [{7: 80}, {}, {}, {}, {7: 80}, {}, {}, {}, {7: 80}])
    assert meter.take()[7] == pytest.approx(3 * 0.8 * SHORTEST_WINDOW_S, rel=0.01)


def test_together_they_never_used_more_than_the_card() -> None:
    meter = UseMeter()
    feed(meter, [{7: 80, 8: 80}] * 10)
    assert sum(meter.take().values()) == pytest.approx(10 * SHORTEST_WINDOW_S, rel=0.01)


def test_a_driver_with_longer_windows_is_measured_by_them() -> None:
    meter = UseMeter()
    for second in range(1, 31):
        if second == 21:
            meter.take()
        for part in range(6):  # polled more often than there are samples
            now_us = BEGIN_US + second * 1_000_000 + part * 150_000
            meter.add([Sample(7, BEGIN_US + second * 1_000_000, 40)], now_us, card_percent=40)
    assert meter.take()[7] == pytest.approx(10 * 0.4, rel=0.06)


def test_a_poll_that_came_late_speaks_for_the_windows_that_it_missed() -> None:
    meter = UseMeter()
    now_us = feed(meter, [{7: 60}] * 10)
    meter.take()
    meter.add([Sample(7, now_us + 4 * WINDOW_US, 60)], now_us + 4 * WINDOW_US + 1000)
    assert meter.take()[7] == pytest.approx(0.6 * 4 * SHORTEST_WINDOW_S, rel=0.26)


def test_age_tells_how_old_the_newest_sample_is() -> None:
    meter = UseMeter()
    now_us = feed(meter, [{7: 60}])
    assert meter.age_s(7, now_us + 2_000_000) == pytest.approx(2.0)
    assert meter.age_s(8, now_us) is None


def test_a_pid_that_came_back_as_another_process_starts_anew() -> None:
    meter = UseMeter()
    feed(meter, [{7: 60}])
    meter.forget(7)
    assert meter.take() == {}
    assert meter.age_s(7, BEGIN_US) is None


@given(st.lists(st.dictionaries(st.integers(1, 4), st.integers(-5, 130), max_size=4), max_size=40), st.integers(0, 3))
def test_use_is_never_more_than_the_time_that_passed(windows: list[dict[int, int]], skipped: int) -> None:
    meter = UseMeter()
    now_us = BEGIN_US
    for window in windows:
        now_us += WINDOW_US * (1 + skipped)
        meter.add([Sample(pid, now_us, percent) for pid, percent in window.items()], now_us)
    assert sum(meter.take().values()) <= len(windows) * (1 + skipped) * SHORTEST_WINDOW_S * 1.01
