"""How long a process may run and how long it is frozen, so that its use of the card comes to a target (SPEC §6).

A closed loop over what the driver measured: the gain (use per running time) is estimated, and what was used too much or too
little so far is made up for. Freezing stops the submission of work, not work that is queued: a process that queues more
in the shortest run than it may use in the longest freeze cannot be held, and then this says so (ENFORCEMENT.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensorfusion_iac.api.levels import QoS

LONGEST_FREEZE_S: Mapping[QoS, float] = {QoS.LOW: 0.5, QoS.MEDIUM: 0.25, QoS.HIGH: 0.05, QoS.CRITICAL: 0.0}
"""A critical container is never frozen."""
SHORTEST_RUN_S = 0.010
PERIOD_S = 0.2

_RECOVERY_S = 2.0  # what is owed is made up for in about this time
_OWED_MOST_S = 0.3  # seconds of the card: 1 point of 30 s
_OWED_MOST_OF_SHARE_S = 1.0  # and no more than it may use in this time, or a small share would atone for long
_GAIN_WEIGHT, _GAIN_WEIGHT_FAR = 0.3, 0.6
_GAIN_LEAST, _GAIN_MOST = 0.02, 200.0
_DEAD_BAND = 0.02  # of the duty itself, which may be as small as 2 %
_STEP = 0.5
_JUMP = 0.05  # a target that moved by this much of the card is stepped to at once
_OVER = 0.03
_UNREACHABLE_AFTER_S = 3.0


@dataclass(frozen=True, slots=True)
class Pulse:
    """Seconds running and seconds frozen, in turn; `frozen_s` 0: never frozen."""

    running_s: float
    frozen_s: float

    @property
    def duty(self) -> float:
        """The part of the time in which it runs."""
        return self.running_s / (self.running_s + self.frozen_s)


FREE = Pulse(PERIOD_S, 0.0)


@dataclass(frozen=True, slots=True)
class Duty:
    """The controller's state for one container on one card.

    `owed_s`: seconds of the card that it got too little (or too much, below 0). `gain`: use per part of the time running.
    `over_s`: how long it has been above a target at the lowest duty there is.
    """

    duty: float = 1.0
    gain: float = 1.0
    owed_s: float = 0.0
    target: float = 1.0
    over_s: float = 0.0

    @property
    def throttled(self) -> bool:
        """Whether it is held back at all."""
        return self.duty < 1.0

    @property
    def unreachable(self) -> bool:
        """Whether it has been above its target for a while although no more can be done."""
        return self.over_s >= _UNREACHABLE_AFTER_S


def lowest_duty(longest_freeze_s: float) -> float:
    """The smallest part of the time that a process can be let run."""
    return SHORTEST_RUN_S / (SHORTEST_RUN_S + longest_freeze_s)


def pulse(duty: float, longest_freeze_s: float) -> Pulse:
    """The pulses that give this duty: a period near PERIOD_S, runs of SHORTEST_RUN_S at least, freezes no longer than allowed."""
    if duty >= 1.0 or longest_freeze_s <= 0:
        return FREE
    running_s, frozen_s = duty * PERIOD_S, (1.0 - duty) * PERIOD_S
    if running_s < SHORTEST_RUN_S:
        running_s, frozen_s = SHORTEST_RUN_S, SHORTEST_RUN_S * (1.0 - duty) / max(duty, 1e-6)
    if frozen_s > longest_freeze_s:
        running_s, frozen_s = max(longest_freeze_s * duty / (1.0 - duty), SHORTEST_RUN_S), longest_freeze_s
    return Pulse(running_s, frozen_s)


def step(
    state: Duty, *, target: float, use: float, ran: float, elapsed_s: float, longest_freeze_s: float
) -> Duty:  # fmt: skip
    """The state after `elapsed_s`, in which it used `use` of the card and ran for the part `ran` of the time.

    `target` is what it may use from now on. A pure function; call it about twice a second.
    """
    lowest = lowest_duty(longest_freeze_s)
    gain = _gain(state, use, ran)
    owed_s = _owed(state, use, elapsed_s, lowest)
    wished = (target + owed_s / _RECOVERY_S) / gain
    duty = _towards(state, min(max(wished, lowest), 1.0), target)
    over = duty <= lowest and use > target + _OVER
    over_s = state.over_s + elapsed_s if over else 0.0
    return replace(state, duty=duty, gain=gain, owed_s=owed_s, target=target, over_s=over_s)


def _gain(state: Duty, use: float, ran: float) -> float:
    """The gain, a moving geometric mean, faster while it is far off; an idle time says nothing about it."""
    if use <= 0.005 or ran <= 0.005:
        return state.gain
    measured = min(max(use / ran, _GAIN_LEAST), _GAIN_MOST)
    ratio = measured / state.gain
    weight = _GAIN_WEIGHT if 0.67 < ratio < 1.5 else _GAIN_WEIGHT_FAR
    return float(state.gain * ratio**weight)


def _owed(state: Duty, use: float, elapsed_s: float, lowest: float) -> float:
    """What it is owed. Nothing is saved up by one that could have run more, nor charged to one that cannot be held."""
    owed_s = state.owed_s + (state.target - use) * elapsed_s
    if state.duty >= 1.0:
        owed_s = min(owed_s, 0.0)
    elif state.duty <= lowest:
        owed_s = max(owed_s, min(state.owed_s, 0.0))
    most_s = min(_OWED_MOST_S, state.target * _OWED_MOST_OF_SHARE_S)
    return min(max(owed_s, -most_s), most_s)


def _towards(state: Duty, wished: float, target: float) -> float:
    """Half of the way to the wished duty, or all of it after the target jumped; small differences are left."""
    if target >= 1.0:
        return 1.0
    if abs(target - state.target) > _JUMP or wished >= 1.0:
        return wished
    if abs(wished - state.duty) <= _DEAD_BAND * state.duty:
        return min(state.duty, wished)  # so that the lowest duty is really reached
    return state.duty + _STEP * (wished - state.duty)
