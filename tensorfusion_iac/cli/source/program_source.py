"""A whole program from a file's objects: imports, variables for what others refer to, one statement an object."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tensorfusion_iac.api.names import ENABLED_LABEL
from tensorfusion_iac.cli.objects import Object
from tensorfusion_iac.cli.pod_templates import template_of
from tensorfusion_iac.cli.source.literals import source
from tensorfusion_iac.cli.source.objects_source import References, declare
from tensorfusion_iac.cli.source.spec_fields import get

_ORDER = ("GPUPool", "GPUResourceQuota", "WorkloadProfile")
_IMPORTS = {
    "pulumi": "import pulumi",
    "k8s": "import pulumi_kubernetes as k8s",
    "tfi": "import tensorfusion_iac as tfi",
}
_NOT_IN_A_VARIABLE = re.compile(r"[^a-z0-9_]+")
_TAKEN = {"tfi", "k8s", "pulumi", *keyword.kwlist, *keyword.softkwlist, *dir(builtins)}


@dataclass(frozen=True, slots=True)
class Program:
    """The source, and what it can't carry, each with the object's name."""

    text: str
    notes: tuple[str, ...]


def program(objects: Sequence[Object], origin: str, lost: Mapping[int, Sequence[str]] = MappingProxyType({})) -> Program:
    """The program that declares the objects. `origin` is what the head line calls the file.

    `lost`: by the identity of an object, what it said before and can say no more.
    """
    ordered = sorted(objects, key=lambda item: _ORDER.index(item.kind) if item.kind in _ORDER else len(_ORDER))
    names = _resource_names(ordered)
    references, variables = _references(ordered, names)
    statements: list[str] = []
    notes: list[str] = []
    for item, name in zip(ordered, names, strict=True):
        told, statement = _statement(item, name, references, variables.get(id(item)))
        told = [*lost.get(id(item), ()), *told]
        notes += told
        statements.append("".join(f"# {_one_line(note)}\n" for note in told) + statement)
    body = "\n".join(statements)
    imports = [line for word, line in _IMPORTS.items() if f"{word}." in body]
    head = f"# Declares what stood in {_one_line(origin)}; written by `tensorfusion import`."
    return Program("\n".join([head, "", *imports, "", body]), tuple(notes))


def _statement(item: Object, name: str, references: References, variable: str | None) -> tuple[list[str], str]:
    """What is to be said about an object, and the statement that declares it; empty if nothing does."""
    template = template_of(item)
    if template is not None and get(template.pod, ("metadata", "labels", ENABLED_LABEL)) != "true":
        return [f"{item.subject} is left out: its pods are not enabled, so a plain manifest says it all"], ""
    declared = declare(item, name, references)
    if declared is None:
        hint = "its kind has no component (tfi.annotated_template helps)" if template is not None else "it asks for no GPU"
        return [f"{item.subject} is left out: {hint}"], ""
    head = f"{variable} = " if variable else ""
    return [f"{item.subject}: {note}" for note in declared.notes], head + source(declared.call, before=len(head)) + "\n"


def _resource_names(objects: Sequence[Object]) -> list[str]:
    """A resource name for each object, its own name if that is free among its kind."""
    used: set[tuple[str, str]] = set()
    names = []
    for item in objects:
        base = item.name.rstrip("-") or item.kind.lower()
        choices = [base, f"{item.namespace}-{base}", *(f"{base}-{number}" for number in range(2, len(objects) + 2))]
        name = next(choice for choice in choices if (item.kind, choice) not in used and not choice.startswith("-"))
        used.add((item.kind, name))
        names.append(name)
    return names


def _references(objects: Sequence[Object], names: Iterable[str]) -> tuple[References, dict[int, str]]:
    """Variables for pools and profiles: for references, and by the identity of the object."""
    pools: dict[str, str] = {}
    profiles: dict[tuple[str, str], str] = {}
    variables: dict[int, str] = {}
    used = set(_TAKEN)
    for item, name in zip(objects, names, strict=True):
        if item.kind not in ("GPUPool", "WorkloadProfile") or item.group != "tensor-fusion.ai":
            continue
        base = _NOT_IN_A_VARIABLE.sub("_", name.lower()).strip("_") or item.kind.lower()
        base = base if base[0].isalpha() else f"{item.kind.lower()}_{base}"
        variable = next(choice for choice in (base, *(f"{base}_{number}" for number in range(2, 10_000))) if choice not in used)
        used.add(variable)
        variables[id(item)] = variable
        if item.kind == "GPUPool":
            pools.setdefault(item.name, variable)
        else:
            profiles.setdefault((item.namespace, item.name), variable)
    return References(pools, profiles), variables


def _one_line(text: str) -> str:
    return " ".join(text.split()) if text.isprintable() else " ".join(text.encode("unicode_escape").decode().split())
