"""Kubernetes objects in documents: lists taken apart, and what an object is called in a message.

Anything may stand in a document. What is no object at all becomes a problem of its file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.cli.files import Document, Unreadable
from tensorfusion_iac.cli.output import one_line
from tensorfusion_iac.cli.yaml_text import Located

NO_NAMESPACE = ""


@dataclass(frozen=True, slots=True)
class Object:
    """One object: where it stood, and the parts of it that say which it is. Texts are empty where nothing fit is written."""

    file: str
    line: int
    raw: Mapping[str, Any]
    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def subject(self) -> str:
        """What messages call it: `Deployment ml/chat`."""
        where = f"{self.namespace}/" if self.namespace else ""
        return one_line(f"{self.kind} {where}{self.name or '(no name)'}")

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def line_of(self, path: Sequence[str | int]) -> int:
        """The line of a field, or of the nearest thing around it that is there; 0 in files without lines (JSON)."""
        value: Any = self.raw
        line = value.line if isinstance(value, Located) else 0
        for step in path:
            if isinstance(value, Mapping) and step in value:
                line = value.line_of(str(step)) if isinstance(value, Located) else line
                value = value[step]
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
                line = value.line if isinstance(value, Located) else line
            else:
                break
        return line


def objects_in(documents: Iterable[Document], namespace: str = NO_NAMESPACE) -> tuple[list[Object], list[Unreadable]]:
    """The objects of all documents; those that name no namespace get `namespace`."""
    found: list[Object] = []
    unreadable: list[Unreadable] = []
    for document in documents:
        for line, item in _items(document.line, document.value):
            if not isinstance(item, Mapping):
                unreadable.append(Unreadable(document.file, line, f"this is {_kind_of(item)}, not a Kubernetes object"))
            elif missing := [key for key in ("apiVersion", "kind") if not (isinstance(item.get(key), str) and item[key])]:
                text = f"this object has no {' and no '.join(missing)}"
                unreadable.append(Unreadable(document.file, line, text))
            else:
                found.append(_object(document.file, line, item, namespace))
    return found, unreadable


def _items(line: int, value: Any) -> Iterator[tuple[int, Any]]:
    """The object itself, or those of a List (of a List...)."""
    kind = value.get("kind") if isinstance(value, Mapping) else None
    items = value.get("items") if isinstance(kind, str) and kind.endswith("List") else None
    if not isinstance(items, list):
        yield line, value
        return
    element = kind.removesuffix("List") if isinstance(kind, str) else ""
    for item in items:
        where = item.line if isinstance(item, Located) else line
        if element and isinstance(item, Mapping) and "kind" not in item:  # a PodList leaves out what is clear
            yield where, _typed(item, value.get("apiVersion"), element)
        else:
            yield from _items(where, item)


def _typed(item: Mapping[str, Any], api_version: Any, kind: str) -> Mapping[str, Any]:
    line = item.line if isinstance(item, Located) else 0
    return Located({"apiVersion": api_version, "kind": kind, **item}, line, (line, line, *getattr(item, "lines", ())))


def _object(file: str, line: int, raw: Mapping[str, Any], namespace: str) -> Object:
    metadata = raw.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name = _text(metadata.get("name")) or _text(metadata.get("generateName"))
    return Object(file, line, raw, raw["apiVersion"], raw["kind"], _text(metadata.get("namespace")) or namespace, name)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _kind_of(value: object) -> str:
    if isinstance(value, str):
        return f'the text "{one_line(value[:40])}"'
    return "a list" if isinstance(value, list) else f"the value {value}"
