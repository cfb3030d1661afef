"""How a cluster stands, in tables: pools, workloads, quotas, and what waits with its reasons. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.api.names import ALLOCATED_CONDITION, ENABLED_LABEL, RESIZE_PENDING_CONDITION
from tensorfusion_iac.kube.resource import (
    DEPLOYMENTS,
    GPU_POOLS,
    GPU_RESOURCE_QUOTAS,
    GPUS,
    PODS,
    TENSOR_FUSION_WORKLOADS,
)
from tensorfusion_iac.operations.observed import Object, Observed, at, condition, name_of, namespace_of


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; `empty` is what is said where it has no rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str

    def record(self) -> list[dict[str, str]]:
        """For `--output json`: one object for each row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def standing(seen: Observed, namespace: str | None) -> list[Table]:
    """The tables; `namespace` leaves out what is another's."""

    def chosen(items: Sequence[Object]) -> Iterator[Object]:
        found = (item for item in items if namespace in (None, namespace_of(item)))
        return iter(sorted(found, key=lambda item: (namespace_of(item), name_of(item))))

    return [
        Table("Pools", ("pool", "phase", "nodes", "cards", "free TFLOPS", "free VRAM", "workloads"),
              tuple(_pool(item, seen) for item in seen.of(GPU_POOLS)), "no pool"),
        Table("Workloads", ("namespace", "workload", "phase", "ready", "message"),
              tuple(_workload(item) for item in chosen(seen.of(TENSOR_FUSION_WORKLOADS))), "no workload"),
        Table("Quotas", ("namespace", "quota", "TFLOPS", "VRAM", "workers", "alert"),
              tuple(_quota(item) for item in chosen(seen.of(GPU_RESOURCE_QUOTAS))), "no quota"),
        Table("Waiting", ("namespace", "object", "why"), tuple(_waiting(chosen(seen.of(PODS)), chosen(seen.of(DEPLOYMENTS)))),
              "nothing waits"),
    ]  # fmt: skip


def _pool(item: Object, seen: Observed) -> tuple[str, ...]:
    status = at(item, "status") or {}
    sick = sum(at(card, "status", "health") not in (None, "Healthy") for card in seen.of(GPUS))
    cards = str(status.get("totalGPUs", ""))
    if sick and len(seen.of(GPU_POOLS)) == 1:
        cards += f" ({sick} not healthy)"
    return (
        name_of(item), str(status.get("phase", "")), _of(status.get("readyNodes"), status.get("totalNodes")), cards,
        _of(status.get("availableTFlops"), status.get("totalTFlops")),
        _of(status.get("availableVRAM"), status.get("totalVRAM")), str(status.get("runningAppsCnt", "")),
    )  # fmt: skip


def _of(some: Any, every: Any) -> str:
    return "" if some is None else f"{some} of {'-' if every is None else every}"


def _workload(item: Object) -> tuple[str, ...]:
    status = at(item, "status") or {}
    told = [
        f"{one.get('type')}: {one.get('message')}"
        for one in status.get("conditions") or ()
        if one.get("message") and one.get("type") != "Ready"
    ]
    ready = _of(status.get("readyWorkers"), status.get("workerCount"))
    return (namespace_of(item), name_of(item), str(status.get("phase", "")), ready, "; ".join(told))


def _quota(item: Object) -> tuple[str, ...]:
    used, total = at(item, "status", "used") or {}, at(item, "spec", "total") or {}
    requests, most = used.get("requests") or {}, total.get("requests") or {}
    alerts = (condition(item, kind) for kind in ("Exceeded", "NearlyUsed"))
    alert = next((str(one.get("message")) for one in alerts if one is not None and one.get("status") == "True"), "")
    return (
        namespace_of(item), name_of(item), _of(requests.get("tflops"), most.get("tflops")),
        _of(requests.get("vram"), most.get("vram")), _of(used.get("workers"), total.get("maxWorkers")), alert,
    )  # fmt: skip


def _waiting(pods: Iterator[Object], deployments: Iterator[Object]) -> Iterator[tuple[str, ...]]:
    """Pods that are not placed, or not started, or whose amounts cannot change now; Deployments whose pods are refused."""
    for item in pods:
        if (why := _why(item)) is not None:
            yield namespace_of(item), f"pod {name_of(item)}", why
    for item in deployments:
        enabled = at(item, "spec", "template", "metadata", "labels", ENABLED_LABEL) == "true"
        failure = condition(item, "ReplicaFailure")
        if enabled and failure is not None and failure.get("status") == "True":
            yield namespace_of(item), f"deployment {name_of(item)}", f"its pods are refused: {failure.get('message')}"


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
