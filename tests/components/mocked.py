"""Programs under Pulumi's mocks: what they register, what they are told, and what stays unknown in a preview."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.runtime import mocks
from pulumi.runtime.proto import engine_pb2

from tensorfusion_iac.components.errors import SpecError


@dataclass
class Registered:
    """One resource as the engine heard of it."""

    type: str
    name: str
    inputs: dict[str, Any]
    provider: str


class Recording(pulumi.runtime.Mocks):
    """A provider that gives back what it was given, with a namespace as the cluster would."""

    def __init__(self) -> None:
        self.registered: list[Registered] = []

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        inputs = args.inputs
        self.registered.append(Registered(args.typ, args.name, inputs, args.provider or ""))
        metadata = {"name": f"{args.name}-made", "namespace": "default", **(inputs.get("metadata") or {})}
        return f"{args.name}-id", {**inputs, "metadata": metadata}

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        return {}


class Console(mocks.MockEngine):
    """Keeps what the program logs, with the resource it is logged on."""

    def __init__(self) -> None:
        super().__init__(logging.getLogger("pulumi.mocks"))
        self.logged: list[tuple[str, str, str]] = []

    def Log(self, request: Any) -> None:  # noqa: N802 - gRPC's name
        severity = {engine_pb2.WARNING: "warning", engine_pb2.ERROR: "error"}.get(request.severity)
        if severity is not None:
            self.logged.append((severity, request.urn.rpartition("::")[2], request.message))


@dataclass
class Ran:
    """What a program did."""

    registered: list[Registered]
    logged: list[tuple[str, str, str]]
    error: BaseException | None = None
    outputs: dict[str, Any] = field(default_factory=dict)

    def one(self, type_: str, name: str | None = None) -> dict[str, Any]:
        """The inputs of the only resource of a type (its last part is enough)."""
        found = [item for item in self.registered if item.type.endswith(type_) and name in (None, item.name)]
        assert len(found) == 1, (type_, [(item.type, item.name) for item in self.registered])
        return found[0].inputs

    @property
    def refusal(self) -> str:
        """Every problem of the object that ended the program."""
        assert isinstance(self.error, SpecError), self.error
        return self.error.text

    def messages(self, severity: str) -> list[str]:
        """What was logged with a severity, in order."""
        return [text for kind, _, text in self.logged if kind == severity]


Program = Callable[[], dict[str, Any] | None]
Run = Callable[..., Ran]
