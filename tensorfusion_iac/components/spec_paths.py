"""Flat arguments and the spec they fill: where each stands, and which argument a problem of the spec belongs to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from tensorfusion_iac.api.problem import Problem, quote
from tensorfusion_iac.components.inputs import is_deferred, without_deferred
from tensorfusion_iac.components.shape import Path, get_path, laid_over, with_path
from tensorfusion_iac.components.spelled import spelled

Reader = Callable[[Any, list[Problem]], Any]
"""Brings an argument's value into manifest form; notes problems."""


class SpecPaths:
    """The given arguments of one resource, each with its path in the spec."""

    def __init__(self, paths: Mapping[str, Path], arguments: Mapping[str, Any], names: Mapping[str, str] | None = None) -> None:
        """`names` says what an argument is called in problems, where it isn't its own name."""
        self.given = {name: path for name, path in paths.items() if name in arguments}
        self.arguments = arguments
        self.names = names or {}

    def spec(self, model: type[BaseModel], readers: Mapping[str, Reader], problems: list[Problem]) -> dict[str, Any]:
        """The spec in manifest form: the argument `spec`, and the flat arguments over it. Both for one field is a problem."""
        base = spelled(self.arguments.get("spec") or {}, model)
        if is_deferred(base) or not isinstance(base, Mapping):
            what = "an Output" if is_deferred(base) else quote(base)
            problems.append(Problem("spec", what, "a mapping, whose values may be Outputs", "{found}; give {accepted}"))
            base = {}
        fields: dict[str, Any] = {}
        for name, path in self.given.items():
            value = self.arguments[name]
            fields = with_path(fields, path, readers[name](value, problems) if name in readers else value)
            if get_path(base, path) is not None:
                accepted = "it here or in spec." + ".".join(path)
                problems.append(Problem(self.names.get(name, name), "given twice", accepted, "{found}; give {accepted}"))
        return laid_over(base, spelled(fields, model))

    def naming(self, field: str) -> str:
        """A problem's field as the program calls it: the argument that fills it, with what follows its path."""
        for name, path in self.given.items():
            prefix = "spec." + ".".join(path)
            if field == prefix or field.startswith((prefix + ".", prefix + "[")):
                return self.names.get(name, name) + field[len(prefix) :]
        return field

    def shown(self, *more: str) -> dict[str, Any]:
        """The arguments as inputs of the component itself, so that a preview says which one changed."""
        shown = {name: self.arguments[name] for name in (*self.given, *more) if name in self.arguments}
        if "spec" in self.arguments:
            shown["spec"], _ = without_deferred(spelled(self.arguments["spec"], None))
        return shown
