"""What an external scaler is asked, and what its answer comes to: the public operator's JSON, validated (SPEC §8). Pure.

An answer is another party's: it may only move amounts in the direction that it names, inside the ratios of what was asked for at
first, and never above a card or the quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from tensorfusion_iac.api.resources.amounts import Amounts as AskedAmounts
from tensorfusion_iac.api.resources.amounts import Resources

_REASON = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """What a scaler said; neither `up` nor `down`: leave the amounts as they are."""

    up: bool
    down: bool
    requests: AskedAmounts
    limits: AskedAmounts
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Heard:
    """The last good answer of a workload's scaler, and why there is none, or no newer one ("" if it is the newest)."""

    answer: Answer | None = None
    problem: str = ""


def question(namespace: str, name: str, current: Mapping[str, Any]) -> dict[str, Any]:
    """The body of the request. `current`: amounts in force of each GPU, as `resources` of a workload."""
    return {"workloadName": name, "namespace": namespace, "currentResources": dict(current)}


def read_answer(document: object) -> Answer:
    """Read an answer. ValueError says what is wrong with it."""
    if not isinstance(document, Mapping):
        raise ValueError("its answer is no JSON object")
    up, down = document.get("needScaleUp") or False, document.get("needScaleDown") or False
    if not isinstance(up, bool) or not isinstance(down, bool):
        raise ValueError("needScaleUp and needScaleDown of its answer have to be true or false")
    text = document.get("reason")
    reason = "".join(one for one in text if one.isprintable())[:_REASON] if isinstance(text, str) else ""
    given = document.get("recommendedResources")
    if (up or down) and not given:
        raise ValueError("its answer asks for a change, and has no recommendedResources")
    try:
        resources = Resources.model_validate(given or {})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise ValueError(f"recommendedResources of its answer: {where}: {first['msg']}"[:_REASON]) from error
    return Answer(up, down, resources.requests or AskedAmounts(), resources.limits or AskedAmounts(), reason)
