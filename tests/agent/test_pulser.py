"""When pods are frozen and thawed, by a clock of the test's own: never for longer than asked, several at one wake-up."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tensorfusion_iac.agent import pulser as pulsers
from tensorfusion_iac.agent.freezer import DutyGroup
from tensorfusion_iac.agent.pulser import Pulser
from tensorfusion_iac.planning.duty import FREE, Pulse


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Group(DutyGroup):
    """Keeps the times at which it was frozen and thawed, in turn."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.path, self.clock, self.switched_s = Path(name), clock, list[float]()

    def freeze(self) -> None:
        assert len(self.switched_s) % 2 == 0
        self.switched_s.append(self.clock())

    def thaw(self) -> None:
        assert len(self.switched_s) % 2 == 1
        self.switched_s.append(self.clock())

    def spans_s(self) -> tuple[list[float], list[float]]:
        """How long it was frozen, and how long it ran in between."""
        spans = [end - begin for begin, end in zip(self.switched_s, self.switched_s[1:], strict=False)]
        return spans[::2], spans[1::2]


def rounds(pulser: Pulser, clock: Clock, seconds: float) -> int:
    """Let time pass as the thread would. Returns how often it woke."""
    end_s, count = clock.now_s + seconds, 0
    while clock.now_s < end_s:
        pulser.tell()
        clock.now_s += pulser._round()
        count += 1
    return count


@pytest.mark.parametrize("pulse", [Pulse(0.06, 0.14), Pulse(0.01, 0.5), Pulse(0.2, 0.05)])
def test_a_pod_alone_runs_and_is_frozen_for_as_long_as_asked(pulse: Pulse) -> None:
    clock = Clock()
    pulser, group = Pulser(clock=clock), Group("a", clock)
    pulser.hold("a", pulse, [group])
    rounds(pulser, clock, 5.0)
    frozen_s, ran_s = group.spans_s()
    assert frozen_s == pytest.approx([pulse.frozen_s] * len(frozen_s))
    assert ran_s == pytest.approx([pulse.running_s] * len(ran_s))
    assert pulser.ran("a") == pytest.approx(pulse.duty, abs=0.05)


def test_pods_share_wake_ups_and_none_is_frozen_for_longer_than_asked() -> None:
    clock = Clock()
    pulser = Pulser(clock=clock)
    pulses = {str(number): Pulse(0.04 + 0.002 * number, 0.16 - 0.002 * number) for number in range(16)}
    groups = {name: Group(name, clock) for name in pulses}
    for name, pulse in pulses.items():
        clock.now_s += 0.0037
        pulser.hold(name, pulse, [groups[name]])
    woken = rounds(pulser, clock, 20.0)
    switched = sum(len(group.switched_s) for group in groups.values())
    assert woken < switched / 2
    for name, pulse in pulses.items():
        frozen_s, ran_s = groups[name].spans_s()
        least = 1 - pulsers._EARLY - 1e-6
        assert all(least * pulse.frozen_s <= span_s <= pulse.frozen_s + 1e-6 for span_s in frozen_s)
        assert sum(ran_s) / sum(frozen_s) == pytest.approx(pulse.running_s / pulse.frozen_s, rel=0.02)


def test_a_machine_that_is_late_changes_the_periods_and_not_the_duty() -> None:
    clock, late = Clock(), random.Random(7)
    pulser, group, pulse = Pulser(clock=clock), Group("a", clock), Pulse(0.06, 0.14)
    pulser.hold("a", pulse, [group])
    for _ in range(1000):
        pulser.tell()
        clock.now_s += pulser._round() + late.uniform(0.0, 0.015)
    frozen_s, ran_s = group.spans_s()
    assert sum(ran_s) / sum(frozen_s) == pytest.approx(pulse.running_s / pulse.frozen_s, rel=0.02)


def test_a_pod_that_may_run_freely_is_thawed_at_once() -> None:
    clock = Clock()
    pulser, group = Pulser(clock=clock), Group("a", clock)
    pulser.hold("a", Pulse(0.01, 0.5), [group])
    rounds(pulser, clock, 0.01)
    assert len(group.switched_s) == 1
    pulser.hold("a", FREE, [group])
    assert len(group.switched_s) == 2
    rounds(pulser, clock, 2.0)
    assert len(group.switched_s) == 2
