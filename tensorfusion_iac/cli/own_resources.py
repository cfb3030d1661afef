"""Our own custom resources among the objects of files: checked, and read into their models (SPEC §4)."""

from __future__ import annotations

from dataclasses import dataclass

from tensorfusion_iac.api.check import BY_KIND, check_resource
from tensorfusion_iac.api.names import GROUP
from tensorfusion_iac.api.plain import plain
from tensorfusion_iac.api.problem import Problem
from tensorfusion_iac.api.resources import Model
from tensorfusion_iac.cli.objects import Object


@dataclass(frozen=True, slots=True)
class Checked:
    """The model of an object that is ours and good, else None; and what was found."""

    model: Model | None = None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def is_ours(item: Object) -> bool:
    """Whether the object is of our group, in whatever version."""
    return item.group == GROUP


def check(item: Object) -> Checked:
    """Check one object; another's is not judged."""
    if not is_ours(item):
        return Checked()
    problems, warnings = check_resource(item.raw)
    return Checked(None if problems else _model(item), tuple(problems), tuple(warnings))


def _model(item: Object) -> Model:
    given, _ = plain(item.raw)
    spec = {key: value for key, value in given.items() if key != "status"} if isinstance(given, dict) else given
    return BY_KIND[item.kind].model_validate(spec)
