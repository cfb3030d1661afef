"""What a worker costs by the hour: by its pool's prices for its QoS, or else its part of a card at the catalogue's price.

For reports and policies, before the worker has a card, so it is the least that it can be: of the cards that the model allows,
the cheapest counts; a part is the larger of its compute's and its memory's, since nobody else can use what is left of the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from tensorfusion_iac.api.catalogue import GpuModel, find
from tensorfusion_iac.api.counted import Counted, counted
from tensorfusion_iac.api.resources.gpupool import GPUPool, QosPricing
from tensorfusion_iac.api.worker import WorkerSpec

HOURS_PER_MONTH = Decimal(730)

_GB = Decimal(10) ** 9


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars by the hour for one worker, all its GPUs together, and what the figure rests on."""

    usd_per_hour: Decimal
    source: str


def price(worker: WorkerSpec, pool: GPUPool | None = None) -> Price | None:
    """The price of one worker; None if neither its pool nor the catalogue has one for what it asks."""
    asked = counted(worker, "request")
    listed = _pricing(worker, pool)
    if listed is not None and pool is not None and (usd := _by_amounts(listed, asked, worker)) is not None:
        return Price(usd * worker.gpu_count, f"pool {pool.metadata.name}, QoS {worker.qos.value}")
    of_cards = [(usd, card) for card in find(worker.gpu_model or "") if (usd := _part_of(card, asked)) is not None]
    if not worker.gpu_model or not of_cards:
        return None
    usd, card = min(of_cards, key=lambda each: each[0])
    return Price(usd * worker.gpu_count, f"catalogue, {card.name} at {card.usd_per_hour} USD per hour")


def _pricing(worker: WorkerSpec, pool: GPUPool | None) -> QosPricing | None:
    config = pool.spec.qos_config if pool is not None else None
    return next((each for each in (config.pricing or ()) if each.qos is worker.qos), None) if config is not None else None


def _by_amounts(listed: QosPricing, asked: Counted, worker: WorkerSpec) -> Decimal | None:
    """Requested amounts at their price, and the limits above them at the class's share of it."""
    units: dict[str, Any] = dict(listed.requests or {})
    per_tflops, per_gb = _usd(units.get("perFP16TFlopsPerHour")), _usd(units.get("perGBOfVRAMPerHour"))
    if per_tflops is None and per_gb is None:
        return None
    limit, over = counted(worker, "limit"), _usd(listed.limits_over_requests) or Decimal(0)
    total = Decimal(0)
    for each, unit, request, most in (
        (per_tflops, Decimal(1), asked.tflops, limit.tflops), (per_gb, _GB, asked.vram, limit.vram),
    ):  # fmt: skip
        if each is None or request is None:
            continue
        if request.least is None:
            return None
        above = max((most.least or Decimal(0)) - request.least, Decimal(0)) if most is not None else Decimal(0)
        total += each * (request.least + over * above) / unit
    return total


def _part_of(card: GpuModel, asked: Counted) -> Decimal | None:
    if card.usd_per_hour is None:
        return None
    parts = []
    if asked.compute is not None and asked.compute.least is not None:
        parts.append(asked.compute.least / 100)
    elif asked.tflops is not None and asked.tflops.least is not None:
        parts.append(asked.tflops.least / card.fp16_tflops)
    if asked.vram is not None and asked.vram.least is not None:
        parts.append(asked.vram.least / card.nominal_vram_bytes)
    return card.usd_per_hour * min(max(parts), Decimal(1)) if parts else None


def _usd(text: str | None) -> Decimal | None:
    """`$0.0069` or `0.0069`."""
    try:
        return Decimal(text.strip().removeprefix("$")) if text else None
    except InvalidOperation:
        return None
