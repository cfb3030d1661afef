"""Amounts as whole numbers, so that books balance exactly: compute in MFLOPS, memory in bytes, shares in parts per million.

A request is rounded up and a capacity down, so that rounding never promises what a card does not have. One TFLOPS is a
million MFLOPS, which is finer than any amount that means something (SPEC §2).
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from tensorfusion_iac.api.quantity import format_decimal

MFLOPS_PER_TFLOPS = 1_000_000
PPM = 1_000_000
"""Parts per million in a whole card."""

_EXACT = Context(prec=60)
_PPM_PER_PERCENT = PPM // 100


def mflops_up(tflops: Decimal) -> int:
    """TFLOPS that somebody asks for, in MFLOPS, rounded up."""
    return int((tflops * MFLOPS_PER_TFLOPS).to_integral_value(ROUND_CEILING, _EXACT))


def mflops_down(tflops: Decimal) -> int:
    """TFLOPS that a card has, in MFLOPS, rounded down."""
    return int((tflops * MFLOPS_PER_TFLOPS).to_integral_value(ROUND_FLOOR, _EXACT))


def ppm_up(percent: Decimal) -> int:
    """Percent of a card in parts per million, rounded up."""
    return int((percent * _PPM_PER_PERCENT).to_integral_value(ROUND_CEILING, _EXACT))


def share_of(ppm: int, capacity: int) -> int:
    """Parts per million of a capacity, rounded up."""
    return -(-ppm * capacity // PPM)


def ppm_of(amount: int, capacity: int) -> int:
    """An amount as parts per million of a capacity, rounded up; of a card without any it is the whole."""
    return -(-amount * PPM // capacity) if capacity > 0 else PPM


def tflops(mflops: int) -> Decimal:
    """MFLOPS as TFLOPS, exactly."""
    return Decimal(mflops) / MFLOPS_PER_TFLOPS


def tflops_text(mflops: int) -> str:
    """MFLOPS as a Kubernetes quantity of TFLOPS: `10`, `0.5`."""
    return format_decimal(tflops(mflops))
