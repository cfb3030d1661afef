"""The annotation `desired`: the amounts that the controller wants for a running pod, per GPU, as canonical JSON (SPEC §8).

What is left out stays as it is. The scheduler alone decides whether they come into force, and then writes `effective`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.quantity import format_decimal, parse_quantity
from tensorfusion_iac.api.worker import canonical

DESIRED_VERSION = 1


@dataclass(frozen=True, slots=True)
class Desired:
    """Amounts per GPU: TFLOPS and bytes. None: as it is."""

    tflops_request: Decimal | None = None
    tflops_limit: Decimal | None = None
    vram_request_bytes: int | None = None
    vram_limit_bytes: int | None = None


def to_text(desired: Desired) -> str:
    """The annotation's value."""
    sides = {
        "requests": _to_json(desired.tflops_request, desired.vram_request_bytes),
        "limits": _to_json(desired.tflops_limit, desired.vram_limit_bytes),
    }
    return canonical({"version": DESIRED_VERSION} | {side: amounts for side, amounts in sides.items() if amounts})


def from_text(text: str) -> Desired:
    """Read the annotation back. Raises ValueError if it is not one, or of another version."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict) or document.get("version") != DESIRED_VERSION:
            raise ValueError(f"not desired amounts of version {DESIRED_VERSION}")
        requests, limits = document.get("requests") or {}, document.get("limits") or {}
        return Desired(_tflops(requests), _tflops(limits), _vram(requests), _vram(limits))
    except (KeyError, TypeError, AttributeError, RecursionError, Fault) as error:
        raise ValueError(f"not desired amounts: {type(error).__name__} {error}") from error


def _to_json(tflops: Decimal | None, vram_bytes: int | None) -> dict[str, Any]:
    amounts: dict[str, Any] = {}
    if tflops is not None:
        amounts["tflops"] = format_decimal(tflops)
    if vram_bytes is not None:
        amounts["vram"] = vram_bytes
    return amounts


def _tflops(amounts: Mapping[str, Any]) -> Decimal | None:
    return None if amounts.get("tflops") is None else parse_quantity(amounts["tflops"])


def _vram(amounts: Mapping[str, Any]) -> int | None:
    value = amounts.get("vram")
    if value is not None and (type(value) is not int or value <= 0):
        raise TypeError(f"{value!r} is not a number of bytes")
    return value
