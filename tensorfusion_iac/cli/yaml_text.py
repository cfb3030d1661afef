"""YAML and JSON text into plain values and back, as Kubernetes' own reader sees it, with the line of every key.

PyYAML alone would read `1e3` as text, `1:30` as 90 and `2024-01-01` as a date, keep the last of two equal keys, and follow
aliases to any size. kubectl does none of these, so an annotation could be judged as another value than the cluster gets.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from tensorfusion_iac.cli.yaml_scalars import RESOLVERS, TAG, number

MAX_DEPTH = 200
"""Levels of nesting; the deepest manifests in use, CRDs, have about sixty."""

_ALIAS_ROOM = 10_000_000
"""Characters by which aliases may make a file larger than its text."""
_TRUE, _FALSE = ("y", "yes", "true", "on"), ("n", "no", "false", "off")


class _Loader(yaml.CSafeLoader):
    """Resolves plain scalars as Kubernetes' YAML reader does."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own way


class _Dumper(yaml.CSafeDumper):
    """Quotes what either reader would take for something other than text; writes aliases out."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _name, _pattern, _first in RESOLVERS:
    # `\Z`: PyYAML only calls match().
    _whole = re.compile(rf"(?:{_pattern.pattern})\Z")
    _Loader.add_implicit_resolver(TAG + _name, _whole, list(_first))
    _Dumper.add_implicit_resolver(TAG + _name, _whole, list(_first))


class Located(dict[str, Any]):
    """A mapping that knows where it stood: the line at which it begins, and that of each key (1-based)."""

    __slots__ = ("line", "lines")

    def __init__(self, pairs: dict[str, Any], line: int, lines: tuple[int, ...]) -> None:
        super().__init__(pairs)
        self.line, self.lines = line, lines

    def line_of(self, key: str) -> int:
        """The line of `key`, or of the mapping if it has no such key."""
        return next((line for name, line in zip(self, self.lines, strict=False) if name == key), self.line)


_Dumper.add_representer(Located, yaml.representer.SafeRepresenter.represent_dict)


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(f"{TAG}str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file: its value, and the line at which it begins."""

    value: Any
    line: int


class SyntaxFault(Exception):  # noqa: N818 - a fault of the text
    """Text that is no YAML or JSON: the line, and what is wrong there."""

    def __init__(self, line: int, message: str) -> None:
        self.line, self.message = line, message
        super().__init__(line, message)


def plain(value: Any) -> Any:
    """The same value without the lines: plain dictionaries and lists, all of them new."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def read(content: bytes) -> Iterator[Document]:
    """The documents of a file. Raises SyntaxFault when it comes to what can't be read; what came before has been given."""
    text = _decode(content)
    if text.lstrip()[:1] in ("{", "["):
        documents = _json(text)
        if documents is not None:
            yield from documents
            return
    yield from _yaml(text)


def write(documents: list[Any]) -> str:
    """YAML of the documents, `---` between them."""
    many = len(documents) > 1
    return yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=4096, explicit_start=many
    )


def _decode(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{content[error.start]:02x}"
        raise SyntaxFault(line, f"this is not UTF-8 text ({found}); give a YAML or JSON file") from None
    return text


def _json(text: str) -> list[Document] | None:
    """The documents if the text is JSON (several may follow each other); None if it is something else, such as flow YAML."""
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant, parse_int=_integer)
    documents, position = [], _skip(text, 0)
    try:
        while position < len(text):
            value, end = decoder.raw_decode(text, position)
            json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair is no text
            _bounded(value, text.count("\n", 0, position) + 1)
            documents.append(Document(value, text.count("\n", 0, position) + 1))
            position = _skip(text, end)
    except (ValueError, RecursionError):
        return None
    return documents


def _bounded(value: Any, line: int) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise SyntaxFault(line, f"nested deeper than {MAX_DEPTH} levels")
        level = [item for part in level for item in _items(part)]


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError  # the YAML reader says which key, and where
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _yaml(text: str) -> Iterator[Document]:
    try:
        loader = _Loader(text)
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise _fault(error, text) from None
    weight = _Weight(len(text) + _ALIAS_ROOM)
    try:
        while loader.check_node():
            node: Any = loader.get_node()
            yield Document(_Builder(weight).value(node, 1), node.start_mark.line + 1)
    except yaml.YAMLError as error:
        raise _fault(error, text) from None
    finally:
        loader.dispose()


