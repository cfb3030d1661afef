"""Conditions by Kubernetes' convention: kept as they are while nothing changes, with the time of the last turn (SPEC §4).

Pure: `merged` puts the wanted conditions among those that others set, and gives back the very same list if nothing is new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Wanted:
    """One condition as it should be."""

    type: str
    status: bool
    reason: str
    message: str = ""


def merged(
    stored: Iterable[Mapping[str, Any]], wanted: Iterable[Wanted], now: str, *, dropped: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The conditions to store: `wanted` ones by type, `dropped` types gone, all others as they are, in a stable order."""
    found = {str(one["type"]): dict(one) for one in stored if one["type"] not in dropped}
    for want in wanted:
        old, status = found.get(want.type), "True" if want.status else "False"
        turned = old is None or old.get("status") != status
        found[want.type] = {
            "type": want.type, "status": status, "reason": want.reason, "message": want.message,
            "lastTransitionTime": now if turned or old is None else old.get("lastTransitionTime", now),
        }  # fmt: skip
    return [found[name] for name in sorted(found)]


def turned_true(stored: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Conditions that are true now and were not: what an Event should tell."""
    before = {one["type"] for one in stored if one.get("status") == "True"}
    return [one for one in after if one["status"] == "True" and one["type"] not in before]
