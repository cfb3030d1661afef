"""Pods that use more memory of a card than their limit, under a driver that cannot hold them: event, grace, then the end of
the process that uses most (SPEC §6, ENFORCEMENT.md "older driver").

It decides, from what each process uses; somebody else sends the event and ends the process. A pod is never cut down further
than needed: after each process it is looked at anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

GRACE_S = 5.0
AGAIN_S = 2.0
"""How long the driver may take to show that an ended process's memory is free."""

Place = tuple[str, str]
"""A pod's UID and a card's UUID."""


@dataclass(frozen=True, slots=True)
class Warn:
    """A pod came over its limit: it is to be told, and has until the grace is over."""

    place: Place
    used_bytes: int
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class End:
    """A process is to be ended."""

    place: Place
    pid: int
    used_bytes: int
    limit_bytes: int


class OveruseWatch:
    """Remembers who is over since when."""

    def __init__(self) -> None:
        self._since_s: dict[Place, float] = {}
        self._not_before_s: dict[Place, float] = {}

    def look(self, now_s: float, used: Mapping[Place, Mapping[int, int]], limits: Mapping[Place, int]) -> list[Warn | End]:
        """What is to be done now. `used`: bytes by process, for each place that has a limit of ours."""
        actions: list[Warn | End] = []
        for place, by_pid in used.items():
            total, limit = sum(by_pid.values()), limits[place]
            if total <= limit:
                self._forget(place)
            elif place not in self._since_s:
                self._since_s[place] = now_s
                actions.append(Warn(place, total, limit))
            elif now_s - self._since_s[place] >= GRACE_S and now_s >= self._not_before_s.get(place, now_s):
                pid = max(by_pid, key=lambda each: (by_pid[each], each))
                self._not_before_s[place] = now_s + AGAIN_S
                actions.append(End(place, pid, total, limit))
        for place in self._since_s.keys() - used.keys():
            self._forget(place)
        return actions

    def _forget(self, place: Place) -> None:
        self._since_s.pop(place, None)
        self._not_before_s.pop(place, None)
