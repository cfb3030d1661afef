"""Kubernetes quantities, read exactly: text to Decimal, bytes rounded up, and back (SPEC §2).

The same strings are read by the annotations, the custom resources and the Pulumi arguments. Nothing goes through a float,
and what Kubernetes' own parser would accept but no amount can be (a sign, an exponent beyond reason) is refused.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache

from tensorfusion_iac.api.problem import Fault, quote

MAX_LENGTH = 32
"""Characters; the CRDs say the same (their CEL cost budget needs a bound)."""

MAX_TFLOPS = Decimal(100_000)
MAX_VRAM_BYTES = 10 * 2**40
MIN_BARE_VRAM_BYTES = 2**20

_SCALE = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"),
    **{suffix: Decimal(1000**power) for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{suffix: Decimal(1024**power) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}  # fmt: skip
_PARTS = frozenset("num")
_UNITS = (
    *((suffix, 2**power) for suffix, power in (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))),
    *((suffix, 10**power) for suffix, power in (("T", 12), ("G", 9), ("M", 6), ("k", 3))),
)
QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,2}))?")
_EXACT = Context(prec=200)
_NANO = Decimal("1e-9")
_FORM = "a Kubernetes quantity such as 10, 0.5, 500m, 4Gi or 4G"


def parse_quantity(text: str) -> Decimal:
    """Read `10`, `0.5`, `500m`, `4Gi`, `1e3`. Raises Fault for anything else, signs and spaces included.

    The value is exact, except that what is finer than `1n` rounds up to it, as in Kubernetes.
    """
    match = QUANTITY.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        raise Fault(quote(text), _FORM)
    number, suffix, exponent = match.groups()
    value = Decimal(number)
    if suffix is not None:
        value = _EXACT.multiply(value, _SCALE[suffix])
    elif exponent is not None:
        value = _EXACT.scaleb(value, int(exponent))
    may_be_finer = suffix in _PARTS or exponent is not None or len(number) > 10
    return _not_finer(value) if may_be_finer else value


@lru_cache(maxsize=1024)
def parse_tflops(text: str) -> Decimal:
    """FP16 TFLOPS per GPU: above 0, below 100,000."""
    value = parse_quantity(text)
    if not 0 < value < MAX_TFLOPS:
        raise Fault(quote(text), "TFLOPS above 0 and below 100000", "{found} is not an amount of {accepted}")
    return value


@lru_cache(maxsize=1024)
def parse_vram(text: str) -> int:
    """Bytes per GPU, rounded up: above 0, below 10Ti. A bare number below 1Mi is taken for a forgotten unit."""
    value = parse_quantity(text)
    size = round_up(value)
    if not 0 < size < MAX_VRAM_BYTES:
        raise Fault(quote(text), "bytes above 0 and below 10Ti", "{found} is not an amount of {accepted}")
    if size < MIN_BARE_VRAM_BYTES and text[-1] in "0123456789.":
        accepted = f"a size with its unit, such as {_with_unit(value)}"
        raise Fault(quote(text), accepted, "{found} is less than 1Mi, in bytes; give {accepted}")
    return size


@lru_cache(maxsize=1024)
def parse_percent(text: str) -> Decimal:
    """Percent of a card's compute, 0..100; a plain decimal number or a quantity (`500m` is half a percent)."""
    try:
        value = parse_quantity(text)
    except Fault:
        raise Fault(quote(text), "a number from 0 to 100, without a percent sign") from None
    if value > 100:
        raise Fault(quote(text), "a number from 0 to 100")
    return value


@lru_cache(maxsize=1024)
def parse_percent_limit(text: str) -> Decimal:
    """As `parse_percent`, but above 0: a limit of 0 would stop the pod."""
    value = parse_percent(text)
    if value == 0:
        raise Fault(quote(text), "a number above 0, up to 100; leave it out for the whole card")
    return value


def _with_unit(number: Decimal) -> str:
    """What a bare number of bytes was probably meant to be: GiB, or MiB if that were more than any card has."""
    as_gib = f"{format_decimal(number)}Gi"
    return as_gib if number * 2**30 < MAX_VRAM_BYTES else f"{format_decimal(number)}Mi or {format_decimal(number / 1024)}Gi"


def _not_finer(value: Decimal) -> Decimal:
    exponent = value.as_tuple().exponent
    fine = isinstance(exponent, int) and exponent < -9
    return value.quantize(_NANO, rounding=ROUND_CEILING, context=_EXACT) if fine else value


def round_up(value: Decimal) -> int:
    """The whole number of bytes that covers `value`."""
    return math.ceil(value)


def format_decimal(value: Decimal) -> str:
    """The shortest plain decimal, no exponent: `10`, `0.5`. Reads back to the same value."""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_bytes(size_bytes: int) -> str:
    """The shortest of the texts in a unit that divides it (`4Gi`, `10G`), else plain bytes. Reads back the same."""
    units = [f"{size_bytes // unit}{suffix}" for suffix, unit in _UNITS if size_bytes >= unit and size_bytes % unit == 0]
    if size_bytes >= MIN_BARE_VRAM_BYTES:
        units.append(str(size_bytes))
    if units:
        return min(units, key=len)
    return format_decimal(Decimal(size_bytes) / 1000) + "k" if size_bytes else "0"


def from_number(value: object) -> str:
    """A Python number as the text of a quantity; text as it is. Raises Fault for a bool, NaN, infinity or anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        if number.is_finite() and abs(number.adjusted()) < MAX_LENGTH:
            return format_decimal(number)
    raise Fault(quote(value), _FORM)
