"""The files of a command line: paths, folders and `-` (standard input) into the documents that stand in them.

What can't be opened is wrong usage; what can be opened and is no YAML is a problem of that file, and the others are read on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorfusion_iac.cli import yaml_text
from tensorfusion_iac.cli.exits import usage

MAX_FILE_BYTES = 128 * 2**20
_SUFFIXES = (".yaml", ".yml", ".json")
_STDIN = "-"


@dataclass(frozen=True, slots=True)
class Document:
    """One document: the file as the user wrote it (`<stdin>` for `-`), the line where it begins, its value."""

    file: str
    line: int
    value: Any


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A place in a file from which on nothing could be read, and why."""

    file: str
    line: int
    message: str

    def text(self) -> str:
        """As one line."""
        return f"{self.file}:{self.line}: {self.message}"

    def record(self) -> dict[str, Any]:
        """For `--output json`."""
        return {"file": self.file, "line": self.line, "message": self.message}


def read_files(names: Sequence[str]) -> tuple[list[Document], list[Unreadable]]:
    """The documents of all files, in order; empty documents are left out. Raises Failure for files that can't be opened."""
    documents: list[Document] = []
    unreadable: list[Unreadable] = []
    for shown, content in _contents(names):
        count = len(documents)
        try:
            for item in yaml_text.read(content):
                if item.value is not None:
                    documents.append(Document(shown, item.line, item.value))  # noqa: PERF401 - what stands before a fault counts
        except yaml_text.SyntaxFault as fault:
            unreadable.append(Unreadable(shown, fault.line, fault.message))
        else:
            if len(documents) == count:
                unreadable.append(Unreadable(shown, 1, "there is no object in this file"))
    return documents, unreadable


def read_text(name: str) -> str:
    """The text of one file. Raises Failure if it can't be opened; bytes that are no text become marks."""
    ((_, content),) = _contents([name])
    return content.decode("utf-8-sig", errors="replace")


def _contents(names: Sequence[str]) -> list[tuple[str, bytes]]:
    """Everything is opened before anything is judged, so that one answer names every file that can't be."""
    found, refused = [], []
    for name in dict.fromkeys(_expanded(names)):
        try:
            found.append(("<stdin>", _standard_input()) if name == _STDIN else (name, _file(name)))
        except OSError as error:
            refused.append(f"{name}: {error.strerror or error}")
        except ValueError as error:  # a NUL in the name, too large, or closed
            refused.append(f"{name}: {error}")
    if refused:
        raise usage("; ".join(refused))
    return found


def _expanded(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name == _STDIN or not os.path.isdir(name):  # noqa: PTH112 - the name may be anything, and is shown as given
            yield name
            continue
        try:
            inside = sorted(str(path) for path in Path(name).iterdir() if path.suffix in _SUFFIXES)
        except OSError as error:
            raise usage(f"{name}: {error.strerror}") from None
        if not inside:
            raise usage(f"{name}: there is no {', '.join(_SUFFIXES)} file in this folder")
        yield from inside


def _standard_input() -> bytes:
    if sys.stdin is None:  # Python's answer to a descriptor that the caller closed
        raise ValueError("standard input is closed")
    return _limited(sys.stdin.buffer.read(MAX_FILE_BYTES + 1))


def _file(name: str) -> bytes:
    with Path(name).open("rb") as file:
        return _limited(file.read(MAX_FILE_BYTES + 1))


def _limited(content: bytes) -> bytes:
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"larger than {MAX_FILE_BYTES // 2**20} MiB")
    return content
