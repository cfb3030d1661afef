"""What the pods of simulated nodes would use of their cards if they had them alone: from an annotation, or their workload's name.

Pure: two runs show the same. The load is a level and a slow wave around it, so that autoscaling and dashboards have something
to follow.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.quantity import parse_quantity
from tensorfusion_iac.api.values import parse_duration

LOAD_ANNOTATION = "simulated.tensor-fusion.ai/load"
"""On a pod of a simulated node, for example `mean=0.4, swing=0.2, period=2m, vram=12Gi`; what it leaves out follows from the
workload's name. `mean` and `swing` are fractions of a card's compute."""

_STEP_S = 20.0
_UNEVENNESS, _STEADY_MEMORY = 0.3, 0.9


@dataclass(frozen=True, slots=True)
class Load:
    """Compute as a fraction of a card: a mean, a wave around it, and the wave's period. `vram_bytes`: memory at the peak."""

    mean: float
    swing: float
    period_s: float
    vram_bytes: int

    def at(self, now_s: float, phase: float) -> float:
        """The demand of one pod, a fraction of a card; `phase` (0..1) sets the pods of a workload apart."""
        wave = math.sin(2 * math.pi * (now_s / self.period_s + phase / 4))
        steps = fraction(f"{phase}/{now_s // _STEP_S}") - 0.5
        return min(max(self.mean + self.swing * (wave + _UNEVENNESS * steps), 0.0), 1.0)

    def memory_at(self, compute: float) -> int:
        """Bytes at a demand: weights that stay, and a tenth of buffers that come and go."""
        peak = min(self.mean + self.swing, 1.0)
        share = min(compute / peak, 1.0) if peak > 0 else 1.0
        return round(self.vram_bytes * (_STEADY_MEMORY + (1 - _STEADY_MEMORY) * share))


def load_of(workload: str, vram_bytes: int) -> Load:
    """The load of a workload by its name; `vram_bytes` is what its pods were given at first."""
    one, two, three, four = (fraction(f"{workload}/{part}") for part in ("mean", "swing", "period", "vram"))
    return Load(0.15 + 0.6 * one, 0.05 + 0.25 * two, 120 + 480 * three, round(vram_bytes * (0.45 + 0.4 * four)))


def with_annotation(load: Load, text: str) -> Load:
    """The load with what the annotation says of it. ValueError names the part that cannot be read."""
    given: dict[str, Any] = {}
    for part in (one.strip() for one in text.split(",")):
        name, _, value = part.partition("=")
        if name not in _READERS:
            raise ValueError(f"{LOAD_ANNOTATION}: {part!r} is none of {', '.join(f'{known}=...' for known in _READERS)}")
        member, read = _READERS[name]
        try:
            given[member] = read(value)
        except (ValueError, Fault) as error:
            raise ValueError(f"{LOAD_ANNOTATION}: {part!r} cannot be read: {error}") from error
    return replace(load, **given)


def fraction(text: str) -> float:
    """A number from 0 to 1 that follows from a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) / 2**32


def _share(value: str) -> float:
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError("a fraction of a card, from 0 to 1, is needed")
    return number


def _period_s(value: str) -> float:
    seconds = parse_duration(value).total_seconds()
    if seconds < 1:
        raise ValueError("a second at least is needed")
    return seconds


def _bytes(value: str) -> float:
    return int(parse_quantity(value))


_READERS: Mapping[str, tuple[str, Callable[[str], float]]] = {
    "mean": ("mean", _share), "swing": ("swing", _share), "period": ("period_s", _period_s), "vram": ("vram_bytes", _bytes),
}  # fmt: skip
