"""A spec taken apart: what an argument of its own says, and the rest, which `spec=` carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Path = tuple[str, ...]
_ABSENT = object()


def get(tree: Any, path: Path) -> Any:
    """The value at a path of mappings, or None."""
    for step in path:
        tree = tree.get(step) if isinstance(tree, Mapping) else None
    return tree


def take(tree: dict[str, Any], path: Path) -> Any:
    """Take the value at a path out of the tree, and mappings that it leaves empty with it; None if there is none."""
    head, *rest = path
    below = tree.get(head, _ABSENT)
    if below is _ABSENT:
        return None
    if not rest:
        return tree.pop(head)
    if not isinstance(below, dict):
        return None
    value = take(below, tuple(rest))
    if value is not None and not below:
        del tree[head]
    return value


def taken(tree: dict[str, Any], table: Mapping[str, Path]) -> dict[str, Any]:
    """Take every field of the table out of the tree: by argument, in the table's order."""
    found = {}
    for argument, path in table.items():
        value = take(tree, path)
        if value is not None:
            found[argument] = value
    return found


def without_nulls(value: Any) -> Any:
    """The same value without members that are null, which say nothing in a manifest."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
