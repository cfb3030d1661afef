"""The bounds of a rolling update, by Kubernetes' own rules, and its steps: never too many pods, never too few."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfusion_iac.planning.rolling import Bounds, Progress, bounds, to_create, to_remove


@pytest.mark.parametrize(
    ("count", "surge", "unavailable", "expected"),
    [
        (4, None, None, Bounds(1, 1)),
        (3, None, None, Bounds(1, 0)),  # a surge rounds up, what may be unavailable rounds down
        (1, None, None, Bounds(1, 0)),
        (10, "30%", "30%", Bounds(3, 3)),
        (10, 0, 0, Bounds(0, 1)),  # both 0 would be no progress
        (3, "0%", "10%", Bounds(0, 1)),
        (3, 5, 7, Bounds(5, 3)),
        (2, 1.0, 0.0, Bounds(1, 0)),  # as pulumi has numbers
        (2, "many", True, Bounds(0, 1)),  # what can't be read is none
        (2, float("inf"), None, Bounds(0, 1)),
        (0, None, None, Bounds(0, 1)),
    ],
)
def test_bounds_are_kubernetes_own(count: int, surge: Any, unavailable: Any, expected: Bounds) -> None:
    assert bounds(count, surge, unavailable) == expected


@given(
    count=st.integers(0, 12),
    before=st.integers(0, 12),
    surge=st.integers(0, 5),
    unavailable=st.integers(0, 5),
)
def test_a_roll_with_room_ends_and_keeps_its_bounds(count: int, before: int, surge: int, unavailable: int) -> None:
    limits = bounds(count, surge, unavailable)
    old, new = before, 0
    least, most = min(before, count - limits.unavailable), max(before, count + limits.surge)
    for _ in range(100):
        now = Progress(old, old, new, new)
        created = to_create(count, limits, now)
        new += created
        old -= sum(to_remove(count, limits, Progress(old, old, new, new)))
        assert least <= old + new <= most
        if not created and (old, new) == (now.old, now.new):
            break
    assert (old, new) == (0, count)


def test_without_room_nothing_available_goes_below_the_least() -> None:
    stuck = Progress(old=3, old_available=3, new=1, new_available=0)
    assert to_create(3, Bounds(1, 0), stuck) == 0
    assert to_remove(3, Bounds(1, 0), stuck) == (0, 0)
    assert to_remove(3, Bounds(1, 1), Progress(3, 3, 1, 0)) == (0, 1)


def test_old_pods_that_wait_go_before_those_that_run() -> None:
    assert to_remove(3, Bounds(1, 0), Progress(old=3, old_available=2, new=1, new_available=1)) == (1, 0)
