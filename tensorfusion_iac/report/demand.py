"""What the workloads of a preview ask for in all, by pool, QoS and model, before and after (API.md, `requested`).

Percentages of cards that are not chosen yet stay what they are: they are added up as parts of a card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from tensorfusion_iac.api.levels import QOS_ORDER
from tensorfusion_iac.api.worker import Unit, WorkerSpec


class Group(NamedTuple):
    """What demand is added up by. `model`: as the workload names it, `any` if it names none."""

    pool: str
    qos: str
    model: str


@dataclass(frozen=True, slots=True)
class Sum:
    """Demand in all. `card_parts`: cards, where compute is asked for in percent; `whole_cards`: cards taken in full."""

    workers: int = 0
    gpus: int = 0
    tflops: Decimal = Decimal(0)
    card_parts: Decimal = Decimal(0)
    vram_bytes: int = 0
    whole_cards: int = 0

    def plus(self, other: Sum) -> Sum:
        """Both together."""
        return Sum(
            self.workers + other.workers,
            self.gpus + other.gpus,
            self.tflops + other.tflops,
            self.card_parts + other.card_parts,
            self.vram_bytes + other.vram_bytes,
            self.whole_cards + other.whole_cards,
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """One group, before and after."""

    group: Group
    before: Sum
    after: Sum


NOTHING = Sum()
_QOS = tuple(qos.value for qos in QOS_ORDER)


def demand_of(before: Iterable[tuple[WorkerSpec, int]], after: Iterable[tuple[WorkerSpec, int]]) -> tuple[Demand, ...]:
    """Add up workers, each with how many of it run; by pool, QoS (lowest first) and model."""
    sums = _summed(before), _summed(after)
    groups = sorted({*sums[0], *sums[1]}, key=lambda group: (group.pool, _QOS.index(group.qos), group.model))
    return tuple(Demand(group, sums[0].get(group, NOTHING), sums[1].get(group, NOTHING)) for group in groups)


def _summed(workers: Iterable[tuple[WorkerSpec, int]]) -> Mapping[Group, Sum]:
    found: dict[Group, Sum] = {}
    for worker, count in workers:
        if count > 0:
            group = Group(worker.pool or "(default)", worker.qos.value, worker.gpu_model or "any")
            found[group] = found.get(group, NOTHING).plus(_of(worker, count))
    return found


def _of(worker: WorkerSpec, count: int) -> Sum:
    gpus = worker.gpu_count * count
    if worker.whole_card:
        return Sum(count, gpus, whole_cards=gpus)
    compute = worker.compute_request
    tflops = compute.value * gpus if compute is not None and compute.unit is Unit.TFLOPS else Decimal(0)
    parts = compute.value * gpus / 100 if compute is not None and compute.unit is Unit.PERCENT else Decimal(0)
    return Sum(count, gpus, tflops, parts, (worker.vram_request_bytes or 0) * gpus)
