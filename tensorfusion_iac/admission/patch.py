"""JSON Patch (RFC 6902): the operations that turn one JSON value into another, and their application.

Admission answers with such a patch. It is minimal for what admission does: members set and removed, items inserted into
and removed from lists; parts that the two values share (the same object) cost nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

_ABSENT: Any = object()

Operation = dict[str, Any]
"""`{"op": "add" | "remove" | "replace", "path": <JSON pointer>, "value": ...}`."""


def diff(before: Any, after: Any, path: str = "") -> list[Operation]:
    """The operations that turn `before` into `after`; none if they are equal. `apply(before, diff(before, after)) == after`."""
    if before is after:
        return []
    if type(before) is dict and type(after) is dict:
        return _diff_members(before, after, path)
    if type(before) is list and type(after) is list:
        return _diff_items(before, after, path)
    if type(before) is type(after) and before == after:
        return []
    return [{"op": "replace", "path": path, "value": after}]


def apply(document: Any, operations: Iterable[Operation]) -> Any:
    """A copy of `document` with the operations applied in order. Raises ValueError for one that does not fit it."""
    result = _copy(document)
    for operation in operations:
        op, path = operation["op"], operation["path"]
        if op not in ("add", "remove", "replace"):
            raise ValueError(f"operation {op} is not add, remove or replace")
        if path == "":
            result = _copy(operation["value"])
            continue
        parent, last = _parent(result, path)
        try:
            if isinstance(parent, list):
                _change_item(parent, last, operation)
            elif op == "remove":
                del parent[last]
            elif op == "replace" and last not in parent:
                raise KeyError(last)
            else:
                parent[last] = _copy(operation["value"])
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(f"{op} {path}: no such place") from error
    return result


def pointer(*parts: str | int) -> str:
    """The JSON pointer of a place: `pointer("metadata", "labels", "a/b")` is `/metadata/labels/a~1b`."""
    return "".join(f"/{_escape(str(part))}" for part in parts)


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1") if "~" in part or "/" in part else part


def _copy(value: Any) -> Any:
    """A copy in which nothing is shared, as it would be after a way through JSON (YAML anchors and `deepcopy` share)."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _diff_members(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> list[Operation]:
    operations: list[Operation] = []
    for key, old in before.items():
        new = after.get(key, _ABSENT)
        if new is old:
            continue
        if new is _ABSENT:
            operations.append({"op": "remove", "path": f"{path}/{_escape(key)}"})
        else:
            operations += diff(old, new, f"{path}/{_escape(key)}")
    for key, new in after.items():
        if key not in before:
            operations.append({"op": "add", "path": f"{path}/{_escape(key)}", "value": new})
    return operations


def _diff_items(before: Sequence[Any], after: Sequence[Any], path: str) -> list[Operation]:
    """Items that stand at both ends are compared one by one; what is between is taken out and put in."""
    start, shorter = 0, min(len(before), len(after))
    while start < shorter and _same_item(before[start], after[start]):
        start += 1
    end = 0
    while end < shorter - start and _same_item(before[-1 - end], after[-1 - end]):
        end += 1
    operations: list[Operation] = []
    for index in range(start):
        if before[index] is not after[index]:
            operations += diff(before[index], after[index], f"{path}/{index}")
    operations += _diff_middle(before[start : len(before) - end], after[start : len(after) - end], path, start)
    for index in range(len(after) - end, len(after)):
        if before[index - len(after)] is not after[index]:
            operations += diff(before[index - len(after)], after[index], f"{path}/{index}")
    return operations


def _diff_middle(before: Sequence[Any], after: Sequence[Any], path: str, start: int) -> list[Operation]:
    """The same for items that moved: the longest runs that both have in common stay, from left to right."""
    if not before:
        return [{"op": "add", "path": f"{path}/{start + at}", "value": item} for at, item in enumerate(after)]
    operations: list[Operation] = []
    matcher = SequenceMatcher(None, [_identity(item) for item in before], [_identity(item) for item in after], autojunk=False)
    for _, i, i_end, j, j_end in matcher.get_opcodes():
        if i_end - i == j_end - j and all(_same_item(before[i + at], after[j + at]) for at in range(i_end - i)):
            for at in range(i_end - i):
                operations += diff(before[i + at], after[j + at], f"{path}/{start + j + at}")
            continue
        operations += [{"op": "remove", "path": f"{path}/{start + j}"} for _ in range(i_end - i)]
        operations += [{"op": "add", "path": f"{path}/{start + at}", "value": after[at]} for at in range(j, j_end)]
    return operations


def _identity(item: Any) -> str:
    name = item.get("name") if isinstance(item, Mapping) else None
    return name if isinstance(name, str) else json.dumps(item, sort_keys=True)


def _same_item(one: Any, other: Any) -> bool:
    """Whether two items of a list are the same thing, perhaps changed: equal, or objects of one name."""
    if one is other:
        return True
    if isinstance(one, dict) and isinstance(other, dict) and "name" in one:
        return bool(one["name"] == other.get("name"))
    return bool(one == other)


def _parent(document: Any, path: str) -> tuple[Any, str]:
    if not path.startswith("/"):
        raise ValueError(f"{path} is not a JSON pointer")
    *parts, last = (part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))
    for part in parts:
        try:
            document = document[int(part) if isinstance(document, list) else part]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: no such place") from error
    return document, last


def _change_item(items: list[Any], last: str, operation: Operation) -> None:
    if operation["op"] == "add" and last == "-":
        items.append(_copy(operation["value"]))
        return
    if not last.isascii() or not last.isdigit():
        raise KeyError(last)
    index = int(last)
    if operation["op"] == "add":
        if index > len(items):
            raise IndexError(index)
        items.insert(index, _copy(operation["value"]))
    elif operation["op"] == "remove":
        del items[index]
    else:
        items[index] = _copy(operation["value"])
