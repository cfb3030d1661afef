"""From the driver's utilisation samples to seconds of the card that each process used (ENFORCEMENT.md, rules).

NVML answers a poll with the newest sample of each process that was not idle; samples come twice, late, or with garbage.
Each is counted once, for the time that it covers; a window without a sample is a window without use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple

SHORTEST_WINDOW_S, LONGEST_WINDOW_S = 1 / 6, 1.0
"""NVML's own bounds of the time that a sample covers."""

_WHOLE = 100  # percent; more is garbage: some drivers answer 4294967295
_FORGOTTEN_AFTER_S = 10.0
_EVIDENCE_LEAST_S, _EVIDENCE_MOST_S = 0.5, 10.0
_CLEARLY_LONGER = 1.5


class Sample(NamedTuple):
    """One sample of one process: the end of its window by the driver's clock, and percent of the card's compute."""

    pid: int
    time_us: int
    percent: int


_TIME = attrgetter("time_us")


class UseMeter:
    """Counts one card's samples. `take` gives what came since it was last called."""

    def __init__(self) -> None:
        self._last_us: dict[int, int] = {}
        self._used_s: defaultdict[int, float] = defaultdict(float)
        self._polled_us = 0
        self._card_busy_s = 0.0  # by the card's own figure, lately
        self._sampled = 0.0  # sum of samples as fractions, over the same time

    @property
    def newest_us(self) -> int:
        """The time to ask the driver for newer samples than; 0 at first."""
        return max(self._last_us.values(), default=0)

    @property
    def window_s(self) -> float:
        """The time that a sample covers. Drivers do not tell; it follows from how busy the card says that it was.

        Gaps between samples would not do: a process that is mostly frozen has longer ones.
        """
        if self._card_busy_s < _EVIDENCE_LEAST_S or self._sampled <= 0:
            return SHORTEST_WINDOW_S
        told_s = min(self._card_busy_s / self._sampled, LONGEST_WINDOW_S)
        return told_s if told_s > _CLEARLY_LONGER * SHORTEST_WINDOW_S else SHORTEST_WINDOW_S

    def add(self, samples: Iterable[Sample], now_us: int, card_percent: int | None = None) -> int:
        """Count the answer of one poll, made at `now_us` by the driver's clock. Returns how many were new and sound.

        `card_percent`: how busy the card as a whole says that it is, if it says so.
        """
        fresh = {(sample.pid, sample.time_us): sample for sample in samples if self._is_new(sample)}.values()
        polled_s = (now_us - self._polled_us) / 1e6 if self._polled_us else 0.0
        self._weigh(fresh, polled_s, card_percent)
        if fresh:
            self._count(fresh)
        self._polled_us = now_us
        return len(fresh)

    def take(self) -> Mapping[int, float]:
        """Seconds of the card used by each process since the last call, for those that used any."""
        self._forget(self._polled_us)
        taken = dict(self._used_s)
        self._used_s.clear()
        return taken

    def age_s(self, pid: int, now_us: int) -> float | None:
        """How old the newest sample of a process is; None if it never had one (or long ago)."""
        last_us = self._last_us.get(pid)
        return None if last_us is None else max((now_us - last_us) / 1e6, 0.0)

    def forget(self, pid: int) -> None:
        """A process has ended: its number may come back as another one."""
        self._last_us.pop(pid, None)
        self._used_s.pop(pid, None)

    def _is_new(self, sample: Sample) -> bool:
        return 0 <= sample.percent <= _WHOLE and sample.time_us > self._last_us.get(sample.pid, 0)

    def _count(self, fresh: Collection[Sample]) -> None:
        window_s = self.window_s
        by_time: defaultdict[int, int] = defaultdict(int)
        for sample in fresh:
            by_time[sample.time_us] += sample.percent
        for sample in sorted(fresh, key=_TIME):
            # Together the processes can't have used more than the whole: the driver rounds each of them up.
            whole = max(by_time[sample.time_us], _WHOLE)
            self._used_s[sample.pid] += self._covered_s(sample, window_s) * sample.percent / whole
            self._last_us[sample.pid] = sample.time_us

    def _covered_s(self, sample: Sample, window_s: float) -> float:
        """The part of the time before a sample that it speaks for: its window, and those that a late poll missed.

        A driver gives only the newest sample of each process; those between two polls that were too far apart are lost, and
        were most likely alike.
        """
        last_us = self._last_us.get(sample.pid)
        if last_us is None:
            return window_s
        gap_s = (sample.time_us - last_us) / 1e6
        if gap_s < _CLEARLY_LONGER * window_s:
            return gap_s
        missed = int((sample.time_us - self._polled_us) / 1e6 / window_s) if self._polled_us else 0
        return min(gap_s, max(missed, 1) * window_s, LONGEST_WINDOW_S)

    def _weigh(self, fresh: Iterable[Sample], polled_s: float, card_percent: int | None) -> None:
        if card_percent is None or not 0 <= card_percent <= _WHOLE:
            return
        self._card_busy_s += min(polled_s, LONGEST_WINDOW_S) * card_percent / _WHOLE
        self._sampled += sum(sample.percent for sample in fresh) / _WHOLE
        if self._card_busy_s > _EVIDENCE_MOST_S:
            self._card_busy_s, self._sampled = self._card_busy_s / 2, self._sampled / 2

    def _forget(self, now_us: int) -> None:
        old = [pid for pid, last_us in self._last_us.items() if now_us - last_us > _FORGOTTEN_AFTER_S * 1e6]
        for pid in old:
            del self._last_us[pid]
