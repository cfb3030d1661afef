"""Runs and freezes the processes of pods in turn, as the duty controller decided: the only thread that freezes anything.

It is its own watch: each of its rounds is a sign of life to the watchdog, and if the controller gives none for two seconds,
everything is thawed until it does. A pod that vanishes in mid-cycle is dropped.
"""

from __future__ import annotations

import heapq
import logging
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
_TOGETHER_S = 0.004
"""What is due within it is done at one wake-up: a wake-up costs more than a switch, and the controller counts what really ran."""


@dataclass(slots=True)
class _Pulsed:
    groups: dict[str, DutyGroup]
    pulse: Pulse = FREE
    frozen: bool = False
    since_s: float = 0.0
    ran_s: float = 0.0
    counted_s: float = 0.0
    number: int = 0  # of its newest entry in the heap; older ones are void


class Pulser(threading.Thread):
    """Pulses by key (a pod's UID). `beat` is called at least each 0.1 s while it works; OSError from it frees everything."""

    def __init__(self, beat: Callable[[], None] = lambda: None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(name="pulser", daemon=True)
        self._beat, self._clock = beat, clock
        self._pulsed: dict[str, _Pulsed] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._changed = threading.Condition()
        self._numbers = 0
        self._told_s = clock()
        self._ended = False

    def hold(self, key: str, pulse: Pulse, groups: Iterable[DutyGroup]) -> None:
        """Pulse these groups from now on. Groups of the key that are no longer named are closed."""
        with self._changed:
            found = self._pulsed.get(key)
            if found is None:
                now_s = self._clock()
                found = self._pulsed[key] = _Pulsed({}, since_s=now_s, counted_s=now_s)
            self._regroup(found, {str(group.path): group for group in groups})
            before, found.pulse = found.pulse, pulse
            if before != pulse and (before.frozen_s == 0 or pulse.frozen_s == 0):
                self._schedule(key, found, self._clock())  # else the present pulse ends first
                self._changed.notify()

    def drop(self, key: str) -> None:
        """Thaw a key for good and dissolve its groups."""
        with self._changed:
            found = self._pulsed.pop(key, None)
            if found is not None:
                for group in found.groups.values():
                    group.dissolve()

    def keys(self) -> set[str]:
        """What is pulsed, or was said to run freely."""
        with self._changed:
            return set(self._pulsed)

    def ran(self, key: str) -> float:
        """The part of the time in which a key ran, since this was last asked; 1 for an unknown one."""
        with self._changed:
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
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self.is_alive():
            self.join()
        for key in self.keys():
            self.drop(key)

    def run(self) -> None:
        """Until `end`."""
        with self._changed:
            while not self._ended:
                wait_s = self._round()
                self._changed.wait(wait_s)
            self._thaw_all()

    def _round(self) -> float:
        """Do what is due. Returns the time until the next thing is."""
        now_s = self._clock()
        try:
            self._beat()
        except OSError as error:
            log.error("no sign of life can be given: %s; nothing is frozen", error)
            self._thaw_all()
            return _ROUND_S
        if now_s - self._told_s > SILENCE_MOST_S:
            self._thaw_all()
            return _ROUND_S
        due = []
        while self._heap and self._heap[0][0] <= now_s + _TOGETHER_S:
            due.append(heapq.heappop(self._heap))
        for _, number, key in due:
            found = self._pulsed.get(key)
            if found is not None and found.number == number:
                self._turn(key, found, now_s)
        return min(self._heap[0][0] - now_s if self._heap else _ROUND_S, _ROUND_S)

    def _turn(self, key: str, found: _Pulsed, now_s: float) -> None:
        if found.pulse.frozen_s <= 0:
            self._switch(found, frozen=False, now_s=now_s)
            return
        self._switch(found, frozen=not found.frozen, now_s=now_s)
        self._schedule(key, found, now_s + (found.pulse.frozen_s if found.frozen else found.pulse.running_s))

    def _switch(self, found: _Pulsed, *, frozen: bool, now_s: float) -> None:
        self._account(found, now_s)
        found.frozen = frozen
        for path, group in list(found.groups.items()):
            try:
                group.freeze() if frozen else group.thaw()
            except OSError:  # the container ended
                group.close()
                del found.groups[path]

    def _account(self, found: _Pulsed, now_s: float) -> None:
        if not found.frozen:
            found.ran_s += now_s - found.since_s
        found.since_s = now_s

    def _schedule(self, key: str, found: _Pulsed, due_s: float) -> None:
        self._numbers += 1
        found.number = self._numbers
        heapq.heappush(self._heap, (due_s, found.number, key))

    def _regroup(self, found: _Pulsed, groups: dict[str, DutyGroup]) -> None:
        for path in found.groups.keys() - groups.keys():
            found.groups.pop(path).close()
        found.groups.update(groups)

    def _thaw_all(self) -> None:
        now_s = self._clock()
        for key, found in self._pulsed.items():
            if found.frozen:
                self._switch(found, frozen=False, now_s=now_s)
                self._schedule(key, found, now_s + _ROUND_S)
