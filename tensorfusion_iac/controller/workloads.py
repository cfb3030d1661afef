"""What a TensorFusionWorkload should be, from the pods that name it (SPEC §2a, §4). Pure: `reconcile(observed) -> Changes`.

One object per workload name of a namespace, owned by the pods' top owners, so that it goes when they do. A default name belongs
to one owner's UID; a name that was given may be shared. What a user made himself is never rewritten or deleted: only its
status is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorfusion_iac.api import names
from tensorfusion_iac.api.levels import Mode
from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.api.worker import Compute, WorkerSpec
from tensorfusion_iac.controller.conditions import Wanted, merged
from tensorfusion_iac.controller.owners import OwnerRef, owner_of
from tensorfusion_iac.controller.patches import changed
from tensorfusion_iac.controller.pods import Member

Object = dict[str, Any]

MANAGED_LABEL, MANAGER = "app.kubernetes.io/managed-by", "tensor-fusion-controller"
"""Marks the objects that the controller made, and may therefore rewrite and remove."""

READY, REPLICAS_IGNORED, NAME_CONFLICT, SPEC_CONFLICT = "Ready", "ReplicasIgnored", "NameConflict", "SpecConflict"
POOL_GONE = "PoolGone"
_OWN = frozenset({REPLICAS_IGNORED, NAME_CONFLICT, SPEC_CONFLICT, POOL_GONE})
"""Conditions that are there only while something is the matter."""
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Observed:
    """One workload as it is. `members`: its pods, finished ones too; `moved`: UIDs of owners whose pods all name another
    workload now; `profile`: spec of the profile that the newest pod was resolved with; `pools`: the names of all pools.
    """

    namespace: str
    name: str
    now: str
    stored: Mapping[str, Any] | None = None
    members: tuple[Member, ...] = ()
    moved: frozenset[str] = frozenset()
    profile: Mapping[str, Any] = field(default_factory=dict)
    pools: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What to do, in this order; all empty: nothing. Patches are merge patches."""

    delete: bool = False
    create: Object | None = None
    patch: Object | None = None
    status: Object | None = None

    def __bool__(self) -> bool:
        return self != NOTHING


NOTHING = Changes()


def reconcile(seen: Observed) -> Changes:
    """What has to change for the object to be right."""
    stored = seen.stored
    if stored is not None and not _is_ours(stored):
        mine = seen.members
        return Changes(status=_status(seen, mine, (), _newest(mine)) or None)
    owners, strangers = _owners(seen)
    held = {owner.uid for owner in owners}
    mine = tuple(member for member in seen.members if member.owner.uid in held or member.named)
    newest = _newest(mine)
    if stored is None:
        if newest is None or not any(member.live for member in mine):
            return NOTHING
        return Changes(create=_created(seen, owners, newest), status=_status(seen, mine, strangers, newest))
    if not owners:  # all of them name another workload now
        return Changes(delete=True)
    return Changes(patch=_patch(seen, stored, owners, newest), status=_status(seen, mine, strangers, newest) or None)


def spec_of(worker: WorkerSpec, profile: Mapping[str, Any]) -> Object:
    """The workload's spec: what the worker was resolved to, and the profile's autoscaling. None: not given."""
    scaling = dict(profile.get("autoScalingConfig") or {})
    if worker.autoscale is not None:
        given = scaling.get("autoSetResources") or {}
        scaling["autoSetResources"] = {**given, "enable": True, "targetResource": worker.autoscale.value}
    sides = {
        "requests": _amounts(worker.compute_request, worker.vram_request_bytes),
        "limits": _amounts(worker.compute_limit, worker.vram_limit_bytes),
    }
    gang = worker.gang
    return {
        "poolName": worker.pool,
        "resources": None if worker.dedicated else {side: amounts for side, amounts in sides.items() if amounts} or None,
        "qos": worker.qos.value,
        "isLocalGPU": worker.mode is not Mode.REMOTE,
        "standaloneWorkerMode": worker.mode is Mode.STANDALONE or None,
        "isolation": worker.isolation.value,
        "partitionTemplateId": worker.partition_template,
        "gpuModel": worker.gpu_model,
        "dedicatedGPU": worker.dedicated or None,
        "gpuCount": worker.gpu_count,
        "gpuIndices": None if worker.gpu_indices is None else list(worker.gpu_indices),
        "vendor": worker.vendor.value,
        "disableFeatures": [feature.value for feature in worker.disable_features] or None,
        "autoScalingConfig": scaling or None,
        "gangScheduling": {"minMembers": gang.min_members} if gang else None,
    }


