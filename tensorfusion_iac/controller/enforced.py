"""What a pod is told of its cards: by what its limits are held, and what is wrong (SPEC §6, §9). Pure.

Copied from what the agents say in `GPU.status` to the annotation `enforced-by` and to conditions of the pod, so that its owner
need not know the cards. A pod whose limits are held and whose cards are well has no condition of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.api import names
from tensorfusion_iac.controller.pods import ENFORCED_BY

COMPUTE_LIMIT, GPU_HEALTHY = f"{names.PREFIX}ComputeLimit", f"{names.PREFIX}GPUHealthy"
_HEALTHY, _UNREACHABLE = "Healthy", "Unreachable"


@dataclass(frozen=True, slots=True)
class PodChanges:
    """What to write on a pod; empty: nothing."""

    annotation: str | None = None
    conditions: tuple[dict[str, Any], ...] = ()


def reconcile(pod: Mapping[str, Any], cards: Iterable[Mapping[str, Any]], now: str) -> PodChanges:
    """What has to change. `cards`: the GPU objects of the cards that the pod holds."""
    uid = pod["metadata"]["uid"]
    statuses = [card.get("status") or {} for card in cards]
    rows = [row for status in statuses for row in status.get("pods") or () if row.get("uid") == uid]
    if not statuses:
        return PodChanges()
    said = enforced_by(rows)
    annotation = said if said and said != pod["metadata"]["annotations"].get(ENFORCED_BY) else None
    held = [row for row in rows if row.get("computeLimit")]
    unreachable = any(row["computeLimit"] == _UNREACHABLE for row in held)
    sick = sorted(
        f"{status.get('uuid')}: {status.get('message') or status['health']}"
        for status in statuses
        if status.get("health", _HEALTHY) != _HEALTHY
    )
    wanted = {
        COMPUTE_LIMIT: (not unreachable, _UNREACHABLE if unreachable else "Held",
                        "the agent cannot hold the pod to its compute limit" if unreachable else ""),
        GPU_HEALTHY: (not sick, "CardUnhealthy" if sick else "Healthy", "; ".join(sick)),
    }  # fmt: skip
    if not held:
        del wanted[COMPUTE_LIMIT]
    before = {one["type"]: one for one in pod["status"]["conditions"]}
    return PodChanges(annotation, tuple(_news(before, wanted, now)))


def enforced_by(rows: Iterable[Mapping[str, Any]]) -> str:
    """By what a pod's limits are held: one text, or several where its cards or containers differ."""
    return "; ".join(sorted({str(row["enforcedBy"]) for row in rows if row.get("enforcedBy")}))


def _news(
    before: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, tuple[bool, str, str]], now: str
) -> Iterable[dict[str, Any]]:
    """A condition is first set when something is wrong, and changed from then on."""
    for name, (fine, reason, message) in wanted.items():
        old = before.get(name)
        if old is None and fine:
            continue
        status = "True" if fine else "False"
        if old is not None and (old["status"], old.get("reason"), old.get("message") or "") == (status, reason, message):
            continue
        turned = old is None or old["status"] != status
        yield {
            "type": name, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": now if turned or old is None else old.get("lastTransitionTime", now),
        }  # fmt: skip
