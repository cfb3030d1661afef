"""A cluster as it was read at one moment: raw objects by kind, what could not be read, and how a trial pod fared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tensorfusion_iac.kube.resource import Resource

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Observed:
    """`objects`: those of each kind that was asked for; `absent`: kinds that the API server does not know; `unreadable`: why
    a kind could not be read. `trial`: why a pod that asks for GPUs could not be created, as a dry run;
    None if it could, or was judged.
    """

    now: datetime
    objects: Mapping[Resource, Sequence[Object]]
    absent: frozenset[Resource] = frozenset()
    unreadable: Mapping[Resource, str] = field(default_factory=dict)
    trial: str | None = None

    def of(self, resource: Resource) -> Sequence[Object]:
        """The objects of a kind; none if it could not be read."""
        return self.objects.get(resource, ())

    def named(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """One object."""
        return next((item for item in self.of(resource) if name_of(item) == name and namespace_of(item) == namespace), None)


def at(item: Object | None, *path: str) -> Any:
    """A member of an object; None where the way to it ends."""
    value: Any = item
    for member in path:
        value = value.get(member) if isinstance(value, Mapping) else None
    return value


def name_of(item: Object) -> str:
    """metadata.name."""
    return str(at(item, "metadata", "name") or "")


def namespace_of(item: Object) -> str:
    """metadata.namespace; empty for what is the cluster's."""
    return str(at(item, "metadata", "namespace") or "")


def condition(item: Object, type_: str) -> Object | None:
    """The condition of that type."""
    return next((one for one in at(item, "status", "conditions") or () if one.get("type") == type_), None)


def age_s(lease: Object, now: datetime) -> float | None:
    """Seconds since a Lease was renewed, by our clock; None if it says nothing."""
    renewed = at(lease, "spec", "renewTime")
    try:
        return (now - datetime.fromisoformat(str(renewed)).astimezone(UTC)).total_seconds()
    except ValueError:
        return None


def is_fresh(lease: Object | None, now: datetime) -> bool:
    """Whether a Lease has a holder who renewed it within twice its duration: clocks of two machines are compared."""
    age = None if lease is None else age_s(lease, now)
    life_s = float(at(lease, "spec", "leaseDurationSeconds") or 15)
    return age is not None and bool(at(lease, "spec", "holderIdentity")) and age < 2 * life_s
