"""Runs and freezes the processes of pods in turn, as the duty controller decided: the only thread that freezes anything.

It is its own watch: each of its rounds is a sign of life to the watchdog, and if the controller gives none for two seconds,
everything is thawed until it does. A pod that vanishes in mid-cycle is dropped.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tensorfusion_iac.agent.freezer import DutyGroup
from tensorfusion_iac.planning.duty import FREE, Pulse

log = logging.getLogger(__name__)

SILENCE_MOST_S = 2.0
"""How long the controller may say nothing before everything is let run."""
_ROUND_S = 0.1
_EARLY = 0.2
"""A run or a freeze may end early by this part of its length, when the thread is awake for another pod's sake: a wake-up costs
more than a switch. The next run makes up for it, so no freeze gets longer."""
_MADE_UP_MOST = 0.5
"""The part of a run by which it may be longer or shorter for what was early, or late on a busy machine."""


@dataclass(slots=True)
class _Pulsed:
    groups: dict[str, DutyGroup]
    pulse: Pulse = FREE
    frozen: bool = False
    since_s: float = 0.0
    ran_s: float = 0.0
    counted_s: float = 0.0
    began_s: float = 0.0  # the present run or freeze
    span_s: float = 0.0  # how long it was to be
    lacked_s: float = 0.0  # what the last run lacked of that
    due_s: float = math.inf  # when it is switched next
    early_s: float = math.inf  # from when on it may be


class Pulser(threading.Thread):
    """Pulses by key (a pod's UID). `beat` is called at least each 0.1 s while it works; OSError from it frees everything."""

    def __init__(self, beat: Callable[[], None] = lambda: None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(name="pulser", daemon=True)
        self._beat, self._clock = beat, clock
        self._pulsed: dict[str, _Pulsed] = {}
        self._lock = threading.Lock()
        self._told_s = clock()
        self._ended = False

    def hold(self, key: str, pulse: Pulse, groups: Iterable[DutyGroup]) -> None:
        """Pulse these groups from now on: a first freeze comes with the thread's next round, a thaw at once.

        Groups of the key that are no longer named are closed.
        """
        with self._lock:
            now_s = self._clock()
            found = self._pulsed.get(key)
            if found is None:
                found = self._pulsed[key] = _Pulsed({}, since_s=now_s, counted_s=now_s)
            self._regroup(found, {str(group.path): group for group in groups})
            found.pulse = pulse
            if pulse.frozen_s <= 0:
                self._turn(found, now_s)
            elif found.due_s == math.inf:
                found.began_s = found.due_s = found.early_s = now_s
                found.span_s = 0.0

    def drop(self, key: str) -> None:
        """Thaw a key for good and dissolve its groups."""
        with self._lock:
            found = self._pulsed.pop(key, None)
            if found is not None:
                for group in found.groups.values():
                    group.dissolve()

    def keys(self) -> set[str]:
        """What is pulsed, or was said to run freely."""
        with self._lock:
            return set(self._pulsed)

    def ran(self, key: str) -> float:
        """The part of the time in which a key ran, since this was last asked; 1 for an unknown one."""
        with self._lock:
            found = self._pulsed.get(key)
            if found is None:
                return 1.0
            now_s = self._clock()
            self._account(found, now_s)
            span_s, ran_s = now_s - found.counted_s, found.ran_s
            found.counted_s, found.ran_s = now_s, 0.0
            return min(ran_s / span_s, 1.0) if span_s > 0 else 1.0

    def tell(self) -> None:
        """A sign of life of the controller."""
        self._told_s = self._clock()

    def end(self) -> None:
        """Thaw everything, dissolve all groups and end the thread."""
        self._ended = True
        if self.is_alive():
            self.join()
        for key in self.keys():
            self.drop(key)

    def run(self) -> None:
        """Until `end`."""
        while not self._ended:
            with self._lock:
                wait_s = self._round()
            time.sleep(wait_s)
        with self._lock:
            self._thaw_all(self._clock())

    def _round(self) -> float:
        """Do what is due. Returns the time until the next thing is."""
        now_s = self._clock()
        if not self._may_freeze(now_s):
            self._thaw_all(now_s)
            return _ROUND_S
        next_s = now_s + _ROUND_S
        for found in self._pulsed.values():
            if found.early_s <= now_s:
                self._turn(found, now_s)
            if found.due_s < next_s:
                next_s = found.due_s
        return max(next_s - self._clock(), 0.0)

    def _may_freeze(self, now_s: float) -> bool:
        """Whether a sign of life can be given, and the controller gave one."""
        try:
            self._beat()
        except OSError as error:
            log.error("no sign of life can be given: %s; nothing is frozen", error)
            return False
        return now_s - self._told_s <= SILENCE_MOST_S

    def _turn(self, found: _Pulsed, now_s: float) -> None:
        """Begin the next run or freeze: a run in the ratio to the freeze as it was."""
        running_s, frozen_s = found.pulse.running_s, found.pulse.frozen_s
        lasted_s, found.began_s = now_s - found.began_s, now_s
        if frozen_s <= 0:
            self._switch(found, frozen=False, now_s=now_s)
            found.due_s = found.early_s = math.inf
            return
        if found.frozen:
            more_s = running_s * (lasted_s / frozen_s - 1) + found.lacked_s
            most_s = running_s * _MADE_UP_MOST
            span_s = running_s + min(max(more_s, -most_s), most_s)
        else:
            found.lacked_s = found.span_s - lasted_s
            span_s = frozen_s
        self._switch(found, frozen=not found.frozen, now_s=now_s)
        found.span_s, found.due_s, found.early_s = span_s, now_s + span_s, now_s + span_s * (1 - _EARLY)

    def _switch(self, found: _Pulsed, *, frozen: bool, now_s: float) -> None:
        self._account(found, now_s)
        if found.frozen == frozen:
            return
        found.frozen = frozen
        gone = []
        for path, group in found.groups.items():
            try:
                group.freeze() if frozen else group.thaw()
            except OSError:  # the container ended
                group.close()
                gone.append(path)
        for path in gone:
            del found.groups[path]

    def _account(self, found: _Pulsed, now_s: float) -> None:
        if not found.frozen:
            found.ran_s += now_s - found.since_s
        found.since_s = now_s

    def _regroup(self, found: _Pulsed, groups: dict[str, DutyGroup]) -> None:
        for path in found.groups.keys() - groups.keys():
            found.groups.pop(path).close()
        found.groups.update(groups)

    def _thaw_all(self, now_s: float) -> None:
        for found in self._pulsed.values():
            if found.frozen:
                self._switch(found, frozen=False, now_s=now_s)
                found.due_s = found.early_s = now_s + _ROUND_S
