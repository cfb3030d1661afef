"""How a change reaches the pods: they roll, scale, are replaced, are changed in place, or only new ones are (SPEC §3).

An edit of a pod template rolls the pods. An edit of a profile's amounts reaches running pods in place; what else a profile,
a pool or a quota says holds for new pods only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.worker import Source
from tensorfusion_iac.planning.rolling import Bounds, bounds
from tensorfusion_iac.report.facets import AMOUNTS, facets
from tensorfusion_iac.report.preview import Path
from tensorfusion_iac.report.workloads import Asked, Workload


class How(StrEnum):
    """What happens to the pods."""

    NOTHING = "no change"
    CREATED = "created"
    DELETED = "deleted"
    KEPT = "leaves the stack"
    ROLLS = "rolls pods"
    REPLACED = "replaced"
    SCALED = "scaled"
    IN_PLACE = "in place"
    NEW_PODS = "new pods only"
    NEXT_RUN = "next run"
    OBJECT = "object only"


@dataclass(frozen=True, slots=True)
class Way:
    """How a workload's change is applied. `text` says it for people; `bounds` are those of a rolling update."""

    how: How
    text: str
    bounds: Bounds | None = None


_MADE_ANEW = ("Job", "Pod")


def way_of(workload: Workload, count: int) -> Way:
    """How the change reaches the pods, of which `count` are wanted."""
    change, before, after = workload.change, workload.before, workload.after
    if after is None:
        if change.retained:
            return Way(How.KEPT, "stays in the cluster, no longer managed by this stack")
        return Way(How.DELETED, "deleted, after everything else is done")
    if before is None:
        return Way(How.CREATED, "created")
    template_changed = before.template != after.template or _open_parts(before) != _open_parts(after)
    if change.replaced or (workload.kind in _MADE_ANEW and template_changed):
        first = "the old one is deleted first" if change.deletes_first else "the new one is created first, then the old one goes"
        return Way(How.REPLACED, f"replaced: {first}; running pods end")
    if template_changed:
        return _template_changed(workload, count)
    if after.pods is not None and before.pods != after.pods:
        return Way(How.SCALED, "scaled; pods that stay are not restarted")
    if before.manifest.raw != after.manifest.raw and before.seen == after.seen:
        return Way(How.OBJECT, "pods are not touched")
    return _beside_the_template(workload)


def _open_parts(asked: Asked) -> set[Path]:
    """Where the template has values that are not known yet: they may be new ones."""
    return {path for path in asked.manifest.unknown if path[0] == "spec" and path[-1] not in ("replicas", "parallelism")}


def _template_changed(workload: Workload, count: int) -> Way:
    raw = workload.change.manifest.raw
    spec = raw.get("spec") if isinstance(raw.get("spec"), Mapping) else {}
    if workload.kind == "CronJob":
        return Way(How.NEXT_RUN, "applies from the next run on")
    if workload.kind == "ReplicaSet":
        return Way(How.NEW_PODS, "applies to new pods only: a ReplicaSet does not replace pods")
    strategy = _strategy(workload.kind, spec)
    if strategy.get("type") == "OnDelete":
        return Way(How.NEW_PODS, "applies to each pod when it is deleted (OnDelete)")
    if strategy.get("type") == "Recreate":
        return Way(How.ROLLS, "rolls pods: template changed (Recreate: all end before new ones start)", Bounds(0, count))
    rolling = strategy.get("rollingUpdate")
    rolling = rolling if isinstance(rolling, Mapping) else {}
    if workload.kind in ("StatefulSet", "DaemonSet"):
        limits = Bounds(0, max(1, bounds(count, 0, rolling.get("maxUnavailable", 1)).unavailable))
    else:
        limits = bounds(count, rolling.get("maxSurge"), rolling.get("maxUnavailable"))
    text = f"rolls pods: template changed (maxSurge {limits.surge}, maxUnavailable {limits.unavailable})"
    return Way(How.ROLLS, text, limits)


def _strategy(kind: str, spec: Any) -> Mapping[str, Any]:
    field = "updateStrategy" if kind in ("StatefulSet", "DaemonSet") else "strategy"
    strategy = spec.get(field) if isinstance(spec, Mapping) else None
    return strategy if isinstance(strategy, Mapping) else {}


def _beside_the_template(workload: Workload) -> Way:
    """The pods' templates are as they were: a profile, a pool or a quota changes what they ask for."""
    before, after = workload.before, workload.after
    if before is None or after is None or before.seen is None or after.seen is None or before.seen == after.seen:
        return Way(How.NOTHING, "no change")
    was, now = facets(before.seen), facets(after.seen)
    changed = [name for name in now if was[name] != now[name]]
    if not changed:
        return Way(How.NOTHING, "no change")
    name = before.seen.profile.name if before.seen.profile else ""
    fixed = before.seen.whole_card or before.seen.isolation in (Isolation.HARD, Isolation.PARTITIONED)
    from_profile = Source.PROFILE in {
        (after.sources or {}).get(f"{what}-{side}")
        for what in ("tflops", "compute-percent", "vram")
        for side in ("request", "limit")
    }
    if any(one in AMOUNTS for one in changed) and from_profile and not fixed:
        rest = [one for one in changed if one not in AMOUNTS]
        later = f"; {', '.join(rest)}: new pods only" if rest else ""
        return Way(How.IN_PLACE, f"applied in place to running pods (profile {name}){later}")
    why = f"profile {name}" if name else "defaults of the pool or quota"
    return Way(How.NEW_PODS, f"new pods only ({why}): running pods stay as they are")
