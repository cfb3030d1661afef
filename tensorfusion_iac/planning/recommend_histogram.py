"""A histogram of use that forgets: each sample's weight halves with every half-life that passes (SPEC §8). Pure.

Buckets grow by 5 %, so that a percentile is right to 5 % at any size, with a few hundred numbers at most. Weights are kept
relative to a reference time that moves up by whole half-lives, so that no number grows without bound and nothing is rounded
when it moves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

GROWTH = 1.05
_MOST = 250  # 1.05^250: about 200,000 times the first bucket, and 4 million times as the sum of all
_MOVE_AFTER = 50  # half-lives
_NEGLIGIBLE = 2.0**-60


class Sample(NamedTuple):
    """A value, how much it counts, and when it was (seconds since the epoch)."""

    value: float
    weight: float
    at_s: float


def bucket_of(value: float, first: float) -> int:
    """The bucket of a value; `first` is the width of the first one."""
    if value < first:
        return 0
    found = math.floor(math.log(value * (GROWTH - 1) / first + 1, GROWTH))
    return min(found, _MOST)


def end_of(bucket: int, first: float) -> float:
    """Where a bucket ends: what is said of all values in it, since a recommendation may be a little high and never low."""
    return first * (GROWTH ** (bucket + 1) - 1) / (GROWTH - 1)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Weights by bucket, relative to `reference_s`: a sample's weight times 2^((its time - reference) / half-life)."""

    first: float
    half_life_s: float
    reference_s: float = 0.0
    weights: Mapping[int, float] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether it knows nothing."""
        return not self.weights

    def adding(self, samples: Iterable[Sample]) -> Histogram:
        """The histogram with more samples, in any order of time."""
        weights, reference_s = dict(self.weights), self.reference_s
        for sample in samples:
            if not weights:
                reference_s = sample.at_s
            ahead = (sample.at_s - reference_s) / self.half_life_s
            if ahead > _MOVE_AFTER:
                shift = math.floor(ahead)
                weights = {bucket: moved for bucket, weight in weights.items() if (moved := weight * 2.0**-shift) > _NEGLIGIBLE}
                reference_s += shift * self.half_life_s
                ahead -= shift
            bucket = bucket_of(sample.value, self.first)
            weights[bucket] = weights.get(bucket, 0.0) + sample.weight * 2.0**ahead
        return Histogram(self.first, self.half_life_s, reference_s, weights)

    def percentile(self, share: float) -> float:
        """The end of the bucket below which `share` (0..1) of the weight lies; 0 if nothing is known."""
        if not self.weights:
            return 0.0
        wanted, seen = share * sum(self.weights.values()), 0.0
        buckets = sorted(self.weights)
        for bucket in buckets:
            seen += self.weights[bucket]
            if seen >= wanted:
                return end_of(bucket, self.first)
        return end_of(buckets[-1], self.first)  # rounding

    def to_json(self) -> dict[str, Any]:
        """As JSON values; exact."""
        weights = [[bucket, self.weights[bucket]] for bucket in sorted(self.weights)]
        return {"first": self.first, "halfLifeSeconds": self.half_life_s, "reference": self.reference_s, "weights": weights}


def from_json(document: Mapping[str, Any]) -> Histogram:
    """Read `to_json` back. ValueError if it is none."""
    try:
        weights = {int(bucket): float(weight) for bucket, weight in document["weights"]}
        first, half_life_s, reference_s = (float(document[key]) for key in ("first", "halfLifeSeconds", "reference"))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a histogram: {type(error).__name__} {error}") from error
    numbers = (first, half_life_s, reference_s, *weights.values())
    if not all(map(math.isfinite, numbers)) or min(first, half_life_s) <= 0 or any(weight < 0 for weight in weights.values()):
        raise ValueError("not a histogram: a number is out of its range")
    if any(not 0 <= bucket <= _MOST for bucket in weights):
        raise ValueError("not a histogram: a bucket is out of its range")
    return Histogram(first, half_life_s, reference_s, weights)