def selector_of(name: str) -> str:
    """The label selector of a workload's workers."""
    return f"{names.WORKLOAD_LABEL}={names.bounded(name)},{names.COMPONENT_LABEL}=worker"


def _is_ours(stored: Mapping[str, Any]) -> bool:
    return (stored["metadata"].get("labels") or {}).get(MANAGED_LABEL) == MANAGER


def _owners(seen: Observed) -> tuple[tuple[OwnerRef, ...], tuple[OwnerRef, ...]]:
    """The owners of the object, and those that use its name without being any.

    Who came first keeps a default name, also while it is scaled to zero; when it is deleted the garbage collector takes the
    object, and the next one gets its own.
    """
    live = sorted((member for member in seen.members if member.live), key=lambda one: (one.created, one.uid))
    recorded = [owner_of(entry) for entry in ((seen.stored or {}).get("metadata") or {}).get("ownerReferences") or ()]
    kept = [owner for owner in recorded if owner.uid not in seen.moved]
    default = [member.owner for member in live if not member.named]
    holder = next((owner for owner in kept if owner.name == seen.name), None) or next(iter(default), None)
    found = {owner.uid: owner for owner in (*(member.owner for member in live if member.named), *kept)}
    if holder is not None:
        found[holder.uid] = holder
    strangers = {owner for owner in default if owner.uid not in found}
    return tuple(sorted(found.values())), tuple(sorted(strangers))


def _newest(members: Iterable[Member]) -> Member | None:
    """The pod that says what the workload is: of the newest template."""
    return max(members, key=lambda one: (one.live, one.created, one.uid), default=None)


def _created(seen: Observed, owners: tuple[OwnerRef, ...], newest: Member) -> Object:
    spec = {key: value for key, value in spec_of(newest.worker, seen.profile).items() if value is not None}
    if (replicas := seen.profile.get("replicas")) is not None:
        spec["replicas"] = replicas  # only here: it is the user's from now on, through the scale subresource
    return {
        "metadata": {
            "name": seen.name,
            "namespace": seen.namespace,
            "labels": _labels(newest.worker),
            "ownerReferences": [owner.reference(controller=len(owners) == 1) for owner in owners],
        },
        "spec": spec,
    }


def _labels(worker: WorkerSpec) -> dict[str, str]:
    pool = {names.POOL_LABEL: names.bounded(worker.pool)} if worker.pool else {}
    return {MANAGED_LABEL: MANAGER} | pool


def _patch(seen: Observed, stored: Mapping[str, Any], owners: tuple[OwnerRef, ...], newest: Member | None) -> Object | None:
    patch: Object = {}
    metadata: Object = {}
    if {owner_of(entry).uid for entry in stored["metadata"].get("ownerReferences") or ()} != {owner.uid for owner in owners}:
        metadata["ownerReferences"] = [owner.reference(controller=len(owners) == 1) for owner in owners]
    if newest is not None:
        if labels := changed(stored["metadata"].get("labels") or {}, _labels(newest.worker)):
            metadata["labels"] = labels
        if spec := changed(stored.get("spec") or {}, spec_of(newest.worker, seen.profile)):
            patch["spec"] = spec
    if metadata:
        patch["metadata"] = metadata
    return patch or None


