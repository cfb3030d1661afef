"""How a cluster stands, in tables: pools, workloads, quotas, and what waits with its reasons. Pure.

Each table holds records with numbers, for programs, and says how a person reads one: memory in Gi, amounts with one decimal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from tensorfusion_iac.api.names import ALLOCATED_CONDITION, ENABLED_LABEL, RESIZE_PENDING_CONDITION, key
from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.quantity import parse_quantity
from tensorfusion_iac.kube.resource import (
    DEPLOYMENTS,
    GPU_POOLS,
    GPU_RESOURCE_QUOTAS,
    GPUS,
    PODS,
    STATEFUL_SETS,
    TENSOR_FUSION_WORKLOADS,
)
from tensorfusion_iac.operations.observed import Object, Observed, at, condition, name_of, namespace_of

Record = dict[str, Any]
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table. `records`: for `--output json`; `cells` makes a row of one; `empty` is said where there are none."""

    title: str
    columns: tuple[str, ...]
    records: tuple[Record, ...]
    cells: Callable[[Record], tuple[str, ...]]
    empty: str

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The records as a person reads them."""
        return tuple(map(self.cells, self.records))


def standing(seen: Observed, namespace: str | None) -> list[Table]:
    """The tables; `namespace` leaves out what is another's."""

    def chosen(items: Sequence[Object]) -> Iterator[Object]:
        found = (item for item in items if namespace in (None, namespace_of(item)))
        return iter(sorted(found, key=lambda item: (namespace_of(item), name_of(item))))

    owners = {at(item, "metadata", "uid"): item for kind in (DEPLOYMENTS, STATEFUL_SETS) for item in seen.of(kind)}
    known = list(chosen(seen.of(TENSOR_FUSION_WORKLOADS)))
    workloads = [
        *(_workload(item, owners) for item in known),
        *_without_pods(chosen([*seen.of(DEPLOYMENTS), *seen.of(STATEFUL_SETS)]), known),
    ]
    return [
        Table("Pools", ("pool", "phase", "nodes", "cards", "free TFLOPS", "free VRAM", "workloads"),
              tuple(_pool(item, seen) for item in seen.of(GPU_POOLS)), _pool_cells, "no pool"),
        Table("Workloads", ("namespace", "workload", "phase", "ready", "message"),
              tuple(sorted(workloads, key=lambda one: (one["namespace"], one["workload"]))), _workload_cells, "no workload"),
        Table("Quotas", ("namespace", "quota", "TFLOPS", "VRAM", "workers", "alert"),
              tuple(_quota(item) for item in chosen(seen.of(GPU_RESOURCE_QUOTAS))), _quota_cells, "no quota"),
        Table("Waiting", ("namespace", "object", "why"), tuple(_waiting(chosen(seen.of(PODS)), chosen(seen.of(DEPLOYMENTS)))),
              lambda one: (one["namespace"], one["object"], one["why"]), "nothing waits"),
    ]  # fmt: skip


def _pool(item: Object, seen: Observed) -> Record:
    status = at(item, "status") or {}
    sick = sum(at(card, "status", "health") not in (None, "Healthy") for card in seen.of(GPUS))
    return {
        "pool": name_of(item), "phase": str(status.get("phase", "")),
        "readyNodes": status.get("readyNodes"), "totalNodes": status.get("totalNodes"),
        "gpus": status.get("totalGPUs"), "unhealthyGpus": sick if len(seen.of(GPU_POOLS)) == 1 else None,
        "availableTflops": _number(status.get("availableTFlops")), "totalTflops": _number(status.get("totalTFlops")),
        "availableVramBytes": _bytes(status.get("availableVRAM")), "totalVramBytes": _bytes(status.get("totalVRAM")),
        "workloads": status.get("runningAppsCnt"),
    }  # fmt: skip


def _pool_cells(one: Record) -> tuple[str, ...]:
    sick = f" ({one['unhealthyGpus']} not healthy)" if one["unhealthyGpus"] else ""
    return (
        one["pool"], one["phase"], _of(one["readyNodes"], one["totalNodes"]), _text(one["gpus"]) + sick,
        _of(one["availableTflops"], one["totalTflops"]), _gib_of(one["availableVramBytes"], one["totalVramBytes"]),
        _text(one["workloads"]),
    )  # fmt: skip


def _workload(item: Object, owners: Mapping[str, Object]) -> Record:
    """One TensorFusionWorkload. Wanted are the pods that its owners are to have, where those say how many."""
    status = at(item, "status") or {}
    told = [
        f"{one.get('type')}: {one.get('message')}"
        for one in status.get("conditions") or ()
        if one.get("message") and one.get("type") != "Ready"
    ]
    mine = [owners.get(one.get("uid")) for one in at(item, "metadata", "ownerReferences") or ()]
    counted = [_wanted(owner) for owner in mine if owner is not None]
    wanted = sum(counted) if mine and len(counted) == len(mine) else status.get("workerCount")
    return {
        "namespace": namespace_of(item), "workload": name_of(item), "phase": str(status.get("phase", "")),
        "readyWorkers": status.get("readyWorkers"), "wantedWorkers": wanted, "message": "; ".join(told),
    }  # fmt: skip


