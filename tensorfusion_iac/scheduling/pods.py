"""A pod as scheduling sees it: who it is, where it is in its life, its resolved worker, and the system's annotations.

Read from raw JSON, whatever that is: kube-scheduler's requests and the watch both end here. The user's own annotations are
never looked at (SPEC §2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from tensorfusion_iac.api import names
from tensorfusion_iac.api.worker import WorkerSpec, from_json
from tensorfusion_iac.planning.claim import Claim, claim_of
from tensorfusion_iac.planning.record import reservation_of
from tensorfusion_iac.planning.shares import Reservation

RESOLVED, EFFECTIVE, DESIRED = names.key("resolved"), names.key("effective"), names.key("desired")
GANG_READY = f"{names.PREFIX}GangReady"
"""The condition that says why a group of pods which start together waits."""
_FINISHED = ("Succeeded", "Failed")
_SETS = ("ReplicaSet", "StatefulSet", "ReplicationController")
_NONE: Mapping[str, Any] = {}


class NotOurPodError(ValueError):
    """The pod carries no worker that can be scheduled; the text says why."""


@dataclass(frozen=True, slots=True)
class GpuPod:
    """One pod. `node` is empty until it is bound; `version` is its resourceVersion as a number, for telling old from new."""

    uid: str
    namespace: str
    name: str
    version: int
    node: str
    finished: bool
    ends: datetime | None
    """When its grace is over, if it is being deleted."""
    gates: tuple[str, ...]
    priority: int
    preempts: bool
    prefers: bool
    """Whether it says itself which nodes it would rather be on: those are kube-scheduler's to weigh."""
    replica: bool
    """Whether it is one of a set of equals, which kube-scheduler spreads over nodes unless told otherwise."""
    worker: WorkerSpec
    claim: Claim
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    created: str
    started: datetime | None
    gang_waits: str = ""
    """What its condition `GangReady` says, if that is false."""

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted."""
        return self.ends is not None

    @property
    def settled(self) -> bool:
        """Whether it wants no place any more: it is bound, or being deleted."""
        return bool(self.node) or self.terminating

    @property
    def bypassed_us(self) -> bool:
        """Whether somebody else has bound it: then it has no GPUs, and never will."""
        return bool(self.node) and EFFECTIVE not in self.annotations

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    def reservation(self) -> Reservation | None:
        """What the pod holds by its annotations; None if it isn't bound with any. ValueError if they are not readable."""
        text = self.annotations.get(EFFECTIVE)
        if not self.node or text is None:
            return None
        return reservation_of(
            self.worker, text, uid=self.uid, namespace=self.namespace, name=self.name, node=self.node, priority=self.priority
        )


def read_pod(raw: object) -> GpuPod:
    """A pod from its JSON. NotOurPodError if it is no pod, or has no readable `resolved`."""
    pod = _mapping(raw)
    metadata, spec, status = _mapping(pod.get("metadata")), _mapping(pod.get("spec")), _mapping(pod.get("status"))
    uid, name = metadata.get("uid"), metadata.get("name")
    if not isinstance(uid, str) or not uid or not isinstance(name, str) or not name:
        raise NotOurPodError("not a pod: metadata.name or metadata.uid is missing")
    written = _mapping(metadata.get("annotations")).items()
    annotations = {key: value for key, value in written if key.startswith(names.PREFIX) and isinstance(value, str)}
    text = annotations.get(RESOLVED)
    if text is None:
        raise NotOurPodError(f"the pod has no annotation {RESOLVED}; the admission webhook writes it")
    try:
        worker, claim = _worker(text)
    except ValueError as error:
        raise NotOurPodError(f"annotation {RESOLVED}: {error}") from error
    version, priority = str(metadata.get("resourceVersion") or ""), spec.get("priority")
    return GpuPod(
        uid=uid,
        namespace=str(metadata.get("namespace") or ""),
        name=name,
        version=int(version) if version.isdigit() else 0,
        node=str(spec.get("nodeName") or ""),
        finished=status.get("phase") in _FINISHED,
        ends=_ends(metadata.get("deletionTimestamp")),
        gates=_gates(spec.get("schedulingGates")),
        priority=priority if type(priority) is int and abs(priority) < 2**31 else 0,
        preempts=spec.get("preemptionPolicy") != "Never",
        prefers=_prefers(spec),
        replica=_is_replica(metadata.get("ownerReferences")),
        worker=worker,
        claim=claim,
        annotations=annotations,
        labels=_mapping(metadata.get("labels")),
        created=str(metadata.get("creationTimestamp") or ""),
        started=_time(status.get("startTime")),
        gang_waits="" if worker.gang is None else _gang_waits(status.get("conditions")),
    )


@lru_cache(maxsize=8192)
def _worker(text: str) -> tuple[WorkerSpec, Claim]:
    worker = from_json(text)
    return worker, claim_of(worker)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else _NONE


def _prefers(spec: Mapping[str, Any]) -> bool:
    """Whether the pod has preferences among nodes (soft affinity or spreading), and not only requirements."""
    kinds = map(_mapping, _mapping(spec.get("affinity")).values())
    if any(kind.get("preferredDuringSchedulingIgnoredDuringExecution") for kind in kinds):
        return True
    spreads = spec.get("topologySpreadConstraints")
    return isinstance(spreads, list) and any(_mapping(spread).get("whenUnsatisfiable") == "ScheduleAnyway" for spread in spreads)


def _is_replica(owners: object) -> bool:
    """Whether kube-scheduler's default topology spread constraints are about it, by its owner; its Services are not known."""
    return isinstance(owners, list) and any(_mapping(owner).get("kind") in _SETS for owner in owners)


def _gates(gates: object) -> tuple[str, ...]:
    if not isinstance(gates, list):
        return ()
    return tuple(str(gate.get("name")) for gate in gates if isinstance(gate, Mapping))


def _gang_waits(conditions: object) -> str:
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, Mapping) and (condition.get("type"), condition.get("status")) == (GANG_READY, "False"):
            return str(condition.get("message") or "")
    return ""


def _ends(text: object) -> datetime | None:
    """A deletion counts, whether its time can be read or not."""
    return (_time(text) or datetime.now(UTC)) if text else None


def _time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
