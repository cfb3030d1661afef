"""Which pods of a workload are refused when they are created, of which revision, and why: for `tensorfusion explain`.

While a rolling update is refused the old pods stay bound, so pods alone do not tell. What creates them does: it has fewer than it
is to have, and its condition `ReplicaFailure` (a ReplicaSet's) or its events `FailedCreate` say why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

Item = Mapping[str, Any]

KINDS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob")
REASON = "FailedCreate"
_REVISION = "deployment.kubernetes.io/revision"
_POD = re.compile(r'"[^" ]+-[a-z0-9]{5}"')  # all that tells two pods of one refusal apart
_REMARK = re.compile(r"^(\(combined from similar events\): )?(Error creating: )?")  # of an event, before what the server said
_MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class Refused:
    """One object that cannot create its pods; its revision (empty: it has none), and how many pods there are of those wanted."""

    kind: str
    name: str
    revision: str
    there: int
    wanted: int
    reasons: tuple[str, ...]

    @property
    def text(self) -> str:
        """In words, with the reasons."""
        who = f"{self.kind} {self.name}"
        who = f"revision {self.revision} ({who})" if self.revision else who
        return f"{who} has {self.there} of {self.wanted} pods: {'; '.join(self.reasons)}"

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def refused(kind: str, namespace: str, name: str, objects: Iterable[Item]) -> list[Refused]:
    """What of the workload cannot create pods, its newest revision first.

    `kind` is one of `KINDS` in any case; another one matches all of them. `objects` have their `kind`, and events are among them.
    """
    here = [item for item in objects if item.get("metadata", {}).get("namespace") == namespace]
    events = sorted(
        (item for item in here if item.get("kind") == "Event" and item.get("reason") == REASON), key=_seen, reverse=True
    )
    kinds = [known for known in KINDS if known.lower() == kind.lower()] or KINDS
    meant = [item for item in here if item.get("kind") in kinds and item["metadata"].get("name") == name]
    found = [refusal for item in _with_owned(meant, here) if (refusal := _of(item, events)) is not None]
    return sorted(found, key=lambda one: int(one.revision) if one.revision.isdigit() else 0, reverse=True)


def _with_owned(meant: list[Item], here: list[Item]) -> list[Item]:
    """The objects, and those that they own, at any depth."""
    found, owners = list(meant), {_uid(item) for item in meant}
    while owned := [
        item for item in here if item.get("kind") in KINDS and item not in found and not owners.isdisjoint(_owners(item))
    ]:
        found += owned
        owners |= {_uid(item) for item in owned}
    return found


def _of(item: Item, events: list[Item]) -> Refused | None:
    there, wanted = _pods(item)
    if there >= wanted:
        return None
    status, metadata = item.get("status") or {}, item["metadata"]
    failures = [
        str(condition.get("message"))
        for condition in status.get("conditions") or ()
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True" and condition.get("reason") == REASON
    ]
    reasons = _each_once([*failures, *(str(event.get("message")) for event in events if _is_about(event, item))])
    revision = (metadata.get("annotations") or {}).get(_REVISION) or status.get("updateRevision") or ""
    return Refused(item["kind"], metadata["name"], str(revision), there, wanted, reasons) if reasons else None


def _pods(item: Item) -> tuple[int, int]:
    """How many pods there are, and how many there are to be. None are to be of what creates none itself, or has ended."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    match item.get("kind"):
        case "ReplicaSet" | "StatefulSet":
            return status.get("replicas", 0), spec.get("replicas", 1)
        case "DaemonSet":
            return status.get("currentNumberScheduled", 0), status.get("desiredNumberScheduled", 0)
        case "Job":
            ended = any(
                one.get("type") in ("Complete", "Failed") and one.get("status") == "True"
                for one in status.get("conditions") or ()
            )
            at_once = spec.get("parallelism", 1)
            left = spec.get("completions", at_once) - status.get("succeeded", 0)
            return status.get("active", 0), 0 if ended or spec.get("suspend") else min(at_once, left)
        case _:
            return 0, 0


def _each_once(messages: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for message in messages:
        plain = _REMARK.sub("", message)
        found.setdefault(_POD.sub("", plain), plain)
    return tuple(found.values())[:_MOST_REASONS]


def _is_about(event: Item, item: Item) -> bool:
    return bool((event.get("involvedObject") or {}).get("uid") == _uid(item))


def _uid(item: Item) -> str:
    return str(item["metadata"].get("uid"))


def _owners(item: Item) -> set[str]:
    return {str(owner.get("uid")) for owner in item["metadata"].get("ownerReferences") or ()}


def _seen(event: Item) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp"))
