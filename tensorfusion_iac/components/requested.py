"""What a workload asks for in all: demand x GPUs x replicas, percent stays percent (API.md, `requested`)."""

from __future__ import annotations

from decimal import Decimal
from typing import NotRequired, TypedDict

from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.api.worker import Compute, Unit, WorkerSpec


class Requested(TypedDict):
    """What all workers of a workload ask for together. Amounts are sums over all their GPUs, as text; a percentage is of one
    card and stays so. A member that is missing is not asked for, or known only to the cluster (a profile not declared here).
    """

    workers: int
    gpus_per_worker: int
    gpus: int
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


def requested(worker: WorkerSpec | None, pods: int | None) -> Requested:
    """Sum up one worker over all workers: `pods` of them (None: one, as Kubernetes takes it), at most `enabled-replicas`.

    No worker (a plain workload) asks for nothing.
    """
    if worker is None:
        return {"workers": 0, "gpus_per_worker": 0, "gpus": 0}
    workers = 1 if pods is None else pods
    if worker.enabled_replicas is not None:
        workers = min(workers, worker.enabled_replicas)
    gpus = workers * worker.gpu_count
    if not gpus:
        return {"workers": workers, "gpus_per_worker": worker.gpu_count, "gpus": 0}
    total: Requested = {"workers": workers, "gpus_per_worker": worker.gpu_count, "gpus": gpus, "qos": worker.qos.value}
    _add_compute(total, "request", worker.compute_request, gpus)
    _add_compute(total, "limit", worker.compute_limit, gpus)
    if worker.vram_request_bytes is not None:
        total["vram_request"] = format_bytes(worker.vram_request_bytes * gpus)
    if worker.vram_limit_bytes is not None:
        total["vram_limit"] = format_bytes(worker.vram_limit_bytes * gpus)
    if worker.dedicated:
        total["dedicated_gpu"] = True
    if worker.gpu_model is not None:
        total["gpu_model"] = worker.gpu_model
    if worker.pool is not None:
        total["gpupool"] = worker.pool
    return total


def _add_compute(total: Requested, side: str, amount: Compute | None, gpus: int) -> None:
    if amount is None:
        return
    if amount.unit is Unit.PERCENT:
        text = format_decimal(amount.value)
        total.update({"compute_percent_request": text} if side == "request" else {"compute_percent_limit": text})
        return
    text = format_decimal(amount.value * Decimal(gpus))
    total.update({"tflops_request": text} if side == "request" else {"tflops_limit": text})
