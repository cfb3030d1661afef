"""The annotation `effective`: the amounts in force of a bound pod, card by card, as canonical JSON (SPEC §2, §8).

Written by the scheduler at bind and at each resize, and by nobody else. The agent reads the limits of its cards from it;
the scheduler, after a restart, what is reserved. Amounts are per GPU; compute is in TFLOPS, whatever unit was asked in.
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

EFFECTIVE_VERSION = 1
"""Version of the JSON; readers refuse another one."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Compute in TFLOPS, memory in bytes, and the compute as percent of the card."""

    tflops: Decimal
    vram_bytes: int
    percent: Decimal


@dataclass(frozen=True, slots=True)
class Partition:
    """A MIG instance: its template, first memory slot, memory slots and compute slices."""

    template: str
    start: int
    size: int
    slices: int


@dataclass(frozen=True, slots=True)
class EffectiveCard:
    """One card (by its driver's UUID): what is reserved, what is the limit, and its partition, if it is one.

    `held` is what is still reserved after a shrink, until the agent has applied the lower limit (SPEC §8); None otherwise.
    """

    id: str
    requests: Amount
    limits: Amount
    held: Amount | None = None
    partition: Partition | None = None


@dataclass(frozen=True, slots=True)
class Effective:
    """The amounts in force; `exclusive`: the cards are this pod's alone."""

    cards: tuple[EffectiveCard, ...]
    exclusive: bool = False


def to_text(effective: Effective) -> str:
    """The annotation's value."""
    document: dict[str, Any] = {"version": EFFECTIVE_VERSION, "cards": [_card_to_json(card) for card in effective.cards]}
    if effective.exclusive:
        document["exclusive"] = True
    return canonical(document)


def from_text(text: str) -> Effective:
    """Read the annotation back. Raises ValueError if it is not one, or of another version."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict) or document.get("version") != EFFECTIVE_VERSION:
            raise ValueError(f"not effective amounts of version {EFFECTIVE_VERSION}")
        cards = tuple(_card_from_json(card) for card in document["cards"])
    except (KeyError, TypeError, AttributeError, RecursionError, Fault) as error:
        raise ValueError(f"not effective amounts: {type(error).__name__} {error}") from error
    return Effective(cards, document.get("exclusive") is True)


def _card_to_json(card: EffectiveCard) -> dict[str, Any]:
    document: dict[str, Any] = {"id": card.id, "requests": _to_json(card.requests), "limits": _to_json(card.limits)}
    if card.held is not None:
        document["held"] = _to_json(card.held)
    if (part := card.partition) is not None:
        document["partition"] = {"template": part.template, "start": part.start, "size": part.size, "slices": part.slices}
    return document


def _card_from_json(document: Mapping[str, Any]) -> EffectiveCard:
    held, part = document.get("held"), document.get("partition")
    return EffectiveCard(
        str(document["id"]),
        _from_json(document["requests"]),
        _from_json(document["limits"]),
        None if held is None else _from_json(held),
        None if part is None else Partition(str(part["template"]), *(_whole(part[key]) for key in ("start", "size", "slices"))),
    )


def _to_json(amount: Amount) -> dict[str, Any]:
    return {"tflops": format_decimal(amount.tflops), "vram": amount.vram_bytes, "percent": format_decimal(amount.percent)}


def _from_json(document: Mapping[str, Any]) -> Amount:
    return Amount(parse_quantity(document["tflops"]), _whole(document["vram"]), parse_quantity(document["percent"]))


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is not a whole number")
    return value
