"""What admission is told about a request beside the pod, and what it answers: the vocabulary of this package.

`Grey` and the claim come from the grey release (SPEC §5); a Decision is what every door shows: the webhook as an
AdmissionResponse, `tensorfusion resolve` as text and JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from http import HTTPStatus

from tensorfusion_iac.admission.patch import Operation
from tensorfusion_iac.api import Namespace, Owner, Problem, WorkerSpec, annotation_naming, render


class Grey(Enum):
    """Which side of a grey release a pod is on: with TensorFusion, or as written. Without one, every pod is ON."""

    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class AdmissionFacts:
    """What a request says of a pod from outside: its namespace (the object itself may not name it) and its top owner."""

    namespace: Namespace
    owner: Owner | None = None


@dataclass(frozen=True)
class Decision:
    """The answer to one object: allowed with a patch and warnings, or refused with every problem.

    `status` is the HTTP code of a refusal: 422 if the object is wrong in itself, 403 if it is not allowed here. `worker`
    is what the pod was resolved to, None if it is left as written.
    """

    allowed: bool
    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    subject: str = ""
    problems: tuple[Problem, ...] = ()
    status: int = HTTPStatus.OK
    worker: WorkerSpec | None = None

    @property
    def message(self) -> str:
        """Every problem as text, the annotations with their full keys; empty if allowed."""
        return "" if self.allowed else render(self.subject, self.problems, annotation_naming)

    def patch_json(self) -> bytes:
        """The patch as it is sent: the same bytes for the same input, wherever it is computed."""
        return self._patch_json

    @cached_property
    def _patch_json(self) -> bytes:
        return json.dumps(self.patch, separators=(",", ":")).encode()


def untouched(warnings: Iterable[str] = ()) -> Decision:
    """Allowed as it is."""
    return Decision(True, warnings=tuple(warnings))


def refused(
    subject: str,
    problems: Iterable[Problem],
    warnings: Iterable[str] = (),
    status: int = HTTPStatus.UNPROCESSABLE_ENTITY,
) -> Decision:
    """Refused, for all these reasons."""
    return Decision(False, (), tuple(warnings), subject, tuple(dict.fromkeys(problems)), status)


def warning_texts(warnings: Iterable[Problem]) -> tuple[str, ...]:
    """Warnings as the API server passes them on: one line each."""
    return tuple(dict.fromkeys(warning.text(annotation_naming) for warning in warnings))