class _Weight:
    """What the documents of a file weigh with all aliases written out, in characters, and what they may weigh."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0


class _Builder:
    """Values from the nodes of one document. A node that aliases name again is built once, and weighs each time."""

    def __init__(self, weight: _Weight) -> None:
        self.weight = weight
        self.built: dict[int, tuple[Any, int]] = {}
        self.open: set[int] = set()

    def value(self, node: yaml.Node, depth: int) -> Any:
        """The value of a node."""
        if isinstance(node, yaml.ScalarNode):
            self._weigh(node, len(node.value) + 1)
            return _scalar(node)
        known = self.built.get(id(node))
        if known is not None:
            self._weigh(node, known[1])
            return known[0]
        if id(node) in self.open:
            raise _at(node, "an alias inside of what it stands for")
        if depth > MAX_DEPTH:
            raise _at(node, f"nested deeper than {MAX_DEPTH} levels")
        self.open.add(id(node))
        before = self.weight.used
        value = self._mapping(node, depth) if isinstance(node, yaml.MappingNode) else self._sequence(node, depth)
        self.built[id(node)] = value, self.weight.used - before + 1
        self.open.discard(id(node))
        return value

    def _weigh(self, node: yaml.Node, characters: int) -> None:
        self.weight.used += characters
        if self.weight.used > self.weight.most:
            raise _at(node, f"the aliases of this file stand for more than {_ALIAS_ROOM // 10**6} MB of text")

    def _sequence(self, node: yaml.Node, depth: int) -> list[Any]:
        _known_tag(node, "seq")
        return [self.value(item, depth + 1) for item in node.value]

    def _mapping(self, node: yaml.MappingNode, depth: int) -> Located:
        _known_tag(node, "map")
        own: dict[str, Any] = {}
        lines: dict[str, int] = {}
        merged: list[tuple[yaml.Node, Any]] = []
        for key_node, value_node in node.value:
            if key_node.tag == f"{TAG}merge":
                merged.append((key_node, self.value(value_node, depth + 1)))
                continue
            key = _key(key_node)
            if key in own:
                raise _at(key_node, f'the key "{key}" stands twice in one mapping (first in line {lines[key]})')
            lines[key] = key_node.start_mark.line + 1
            own[key] = self.value(value_node, depth + 1)
        for key_node, value in merged:
            for part in value if isinstance(value, list) else [value]:
                if not isinstance(part, dict):
                    raise _at(key_node, "<< takes a mapping, or a list of mappings")
                for key, item in part.items():
                    if key not in own:
                        own[key], lines[key] = item, key_node.start_mark.line + 1
        return Located(own, node.start_mark.line + 1, tuple(lines[key] for key in own))


def _key(node: yaml.Node) -> str:
    """Keys are text in Kubernetes: a number or a boolean stands for what is written."""
    if not isinstance(node, yaml.ScalarNode):
        raise _at(node, "a key must be text")
    value = _scalar(node)
    if value is None:
        raise _at(node, "a key must be text")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _scalar(node: yaml.ScalarNode) -> Any:
    kind, text = node.tag.removeprefix(TAG), node.value
    if kind in ("str", "timestamp", "binary", "merge", "!"):
        return text
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in (*_TRUE, *_FALSE):
        return text.lower() in _TRUE
    if kind in ("int", "float"):
        value = number(text, kind)
        if isinstance(value, float) and not math.isfinite(value):
            raise _at(node, f'"{text[:40]}" is a number that Kubernetes can\'t hold')
        return value
    raise _at(node, f'"{text[:40]}" is tagged {node.tag}, which means nothing to Kubernetes')


def _integer(text: str) -> Any:
    value = number(text, "int")
    if value == math.inf:
        raise ValueError  # the YAML reader says where
    return value


def _known_tag(node: yaml.Node, kind: str) -> None:
    if node.tag not in (TAG + kind, "!"):
        raise _at(node, f"this is tagged {node.tag}, which means nothing to Kubernetes")


def _at(node: yaml.Node, message: str) -> SyntaxFault:
    return SyntaxFault(node.start_mark.line + 1, message)


def _fault(error: Exception, text: str) -> SyntaxFault:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        words = ", ".join(part for part in (error.context, error.problem) if part)
        where = f" (column {mark.column + 1})" if mark else ""
        return SyntaxFault(mark.line + 1 if mark else 1, words + where)
    if isinstance(error, yaml.reader.ReaderError):
        before = text.encode()[: error.position].decode(errors="ignore") if isinstance(error.position, int) else ""
        return SyntaxFault(before.count("\n") + 1, f"{error.reason}: is it a binary file?")
    return SyntaxFault(1, "this is not text that YAML allows")
