"""Manifests written for other GPU sharers, as the same manifests in our annotations: HAMi, Volcano vGPU, NVIDIA's device plugin.

Pure. What a container asks for by extended resources becomes annotations of its pod; what has no counterpart is said in notes,
and nothing is guessed. Meanings are those of the projects' user guides: amounts are per vGPU, memory in MiB, cores in percent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tensorfusion_iac.api.catalogue import find
from tensorfusion_iac.api.names import ENABLED_LABEL, key
from tensorfusion_iac.api.pod import NATIVE_GPU
from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.quantity import parse_quantity
from tensorfusion_iac.cli.objects import Object
from tensorfusion_iac.cli.pod_templates import template_of
from tensorfusion_iac.cli.source.spec_fields import get
from tensorfusion_iac.cli.yaml_text import plain

_MIB = 2**20
_MIG = re.compile(r"nvidia\.com/mig-([1-9]g\.[1-9][0-9]*gb)(?:\.me)?")
_SHARED = "nvidia.com/gpu.shared"


@dataclass(frozen=True, slots=True)
class _Dialect:
    """One project's resource names, by what they mean."""

    name: str
    count: str
    memory: str
    memory_percent: str
    cores: str
    scheduler: str
    priority: str = ""


_DIALECTS = (
    _Dialect(
        "HAMi", NATIVE_GPU, "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "hami-scheduler",
        "nvidia.com/priority",
    ),
    _Dialect(
        "Volcano vGPU", "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage",
        "volcano.sh/vgpu-cores", "volcano",
    ),
)  # fmt: skip
_MODEL = "nvidia.com/use-gputype"
_DROPPED = {
    "nvidia.com/nouse-gputype": "only models to use can be named (gpu_model), not models to avoid",
    "nvidia.com/use-gpuuuid": "cards cannot be named by UUID; gpu_indices names them by number",
    "nvidia.com/nouse-gpuuuid": "cards cannot be avoided by UUID; take them out of the pool",
    "nvidia.com/vgpu-mode": "the isolation is chosen by `isolation` (soft, hard, partitioned)",
    "hami.io/node-scheduler-policy": "how nodes are filled is the pool's placement mode",
    "hami.io/gpu-scheduler-policy": "how cards are filled is the pool's placement mode",
    "scheduling.k8s.io/group-name": "members of a gang are counted by gang_min_members",
}


@dataclass(slots=True)
class _Asked:
    """What one container asks for, per GPU."""

    container: str
    count: int
    memory_mib: int | None = None
    memory_percent: int | None = None
    cores: int | None = None
    mig: str | None = None
    slices: int = 0
    priority: int | None = None

    def amounts(self) -> tuple[object, ...]:
        """What containers of a pod have in common here."""
        return self.memory_mib, self.memory_percent, self.cores, self.mig


@dataclass(slots=True)
class _Adopted:
    annotations: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def adopt(item: Object, time_slices: int | None = None) -> tuple[Object, list[str]]:
    """The object in our annotations, and what could not be carried over; unchanged if its pods ask in no other dialect.

    Its metadata and its containers' resources must have their shape (`cli.shapes`). `time_slices`: into how many the
    cluster's device plugin cuts a card, if it does.
    """
    template = template_of(item)
    if template is None or get(template.pod, ("metadata", "labels", ENABLED_LABEL)) is not None:
        return item, []
    raw: dict[str, Any] = plain(item.raw)
    pod = get(raw, template.path) if template.path else raw
    if not isinstance(pod, dict) or not isinstance(pod.get("spec"), dict):
        return item, []
    dialect = _dialect(pod, time_slices)
    if dialect is None:
        return item, []
    found = _Adopted()
    asked = [one for container in _containers(pod) if (one := _take(container, dialect)) is not None]
    if not asked:
        return item, []
    _amounts(asked, found, pod, time_slices)
    _scheduling(pod, dialect, found)
    metadata = pod["metadata"] = pod.get("metadata") or {}
    metadata["labels"] = {**(metadata.get("labels") or {}), ENABLED_LABEL: "true"}
    ours = {key(name): value for name, value in found.annotations.items()}
    kept = {name: value for name, value in (metadata.get("annotations") or {}).items() if name not in (_MODEL, *_DROPPED)}
    metadata["annotations"] = {**kept, **ours}
    return replace(item, raw=raw), [f"{item.subject}: {note}" for note in found.notes]


