"""What workloads cost, by the pool's own prices, else by the catalogue's price of the cards that they take a part of (SPEC §4).

By the catalogue, a worker costs the larger of its parts of a card's compute and memory, since nobody else can use that much
of the card. What has no price stays without one, and is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.quantity import format_decimal, from_number, parse_quantity
from tensorfusion_iac.api.resources import GPUPool
from tensorfusion_iac.api.resources.gpupool import QosPricing
from tensorfusion_iac.api.worker import WorkerSpec
from tensorfusion_iac.controller.pools import HOURS_PER_MONTH
from tensorfusion_iac.planning.cards import CardFacts
from tensorfusion_iac.planning.claim import claim_of
from tensorfusion_iac.planning.units import tflops
from tensorfusion_iac.report.fleet import PoolCards, cards_for, models_of

GB = 10**9


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars an hour for one worker; None: not known. `source`: where the price is from, or why there is none."""

    usd_per_hour: Decimal | None
    source: str


@dataclass(frozen=True, slots=True)
class Cost:
    """A workload's cost an hour before and after; None where it is not known."""

    title: str
    before: Decimal | None
    after: Decimal | None
    source: str


def price_of(worker: WorkerSpec, pools: Mapping[str, GPUPool], fleet: Mapping[str, PoolCards]) -> Price:
    """The price of one worker."""
    cards = cards_for(worker, fleet)
    pricing = _pricing(worker, pools)
    if pricing is not None:
        found = _by_pool(worker, pricing, cards)
        if found is not None:
            return Price(found, f"GPUPool {worker.pool}, qosConfig.pricing of {worker.qos.value}")
    return _by_catalogue(worker, cards)


def _by_catalogue(worker: WorkerSpec, cards: Sequence[CardFacts]) -> Price:
    if not cards:
        named = f"no card of {worker.gpu_model}" if worker.gpu_model else "the workload names no model, and the pool no price"
        return Price(None, f"no price: {named}")
    priced = [(card, model, model.usd_per_hour) for card, model in models_of(cards) if model.usd_per_hour is not None]
    if not priced:
        return Price(None, f"no price: the catalogue has none of {', '.join(sorted({card.model for card in cards}))}")
    found = [(usd * _part(worker, card), usd, model.name) for card, model, usd in priced]
    most, usd, name = max(found)
    at_most = "at most, " if len({amount for amount, _, _ in found}) > 1 else ""
    return Price(most * worker.gpu_count, f"{at_most}catalogue, {name} at {usd:.2f} USD an hour")


def _part(worker: WorkerSpec, card: CardFacts) -> Decimal:
    claim = claim_of(worker)
    compute = Decimal(claim.mflops_on(card.capacity_mflops)) / max(card.capacity_mflops, 1)
    memory = Decimal(claim.vram_on(card.capacity_vram_bytes)) / max(card.capacity_vram_bytes, 1)
    return min(max(compute, memory), Decimal(1))


def _pricing(worker: WorkerSpec, pools: Mapping[str, GPUPool]) -> QosPricing | None:
    pool = pools.get(worker.pool or "")
    config = pool.spec.qos_config if pool is not None else None
    return next((one for one in (config.pricing if config else None) or () if one.qos is worker.qos), None)


def _by_pool(worker: WorkerSpec, pricing: QosPricing, cards: Sequence[CardFacts]) -> Decimal | None:
    """By the pool's prices. A percentage of a card needs the card: the largest of those that it may be."""
    requests = pricing.requests or {}
    try:
        per_tflops = parse_quantity(from_number(requests.get("perFP16TFlopsPerHour", 0)))
        per_gb = parse_quantity(from_number(requests.get("perGBOfVRAMPerHour", 0)))
        above = parse_quantity(pricing.limits_over_requests or "0")
    except Fault:
        return None
    claim, card = claim_of(worker), max(cards, key=lambda one: one.capacity_mflops, default=None)
    if card is None and (claim.whole_card or (claim.compute is not None and claim.compute.ppm is not None)):
        return None
    mflops, vram = (card.capacity_mflops, card.capacity_vram_bytes) if card is not None else (0, 0)
    asked, memory = tflops(claim.mflops_on(mflops)), Decimal(claim.vram_on(vram)) / GB
    found = asked * per_tflops + memory * per_gb
    if above and claim.compute_limit is not None:
        found += max(Decimal(0), tflops(claim.limit_mflops_on(mflops)) - asked) * per_tflops * above
    if above and claim.vram_limit_bytes is not None:
        found += max(Decimal(0), Decimal(claim.limit_vram_on(vram)) / GB - memory) * per_gb * above
    return found * worker.gpu_count


def monthly(per_hour: Decimal | None) -> Decimal | None:
    """The same for a month."""
    return None if per_hour is None else per_hour * HOURS_PER_MONTH


def usd(amount: Decimal | None) -> str:
    """An amount for people: two digits after the point, more where it would be nothing."""
    if amount is None:
        return "unknown"
    return f"{amount:,.2f}" if amount >= Decimal("0.01") or not amount else format_decimal(amount.quantize(Decimal("0.0001")))
