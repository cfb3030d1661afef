"""Keeping secrets out of messages: which late values are secret, and a problem as it may be told beside them.

A problem quotes what it found, and its message may quote other values of the same object. What is logged is not encrypted,
as pulumi's state is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pulumi

from tensorfusion_iac.api.problem import Problem
from tensorfusion_iac.components.inputs import is_deferred

Path = tuple[str, ...]

_SHOWN = "[secret]"
_OF_ONE_VALUE = (
    "{found} is not {accepted}", "{found} is not one of {accepted}", "{found}: not {accepted}",
    "{found} is not an amount of {accepted}", "{found} is not taken here; give {accepted}",
)  # fmt: skip
"""Messages that quote the value itself, and nothing else of the object."""
_UNEXPLAINED = "{found} can't stand here; the reason would show it"


def secret_paths(tree: Any) -> pulumi.Output[frozenset[Path]]:
    """The paths of the leaves known later that are secret, known when they are."""
    leaves = list(_late_leaves(tree, ()))
    # What from_input looks into may hold secrets of its own.
    flags = [pulumi.Output.from_input(leaf).is_secret() for _, leaf in leaves]
    return pulumi.Output.all(*flags).apply(
        lambda known: frozenset(path for (path, _), secret in zip(leaves, known, strict=True) if secret)
    )


def _late_leaves(tree: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(tree, Mapping):
        for key, item in tree.items():
            yield from _late_leaves(item, (*path, str(key)))
    elif isinstance(tree, (list, tuple)):
        for index, item in enumerate(tree):
            yield from _late_leaves(item, (*path, str(index)))
    elif is_deferred(tree):
        yield path, tree


def without_secrets(problems: Iterable[Problem], secret: frozenset[Path], is_open: Callable[[str], bool]) -> tuple[Problem, ...]:
    """The problems as they may be told. `is_open` says of a field that its own value is no secret."""
    if not secret:
        return tuple(problems)
    return tuple(dict.fromkeys(_told(problem, is_open) for problem in problems))


def _told(problem: Problem, is_open: Callable[[str], bool]) -> Problem:
    if problem.message not in _OF_ONE_VALUE:
        return replace(problem, found=_SHOWN, accepted="", message=_UNEXPLAINED)
    return problem if is_open(problem.field) else replace(problem, found=_SHOWN)
