"""What a worker costs by the hour: by its pool's prices for its QoS, or else its part of a card at the catalogue's price.

Reports and policies ask before the worker has a card, so there is a price for each card that it may get. A part is the larger
of its compute's and its memory's, since nobody else can use what is left of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tensorfusion_iac.api.catalogue import model_of
from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.quantity import from_number, parse_quantity
from tensorfusion_iac.api.resources.gpupool import GPUPool, QosPricing
from tensorfusion_iac.api.worker import WorkerSpec
from tensorfusion_iac.planning.cards import CardFacts
from tensorfusion_iac.planning.claim import Claim, claim_of
from tensorfusion_iac.planning.partition import covering
from tensorfusion_iac.planning.units import tflops

HOURS_PER_MONTH = 730

_GB = 10**9


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars by the hour for one worker, all its GPUs together, and what the figure rests on."""

    usd_per_hour: Decimal
    source: str


def prices(worker: WorkerSpec, pool: GPUPool | None, cards: Sequence[CardFacts]) -> tuple[Price, ...]:
    """The price of one worker on each of these cards that has one, the cheapest first; without cards, by the pool alone."""
    claim = claim_of(worker)
    found = tuple(_by_pool(worker, claim, pool, cards)) if pool is not None else ()
    found = found or tuple(_by_catalogue(worker, claim, cards))
    return tuple(sorted(found, key=lambda price: (price.usd_per_hour, price.source)))


def _by_pool(worker: WorkerSpec, claim: Claim, pool: GPUPool, cards: Sequence[CardFacts]) -> Iterator[Price]:
    """Requested amounts at their price, and the limits above them at the class's share of it."""
    listed = _listed(worker, pool)
    requests = listed.requests or {}
    per_tflops, per_gb = _usd(requests.get("perFP16TFlopsPerHour")), _usd(requests.get("perGBOfVRAMPerHour"))
    share_above = _usd(listed.limits_over_requests) or Decimal(0)
    if per_tflops is None and per_gb is None:
        return
    for card in cards or (None,):
        taken = _taken(claim, card)
        if taken is not None:
            asked = _worth(*taken, per_tflops, per_gb)
            above = _worth(*_above(claim, card, *taken), per_tflops, per_gb) if share_above else Decimal(0)
            source = f"GPUPool {pool.metadata.name}, qosConfig.pricing of {worker.qos}"
            yield Price((asked + share_above * above) * worker.gpu_count, source)


def _by_catalogue(worker: WorkerSpec, claim: Claim, cards: Sequence[CardFacts]) -> Iterator[Price]:
    for card in cards:
        model, taken = model_of(card.model), _taken(claim, card)
        if model is not None and model.usd_per_hour is not None and taken is not None:
            compute, memory = (
                Decimal(taken[0]) / max(card.capacity_mflops, 1),
                Decimal(taken[1]) / max(card.capacity_vram_bytes, 1),
            )
            usd = model.usd_per_hour * min(max(compute, memory), Decimal(1)) * worker.gpu_count
            yield Price(usd, f"catalogue, {model.name} at {model.usd_per_hour:.2f} USD an hour")


def _listed(worker: WorkerSpec, pool: GPUPool) -> QosPricing:
    config = pool.spec.qos_config
    return next((one for one in (config.pricing if config else None) or () if one.qos is worker.qos), QosPricing(qos=worker.qos))


def _taken(claim: Claim, card: CardFacts | None) -> tuple[int, int] | None:
    """MFLOPS and bytes that nobody else can have of a card; None if the card cannot serve it, or only the card would tell."""
    if card is None:
        by_card = claim.whole_card or claim.partitioned or (claim.compute is not None and claim.compute.ppm is not None)
        return None if by_card else (claim.mflops_on(0), claim.vram_on(0))
    if not claim.partitioned:
        return claim.mflops_on(card.capacity_mflops), claim.vram_on(card.capacity_vram_bytes)
    geometry = card.geometry
    templates = covering(geometry, claim, card.capacity_mflops, card.capacity_vram_bytes) if geometry is not None else ()
    if geometry is None or not templates:
        return None
    return (
        card.capacity_mflops * templates[0].compute_slices // geometry.compute_slices,
        card.capacity_vram_bytes * templates[0].size // geometry.memory_slots,
    )


def _above(claim: Claim, card: CardFacts | None, mflops: int, vram_bytes: int) -> tuple[int, int]:
    """MFLOPS and bytes of the limits above what is taken: up to the whole card without a limit, nothing in a partition."""
    if claim.partitioned:
        return 0, 0
    capacity_mflops, capacity_bytes = (0, 0) if card is None else (card.capacity_mflops, card.capacity_vram_bytes)
    return (
        max(claim.limit_mflops_on(capacity_mflops) - mflops, 0),
        max(claim.limit_vram_on(capacity_bytes) - vram_bytes, 0),
    )


def _worth(mflops: int, vram_bytes: int, per_tflops: Decimal | None, per_gb: Decimal | None) -> Decimal:
    return tflops(mflops) * (per_tflops or 0) + Decimal(vram_bytes) / _GB * (per_gb or 0)


def _usd(amount: object) -> Decimal | None:
    """`$0.0069`, `0.0069` or a number; None for anything else."""
    try:
        return parse_quantity(from_number(amount).strip().removeprefix("$"))
    except Fault:
        return None
