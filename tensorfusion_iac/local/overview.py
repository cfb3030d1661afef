"""What runs in a cluster, as rows for people: pools, profiles, Deployments with their annotations, pods with their nodes.

Reading is one list per kind; putting the rows together is pure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorfusion_iac.api.effective import from_text
from tensorfusion_iac.api.names import DEFAULT_POOL_ANNOTATION, ENABLED_LABEL, PREFIX, key
from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.api.worker import from_json
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import DEPLOYMENTS, GPUS, PODS, Resource

_API = {"group": "tensor-fusion.ai", "version": "v1"}
POOLS = Resource(**_API, plural="gpupools", kind="GPUPool")
PROFILES = Resource(**_API, plural="workloadprofiles", kind="WorkloadProfile")
WORKLOADS = Resource(**_API, plural="tensorfusionworkloads", kind="TensorFusionWorkload")
QUOTAS = Resource(**_API, plural="gpuresourcequotas", kind="GPUResourceQuota")

Manifest = Mapping[str, Any]
_POOL_COLUMNS = ("pool", "default", "local GPUs", "phase", "nodes ready", "free TFLOPS", "free VRAM")
_WORKLOAD_COLUMNS = ("namespace", "workload", "phase", "ready", "limits by autoscaling")
_QUOTA_COLUMNS = ("namespace", "quota", "TFLOPS", "VRAM", "workers")
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def read(kubeconfig: Path) -> list[Table]:
    """The tables of the cluster behind `kubeconfig`. Raises KubeError."""
    return asyncio.run(_read(kubeconfig))


def read_when_running(kubeconfig: Path, timeout_s: float = 30.0) -> list[Table]:
    """As `read`, once every pod of ours runs and the controller has told of it, or the time is over. Raises KubeError."""
    asyncio.run(_wait(kubeconfig, timeout_s))
    return read(kubeconfig)


async def _wait(kubeconfig: Path, timeout_s: float) -> None:
    async with await Client.from_kubeconfig(kubeconfig) as client:
        for _ in range(int(timeout_s / _POLL_S)):
            pods, workloads, pools = [await _items(client, kind) for kind in (PODS, WORKLOADS, POOLS)]
            if is_told([pod for pod in pods if _is_ours(pod)], workloads, pools):
                return
            await asyncio.sleep(_POLL_S)


def is_told(pods: Sequence[Manifest], workloads: Sequence[Manifest], pools: Sequence[Manifest]) -> bool:
    """Whether our pods run, the controller has said so of their workloads and of the pools, and amounts have followed use."""
    phases = [_at(pod, "status").get("phase") for pod in pods]
    running = sum(phase == "Running" for phase in phases)
    ready = sum(int(_at(item, "status").get("readyWorkers") or 0) for item in workloads)
    counted = sum(int(_at(item, "status").get("runningAppsCnt") or 0) for item in pools)
    shown = sum(bool(_at(item, "status").get("readyWorkers")) for item in workloads)
    learned = all(_at(item, "status", "recommendation").get("applied") for item in workloads if _follows_use(item))
    return (
        bool(phases) and set(phases) <= {"Running", "Succeeded", "Failed"} and ready >= running and counted >= shown and learned
    )


async def _read(kubeconfig: Path) -> list[Table]:
    async with await Client.from_kubeconfig(kubeconfig) as client:
        pools, profiles, workloads, quotas, deployments, pods, gpus = [
            await _items(client, kind) for kind in (POOLS, PROFILES, WORKLOADS, QUOTAS, DEPLOYMENTS, PODS, GPUS)
        ]
    return tables(pools, profiles, workloads, quotas, deployments, pods, gpus)


async def _items(client: Client, resource: Resource) -> Sequence[Manifest]:
    try:
        return (await client.list(resource)).items
    except ApiError as error:
        if error.not_found:  # the CRD is not installed (yet)
            return []
        raise


def tables(
    pools: Sequence[Manifest],
    profiles: Sequence[Manifest],
    workloads: Sequence[Manifest],
    quotas: Sequence[Manifest],
    deployments: Sequence[Manifest],
    pods: Sequence[Manifest],
    gpus: Sequence[Manifest],
) -> list[Table]:
    """The tables, from the API's objects. Deployments and pods that are not ours are left out."""
    ours = [item for item in deployments if _labels(_at(item, "spec", "template")).get(ENABLED_LABEL) == "true"]
    indices = {str(_at(gpu, "status").get("uuid")): str(_at(gpu, "status").get("index")) for gpu in gpus}
    return [
        Table("Pools", _POOL_COLUMNS, tuple(_pool(item) for item in pools)),
        Table("Cards", ("model", "cards", "nodes"), _cards(gpus)),
        Table("Profiles", ("namespace", "profile", "requests", "limits", "qos"), tuple(_profile(item) for item in profiles)),
        *([Table("Workloads", _WORKLOAD_COLUMNS, tuple(_workload(item) for item in workloads))] if workloads else []),
        *([Table("Quotas", _QUOTA_COLUMNS, tuple(_quota(item) for item in quotas))] if quotas else []),
        Table("Deployments", ("namespace", "deployment", "ready", "annotations"), tuple(_deployment(item) for item in ours)),
        Table(
            "Pods",
            ("namespace", "pod", "phase", "node", "GPUs", "resolved by the webhook", "limits in force"),
            tuple(_pod(item, indices) for item in pods if _is_ours(item)),
        ),
    ]


