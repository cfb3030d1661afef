"""Any Python value as the plain JSON that an API server would get: what a YAML file, a program or a test may hold (SPEC §4).

As on the way from YAML to the server: whole floats become integers and integers beyond 64 bits floats, keys become text,
and members that are null are left out (the server prunes them). What JSON can't say is a problem with its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from tensorfusion_iac.api.problem import Problem, quote

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

MAX_DEPTH = 64
_MAX_INTEGER = 2**63
_MAX_NUMBER = 10**308
_JSON = "text, a number, true, false, a list or an object"


def plain(value: object, path: str = "", depth: int = 0) -> tuple[Json, list[Problem]]:
    """The value as JSON without what can't be, and the problems. `path` is where it stands (`spec.gpuCount`)."""
    problems: list[Problem] = []
    if depth > MAX_DEPTH:
        return None, [Problem(path[:120], "nesting", f"at most {MAX_DEPTH} levels", "{found} is too deep; give {accepted}")]
    if isinstance(value, Mapping):
        members: dict[str, Json] = {}
        for key, member in value.items():
            name = _key(key)
            if name is None:
                problems.append(Problem(path, quote(key), "text", "the key {found} is not {accepted}"))
                continue
            given, found = plain(member, below(path, name), depth + 1)
            problems += found
            if given is not None:
                members[name] = given
        return members, problems
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        items: list[Json] = []
        for index, item in enumerate(value):
            given, found = plain(item, below(path, index), depth + 1)
            problems += found
            items.append(given)
        return items, problems
    problems += _scalar_problems(value, path)
    return (None if problems else _scalar(value)), problems


def below(path: str, member: str | int) -> str:
    """The path of a member of an object, or of an item of a list."""
    if isinstance(member, int):
        return f"{path}[{member}]"
    return f"{path}.{member}" if path else member


def _key(key: object) -> str | None:
    if isinstance(key, str):
        return key if _is_text(key) else None
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key) if isinstance(key, int) and abs(key) < _MAX_INTEGER else None


def _scalar(value: object) -> Json:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        whole = isinstance(value, int) or value.is_integer()
        return int(value) if whole and abs(value) < _MAX_INTEGER else float(value)
    return value if value is None or isinstance(value, (str, bool)) else None


def _scalar_problems(value: object, path: str) -> Iterator[Problem]:
    if isinstance(value, str):
        if not _is_text(value):
            yield Problem(path, quote(value), "valid Unicode")
    elif isinstance(value, (int, float)):
        if not abs(value) < _MAX_NUMBER:  # also true of NaN
            yield Problem(path, quote(value), "a number that JSON can hold, or text in quotes")
    elif value is not None:
        hint = "; put a date or a time in quotes" if hasattr(value, "isoformat") else ""
        yield Problem(path, quote(value), _JSON, "{found} is not {accepted}" + hint)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