def _dialect(pod: Mapping[str, Any], time_slices: int | None) -> _Dialect | None:
    """The dialect that a pod is written in. Whole native GPUs alone are nobody's, unless they are said to be slices."""
    names = {name for container in _containers(pod) for name in _resources(container)}
    scheduler = (pod.get("spec") or {}).get("schedulerName")
    hami, volcano = _DIALECTS
    if volcano.count in names:
        return volcano
    if names & {hami.memory, hami.memory_percent, hami.cores} or (scheduler == hami.scheduler and NATIVE_GPU in names):
        return hami
    if _SHARED in names or any(_MIG.fullmatch(name) for name in names) or (time_slices and NATIVE_GPU in names):
        return _Dialect("the device plugin", "", "", "", "", "")
    return None


def _take(container: dict[str, Any], dialect: _Dialect) -> _Asked | None:
    """Take a container's GPU resources out of it."""
    given = _resources(container)
    ours = {dialect.count, dialect.memory, dialect.memory_percent, dialect.cores, dialect.priority} - {""}
    slices = 0 if dialect.count else _whole(given, _SHARED) or _whole(given, NATIVE_GPU) or 0
    mig = [(found[1], count) for name in given if (found := _MIG.fullmatch(name)) and (count := _whole(given, name))]
    for side in ("limits", "requests"):
        amounts = (container.get("resources") or {}).get(side)
        if isinstance(amounts, dict):
            for name in list(amounts):
                if name in ours or name == _SHARED or _MIG.fullmatch(name) or (slices and name == NATIVE_GPU):
                    del amounts[name]
            if not amounts:
                del container["resources"][side]
    if container.get("resources") == {}:
        del container["resources"]
    name = str(container.get("name"))
    if mig:
        return _Asked(name, sum(count for _, count in mig), mig=mig[0][0] if len({each for each, _ in mig}) == 1 else "")
    if slices:
        return _Asked(name, 1, slices=slices)
    count = _whole(given, dialect.count) if dialect.count else None
    if count is None and not ours & set(given):
        return None
    names = (dialect.memory, dialect.memory_percent, dialect.cores, dialect.priority)
    memory_mib, memory_percent, cores, priority = (_whole(given, each) for each in names)
    return _Asked(name, count or 1, memory_mib, memory_percent, cores or None, priority=priority)


def _amounts(asked: list[_Asked], found: _Adopted, pod: Mapping[str, Any], time_slices: int | None) -> None:
    annotations, notes = found.annotations, found.notes
    first = max(asked, key=lambda one: (one.memory_mib or 0, one.memory_percent or 0, one.cores or 0))
    if len({one.amounts() for one in asked}) > 1:
        notes.append("its containers ask for different amounts; a worker has one amount per GPU, so all get the largest")
    _model(pod, found)
    priorities = [one.priority for one in asked if one.priority is not None]
    if priorities:
        annotations["qos"] = "high" if min(priorities) == 0 else "low"
    if first.mig is not None:
        annotations["isolation"] = "partitioned"
        if first.mig:
            annotations["partition-template"] = first.mig
        else:
            notes.append("it asks for different MIG profiles; a worker has one, so name it in partition_template")
        if first.count > 1:
            notes.append("the partitions of a worker are on different cards, not side by side on one")
    elif first.slices:
        _time_slices(asked, found, time_slices)
    else:
        _fraction(first, found)
    total = sum(one.count for one in asked)
    others = [str(each.get("name")) for each in _containers(pod) if str(each.get("name")) not in {one.container for one in asked}]
    if len(asked) > 1 and not first.slices:
        annotations["container-gpu-count"] = json.dumps({one.container: one.count for one in asked}, separators=(",", ":"))
    elif total > 1:
        annotations["gpu-count"] = str(total)
    if others and (len(asked) == 1 or first.slices):
        annotations["inject-container"] = ",".join(one.container for one in asked)


