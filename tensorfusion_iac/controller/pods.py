"""A GPU pod as the controller sees it: whose it is, what it was resolved to, what it holds, and how it is.

Read from what the watch cache keeps (`kept`), which is a small part of the pod: there may be 50,000 of them. The user's own
annotations are not even kept; only the system's are read (SPEC §2).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tensorfusion_iac.api import names
from tensorfusion_iac.api.levels import Mode
from tensorfusion_iac.api.worker import Source, WorkerSpec, from_json
from tensorfusion_iac.controller.owners import OwnerRef, top_owner
from tensorfusion_iac.planning.record import reservation_of
from tensorfusion_iac.planning.shares import Reservation

Item = Mapping[str, Any]

RESOLVED, EFFECTIVE, DESIRED = names.key("resolved"), names.key("effective"), names.key("desired")
ENFORCED_BY = names.key("enforced-by")
GREY, ENABLED_REPLICAS = names.key("grey"), names.key("enabled-replicas")
_KEPT_ANNOTATIONS = (RESOLVED, EFFECTIVE, DESIRED, ENFORCED_BY)
_KEPT_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "ownerReferences")
_HASHES = ("pod-template-hash", "controller-revision-hash")
_KEPT_CONDITIONS = ("Ready", f"{names.PREFIX}")
_FINISHED = ("Succeeded", "Failed")


def kept(pod: dict[str, Any]) -> dict[str, Any]:
    """What of a pod is kept in the cache. Only pods that the webhook resolved keep more than their name."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    annotations = metadata.get("annotations") or {}
    labels = metadata.get("labels") or {}
    slim = {key: metadata[key] for key in _KEPT_METADATA if key in metadata}
    slim["annotations"] = {key: annotations[key] for key in _KEPT_ANNOTATIONS if key in annotations}
    if annotations.get(GREY) == "off":  # it runs as written: nothing but its place in a grey release is of interest
        slim["annotations"] |= {key: annotations[key] for key in (GREY, ENABLED_REPLICAS) if key in annotations}
    slim["labels"] = {key: labels[key] for key in _HASHES if key in labels}
    conditions = [one for one in status.get("conditions") or () if one["type"].startswith(_KEPT_CONDITIONS)]
    return {
        "metadata": slim,
        "spec": {"nodeName": (pod.get("spec") or {}).get("nodeName", "")},
        "status": {"phase": status.get("phase", ""), "startTime": status.get("startTime"), "conditions": conditions},
    }


@dataclass(frozen=True, slots=True)
class Member:
    """One pod of a workload. `named`: its workload was named by an annotation, and not after its owner."""

    uid: str
    namespace: str
    name: str
    owner: OwnerRef
    worker: WorkerSpec
    named: bool
    phase: str
    ready: bool
    terminating: bool
    created: str
    node: str
    template_hash: str
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether it will never run again."""
        return self.phase in _FINISHED

    @property
    def live(self) -> bool:
        """Whether it counts: neither finished nor on its way out."""
        return not self.finished and not self.terminating

    @property
    def is_worker(self) -> bool:
        """Whether it holds GPUs itself: a remote client does not (SPEC §2a)."""
        return self.worker.mode is not Mode.REMOTE


@lru_cache(maxsize=16384)
def resolved(text: str) -> tuple[WorkerSpec, Mapping[str, str]]:
    """The worker of an annotation `resolved`, and where each of its fields came from. ValueError if it is none."""
    worker, sources = from_json(text), json.loads(text).get("sources")
    return worker, sources if isinstance(sources, dict) else {}


def worker_of(pod: Item) -> WorkerSpec | None:
    """What a pod was resolved to; None if no webhook saw it, or the text is not ours."""
    text = pod["metadata"]["annotations"].get(RESOLVED)
    try:
        return None if text is None else resolved(text)[0]
    except ValueError:
        return None


def is_ready(pod: Item) -> bool:
    """Whether a pod runs, is ready, and is to stay."""
    status = pod["status"]
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status["conditions"])
    return ready and status["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]


def member_of(pod: Item, middle: Callable[[str, str, str], Item | None]) -> Member | None:
    """A pod as a member of its workload; None if it isn't one, or its owner cannot be told yet."""
    worker, owner = worker_of(pod), top_owner(pod, middle)
    if worker is None or owner is None:
        return None
    metadata, status = pod["metadata"], pod["status"]
    sources = resolved(metadata["annotations"][RESOLVED])[1]
    return Member(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        owner=owner,
        worker=worker,
        named=sources.get("workload") == Source.ANNOTATION.value,
        phase=status["phase"],
        ready=any(one["type"] == "Ready" and one["status"] == "True" for one in status["conditions"]),
        terminating="deletionTimestamp" in metadata,
        created=metadata.get("creationTimestamp", ""),
        node=pod["spec"]["nodeName"],
        template_hash=next((metadata["labels"][key] for key in _HASHES if key in metadata["labels"]), ""),
        sources=sources,
    )


def reservation(pod: Item) -> Reservation | None:
    """What a pod holds, by its annotations; None if nothing: not bound, finished, or not readable (the scheduler says so)."""
    text, worker = pod["metadata"]["annotations"].get(EFFECTIVE), worker_of(pod)
    if text is None or worker is None or not pod["spec"]["nodeName"] or pod["status"]["phase"] in _FINISHED:
        return None
    metadata = pod["metadata"]
    try:
        return reservation_of(
            worker, text, uid=metadata["uid"], namespace=metadata["namespace"], name=metadata["name"],
            node=pod["spec"]["nodeName"], priority=0,
        )  # fmt: skip
    except ValueError:
        return None
