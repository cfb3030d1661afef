"""Values of which a part is known later: telling the parts apart, and putting an Output wherever one is needed.

Pulumi arguments may hold Outputs (or awaitables) at any depth. What is known is checked at once, the rest when it is
known (research: validate promptly if possible, and gate the child's input on the validated output).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import isawaitable
from types import NoneType
from typing import Any

import pulumi
from pulumi import _types as types  # what pulumi itself tells inputs by; there is no public door to it

_PLAIN = (str, int, float, NoneType)
"""Leaves that are seen first, since what they are not takes long to find out."""
_SENT = (pulumi.Resource, pulumi.Asset, pulumi.Archive)


def is_deferred(value: object) -> bool:
    """Whether the value itself (not a part of it) will only be known later."""
    return not isinstance(value, _PLAIN) and (isinstance(value, pulumi.Output) or isawaitable(value))


def is_known(tree: object) -> bool:
    """Whether every part of a tree of mappings and lists is known now."""
    if isinstance(tree, _PLAIN):
        return True
    if isinstance(tree, Mapping):
        return all(is_known(item) for item in tree.values())
    if isinstance(tree, (list, tuple)):
        return all(is_known(item) for item in tree)
    return not is_deferred(tree)


def replace_deferred(tree: Any, replace: Callable[[Any], Any]) -> Any:
    """The same tree with `replace(leaf)` in place of each part that is known later."""
    if isinstance(tree, Mapping):
        return {key: replace_deferred(item, replace) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [replace_deferred(item, replace) for item in tree]
    return replace(tree) if is_deferred(tree) else tree


def without_deferred(tree: Any, path: tuple[str, ...] = ()) -> tuple[Any, frozenset[tuple[str, ...]]]:
    """The known part of a tree, and the paths of what was left out; a list of which any part comes later is left out whole."""
    if isinstance(tree, Mapping):
        kept: dict[str, Any] = {}
        missing: set[tuple[str, ...]] = set()
        for key, item in tree.items():
            if is_deferred(item) or (isinstance(item, (list, tuple)) and not is_known(item)):
                missing.add((*path, str(key)))
                continue
            kept[key], below = without_deferred(item, (*path, str(key)))
            missing |= below
        return kept, frozenset(missing)
    return tree, frozenset()


def when_known(tree: Any, then: Callable[[Any], Any]) -> pulumi.Output[Any]:
    """`then` of the tree once all of it is known; nothing runs in a preview in which a part stays unknown."""
    return pulumi.Output.from_input(tree).apply(then)


def sendable(tree: Any) -> Any:
    """The tree with words in place of what pulumi cannot send: arguments may be wrong, and are shown all the same."""
    if isinstance(tree, Mapping):
        return {str(key): sendable(item) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [sendable(item) for item in tree]
    if isinstance(tree, (*_PLAIN, *_SENT)) or is_deferred(tree) or types.is_input_type(type(tree)):
        return tree
    return f"<{type(tree).__name__}>"


def already(value: Any) -> pulumi.Output[Any]:
    """A known value as an Output. pulumi's own way looks for Outputs inside, at the price of one for each leaf."""
    return pulumi.Output.from_input(None).apply(lambda _: value)


def never_known() -> pulumi.Output[Any]:
    """An Output that stays unknown: what an object that was refused would have given."""
    value: pulumi.Output[Any] = pulumi.Output.from_input(pulumi.UNKNOWN)
    return value