def _fraction(asked: _Asked, found: _Adopted) -> None:
    annotations, notes = found.annotations, found.notes
    memory_mib = asked.memory_mib
    if memory_mib is None and asked.memory_percent is not None:
        cards = find(annotations.get("gpu-model", ""))
        if cards:
            memory_mib = min(card.nominal_vram_bytes for card in cards) * asked.memory_percent // 100 // _MIB
            notes.append(f"{asked.memory_percent}% of the memory is written as {memory_mib}Mi of {annotations['gpu-model']}")
        elif asked.memory_percent < 100:
            notes.append(f"{asked.memory_percent}% of a card's memory needs a card to be an amount; give vram_request")
    if memory_mib:
        annotations |= {"vram-request": f"{memory_mib}Mi", "vram-limit": f"{memory_mib}Mi"}
    if asked.cores is not None and asked.cores < 100:
        annotations |= {"compute-percent-request": str(asked.cores), "compute-percent-limit": str(asked.cores)}
    whole_memory = asked.memory_mib is None and asked.memory_percent in (None, 100)
    if whole_memory and asked.cores in (None, 100):
        # A whole card of any model is one that is shared without amounts; dedicated-gpu needs a model.
        annotations |= {"dedicated-gpu": "true"} if "gpu-model" in annotations else {"isolation": "shared"}
    elif whole_memory:
        notes.append("it had all memory of its card; give vram_request, or dedicated_gpu")
    elif asked.cores is None:
        notes.append("it had no part of the compute promised and no limit on it; give compute_percent_request or tflops_request")


def _time_slices(asked: Iterable[_Asked], found: _Adopted, time_slices: int | None) -> None:
    annotations, notes = found.annotations, found.notes
    slices = sum(one.slices for one in asked)
    annotations["isolation"] = "shared"
    if time_slices is None:
        notes.append(
            "a time slice has no amount: say how many a card is cut into (--time-slices); until then it is charged a whole card"
        )
        return
    percent = min(100 * slices / time_slices, 100)
    annotations["compute-percent-request"] = f"{percent:.4g}"
    notes.append("time slices share all memory of the card: nothing is promised and nothing held; give vram_request to have both")
    if slices > 1:
        notes.append(f"{slices} slices are taken for one card's {annotations['compute-percent-request']}%")


def _model(pod: Mapping[str, Any], found: _Adopted) -> None:
    named = get(pod, ("metadata", "annotations", _MODEL))
    if not isinstance(named, str) or not named:
        return
    models = [each.strip() for each in named.split(",") if each.strip()]
    if len(models) == 1 and find(models[0].removeprefix("NVIDIA").strip("- ")):
        found.annotations["gpu-model"] = models[0].removeprefix("NVIDIA").strip("- ")
    else:
        found.notes.append(f"{_MODEL}: {named} is no model or family that gpu_model can name; see `tensorfusion models`")


def _scheduling(pod: dict[str, Any], dialect: _Dialect, found: _Adopted) -> None:
    for name, why in _DROPPED.items():
        if get(pod, ("metadata", "annotations", name)) is not None:
            found.notes.append(f"{name} is left out: {why}")
    if dialect.scheduler and pod["spec"].get("schedulerName") == dialect.scheduler:
        del pod["spec"]["schedulerName"]
        found.notes.append(f"schedulerName: {dialect.scheduler} is left out: admission gives it ours")


def _containers(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = (pod.get("spec") or {}).get("containers") if isinstance(pod.get("spec"), Mapping) else None
    return [each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, dict)]


def _resources(container: Mapping[str, Any]) -> dict[str, Any]:
    """Requests and limits as one; a limit stands for its request."""
    given = container.get("resources")
    sides = [given.get(side) for side in ("requests", "limits")] if isinstance(given, Mapping) else []
    return {name: value for side in sides if isinstance(side, Mapping) for name, value in side.items()}


def _whole(given: Mapping[str, Any], name: str) -> int | None:
    """A whole number of something: `8000`, or as Kubernetes may spell it, `8k`. None if it is not given, or no number."""
    try:
        return int(parse_quantity(str(given[name])))
    except (KeyError, Fault):
        return None
