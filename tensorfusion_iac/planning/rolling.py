"""How a Deployment's controller goes from old pods to new ones, as arithmetic (kubernetes pkg/controller/deployment/rolling.go).

Never more than `count + surge` pods in all, never fewer than `count - unavailable` that are available. Other controllers are
cases of it: a StatefulSet has no surge and one unavailable, Recreate has all unavailable.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf
from typing import NamedTuple

DEFAULT_SHARE = "25%"
"""Of a Deployment's `maxSurge` and `maxUnavailable`."""


class Bounds(NamedTuple):
    """How many pods there may be above `count`, and how many may be unavailable below it."""

    surge: int
    unavailable: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Pods now: old and new ones, and how many of each are available."""

    old: int
    old_available: int
    new: int
    new_available: int


def bounds(count: int, surge: object, unavailable: object) -> Bounds:
    """From `maxSurge` and `maxUnavailable` (numbers or percentages): a surge rounds up, the other down; both 0 is 0 and 1."""
    found = Bounds(ceil(_share(surge, count)), min(floor(_share(unavailable, count)), count))
    return found if any(found) else Bounds(0, 1)


def to_create(count: int, limits: Bounds, now: Progress) -> int:
    """How many new pods are created next."""
    return max(0, min(count + limits.surge - now.old - now.new, count - now.new))


def to_remove(count: int, limits: Bounds, now: Progress) -> tuple[int, int]:
    """How many old pods go next: of those that are not available, and of those that are."""
    least = count - limits.unavailable
    spare = now.old + now.new - least - (now.new - now.new_available)
    if spare <= 0:
        return 0, 0
    unhealthy = min(now.old - now.old_available, spare)
    return unhealthy, max(0, min(now.old_available + now.new_available - least, now.old_available))


def _share(value: object, count: int) -> Fraction:
    """A number of pods, exactly; what can't be read is none."""
    given = DEFAULT_SHARE if value is None else value
    if isinstance(given, str) and given.endswith("%") and given[:-1].isdigit():
        return Fraction(int(given[:-1]) * count, 100)
    if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 <= given < inf:
        return Fraction(int(given))
    return Fraction(0)
