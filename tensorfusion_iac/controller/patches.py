"""Merge patches (RFC 7386) that turn a stored object into a wanted one, and are empty if it is right. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def changed(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The members of `wanted` that differ from `stored`; each replaces the stored one, rather than being merged into it.

    A None takes a member away, and members of `stored` that `wanted` doesn't name stay.
    """
    return {key: _over(stored.get(key), value) for key, value in wanted.items() if stored.get(key) != value}


def _over(stored: object, wanted: object) -> object:
    if not isinstance(stored, Mapping) or not isinstance(wanted, Mapping):
        return wanted
    gone = {key: None for key in stored if key not in wanted}
    return gone | {key: _over(stored.get(key), value) for key, value in wanted.items()}
