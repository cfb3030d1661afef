"""The notes of a program's run (`record.py` writes them): its resources, the problems of its objects, its logs, its failure.

A resource's properties are as pulumi sends them: secrets wrapped, what is known only at deployment marked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Resource:
    """One registered or read resource. `provider` is its provider's URN and id."""

    urn: str
    type: str
    name: str
    custom: bool
    read: bool
    remote: bool
    provider: str
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectProblems:
    """All problems of one object of the program, as lines and as records."""

    subject: str
    lines: tuple[str, ...]
    records: tuple[Mapping[str, str], ...]

    def text(self) -> str:
        """As the components show it."""
        count = f"{len(self.lines)} problem{'' if len(self.lines) == 1 else 's'}"
        return "\n".join([f"{self.subject}: {count}", *(f"  {line}" for line in self.lines)])


@dataclass(frozen=True, slots=True)
class Log:
    """A message that the program sent: `severity` info, warning or error; the URN of the resource, or empty."""

    severity: str
    message: str
    urn: str

    def text(self) -> str:
        """As one line: the severity unless it is an error, the resource, the message."""
        kind, _, name = self.urn.rpartition("::")
        kind = kind.rpartition("::")[2].rpartition("$")[2].rpartition(":")[2]
        where = f'{kind} "{name}": ' if self.urn else ""
        severity = "" if self.severity == "error" else f"{self.severity}: "
        return f"{severity}{where}{self.message}"


@dataclass(frozen=True, slots=True)
class Ending:
    """What ended the program before its time: `kind` is `program`, or `environment` if pulumi is missing."""

    kind: str
    message: str
    file: str | None
    line: int | None

    def text(self) -> str:
        """As one line, the place in the program first."""
        message = " ".join(self.message.split())
        if "pulumi config set" in message:
            message += " or give --config KEY=VALUE"
        return f"{self.file}:{self.line}: {message}" if self.file else message


@dataclass(frozen=True, slots=True)
class Notes:
    """Everything of one run."""

    resources: tuple[Resource, ...]
    problems: tuple[ObjectProblems, ...]
    logs: tuple[Log, ...]
    ending: Ending | None


def read_notes(raw: Mapping[str, Any]) -> Notes:
    """The notes, from what `record.py` wrote. Errors that only repeat a problem, which the components log, are left out."""
    problems = tuple(ObjectProblems(item["subject"], tuple(item["lines"]), tuple(item["records"])) for item in raw["problems"])
    told = {line for item in problems for line in item.lines}
    logs = (Log(**item) for item in raw["logs"])
    return Notes(
        tuple(Resource(**item) for item in raw["resources"]),
        problems,
        tuple(dict.fromkeys(log for log in logs if not (log.severity == "error" and log.message in told))),
        Ending(**raw["failure"]) if raw["failure"] else None,
    )
