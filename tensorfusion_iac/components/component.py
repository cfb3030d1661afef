"""The base of every component: its type, what becomes of problems and warnings, and its arguments' first checks.

A component registers itself first, so that each problem is logged on it and pulumi shows where; then it raises one
SpecError with all of them (API.md). It takes its arguments as one mapping, so that a misspelled or missing one is a
problem like any other, and not Python's TypeError with a traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pulumi

from tensorfusion_iac.api.problem import Naming, Problem, as_written, quote
from tensorfusion_iac.components.errors import SpecError, line_of, refuse
from tensorfusion_iac.components.inputs import is_deferred, never_known, sendable
from tensorfusion_iac.components.vgpu import VGPU, nearest, unknown_argument

PACKAGE = "tensorfusion"
"""The first part of every component's type token; the plugin of the same components carries it too."""

Arguments = Mapping[str, Any]


class Component(pulumi.ComponentResource):
    """A component of this package. Subclasses are named as their type token is."""

    def __init__(self, resource_name: str, props: Mapping[str, Any], opts: pulumi.ResourceOptions | None) -> None:
        super().__init__(f"{PACKAGE}:index:{type(self).__name__}", resource_name, sendable(props), opts)
        self._subject = subject(type(self).__name__, resource_name)

    def _refuse(self, problems: Iterable[Problem], naming: Naming = as_written) -> None:
        """Log each problem on this resource, then raise them together (or let whoever collects decide)."""
        error = SpecError(self._subject, problems, naming)
        refuse(error, lambda: _when_registered(self, lambda: error.tell(self)))

    def _warn(self, warnings: Iterable[Problem], naming: Naming = as_written) -> None:
        for warning in warnings:
            _when_registered(self, partial(pulumi.log.warn, line_of(warning, naming), self))

    def _report_late(self, problems: Iterable[Problem], warnings: Iterable[Problem], naming: Naming) -> None:
        """The same from inside an apply that waited for `_registered`."""
        for warning in warnings:
            pulumi.log.warn(line_of(warning, naming), self)
        found = tuple(problems)
        if found:
            error = SpecError(self._subject, found, naming)
            refuse(error, lambda: error.tell(self))

    def _registered(self) -> pulumi.Output[Any]:
        """Known once this resource is registered. It carries no dependency: a child that waits for it does not depend on it."""
        return pulumi.Output.from_input(self.urn.future())


def of_metadata(child: pulumi.CustomResource | None, field: str) -> pulumi.Output[str]:
    """A field of the child's metadata, from the object itself; never known if the child was refused. In a preview of a child
    that doesn't say it, the cluster will.
    """
    if child is None:
        return never_known()
    metadata: pulumi.Output[Mapping[str, Any]] = child.metadata  # type: ignore[attr-defined]
    return metadata.apply(lambda known: never_known() if field not in known and pulumi.runtime.is_dry_run() else known.get(field))


def root_urn(type_token: str, name: str) -> str:
    """The URN that a plain resource of the program has, which no component holds: an alias by which it moves into one.

    The same as `Alias(name=name, parent=ROOT_STACK_RESOURCE)`, which costs several Outputs for each resource.
    """
    return f"urn:pulumi:{pulumi.get_stack()}::{pulumi.get_project()}::{type_token}::{name}"


def subject(kind: str, name: str) -> str:
    """How messages call an object of the program."""
    return f'{kind} "{name}"'


def _when_registered(resource: pulumi.Resource, log: Callable[[], None]) -> None:
    # An apply is awaited before a failed program ends; a bare log call on a resource is not.
    resource.urn.apply(lambda _: log())


class Checks:
    """The first checks of a component's arguments: collects problems, and hands out what is usable."""

    def __init__(self, arguments: Arguments, known: Iterable[str], required: Mapping[str, str]) -> None:
        """`required` are arguments that must be given, each with what is accepted."""
        self.arguments = {name: value for name, value in arguments.items() if value is not None}
        names = tuple(known)
        self.problems: list[Problem] = [unknown_argument(name, names) for name in arguments if name not in names]
        self.misspelled = frozenset(close for name in arguments if name not in names for close in nearest(name, names))
        for name, accepted in required.items():
            if name not in self.arguments and name not in self.misspelled:
                self.problems.append(Problem(name, "not given", accepted, "{found}; give {accepted}"))

    def _wrong(self, name: str, accepted: str) -> None:
        value = self.arguments.pop(name)
        self.problems.append(Problem(name, quote(value), accepted))

    def whole(self, *names: str, low: int = 0) -> None:
        """These are whole numbers from `low`."""
        for name in names:
            value = self.arguments.get(name)
            if value is None or is_deferred(value):
                continue
            if isinstance(value, float) and value.is_integer():
                self.arguments[name] = value = int(value)
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                self._wrong(name, f"a whole number from {low}")

    def seconds(self, *names: str) -> None:
        """These are plain numbers of seconds above 0."""
        for name in names:
            value = self.arguments.get(name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0):
                self._wrong(name, "a number of seconds above 0")

    def flag(self, *names: str, deferrable: bool = True) -> None:
        """These are booleans."""
        for name in names:
            value = self.arguments.get(name)
            if value is not None and not isinstance(value, bool) and not (deferrable and is_deferred(value)):
                self._wrong(name, "True or False")

    def text(self, *names: str) -> None:
        """These are text that is not empty."""
        for name in names:
            value = self.arguments.get(name)
            if value is not None and not is_deferred(value) and (not isinstance(value, str) or not value.strip()):
                self._wrong(name, "text")

    def mapping(self, *names: str) -> None:
        """These are mappings, or objects that stand for one (Args classes)."""
        for name in names:
            value = self.arguments.get(name)
            if value is not None and not is_deferred(value) and isinstance(value, (str, bool, int, float, list, tuple)):
                self._wrong(name, "a mapping")

    def vgpu(self) -> None:
        """`vgpu` is a VGPU."""
        value = self.arguments.get("vgpu")
        if value is not None and not isinstance(value, VGPU):
            del self.arguments["vgpu"]
            found, accepted = f"a {type(value).__name__}", 'tfi.VGPU(vram_request="4Gi", ...)'
            self.problems.append(Problem("vgpu", found, accepted, "{found} is not a VGPU; give {accepted}"))
