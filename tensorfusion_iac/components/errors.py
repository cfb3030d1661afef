"""How the components say what is wrong: `SpecError`, one per object with every problem, shown by pulumi without a traceback.

API.md, "What a mistake looks like". A program normally ends at the first object that is refused; `collecting()` lets
`tensorfusion compile` read on and hear of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
        return [{**problem.record(self.naming), "message": problem.sentence(beside(self.naming))} for problem in self.problems]


def line_of(problem: Problem, naming: Naming) -> str:
    """The problem as one line; what it mentions of the same VGPU goes by its argument alone."""
    return f"{naming(problem.field)}: {problem.sentence(beside(naming))}"


def beside(naming: Naming) -> Naming:
    """How a message calls another argument than the one that it is about."""
    return lambda name: naming(name).removeprefix("vgpu.")


_collected: ContextVar[list[SpecError] | None] = ContextVar("collected", default=None)


@contextmanager
def collecting() -> Iterator[list[SpecError]]:
    """Within it, components note their SpecError in the list and go on without their children, instead of raising."""
    found: list[SpecError] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def raise_or_collect(error: SpecError) -> None:
    """End the program, or note the error where the caller collects them."""
    found = _collected.get()
    if found is None:
        raise error
    found.append(error)
