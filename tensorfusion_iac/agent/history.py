"""A compact history of what each pod used of each card: peaks and means by half minute, for autoscaling (SPEC §8).

Kept in memory, two hours at most; the controller asks often enough and keeps the histograms. One row is 5 numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.agent.enforcer import ContainerUse
from tensorfusion_iac.agent.pacing import Place

BUCKET_S = 30
KEPT = 240


@dataclass(slots=True)
class _Bucket:
    begin_s: int
    count: int = 0
    compute_sum: float = 0.0
    compute_peak: float = 0.0
    vram_peak: int = 0


class UsageHistory:
    """Buckets of `bucket_s` seconds, by pod and card."""

    def __init__(self, bucket_s: int = BUCKET_S) -> None:
        self.bucket_s = bucket_s
        self._buckets: dict[Place, deque[_Bucket]] = {}

    def add(self, uses: Iterable[ContainerUse], now_s: float) -> None:
        """Take what was seen at `now_s` (seconds since the epoch)."""
        totals: dict[Place, tuple[float, int]] = {}
        for use in uses:
            place = (use.pod_uid, use.card)
            compute, vram = totals.get(place, (0.0, 0))
            totals[place] = (compute + use.compute, vram + use.vram_bytes)
        begin_s = int(now_s) // self.bucket_s * self.bucket_s
        for place, (compute, vram) in totals.items():
            buckets = self._buckets.setdefault(place, deque(maxlen=KEPT))
            if not buckets or buckets[-1].begin_s != begin_s:
                buckets.append(_Bucket(begin_s))
            bucket = buckets[-1]
            bucket.count += 1
            bucket.compute_sum += compute
            bucket.compute_peak = max(bucket.compute_peak, compute)
            bucket.vram_peak = max(bucket.vram_peak, vram)

    def forget(self, kept: set[str]) -> None:
        """Drop the pods that are not in `kept`."""
        for place in [place for place in self._buckets if place[0] not in kept]:
            del self._buckets[place]

    def since(self, begin_s: float) -> list[dict[str, Any]]:
        """Rows of each pod and card, of buckets that began at `begin_s` or later: time, mean and peak compute, peak VRAM."""
        found = []
        for (uid, card), buckets in self._buckets.items():
            rows = [
                [each.begin_s, round(each.compute_sum / each.count, 4), round(each.compute_peak, 4), each.vram_peak]
                for each in buckets
                if each.begin_s >= begin_s
            ]
            if rows:
                found.append({"podUID": uid, "gpu": card, "rows": rows})
        return found
