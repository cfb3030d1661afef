"""What a reservation costs its namespace, and what a GPUResourceQuota leaves (SPEC §4).

Amounts count once per GPU. Percentages and whole cards are counted on the cards that were chosen, exactly; a quota in
percent counts amounts in TFLOPS as the part of the card that they are, so that neither way of asking gets round the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.api.resources.quota import GPUResourceQuota, QuotaAmounts, QuotaSingle, QuotaTotal
from tensorfusion_iac.planning.shares import CardShare, Reservation
from tensorfusion_iac.planning.units import PPM, mflops_down, ppm_up, tflops_text


class Charge(NamedTuple):
    """Requests and limits of a namespace's workers: MFLOPS, bytes, parts per million of a card; and their number."""

    request_mflops: int = 0
    request_vram_bytes: int = 0
    request_ppm: int = 0
    limit_mflops: int = 0
    limit_vram_bytes: int = 0
    limit_ppm: int = 0
    workers: int = 0

    def plus(self, other: Charge) -> Charge:
        """The sum."""
        return Charge(*(mine + its for mine, its in zip(self, other, strict=True)))

    def minus(self, other: Charge) -> Charge:
        """The difference."""
        return Charge(*(mine - its for mine, its in zip(self, other, strict=True)))


class Ceiling(NamedTuple):
    """A charge that must not be exceeded; None in a member: no limit."""

    request_mflops: int | None = None
    request_vram_bytes: int | None = None
    request_ppm: int | None = None
    limit_mflops: int | None = None
    limit_vram_bytes: int | None = None
    limit_ppm: int | None = None
    workers: int | None = None

    def allows(self, charge: Charge) -> bool:
        """Whether nothing of the charge is above."""
        return all(most is None or amount <= most for amount, most in zip(charge, self, strict=True))

    def less(self, used: Charge) -> Ceiling:
        """What is left beside `used`."""
        return Ceiling(*(None if most is None else most - amount for amount, most in zip(used, self, strict=True)))


UNLIMITED = Ceiling()


@dataclass(frozen=True, slots=True)
class Quota:
    """The ceilings of one namespace: of all workers together, of one GPU of a worker, and GPUs of one worker."""

    name: str = ""
    total: Ceiling = UNLIMITED
    single: Ceiling = UNLIMITED
    gpus: int | None = None

    def left(self, used: Charge) -> Budget:
        """What a further worker may take."""
        return Budget(self.total.less(used), self.single, self.gpus)


@dataclass(frozen=True, slots=True)
class Budget:
    """What one worker may take now."""

    total: Ceiling = UNLIMITED
    single: Ceiling = UNLIMITED
    gpus: int | None = None

    @property
    def unlimited(self) -> bool:
        """Whether it forbids nothing."""
        return self.gpus is None and self.total == UNLIMITED and self.single == UNLIMITED

    def allows(self, shares: tuple[CardShare, ...]) -> bool:
        """Whether a worker may have these shares."""
        if self.gpus is not None and len(shares) > self.gpus:
            return False
        return self.total.allows(charge_of(shares)) and all(self.single.allows(charge_of((share,))) for share in shares)


UNBOUNDED = Budget()


def charge_of(shares: tuple[CardShare, ...]) -> Charge:
    """What one worker with these shares costs."""
    return Charge(
        sum(share.mflops for share in shares),
        sum(share.vram_bytes for share in shares),
        sum(share.request_ppm for share in shares),
        sum(share.limit_mflops for share in shares),
        sum(share.limit_vram_bytes for share in shares),
        sum(share.limit_ppm for share in shares),
        1,
    )


def charge(reservation: Reservation) -> Charge:
    """What a reservation costs its namespace."""
    return charge_of(reservation.shares)


def quota_of(resource: GPUResourceQuota) -> Quota:
    """The ceilings that a GPUResourceQuota sets."""
    total, single = resource.spec.total or QuotaTotal(), resource.spec.single or QuotaSingle()
    return Quota(
        resource.metadata.name,
        Ceiling(*_amounts(total.requests), *_amounts(total.limits), total.max_workers),
        Ceiling(*_amounts(single.max_requests), *_amounts(single.max_limits)),
        single.max_gpu_count,
    )


def holding(quotas: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Of a namespace's GPUResourceQuota objects by name, which one holds: the oldest (SPEC §4)."""
    return min(quotas, key=lambda name: (quotas[name]["metadata"].get("creationTimestamp") or "", name), default=None)


def used_up(quota: Quota, used: Charge, wanted: Charge) -> Iterator[str]:
    """In words, every member of the quota's totals that `wanted` would exceed: `10 of 10 TFLOPS (requests) used, 5 asked`."""
    for (field, show), most, has, asks in zip(_SHOWN.items(), quota.total, used, wanted, strict=True):
        if most is not None and has + asks > most:
            yield f"{show(has)} of {show(most)} {field} used, {show(asks)} asked"


def _amounts(amounts: QuotaAmounts | None) -> tuple[int | None, int | None, int | None]:
    if amounts is None:
        return None, None, None
    return (
        None if amounts.tflops is None else mflops_down(amounts.tflops),
        None if amounts.vram is None else int(amounts.vram),
        None if amounts.compute is None else ppm_up(amounts.compute),
    )


def _percent(ppm: int) -> str:
    return f"{format_decimal(Decimal(ppm) * 100 / PPM)}%"


_SHOWN: Mapping[str, Callable[[int], str]] = {
    "TFLOPS (requests)": tflops_text,
    "VRAM (requests)": format_bytes,
    "compute (requests)": _percent,
    "TFLOPS (limits)": tflops_text,
    "VRAM (limits)": format_bytes,
    "compute (limits)": _percent,
    "workers": str,
}