def _status(seen: Observed, mine: tuple[Member, ...], strangers: tuple[OwnerRef, ...], newest: Member | None) -> Object:
    stored = seen.stored or {}
    before = stored.get("status") or {}
    workers = [member for member in mine if member.live and member.is_worker]
    ready = [member for member in workers if member.ready]
    phase, wanted = _phase(mine, workers, ready)
    conditions = [wanted]
    replicas = (stored.get("spec") or {}).get("replicas", seen.profile.get("replicas") if seen.stored is None else None)
    if replicas is not None and (newest is None or newest.is_worker):
        text = f"spec.replicas is {replicas}, and counts for remote workers only: with local GPUs the pods are the workers"
        conditions.append(Wanted(REPLICAS_IGNORED, True, "LocalGPUs", text))
    if strangers:
        text = f"the name is taken: {_list(strangers)} would use it too; give its pods the annotation {names.key('workload')}"
        conditions.append(Wanted(NAME_CONFLICT, True, "NameTaken", text))
    if differing := _differing(mine, newest):
        text = f"{_list(differing)} share this workload, and ask for something else than {newest.owner.name if newest else ''}"
        conditions.append(Wanted(SPEC_CONFLICT, True, "DifferentSpecs", text))
    pool = newest.worker.pool if newest is not None else None
    if pool is not None and seen.pools is not None and pool not in seen.pools:
        text = f"GPUPool {pool} was deleted: the pods that run go on, and new ones are refused until there is such a pool again"
        conditions.append(Wanted(POOL_GONE, True, "PoolDeleted", text))
    dropped = _OWN - {one.type for one in conditions}
    wanted_status = {
        "phase": phase,
        "conditions": merged(before.get("conditions") or (), conditions, seen.now, dropped=dropped),
        "workerCount": len(workers),
        "readyWorkers": len(ready),
        "podTemplateHash": (newest.template_hash if newest else before.get("podTemplateHash")) or None,
        "selector": selector_of(seen.name),
        "replicas": len(workers),
    }
    return changed(before, wanted_status)


def _phase(mine: tuple[Member, ...], workers: list[Member], ready: list[Member]) -> tuple[str, Wanted]:
    if ready:
        return "Running", Wanted(READY, True, "WorkloadReady", f"{len(ready)} of {len(workers)} workers are ready")
    if workers and all(member.phase == "Unknown" for member in workers):
        return "Unknown", Wanted(READY, False, "WorkersLost", "nothing is heard of the workers' nodes")
    if workers:
        unplaced = sum(not member.node for member in workers)
        text = f"none of {len(workers)} workers is ready" + (f", and {unplaced} have no node yet" if unplaced else "")
        return "Pending", Wanted(READY, False, "WaitingForWorkers", text)
    if any(member.live for member in mine):
        return "Pending", Wanted(READY, False, "WaitingForWorkers", "clients wait for remote workers; there are none")
    last = max((member for member in mine if member.finished), key=lambda one: (one.created, one.uid), default=None)
    if last is not None and last.phase == "Failed":
        return "Failed", Wanted(READY, False, "WorkerFailed", f"pod {last.name} failed")
    if last is not None:
        return "Pending", Wanted(READY, False, "Completed", "all pods have ended well")
    return "Pending", Wanted(READY, False, "ScaledToZero", "there are no pods")


def _differing(mine: tuple[Member, ...], newest: Member | None) -> tuple[OwnerRef, ...]:
    """Owners whose newest live pod asks for something else than the workload is."""
    if newest is None:
        return ()
    by_owner: dict[OwnerRef, list[Member]] = {}
    for member in mine:
        if member.live:
            by_owner.setdefault(member.owner, []).append(member)
    wanted = spec_of(newest.worker, {})
    latest = {owner: _newest(members) for owner, members in by_owner.items()}
    return tuple(sorted(owner for owner, one in latest.items() if one is not None and spec_of(one.worker, {}) != wanted))


def _amounts(compute: Compute | None, vram_bytes: int | None) -> dict[str, str]:
    amounts: dict[str, str] = {}
    if compute is not None:
        key = "tflops" if compute.unit.value == "tflops" else "compute"
        amounts[key] = format_decimal(compute.value)
    if vram_bytes is not None:
        amounts["vram"] = format_bytes(vram_bytes)
    return amounts


def _list(owners: tuple[OwnerRef, ...]) -> str:
    shown = ", ".join(f"{owner.kind} {owner.name}" for owner in owners[:_SHOWN])
    more = len(owners) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
