"""Whose a pod is: the owner at the top, a Deployment rather than its ReplicaSet, a CronJob rather than its Job (SPEC §2).

An owner is known by its UID, since names come back. A middle owner that the cache does not show yet makes the answer wait:
an object for a ReplicaSet must never be made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Item = Mapping[str, Any]

MIDDLE = frozenset({"ReplicaSet", "Job"})
"""Kinds that are usually made by another owner."""


@dataclass(frozen=True, slots=True, order=True)
class OwnerRef:
    """An owner as an object names it."""

    kind: str
    name: str
    uid: str
    api_version: str = "v1"

    def reference(self, *, controller: bool) -> dict[str, Any]:
        """As an entry of `metadata.ownerReferences`. It never blocks the deletion of what a user owns."""
        entry = {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid}
        return entry | ({"controller": True} if controller else {})


def controller_of(item: Item) -> OwnerRef | None:
    """The owner that controls an object, None if it stands alone."""
    for entry in item["metadata"].get("ownerReferences") or ():
        if entry.get("controller"):
            return owner_of(entry)
    return None


def owner_of(entry: Item) -> OwnerRef:
    """An entry of `metadata.ownerReferences`."""
    return OwnerRef(entry["kind"], entry["name"], entry["uid"], entry.get("apiVersion", "v1"))


def top_owner(pod: Item, middle: Callable[[str, str, str], Item | None]) -> OwnerRef | None:
    """The top owner of a pod, the pod itself if it has none; None while a middle owner is not known yet.

    `middle` gives a ReplicaSet or a Job by kind, namespace and name.
    """
    metadata = pod["metadata"]
    direct = controller_of(pod)
    if direct is None:
        return OwnerRef("Pod", metadata["name"], metadata["uid"])
    if direct.kind not in MIDDLE:
        return direct
    found = middle(direct.kind, metadata["namespace"], direct.name)
    if found is None or found["metadata"]["uid"] != direct.uid:
        return None
    return controller_of(found) or direct