def _workload(item: Manifest) -> tuple[str, ...]:
    status = _at(item, "status")
    ready = f"{status['readyWorkers']}/{status.get('workerCount', 0)}" if "readyWorkers" in status else ""
    return (_meta(item, "namespace"), _meta(item, "name"), str(status.get("phase", "")), ready, _recommended(item))


def _follows_use(item: Manifest) -> bool:
    return bool(_at(item, "spec", "autoScalingConfig", "autoSetResources").get("enable"))


def _recommended(item: Manifest) -> str:
    """What autoscaling asks for of each pod; empty where it is off."""
    found = _at(item, "status", "recommendation")
    limits, reason = _at(found, "resources", "limits"), str(found.get("reason", ""))
    amounts = _amounts(limits.get("tflops"), limits.get("vram"))
    return f"{amounts}, {reason}" if amounts else reason


def _amounts(tflops: object, vram: object) -> str:
    return ", ".join(text for text in (f"{tflops} TFLOPS" if tflops else "", str(vram or "")) if text)


def _quota(item: Manifest) -> tuple[str, ...]:
    used, total = _at(item, "status", "used", "requests"), _at(item, "spec", "total", "requests")
    shown = (f"{used.get(what, '?')} of {total.get(what, 'any')}" for what in ("tflops", "vram"))
    workers, most = _at(item, "status", "used").get("workers", "?"), _at(item, "spec", "total").get("maxWorkers", "any")
    return (_meta(item, "namespace"), _meta(item, "name"), *shown, f"{workers} of {most}")


def _pool(item: Manifest) -> tuple[str, ...]:
    local = _at(item, "spec").get("defaultUsingLocalGPU", False)
    default = _at(item, "metadata", "annotations").get(DEFAULT_POOL_ANNOTATION) == "true"
    status = _at(item, "status")
    nodes = f"{status['readyNodes']}/{status.get('totalNodes', 0)}" if "readyNodes" in status else ""
    compute, memory = (_free(status, what) for what in ("TFlops", "VRAM"))
    yes = {True: "yes", False: "no"}
    return (_meta(item, "name"), yes[default], yes[bool(local)], str(status.get("phase", "")), nodes, compute, memory)


def _free(status: Manifest, what: str) -> str:
    """`available of total`; empty where no controller has told."""
    available, total = status.get(f"available{what}"), status.get(f"total{what}")
    return "" if available is None else f"{available} of {total}"


def _cards(gpus: Sequence[Manifest]) -> tuple[tuple[str, ...], ...]:
    models: dict[str, list[str]] = {}
    for gpu in gpus:
        status = _at(gpu, "status")
        models.setdefault(str(status.get("model", "?")), []).append(str(status.get("nodeName", "?")))
    return tuple((model, str(len(nodes)), ", ".join(sorted(set(nodes)))) for model, nodes in sorted(models.items()))


def _profile(item: Manifest) -> tuple[str, ...]:
    resources = _at(item, "spec", "resources")
    sides = (" ".join(f"{what} {value}" for what, value in _at(resources, side).items()) for side in ("requests", "limits"))
    return (_meta(item, "namespace"), _meta(item, "name"), *sides, str(_at(item, "spec").get("qos", "")))


def _deployment(item: Manifest) -> tuple[str, ...]:
    annotations = _at(item, "spec", "template", "metadata", "annotations")
    ours = "\n".join(f"{name[len(PREFIX) :]}: {value}" for name, value in sorted(annotations.items()) if name.startswith(PREFIX))
    ready = f"{_at(item, 'status').get('readyReplicas', 0)}/{_at(item, 'spec').get('replicas', 1)}"
    return (_meta(item, "namespace"), _meta(item, "name"), ready, ours)


def _pod(item: Manifest, indices: Mapping[str, str]) -> tuple[str, ...]:
    node = _at(item, "spec").get("nodeName", "")
    phase = str(_at(item, "status").get("phase", ""))
    placed = str(_at(item, "metadata", "annotations").get(key("gpu-ids"), ""))
    gpus = ", ".join(sorted(indices.get(uuid, "?") for uuid in placed.split(",") if uuid))
    return (_meta(item, "namespace"), _meta(item, "name"), phase, str(node), gpus, _resolved(item), _in_force(item))


def _resolved(pod: Manifest) -> str:
    """A worker in a few words; empty if no webhook has seen the pod."""
    try:
        worker = from_json(str(_at(pod, "metadata", "annotations").get(key("resolved"), "")))
    except ValueError:
        return ""
    asked = "whole" if worker.whole_card else format_bytes(worker.vram_request_bytes or 0)
    return f"{worker.gpu_count} x {worker.gpu_model or 'any'} ({asked}), {worker.isolation}, {worker.qos}"


def _in_force(pod: Manifest) -> str:
    """The limits that a pod is held to on each of its cards; empty before it is bound."""
    try:
        cards = from_text(str(_at(pod, "metadata", "annotations").get(key("effective"), ""))).cards
    except ValueError:
        return ""
    limits = sorted({_amounts(format_decimal(card.limits.tflops), format_bytes(card.limits.vram_bytes)) for card in cards})
    return "; ".join(limits)


def _is_ours(pod: Manifest) -> bool:
    return _labels(pod).get(ENABLED_LABEL) == "true"


def _labels(item: Manifest) -> Manifest:
    return _at(item, "metadata", "labels")


def _meta(item: Manifest, member: str) -> str:
    return str(_at(item, "metadata").get(member, ""))


def _at(item: Manifest, *path: str) -> Manifest:
    for member in path:
        value = item.get(member)
        item = value if isinstance(value, Mapping) else {}
    return item
