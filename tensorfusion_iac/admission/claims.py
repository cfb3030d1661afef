"""The slots of one grey release: which pods of an owner run with TensorFusion, and whether another may (SPEC §5). Pure.

A slot is held by a live pod that bears its claim, or by a claim that was made a moment ago, whose pod may still be on its
way. A claim is named by the admission request that made it: nothing that a rollout copies can be taken for one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

IN_FLIGHT_S = 30.0
"""How long a claim holds its slot without a pod: longer than a create takes after us, or a list takes to show it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """When it was made (seconds since the epoch), and whether its pod has been seen: then it goes with the pod."""

    made_at: float
    seen: bool = False


Claims = Mapping[str, Claim]
"""Claims by name."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One pod that would run with TensorFusion, if fewer than `limit` pods of its owner do.

    `before` is a claim that the pod bears already: the API server asks twice about one pod.
    """

    claim: str
    limit: int
    before: str | None = None


def settle(claims: Claims, live: Collection[str], now: float) -> Claims:
    """The claims that still matter beside the live pods' own."""
    kept = {}
    for name, claim in claims.items():
        young = now - claim.made_at < IN_FLIGHT_S
        if young and (name in live or not claim.seen):
            kept[name] = Claim(claim.made_at, claim.seen or name in live)
    return kept


def grant(claims: Claims, live: Collection[str], wishes: Iterable[Wish], now: float) -> tuple[Claims, list[str | None]]:
    """Grant slots in order. Returns the claims afterwards and, for each wish, the name of its claim or None.

    `live` names what live pods of the owner hold.
    """
    kept = dict(claims)
    granted: list[str | None] = []
    for wish in wishes:
        if wish.before is not None and wish.before in kept and wish.before not in live:
            granted.append(wish.before)
        elif wish.claim in kept:
            granted.append(wish.claim)
        elif len(kept.keys() | set(live)) < wish.limit:
            kept[wish.claim] = Claim(now)
            granted.append(wish.claim)
        else:
            granted.append(None)
    return kept, granted


def write(claims: Claims) -> str:
    """Claims as text."""
    return json.dumps({name: [round(claim.made_at, 3), claim.seen] for name, claim in claims.items()}, separators=(",", ":"))


def read(text: str | None) -> Claims:
    """Claims from text. What cannot be read is left out: the live pods are the truth, and claims are short-lived."""
    try:
        found: Any = json.loads(text or "{}")
        return {
            str(name): Claim(float(made_at), bool(seen)) for name, (made_at, seen) in found.items()
        }  # fmt: skip
    except (ValueError, TypeError, AttributeError):
        return {}
