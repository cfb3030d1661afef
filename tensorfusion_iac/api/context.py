"""What the cluster says about a pod beside the pod itself: owner, namespace, and which facts are not known (SPEC §3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal


class Unjudged(Enum):
    """Stands for an object that may exist but is not at hand, so that nothing about it can be refused."""

    UNJUDGED = "unjudged"


UNJUDGED: Final = Unjudged.UNJUDGED
NotJudged = Literal[Unjudged.UNJUDGED]


@dataclass(frozen=True, slots=True)
class Owner:
    """The top owner of a pod: the Deployment, not its ReplicaSet."""

    kind: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace and its labels; None where the labels are not known."""

    name: str
    labels: Mapping[str, str] | None = field(default=None)
