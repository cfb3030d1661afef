"""What a program in another language gave, as the Python components take it.

Names come in camelCase and numbers as floats. What no argument has goes on to the component as it is, which then names it
beside the other problems; so nothing is dropped in silence.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pulumi
from pulumi.provider.experimental.util import camel_case

from tensorfusion_iac.components.errors import SpecError
from tensorfusion_iac.components.vgpu import ARGUMENTS, VGPU, unknown_argument

_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
_SNAKE = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")


def received(inputs: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """The arguments of a component whose Python arguments are `known`. SpecError for what no VGPU has."""
    given = _named(inputs, known)
    if isinstance(given.get("vgpu"), Mapping):
        given["vgpu"] = _vgpu(_named(given["vgpu"], ARGUMENTS))
    return given


def _vgpu(given: Mapping[str, Any]) -> VGPU:
    unknown = [unknown_argument(name, ARGUMENTS) for name in given if name not in ARGUMENTS]
    if unknown:
        raise SpecError("VGPU", [replace(problem, field=f"vgpu.{problem.field}") for problem in unknown])
    return VGPU(**given)


def _named(values: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    python = {camel_case(name): name for name in known}
    return {python.get(name) or _snake(name): whole(value) for name, value in values.items() if value is not None}


def _snake(name: str) -> str:
    return _HUMP.sub(lambda hump: f"_{hump[1].lower()}", name)


def whole(value: Any) -> Any:
    """The value with each number that is whole as an int: all numbers arrive as floats."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return value.apply(whole) if isinstance(value, pulumi.Output) else value


def in_camel_case(names: Iterable[str]) -> Callable[[str], str]:
    """Turns these names, wherever they stand in a message, into those that the program's author wrote."""
    known = frozenset(names)
    return lambda text: _SNAKE.sub(lambda word: camel_case(word[0]) if word[0] in known else word[0], text)