def _without_pods(items: Iterator[Object], known: Sequence[Object]) -> Iterator[Record]:
    """What wants GPU pods and has none, and so no TensorFusionWorkload: nothing else would show it."""
    owned = {one.get("uid") for item in known for one in at(item, "metadata", "ownerReferences") or ()}
    names = {(namespace_of(item), name_of(item)) for item in known}
    for item in items:
        template = at(item, "spec", "template", "metadata")
        workload = at(template, "annotations", key("workload")) or name_of(item)
        enabled = at(template, "labels", ENABLED_LABEL) == "true" and _wanted(item) > 0
        is_known = at(item, "metadata", "uid") in owned or (namespace_of(item), workload) in names
        if enabled and not at(item, "status", "replicas") and not is_known:
            yield {
                "namespace": namespace_of(item), "workload": workload, "phase": "Pending",
                "readyWorkers": 0, "wantedWorkers": _wanted(item), "message": "it has no pods",
            }  # fmt: skip


def _wanted(owner: Object) -> int:
    """How many GPU pods a Deployment or StatefulSet is to have: in a grey release only some of its replicas."""
    replicas = at(owner, "spec", "replicas")
    wanted = 1 if replicas is None else int(replicas)
    enabled = str(at(owner, "spec", "template", "metadata", "annotations", key("enabled-replicas")) or "")
    return min(wanted, int(enabled)) if enabled.isdecimal() else wanted


def _workload_cells(one: Record) -> tuple[str, ...]:
    ready = _of(one["readyWorkers"], one["wantedWorkers"])
    return (one["namespace"], one["workload"], one["phase"], ready, one["message"])


def _quota(item: Object) -> Record:
    used, total = at(item, "status", "used") or {}, at(item, "spec", "total") or {}
    requests, most = used.get("requests") or {}, total.get("requests") or {}
    alerts = (condition(item, kind) for kind in ("Exceeded", "NearlyUsed"))
    alert = next((str(one.get("message")) for one in alerts if one is not None and one.get("status") == "True"), "")
    return {
        "namespace": namespace_of(item), "quota": name_of(item),
        "usedTflops": _number(requests.get("tflops")), "maxTflops": _number(most.get("tflops")),
        "usedVramBytes": _bytes(requests.get("vram")), "maxVramBytes": _bytes(most.get("vram")),
        "workers": used.get("workers"), "maxWorkers": total.get("maxWorkers"), "alert": alert,
    }  # fmt: skip


def _quota_cells(one: Record) -> tuple[str, ...]:
    return (
        one["namespace"], one["quota"], _of(one["usedTflops"], one["maxTflops"]),
        _gib_of(one["usedVramBytes"], one["maxVramBytes"]), _of(one["workers"], one["maxWorkers"]), one["alert"],
    )  # fmt: skip


def _of(some: float | None, every: float | None, unit: str = "") -> str:
    return "" if some is None else f"{_text(some)}{unit} of {'-' if every is None else _text(every) + unit}"


def _gib_of(some_bytes: int | None, every_bytes: int | None) -> str:
    some, every = (None if amount is None else amount / GIB for amount in (some_bytes, every_bytes))
    return _of(some, every, "Gi")


def _text(amount: float | None) -> str:
    """With one decimal at most."""
    return "" if amount is None else f"{amount:.1f}".removesuffix(".0")


def _number(text: object) -> float | None:
    try:
        return None if text is None else float(Decimal(str(text)))
    except InvalidOperation:
        return None


def _bytes(text: object) -> int | None:
    try:
        return None if text is None else int(parse_quantity(str(text)))
    except Fault:
        return None


def _waiting(pods: Iterator[Object], deployments: Iterator[Object]) -> Iterator[Record]:
    """Pods that are not placed, or not started, or whose amounts cannot change now; Deployments whose pods are refused."""
    for item in pods:
        if (why := _why(item)) is not None:
            yield {"namespace": namespace_of(item), "object": f"pod {name_of(item)}", "why": why}
    for item in deployments:
        enabled = at(item, "spec", "template", "metadata", "labels", ENABLED_LABEL) == "true"
        failure = condition(item, "ReplicaFailure")
        if enabled and failure is not None and failure.get("status") == "True":
            why = f"its pods are refused: {failure.get('message')}"
            yield {"namespace": namespace_of(item), "object": f"deployment {name_of(item)}", "why": why}


def _why(pod: Object) -> str | None:
    """Why a pod waits; None if it does not."""
    resize = condition(pod, RESIZE_PENDING_CONDITION)
    if resize is not None and resize.get("status") == "True":
        return f"its new amounts wait: {resize.get('message')}"
    if at(pod, "status", "phase") != "Pending":
        return None
    for kind in (ALLOCATED_CONDITION, "PodScheduled"):
        found = condition(pod, kind)
        if found is not None and found.get("status") == "False":
            return str(found.get("message") or found.get("reason") or "it is not placed yet")
    states = [at(one, "state", "waiting") for one in at(pod, "status", "containerStatuses") or ()]
    reasons = [f"{state.get('reason')}: {state.get('message') or ''}".rstrip(": ") for state in states if state]
    return "; ".join(dict.fromkeys(reasons)) or "it is not started yet"
