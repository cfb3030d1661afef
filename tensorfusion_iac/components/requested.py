"""What a workload asks for in all: demand x GPUs x replicas, percent stays percent (API.md, `requested`)."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.api.worker import Compute, Source, Unit, WorkerSpec
from tensorfusion_iac.components.judge import Verdict


class Requested(TypedDict):
    """What all workers of a workload ask for together, as far as the program says it.

    Amounts are sums over all GPUs, as text; a percentage is of one card and stays so. A member that is missing is not asked
    for, or only the cluster knows: then `workload_profile` names the profile that was not declared here. Defaults that a
    namespace's quota may give are not counted.
    """

    workers: int
    gpus_per_worker: NotRequired[int]
    gpus: NotRequired[int]
    tflops_request: NotRequired[str]
    tflops_limit: NotRequired[str]
    compute_percent_request: NotRequired[str]
    compute_percent_limit: NotRequired[str]
    vram_request: NotRequired[str]
    vram_limit: NotRequired[str]
    dedicated_gpu: NotRequired[bool]
    qos: NotRequired[str]
    gpu_model: NotRequired[str]
    gpupool: NotRequired[str]
    workload_profile: NotRequired[str]


def requested(verdict: Verdict, pods: int | None) -> Requested:
    """Sum up one worker over all workers: `pods` of them (None: one, as Kubernetes takes it), at most `enabled-replicas`.

    No worker (a plain workload) asks for nothing.
    """
    worker = verdict.worker
    if worker is None:
        return {"workers": 0, "gpus": 0}
    workers = 1 if pods is None else pods
    if worker.enabled_replicas is not None:
        workers = min(workers, worker.enabled_replicas)
    total: Requested = {"workers": workers}
    if verdict.unread_profile is not None:
        total["workload_profile"] = verdict.unread_profile
    if verdict.sources.get("qos") is not Source.DEFAULT:
        total["qos"] = worker.qos.value
    if worker.dedicated:
        total["dedicated_gpu"] = True
    if worker.gpu_model is not None:
        total["gpu_model"] = worker.gpu_model
    if worker.pool is not None:
        total["gpupool"] = worker.pool
    if worker.container_gpus is not None or _settled(verdict, "gpu-count"):
        total["gpus_per_worker"] = worker.gpu_count
        total["gpus"] = workers * worker.gpu_count
        _add_amounts(total, verdict, worker, workers * worker.gpu_count)
    return total


def _settled(verdict: Verdict, *keys: str) -> bool:
    """Whether a value cannot turn out otherwise in the cluster: by a profile that was not read."""
    return verdict.unread_profile is None or any(verdict.sources.get(key) is Source.ANNOTATION for key in keys)


def _add_amounts(total: Requested, verdict: Verdict, worker: WorkerSpec, gpus: int) -> None:
    if gpus == 0:
        return
    for side, compute, vram_bytes in (
        ("request", worker.compute_request, worker.vram_request_bytes),
        ("limit", worker.compute_limit, worker.vram_limit_bytes),
    ):
        if compute is not None and _settled(verdict, f"tflops-{side}", f"compute-percent-{side}"):
            name, text = _compute(compute, gpus)
            total[f"{name}_{side}"] = text  # type: ignore[literal-required]
        if vram_bytes is not None and _settled(verdict, f"vram-{side}"):
            total[f"vram_{side}"] = format_bytes(vram_bytes * gpus)  # type: ignore[literal-required]


def _compute(amount: Compute, gpus: int) -> tuple[str, str]:
    if amount.unit is Unit.PERCENT:
        return "compute_percent", format_decimal(amount.value)
    return "tflops", format_decimal(amount.value * gpus)
