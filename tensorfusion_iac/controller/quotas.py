"""The status of a GPUResourceQuota: what its namespace uses, what is left, and the alert before it is used up (SPEC §4). Pure.

Use is counted as the scheduler counts it, with `planning.charge` over what the pods hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.api.resources import GPUResourceQuota
from tensorfusion_iac.api.resources.quota import QuotaTotal
from tensorfusion_iac.controller.conditions import Wanted, merged
from tensorfusion_iac.controller.patches import changed
from tensorfusion_iac.planning.charge import Ceiling, Charge, charge, quota_of
from tensorfusion_iac.planning.shares import Reservation
from tensorfusion_iac.planning.units import PPM, tflops_text

IN_FORCE, NEARLY_USED, EXCEEDED = "InForce", "NearlyUsed", "Exceeded"
DEFAULT_ALERT_PERCENT = 95
_NAMES = ("TFLOPS requests", "VRAM requests", "compute requests", "TFLOPS limits", "VRAM limits", "compute limits", "workers")


def used_of(reservations: Iterable[Reservation]) -> Charge:
    """What a namespace's pods use."""
    used = Charge()
    for reservation in reservations:
        used = used.plus(charge(reservation))
    return used


def status_changes(
    quota: GPUResourceQuota, stored: Mapping[str, Any], used: Charge, holder: str | None, now: str
) -> dict[str, Any]:
    """The members of the status to change; empty if it is right. `holder`: the namespace's quota that holds, the oldest."""
    name = quota.metadata.name
    if holder != name:
        text = f"{holder} is older, and the namespace's quota; this one has no effect"
        conditions = [Wanted(IN_FORCE, False, "AnotherHolds", text)]
        members: dict[str, Any] = {"used": None, "availablePercent": None, "lastUpdateTime": None}
        gone = (NEARLY_USED, EXCEEDED)
        members["conditions"] = merged(stored.get("conditions") or (), conditions, now, dropped=gone)
        return changed(stored, members)
    total, ceiling = quota.spec.total or QuotaTotal(), quota_of(quota).total
    conditions = [Wanted(IN_FORCE, True, "Oldest"), *_alerts(total, ceiling, used)]
    members = {
        "used": {
            "requests": _amounts(used.request_mflops, used.request_vram_bytes, used.request_ppm),
            "limits": _amounts(used.limit_mflops, used.limit_vram_bytes, used.limit_ppm),
            "workers": used.workers,
        },
        "availablePercent": _available(ceiling, used) or None,
        "conditions": merged(
            stored.get("conditions") or (), conditions, now, dropped={NEARLY_USED, EXCEEDED} - {one.type for one in conditions}
        ),
    }
    difference = changed(stored, members)
    return difference | ({"lastUpdateTime": now} if difference else {})


def _alerts(total: QuotaTotal, ceiling: Ceiling, used: Charge) -> Iterator[Wanted]:
    threshold = total.alert_threshold_percent
    percent = DEFAULT_ALERT_PERCENT if threshold is None else threshold
    over = [name for name, most, has in _members(ceiling, used) if has > most]
    near = [
        f"{name} at {has * 100 // most} %" for name, most, has in _members(ceiling, used) if most and has * 100 >= most * percent
    ]
    if over:
        yield Wanted(
            EXCEEDED, True, "AboveQuota", f"more is used than the quota allows: {', '.join(over)}; nothing is taken away"
        )
    if near:
        yield Wanted(NEARLY_USED, True, "AboveThreshold", f"{', '.join(near)} of the quota; the alert is at {percent} %")


def _members(ceiling: Ceiling, used: Charge) -> Iterator[tuple[str, int, int]]:
    for name, most, has in zip(_NAMES, ceiling, used, strict=True):
        if most is not None:
            yield name, most, has


def _available(ceiling: Ceiling, used: Charge) -> dict[str, str]:
    pairs = {
        "tflops": (ceiling.request_mflops, used.request_mflops),
        "vram": (ceiling.request_vram_bytes, used.request_vram_bytes),
        "compute": (ceiling.request_ppm, used.request_ppm),
    }
    return {key: str(max(most - has, 0) * 100 // most if most else 0) for key, (most, has) in pairs.items() if most is not None}


def _amounts(mflops: int, vram_bytes: int, ppm: int) -> dict[str, str]:
    percent = format_decimal(Decimal(ppm) * 100 / PPM)
    return {"tflops": tflops_text(mflops), "vram": format_bytes(vram_bytes), "compute": percent}
