"""Memory over the limit under a driver that cannot hold it: told, given time, and ended one process at a time."""

from __future__ import annotations

from tensorfusion_iac.agent.overuse import AGAIN_S, GRACE_S, End, OveruseWatch, Warn

PLACE = ("pod", "card")
LIMITS = {PLACE: 10}


def test_below_the_limit_nothing_is_done() -> None:
    assert OveruseWatch().look(0, {PLACE: {1: 5, 2: 5}}, LIMITS) == []


def test_it_is_told_first_and_its_largest_process_ended_after_the_grace() -> None:
    watch, used = OveruseWatch(), {PLACE: {1: 5, 2: 7}}
    assert watch.look(0, used, LIMITS) == [Warn(PLACE, 12, 10)]
    assert watch.look(GRACE_S - 0.1, used, LIMITS) == []
    assert watch.look(GRACE_S, used, LIMITS) == [End(PLACE, 2, 12, 10)]


def test_who_goes_below_in_time_is_spared_and_told_again_the_next_time() -> None:
    watch = OveruseWatch()
    watch.look(0, {PLACE: {1: 12}}, LIMITS)
    assert watch.look(1, {PLACE: {1: 9}}, LIMITS) == []
    assert watch.look(GRACE_S + 1, {PLACE: {1: 12}}, LIMITS) == [Warn(PLACE, 12, 10)]


def test_no_second_process_is_ended_before_the_driver_could_show_the_first_one_gone() -> None:
    watch, used = OveruseWatch(), {PLACE: {1: 11, 2: 12}}
    watch.look(0, used, LIMITS)
    assert [type(each) for each in watch.look(GRACE_S, used, LIMITS)] == [End]
    assert watch.look(GRACE_S + AGAIN_S - 0.1, used, LIMITS) == []
    assert watch.look(GRACE_S + AGAIN_S, {PLACE: {1: 11}}, LIMITS) == [End(PLACE, 1, 11, 10)]


def test_a_pod_that_went_is_forgotten() -> None:
    watch = OveruseWatch()
    watch.look(0, {PLACE: {1: 12}}, LIMITS)
    watch.look(1, {}, {})
    assert watch.look(GRACE_S + 1, {PLACE: {9: 12}}, LIMITS) == [Warn(PLACE, 12, 10)]
