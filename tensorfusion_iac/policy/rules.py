"""The rules: each a name, a sentence, its settings as JSON schema, and a function from what is declared to what is wrong.

Pure. `ObjectRule` needs one object only, so the engine asks it before anything is created. `WorkloadRule` needs the whole stack
(profiles, pools, what was deployed), so it is asked at the end of a preview. A rule whose setting is not given says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

from tensorfusion_iac.api import Isolation, QoS, annotation_naming, format_bytes, format_decimal, parse_quantity
from tensorfusion_iac.api.counted import Amount, counted
from tensorfusion_iac.api.names import GROUP, key
from tensorfusion_iac.planning.cards import cards_named
from tensorfusion_iac.planning.cost import HOURS_PER_MONTH, prices
from tensorfusion_iac.policy.declared import Declared, Stack, Workload, containers, workload_of

Settings = Mapping[str, Any]
Schema = Mapping[str, Mapping[str, Any]]

OUR_COMPONENTS = ("tensorfusion:index:ControlPlane", "tensorfusion:index:CustomResourceDefinitions")
VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class ObjectRule:
    """Judges one Kubernetes object of the program."""

    name: str
    description: str
    judge: Callable[[Declared, Settings], Iterator[str]]
    settings: Schema = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkloadRule:
    """Judges one vGPU workload, knowing its stack; `compares` if it also asks what was deployed before, which takes a while."""

    name: str
    description: str
    judge: Callable[[Workload, Stack, Settings], Iterator[str]]
    settings: Schema = field(default_factory=dict)
    compares: bool = False


def _no_visible_devices(item: Declared, settings: Settings) -> Iterator[str]:
    for container in containers(item.pod or {}):
        env = container.get("env")
        for variable in env if isinstance(env, list) else ():
            if isinstance(variable, Mapping) and variable.get("name") == VISIBLE_DEVICES:
                name = container.get("name")
                yield f"container {name} sets {VISIBLE_DEVICES} by hand, and so may see cards that are not its own; leave it out"


def _valid(item: Declared, settings: Settings) -> Iterator[str]:
    found = workload_of(item, {}, {})
    for problem in found.resolution.problems if found is not None else ():
        yield problem.text(annotation_naming)


def _retained_crds(item: Declared, settings: Settings) -> Iterator[str]:
    if item.kind != "CustomResourceDefinition" or not item.name.endswith(f".{GROUP}"):
        return
    if not item.protected and not set(item.parents) & set(OUR_COMPONENTS):
        yield (
            "destroying it would delete every object of its kind; declare it by CustomResourceDefinitions or ControlPlane, "
            "which retain it, or give it protect=True"
        )


OBJECT_RULES = (
    ObjectRule(
        "no-visible-devices",
        f"{VISIBLE_DEVICES} is not set by hand: it decides which cards a container sees.",
        _no_visible_devices,
    ),
    ObjectRule("valid-workloads", "Annotations of vGPU workloads are right, whoever wrote them.", _valid),
    ObjectRule("retained-crds", "CRDs of TensorFusion outlive the stack: with them go all pools and workloads.", _retained_crds),
)


def _amounts_given(workload: Workload, stack: Stack, settings: Settings) -> Iterator[str]:
    worker = workload.resolution.worker
    if worker is None or worker.whole_card or worker.partition_template is not None:
        return
    has = {
        "compute-request": worker.compute_request, "compute-limit": worker.compute_limit,
        "vram-request": worker.vram_request_bytes, "vram-limit": worker.vram_limit_bytes,
    }  # fmt: skip
    missing = [name for name in settings["amounts"] if not has.get(name)]
    if missing:
        yield f"has no {', '.join(missing)}; give {'it' if len(missing) == 1 else 'them'} in the workload or in its profile"


def _total(workload: Workload, amount: Amount | None, most: Decimal, show: Callable[[Decimal], str], what: str) -> Iterator[str]:
    worker = workload.resolution.worker
    if worker is None or amount is None or amount.least is None:
        return
    gpus, replicas = worker.gpu_count, workload.workers
    total = amount.least * gpus * replicas
    if total > most:
        yield f"asks for {show(total)} {what} ({amount.text} x {gpus} GPU x {replicas} workers), above {show(most)}"


def _max_tflops(workload: Workload, stack: Stack, settings: Settings) -> Iterator[str]:
    worker = workload.resolution.worker
    if worker is not None and (most := settings["max"]) is not None:
        yield from _total(workload, counted(worker, "request").tflops, Decimal(str(most)), _number, "TFLOPS")


def _max_vram(workload: Workload, stack: Stack, settings: Settings) -> Iterator[str]:
    worker = workload.resolution.worker
    if worker is not None and (most := settings["max"]) is not None:
        yield from _total(workload, counted(worker, "request").vram, parse_quantity(most), _size, "VRAM")


def _max_gpus(workload: Workload, stack: Stack, settings: Settings) -> Iterator[str]:
    worker = workload.resolution.worker
    if worker is None or (most := settings["max"]) is None:
        return
    total = worker.gpu_count * workload.workers
    if total > most:
        yield f"uses {total} vGPUs ({worker.gpu_count} x {workload.workers} workers), above {most:g}"


def _max_cost(workload: Workload, stack: Stack, settings: Settings) -> Iterator[str]:
    worker = workload.resolution.worker
    if worker is None or (most := settings["max_usd"]) is None:
        return
    found = prices(worker, stack.pools.get(worker.pool or ""), cards_named(worker.gpu_model))
    if not found:
        return
    month = found[0].usd_per_hour * HOURS_PER_MONTH * workload.workers
    if month > Decimal(str(most)):
        yield f"costs {month:.0f} USD a month ({found[0].source}), above {most:g}"


def _max_burst(workload: Workload, stack: Stack, settings: Settings) -> Iterator[str]:
    worker = workload.resolution.worker
    if worker is None or (most := settings["max_ratio"]) is None or worker.whole_card:
        return
    request, limit = counted(worker, "request"), counted(worker, "limit")
    for what, low, high in (("compute", request.tflops, limit.tflops), ("VRAM", request.vram, limit.vram)):
        if low is None or high is None or not low.least or high.least is None:
            continue
        if high.least / low.least > Decimal(str(most)):
            ratio = _number(high.least / low.least)
            yield f"its {what} limit ({high.text}) is {ratio} x its request ({low.text}), above {most:g} x"


def _critical_only_in(workload: Workload, stack: Stack, settings: Settings) -> Iterator[str]:
    worker, namespace = workload.resolution.worker, workload.declared.namespace
    if worker is None or (allowed := settings["namespaces"]) is None or worker.qos is not QoS.CRITICAL:
        return
    if not _matches(namespace, allowed):
        yield f"is of QoS critical, which namespace {namespace} may not use; only {', '.join(allowed) or 'none'} may"


def _no_shared(workload: Workload, stack: Stack, settings: Settings) -> Iterator[str]:
    worker, namespace = workload.resolution.worker, workload.declared.namespace
    if worker is not None and worker.isolation is Isolation.SHARED and _matches(namespace, settings["production"]):
        yield f"has isolation shared in production ({namespace}), so that nothing holds it to its amounts; use soft or hard"


def _dedicated_owner(workload: Workload, stack: Stack, settings: Settings) -> Iterator[str]:
    worker = workload.resolution.worker
    if worker is None or not worker.dedicated:
        return
    if not any(workload.labels.get(label) for label in settings["labels"]):
        yield f"takes whole cards and says nobody who answers for them; give it a label {' or '.join(settings['labels'])}"


def _profile_exists(workload: Workload, stack: Stack, settings: Settings) -> Iterator[str]:
    place = (workload.declared.namespace, workload.profile or "")
    if workload.profile is None or place in stack.profiles or _matches("/".join(place), settings["elsewhere"]):
        return
    yield f"names the profile {'/'.join(place)}, which this stack does not declare; declare it, or list it in `elsewhere`"


def _grey_images(workload: Workload, stack: Stack, settings: Settings) -> Iterator[str]:
    item, worker = workload.declared, workload.resolution.worker
    before = (stack.deployed_images or {}).get(item.urn)
    if worker is None or before is None or item.kind != "Deployment" or not _matches(item.namespace, settings["production"]):
        return
    changed = [f"{old} -> {new}" for old, new in zip(before, workload.images, strict=False) if old != new]
    grey = worker.enabled_replicas is not None and worker.enabled_replicas < item.replicas
    if changed and item.replicas > 1 and not grey:
        yield (
            f"changes its image in production ({', '.join(changed)}) on all {item.replicas} replicas at once; "
            f"begin with {key('enabled-replicas')} below {item.replicas}"
        )


_PLACES = 20
"""Digits before the point that leave room for one behind it in a Decimal of the usual precision."""
_NUMBER: Mapping[str, Any] = {"type": "number", "minimum": 0}
_PATTERNS: Mapping[str, Any] = {"type": "array", "items": {"type": "string", "minLength": 1}}
_PRODUCTION: Schema = {
    "production": {**_PATTERNS, "default": ["prod", "production", "prod-*", "*-prod", "*-production"]},
}
_AMOUNTS = ["compute-request", "compute-limit", "vram-request", "vram-limit"]

WORKLOAD_RULES = (
    WorkloadRule(
        "amounts-given", "A fraction has requests and limits, of its own or from its profile.", _amounts_given,
        {"amounts": {"type": "array", "items": {"type": "string", "enum": _AMOUNTS}, "default": _AMOUNTS}},
    ),
    WorkloadRule("max-tflops", "A workload's workers together request at most `max` TFLOPS.", _max_tflops, {"max": _NUMBER}),
    WorkloadRule(
        "max-vram", "A workload's workers together request at most `max` VRAM (`200Gi`).", _max_vram,
        {"max": {"type": "string", "pattern": "^[0-9]+([.][0-9]+)?([KMGTPE]i|[kMGTPE])?$"}},
    ),
    WorkloadRule("max-gpus", "A workload's workers together use at most `max` vGPUs.", _max_gpus, {"max": _NUMBER}),
    WorkloadRule(
        "max-cost-per-month", "A workload costs at most `max_usd` US dollars a month, by its pool's or the catalogue's prices.",
        _max_cost, {"max_usd": _NUMBER},
    ),
    WorkloadRule(
        "max-burst", "A limit is at most `max_ratio` times its request: what is above it is promised to nobody.", _max_burst,
        {"max_ratio": {"type": "number", "minimum": 1}},
    ),
    WorkloadRule(
        "critical-only-in", "QoS critical, which preempts all others, is used in the namespaces listed only.", _critical_only_in,
        {"namespaces": _PATTERNS},
    ),
    WorkloadRule("no-shared-in-production", "Isolation shared holds nobody to anything.", _no_shared, _PRODUCTION),
    WorkloadRule(
        "dedicated-has-owner", "Whoever takes whole cards is named by a label.", _dedicated_owner,
        {"labels": {**_PATTERNS, "minItems": 1, "default": ["owner"]}},
    ),
    WorkloadRule(
        "profile-exists", "The profile that a workload names is in its stack, or listed in `elsewhere` (namespace/name).",
        _profile_exists, {"elsewhere": {**_PATTERNS, "default": []}},
    ),
    WorkloadRule(
        "grey-image-changes", "A new image reaches production with a grey release first.", _grey_images, _PRODUCTION,
        compares=True,
    ),
)  # fmt: skip


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _number(value: Decimal) -> str:
    """To one place; of so many that no place is left, as they are."""
    return format_decimal(value if value.adjusted() > _PLACES else round(value, 1))


def _size(value: Decimal) -> str:
    return format_bytes(int(value))
