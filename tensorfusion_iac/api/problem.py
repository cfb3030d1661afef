"""What is wrong with an object, as values: the field, what was found, what is accepted (SPEC §2, "Validation").

Checks return problems instead of raising, so that every one of an object is reported in one answer. Each door (admission
answer, Pulumi error, CLI table, condition) renders them with its own names for the fields: `tensor-fusion.ai/vram-limit`
in a manifest is `vgpu.vram_limit` in a program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

Naming = Callable[[str], str]
"""Turns an annotation's short name (`vram-limit`) into what the reader of a door calls it."""

_SLOT = re.compile(r"\{([a-z-]+)\}")
_SHOWN = 120  # characters of a found value that a message repeats
_SHOWN_BITS = 256  # and of a whole number: Python refuses to write a very long one in decimal


def as_written(field: str) -> str:
    """Leave the field as it is (the naming of a door that shows short names)."""
    return field


def quote(value: object) -> str:
    """Show a found value: text in double quotes, control characters escaped, cut after 120 characters; numbers, true, false
    and null as JSON has them; of anything else, what it is.
    """
    if isinstance(value, str):
        text = value if len(value) <= _SHOWN else value[:_SHOWN] + "..."
        return f'"{text if text.isprintable() else text.encode("unicode_escape").decode("ascii")}"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (float, Decimal)) or (isinstance(value, int) and value.bit_length() <= _SHOWN_BITS):
        return str(value)
    return _kind(value)


def _kind(value: object) -> str:
    if isinstance(value, int):
        return "a number of very many digits"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, (list, tuple)) else f"a value of type {type(value).__name__}"


def literal(text: str) -> str:
    """Text of a user for use inside a Problem's `message`: nothing in it can be taken for a slot."""
    return text.replace("{", "(").replace("}", ")")


class Fault(Exception):  # noqa: N818 - a fault of a value, not of the program
    """Why one value cannot be read, before it is known where the value stood.

    `message` is a sentence about the value, as in Problem.
    """

    def __init__(self, found: str, accepted: str, message: str = "{found} is not {accepted}") -> None:
        self.found, self.accepted, self.message = found, accepted, message
        super().__init__(found, accepted, message)

    def at(self, field: str) -> Problem:
        """The same fault, as a problem of `field`."""
        return Problem(field, self.found, self.accepted, self.message)

    def __str__(self) -> str:
        return self.at("").sentence()


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of one object.

    `field` is an annotation's short name, or the full path of a field elsewhere. In `message`, `{found}` and `{accepted}`
    stand for those values and `{some-annotation}` for that annotation in the reader's own naming. `lacking` names the
    annotations without which the problem is one (short names, none of them given): a caller who does not know yet whether
    they are sets it aside.
    """

    field: str
    found: str
    accepted: str
    message: str = "{found} is not {accepted}"
    lacking: tuple[str, ...] = ()

    def sentence(self, naming: Naming = as_written) -> str:
        """The message without the field. One pass, so that nothing inside a user's value is ever expanded."""

        def fill(slot: re.Match[str]) -> str:
            name = slot.group(1)
            if name == "found":
                return self.found
            return self.accepted if name == "accepted" else naming(name)

        return _SLOT.sub(fill, self.message)

    def renamed(self, naming: Naming) -> Problem:
        """The same problem of an object whose fields are called by `naming` whoever the reader is (a profile's fields)."""

        def name(slot: re.Match[str]) -> str:
            return slot.group() if slot.group(1) in ("found", "accepted") else literal(naming(slot.group(1)))

        return replace(self, field=naming(self.field), message=_SLOT.sub(name, self.message))

    def text(self, naming: Naming = as_written) -> str:
        """The field and the message, as one line."""
        return f"{naming(self.field)}: {self.sentence(naming)}"

    def record(self, naming: Naming = as_written) -> dict[str, str]:
        """For `--output json`: field, found, accepted, message."""
        return {
            "field": naming(self.field),
            "found": self.found,
            "accepted": self.accepted,
            "message": self.sentence(naming),
        }


class SpecProblems(ValueError):  # noqa: N818 - it carries problems; "Error" would say less
    """Raised by the doors that must raise: an object and all of its problems."""

    def __init__(self, subject: str, problems: Iterable[Problem], naming: Naming = as_written) -> None:
        self.subject = subject
        self.problems = tuple(problems)
        super().__init__(render(subject, self.problems, naming))


LISTED_ELSEWHERE = ", listed with the resource"
"""How the head line ends of an object whose problems the reader sees already."""


def head_line(subject: str, count: int) -> str:
    """What is said of an object before its problems are listed."""
    return f"{subject}: {count} problem{'s' if count != 1 else ''}"


def render(subject: str, problems: Iterable[Problem], naming: Naming = as_written) -> str:
    """All problems of one object as text: a head line with the count, then a line each."""
    listed = list(problems)
    return "\n".join([head_line(subject, len(listed)), *(f"  {problem.text(naming)}" for problem in listed)])
