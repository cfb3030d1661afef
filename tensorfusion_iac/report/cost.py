"""What workloads cost before and after: the most that each may, of the cards that it may get. What has no price is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tensorfusion_iac.api.quantity import format_decimal
from tensorfusion_iac.api.resources import GPUPool
from tensorfusion_iac.api.worker import WorkerSpec
from tensorfusion_iac.planning.cards import CardFacts, cards_named
from tensorfusion_iac.planning.cost import HOURS_PER_MONTH, prices
from tensorfusion_iac.report.fleet import PoolCards, cards_for


@dataclass(frozen=True, slots=True)
class Cost:
    """A workload's cost an hour before and after; None where it is not known, and then `missing` says why."""

    title: str
    before: Decimal | None
    after: Decimal | None
    source: str
    missing: str = ""


def price_of(worker: WorkerSpec, pools: Mapping[str, GPUPool], fleet: Mapping[str, PoolCards]) -> tuple[Decimal | None, str]:
    """US dollars an hour for one worker and where that is from; None, and why, if it has no price."""
    cards = cards_for(worker, fleet) or cards_named(worker.gpu_model)
    found = prices(worker, pools.get(worker.pool or ""), cards)
    if found:
        at_most = "at most, " if found[0].usd_per_hour < found[-1].usd_per_hour else ""
        return found[-1].usd_per_hour, f"{at_most}{found[-1].source}"
    return (
        None,
        f"{_unpriced(worker, cards)}; give one with qosConfig.pricing of GPUPool {worker.pool or 'NAME'} for QoS {worker.qos}",
    )


def _unpriced(worker: WorkerSpec, cards: Sequence[CardFacts]) -> str:
    if cards:
        return f"no price for {', '.join(sorted({card.model for card in cards}))}"
    if worker.gpu_model:
        return f"no price for {worker.gpu_model}, which is not in the catalogue"
    return "no price, since it names no GPU model and the cards of its pool are not known"


def monthly(per_hour: Decimal | None) -> Decimal | None:
    """The same for a month."""
    return None if per_hour is None else per_hour * HOURS_PER_MONTH


def usd(amount: Decimal | None) -> str:
    """An amount for people: two digits after the point, more where it would be nothing."""
    if amount is None:
        return "unknown"
    return f"{amount:,.2f}" if amount >= Decimal("0.01") or not amount else format_decimal(amount.quantize(Decimal("0.0001")))
