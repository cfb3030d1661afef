"""How the components say what is wrong: `SpecError`, one per object with every problem, shown by pulumi without a traceback.

API.md, "What a mistake looks like". A program normally ends at the first object that is refused; `collecting()` lets
`tensorfusion compile` read on and hear of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pulumi

from tensorfusion_iac.api.problem import Naming, Problem, as_written, render


class SpecError(pulumi.RunError):
    """An object of the program that cannot be, and all of its problems.

    `subject` is its kind and name (`AnnotatedDeployment "chat"`); `naming` gives a problem's field as the program calls it.
    """

    def __init__(self, subject: str, problems: Iterable[Problem], naming: Naming = as_written) -> None:
        self.subject = subject
        self.problems = tuple(problems)
        self.naming = naming
        head = render(subject, self.problems).partition("\n")[0]
        super().__init__("\n".join([head, *(f"  {line}" for line in self.lines)]))

    @property
    def lines(self) -> tuple[str, ...]:
        """Each problem as one line, field first."""
        return tuple(line_of(problem, self.naming) for problem in self.problems)

    def records(self) -> list[dict[str, str]]:
        """Each problem as field, found, accepted, message; for `--output json`."""
        spell = _spelling.get()
        return [
            {
                **problem.record(self.naming),
                "field": spell(self.naming(problem.field)),
                "message": spell(problem.sentence(beside(self.naming))),
            }
            for problem in self.problems
        ]


def line_of(problem: Problem, naming: Naming) -> str:
    """The problem as one line; what it mentions of the same VGPU goes by its argument alone."""
    return _spelling.get()(f"{naming(problem.field)}: {problem.sentence(beside(naming))}")


def beside(naming: Naming) -> Naming:
    """How a message calls another argument than the one that it is about."""
    return lambda name: naming(name).removeprefix("vgpu.")


Log = Callable[[], None]
"""Logs the problems on the resource that they are of, so that pulumi shows where."""


def end_program(error: SpecError, log: Log) -> None:
    """What becomes of an object that is refused, unless a caller asks for something else: it is the end of the program."""
    log()
    raise error


_refuse: ContextVar[Callable[[SpecError, Log], None]] = ContextVar("refuse", default=end_program)
_spelling: ContextVar[Callable[[str], str]] = ContextVar("spelling", default=as_written)


def refuse(error: SpecError, log: Log) -> None:
    """Do with a refused object what the caller wants: by default, end the program."""
    _refuse.get()(error, log)


@contextmanager
def collecting() -> Iterator[list[SpecError]]:
    """Within it, components note their SpecError in the list and go on without their children, instead of raising."""
    found: list[SpecError] = []

    def note(error: SpecError, log: Log) -> None:
        log()
        found.append(error)

    with refused_by(note):
        yield found


@contextmanager
def refused_by(decide: Callable[[SpecError, Log], None], spelling: Callable[[str], str] = as_written) -> Iterator[None]:
    """Within it, `decide` says what becomes of refused objects; `spelling` rewrites each line for languages that call the
    arguments otherwise.
    """
    tokens = _refuse.set(decide), _spelling.set(spelling)
    try:
        yield
    finally:
        _refuse.reset(tokens[0])
        _spelling.reset(tokens[1])
