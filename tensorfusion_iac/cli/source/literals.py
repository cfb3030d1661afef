"""Values as Python source, laid out as `ruff format` and black do: what fits stays on a line, else one item a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from unicodedata import east_asian_width

WIDTH = 100
_STEP = "    "


@dataclass(frozen=True, slots=True)
class Name:
    """A name, or any other expression that stays as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call: the function, positional arguments, keyword arguments."""

    function: str
    positional: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)


def source(value: Any, *, indent: int = 0, before: int = 0, after: int = 0) -> str:
    """Source of a value at a level of indentation; `before` and `after` are what else stands in its first and last line."""
    flat = _flat(value)
    if indent * len(_STEP) + before + _columns(flat) + after <= WIDTH:
        return flat
    opening, items, closing = _parts(value)
    if not items:
        return flat
    inner = _STEP * (indent + 1)
    lines = [f"{inner}{label}{source(item, indent=indent + 1, before=len(label), after=1)}," for label, item in items]
    return "\n".join([opening, *lines, f"{_STEP * indent}{closing}"])


def text_literal(text: str) -> str:
    """A string literal; in double quotes unless single ones need fewer escapes."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + "".join(_character(character, quote) for character in text) + quote


def _character(character: str, quote: str) -> str:
    if character == quote:
        return f"\\{quote}"
    return repr(character)[1:-1] if character == "\\" or not character.isprintable() else character


def _columns(text: str) -> int:
    """Columns on a screen: wide characters take two."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _flat(value: Any) -> str:
    opening, items, closing = _parts(value)
    return opening + ", ".join(f"{label}{_flat(item)}" for label, item in items) + closing


def _parts(value: Any) -> tuple[str, list[tuple[str, Any]], str]:
    """What opens the value, its items each with what stands before it, and what closes it."""
    if isinstance(value, Name):
        return value.text, [], ""
    if isinstance(value, Call):
        items = [("", item) for item in value.positional]
        return f"{value.function}(", [*items, *((f"{name}=", item) for name, item in value.keywords.items())], ")"
    if isinstance(value, Mapping):
        return "{", [(f"{text_literal(str(key))}: ", item) for key, item in value.items()], "}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return "[", [("", item) for item in value], "]"
    return text_literal(value) if isinstance(value, str) else repr(value), [], ""
