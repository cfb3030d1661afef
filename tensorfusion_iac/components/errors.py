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
        super().__init__(render(subject, self.problems, naming))

    @property
    def lines(self) -> tuple[str, ...]:
        """Each problem as one line, field first; fields of the same VGPU that it mentions go by their argument alone."""
        return tuple(f"{self.naming(problem.field)}: {problem.sentence(self._beside)}" for problem in self.problems)

    def _beside(self, name: str) -> str:
        return self.naming(name).removeprefix("vgpu.")

    def records(self) -> list[dict[str, str]]:
        """Each problem as field, found, accepted, message; for `--output json`."""
        return [problem.record(self.naming) for problem in self.problems]


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
