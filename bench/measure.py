"""What every benchmark shares: interleaved repeats against a baseline, median and spread, and the last line's JSON.

Machines are noisy, so a figure is a ratio to a baseline measured in the same run, the two taking turns. `QUICK=1` asks for
a run of under a minute. Run a benchmark by `make bench NAME=<name>`.
"""

from __future__ import annotations

import gc
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

LEAST_REPEATS = 5


@dataclass(frozen=True, slots=True)
class Series:
    """The figures of several repeats of one thing, in the order in which they were measured."""

    figures: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle figure."""
        return statistics.median(self.figures)

    @property
    def spread(self) -> float:
        """The distance between the quartiles, as a share of the median."""
        low, _, high = statistics.quantiles(self.figures, n=4, method="inclusive")
        return (high - low) / self.median if self.median else 0.0


@dataclass(frozen=True, slots=True)
class Pair:
    """Ours and its baseline, measured in turn; `ratio` is ours / baseline, of each repeat by itself."""

    ours: Series
    baseline: Series

    @property
    def ratio(self) -> Series:
        """Ours in units of the baseline of the same repeat, so that a slow minute of the machine cancels out."""
        return Series(tuple(a / b for a, b in zip(self.ours.figures, self.baseline.figures, strict=True)))


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of TARGETS.md's table. `baseline` in the same unit; `ok` is None for a figure without a goal."""

    id: str
    what: str
    value: float
    unit: str
    baseline: float | None = None
    ratio: float | None = None
    goal: str | None = None
    ok: bool | None = None


def quick() -> bool:
    """Whether a short run is wanted (`QUICK=1`)."""
    return os.environ.get("QUICK", "") not in ("", "0")


def repeats(full: int) -> int:
    """How many repeats to make: `full`, or the fewest that still give a median."""
    return LEAST_REPEATS if quick() else max(full, LEAST_REPEATS)


def timed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> Callable[[], float]:
    """A measurement for `interleaved`: the seconds that one call of `work` takes by `clock`, wall time if none is given.

    `time.process_time` counts only what this process works: for work on one core, on a machine that does other things too.
    """

    def seconds() -> float:
        gc.collect()
        begin = clock()
        work()
        return clock() - begin

    return seconds


def interleaved(ours: Callable[[], float], baseline: Callable[[], float], repeats: int) -> Pair:
    """Call the two in turn, `repeats` times each, after one call of each that does not count.

    Each call makes one measurement and returns its figure (seconds, or whatever both return; see `timed`). Which of the two
    goes first changes with every repeat.
    """
    ours(), baseline()
    a: list[float] = []
    b: list[float] = []
    for index in range(repeats):
        turns = ((ours, a), (baseline, b))
        for measure, figures in turns if index % 2 == 0 else turns[::-1]:
            figures.append(measure())
    return Pair(Series(tuple(a)), Series(tuple(b)))


def describe(what: str, series: Series, unit: str, scale: float = 1.0) -> str:
    """One line of text: median, spread, number of repeats. `scale` turns the figures into `unit`."""
    return f"{what}: {series.median * scale:.4g} {unit} (spread {series.spread:.1%}, {len(series.figures)} repeats)"


def percentile(figures: Sequence[float], percent: float) -> float:
    """The figure below which `percent` of all lie, by the nearest rank (no interpolation)."""
    ranked = sorted(figures)
    rank = math.ceil(len(ranked) * percent / 100)
    return ranked[max(rank, 1) - 1]


def report(rows: Iterable[Row]) -> int:
    """Print a line for each row, then all of them as the JSON array that TARGETS.md asks for, last.

    Returns the exit status: 1 if a goal was missed.
    """
    listed = list(rows)
    for row in listed:
        verdict = {True: "ok", False: "MISSED", None: "-"}[row.ok]
        against = "" if row.ratio is None else f", {row.ratio:.3g} x baseline"
        goal = "" if row.goal is None else f" (goal: {row.goal})"
        print(f"{row.id:<4} {row.what}: {row.value:.4g} {row.unit}{against}{goal}  {verdict}")
    print(json.dumps([asdict(row) for row in listed]))
    return int(any(row.ok is False for row in listed))
