"""How the components say what is wrong: `SpecError`, one per object with every problem, shown by pulumi without a traceback.

API.md, "What a mistake looks like". A program normally ends at the first object that is refused; `collecting()` lets
`tensorfusion compile` read on and hear of all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pulumi

from tensorfusion_iac.api.problem import LISTED_ELSEWHERE, Naming, Problem, as_written, head_line


class SpecError(pulumi.RunError):
    """An object of the program that cannot be, and all of its problems.

    `subject` is its kind and name (`AnnotatedDeployment "chat"`); `naming` gives a problem's field as the program calls it.
    Pulumi shows the text of what ended the program on the stack: one line, once the problems are logged on their resource.
    """

    def __init__(self, subject: str, problems: Iterable[Problem], naming: Naming = as_written) -> None:
        self.subject = subject
        self.problems = tuple(problems)
        self.naming = naming
        self._is_told = False
        super().__init__(self.text)

    def __str__(self) -> str:
        return f"{head_line(self.subject, len(self.problems))}{LISTED_ELSEWHERE}" if self._is_told else self.text

    @property
    def text(self) -> str:
        """The object and every problem, a line each."""
        return "\n".join([head_line(self.subject, len(self.problems)), *(f"  {line}" for line in self.lines)])

    def tell(self, resource: pulumi.Resource) -> None:
        """Log each problem on the resource, which is registered."""
        for line in self.lines:
            pulumi.log.error(line, resource)
        self._telling = asyncio.ensure_future(self._told_on(resource))

    async def _told_on(self, resource: pulumi.Resource) -> None:
        await resource.urn.future()  # as each log does, which began before
        self._is_told = True

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
