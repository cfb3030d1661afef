"""pydantic's errors about a custom resource as Problems: the path as in the manifest, what was found, what is accepted.

The texts of a form's own reader (a quantity, a duration, ...) pass as they are; the others are put into the words of
someone who writes a manifest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tensorfusion_iac.api.plain import below
from tensorfusion_iac.api.problem import Fault, Problem, quote

Location = tuple[str | int, ...]

_PLAINLY = "{found} is not {accepted}"
_UNQUOTED = "{found} is not {accepted}, without quotes"
_WANTED = {
    "bool_type": ("true or false", _UNQUOTED),
    "int_type": ("a whole number", _UNQUOTED),
    "int_from_float": ("a whole number", _UNQUOTED),
    "string_type": ("text", "{found} is not {accepted}; put it in quotes"),
    "dict_type": ("an object", _PLAINLY),
    "model_type": ("an object", _PLAINLY),
    "tuple_type": ("a list", _PLAINLY),
}
_BOUND = {
    "greater_than_equal": ("at least {ge}", "{found} is too small; give {accepted}"),
    "less_than_equal": ("at most {le}", "{found} is too large; give {accepted}"),
    "string_too_long": ("at most {max_length} characters", "{found} is too long; give {accepted}"),
    "too_long": ("at most {max_length} items", "{found} is too long; give {accepted}"),
}


def problems_of(error: ValidationError) -> Iterator[tuple[Location, Problem]]:
    """Each error's place in the object, and the problem."""
    for item in error.errors(include_url=False):
        yield item["loc"], _problem(item)


def path_of(location: Location) -> str:
    """`("spec", "gpuIndices", 1)` as `spec.gpuIndices[1]`."""
    path = ""
    for member in location:
        path = below(path, member)
    return path


def _problem(item: ErrorDetails) -> Problem:
    path, kind, context = path_of(item["loc"]), item["type"], item.get("ctx", {})
    fault = context.get("fault")
    if isinstance(fault, Fault):
        return fault.at(path)
    found = quote(item["input"])
    if kind == "missing":
        return Problem(path, "missing", "a value", "is {found}; give {accepted}")
    if kind in ("enum", "literal_error"):
        return Problem(path, found, _words(str(context["expected"])), "{found} is not one of {accepted}")
    if kind in _WANTED:
        accepted, message = _WANTED[kind]
        return Problem(path, found, accepted, message)
    if kind in _BOUND:
        accepted, message = _BOUND[kind]
        return Problem(path, _size(kind, item["input"]), accepted.format(**context), message)
    return Problem(path, found, str(item["msg"]), "{found}: {accepted}")


def _size(kind: str, value: Any) -> str:
    if kind == "too_long":
        return f"a list of {len(value)}" if isinstance(value, (list, tuple)) else "a list"
    return f"text of {len(value)} characters" if kind == "string_too_long" else quote(value)


def _words(expected: str) -> str:
    return expected.replace("' or '", "', '").replace("'", "")
