"""The upkeep of grey releases: which pod has to go so that exactly `enabled-replicas` run with TensorFusion (SPEC §5). Pure.

The webhook decides when pods are created, and can't change one that exists. Where fewer run enabled than should, one of the
others is evicted, and its replacement gets the free slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.controller.owners import controller_of
from tensorfusion_iac.controller.pods import ENABLED_REPLICAS, GREY, is_ready, worker_of

QUIET_S = 30.0
"""How long nothing may have changed before one is evicted: a rollout under way settles by itself."""
_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class GreyPod:
    """One live pod of a grey release. `owner`: UID of the direct owner; `wanted`: how many of its pods are to run enabled."""

    namespace: str
    name: str
    uid: str
    owner: str
    enabled: bool
    wanted: int
    ready: bool
    created: str


def grey_pod(pod: Mapping[str, Any]) -> GreyPod | None:
    """A pod as a member of a grey release; None if it is none, or does not count: terminating or finished."""
    metadata, owner, worker = pod["metadata"], controller_of(pod), worker_of(pod)
    annotations = metadata["annotations"]
    if owner is None or "deletionTimestamp" in metadata or pod["status"]["phase"] in _FINISHED:
        return None
    if worker is not None:
        wanted = worker.enabled_replicas
    elif annotations.get(GREY) == "off":
        # What runs as written was not resolved: the number is nowhere else, and can only cost its own owner a pod.
        text = annotations.get(ENABLED_REPLICAS, "")
        wanted = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else None
    else:
        return None
    if wanted is None:
        return None
    return GreyPod(
        metadata["namespace"], metadata["name"], metadata["uid"], owner.uid, worker is not None, wanted, is_ready(pod),
        metadata.get("creationTimestamp", ""),
    )  # fmt: skip


def to_evict(pods: Iterable[GreyPod]) -> GreyPod | None:
    """Of one owner's pods, the one that has to make room, None if none has to: one that is not ready, else the newest."""
    found = list(pods)
    others = [pod for pod in found if not pod.enabled]
    if not others:
        return None
    wanted = max(found, key=lambda pod: (pod.created, pod.uid)).wanted
    if len(found) - len(others) >= wanted:
        return None
    return max(others, key=lambda pod: (not pod.ready, pod.created, pod.uid))
