"""What a namespace's GPUResourceQuota forbids one pod, whatever else runs there (SPEC §4).

Here a worker is held against `single`, and against `total` as if it were alone; the scheduler's ledger adds up the rest.
A percentage, or a whole card, has no TFLOPS until a card is chosen: it is counted here on the smallest card that the model
allows, so that only what is certain is refused, and counted exactly by the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from tensorfusion_iac.api.catalogue import find
from tensorfusion_iac.api.levels import QOS_ORDER
from tensorfusion_iac.api.problem import Problem
from tensorfusion_iac.api.quantity import format_bytes, format_decimal, round_up
from tensorfusion_iac.api.resources.quota import GPUResourceQuota, QuotaAmounts, QuotaSingle, QuotaTotal
from tensorfusion_iac.api.worker import Compute, Unit, WorkerSpec

_WHOLE = Compute(Unit.PERCENT, Decimal(100))
_USABLE = Decimal("0.9")
"""Share of a card's nominal memory that is usable at least; the driver reserves the rest."""


def quota_problems(worker: WorkerSpec, quota: GPUResourceQuota) -> Iterator[Problem]:
    """Everything of `worker` that `quota` forbids."""
    single, total = quota.spec.single or QuotaSingle(), quota.spec.total or QuotaTotal()
    name = f"GPUResourceQuota {quota.metadata.name or '(unnamed)'}"
    request, limit = worker.compute_request, worker.compute_limit or _WHOLE
    request_vram, limit_vram = worker.vram_request_bytes, worker.vram_limit_bytes
    if worker.whole_card:
        request = limit = _WHOLE
        request_vram = limit_vram = _card_vram(worker.gpu_model)
    for side, compute, vram, each, sums in (
        ("request", request, request_vram, single.max_requests, total.requests),
        ("limit", limit, limit_vram, single.max_limits, total.limits),
    ):
        if each is not None:
            yield from _above(each, side, compute, vram, 1, worker, f"{name} single.max{side.capitalize()}s")
        if sums is not None:
            yield from _above(sums, side, compute, vram, worker.gpu_count, worker, f"{name} total.{side}s")
    if single.max_gpu_count is not None and worker.gpu_count > single.max_gpu_count:
        yield _over("gpu-count", str(worker.gpu_count), str(single.max_gpu_count), f"{name} single.maxGPUCount")
    if single.max_qos is not None and QOS_ORDER.index(worker.qos) > QOS_ORDER.index(single.max_qos):
        yield _over("qos", worker.qos.value, single.max_qos.value, f"{name} single.maxQoS")
    if single.isolation_modes is not None and worker.isolation not in single.isolation_modes:
        allowed = ", ".join(single.isolation_modes) or "no mode"
        yield _not_allowed("isolation", worker.isolation.value, allowed, f"{name} single.isolationModes")
    if single.disable_features is not None:
        for feature in worker.disable_features:
            if feature not in single.disable_features:
                allowed = ", ".join(single.disable_features) or "none"
                yield _not_allowed("disable-features", feature.value, allowed, f"{name} single.disableFeatures")
    if total.max_workers == 0:
        yield _over("workload", "1 worker", "0", f"{name} total.maxWorkers")


def _above(
    ceiling: QuotaAmounts,
    side: str,
    compute: Compute | None,
    vram: int | None,
    gpus: int,
    worker: WorkerSpec,
    where: str,
) -> Iterator[Problem]:
    times = f" x {gpus} GPUs" if gpus > 1 else ""
    if ceiling.vram is not None and vram is not None and vram * gpus > ceiling.vram:
        yield _over(f"vram-{side}", format_bytes(vram) + times, format_bytes(round_up(ceiling.vram)), where + ".vram")
    if compute is None:
        return
    percent = compute.unit is Unit.PERCENT
    key = f"{'compute-percent' if percent else 'tflops'}-{side}"
    shown = format_decimal(compute.value) + ("%" if percent else "") + times
    if ceiling.compute is not None and percent and compute.value * gpus > ceiling.compute:
        yield _over(key, shown, format_decimal(ceiling.compute) + "%", where + ".compute")
    tflops = _least_tflops(compute, worker.gpu_model)
    if ceiling.tflops is not None and tflops is not None and tflops * gpus > ceiling.tflops:
        yield _over(key, shown, f"{format_decimal(ceiling.tflops)} TFLOPS", where + ".tflops")


def _least_tflops(compute: Compute, model: str | None) -> Decimal | None:
    if compute.unit is Unit.TFLOPS:
        return compute.value
    cards = find(model) if model else ()
    return compute.tflops_on(min(Decimal(str(card.fp16_tflops)) for card in cards)) if cards else None


def _card_vram(model: str | None) -> int | None:
    cards = find(model) if model else ()
    return int(min(card.nominal_vram_bytes for card in cards) * _USABLE) if cards else None


def _over(field: str, found: str, accepted: str, where: str) -> Problem:
    return Problem(field, found, f"at most {accepted}", f"{{found}} is above {accepted} ({where}); give {{accepted}}")


def _not_allowed(field: str, found: str, allowed: str, where: str) -> Problem:
    return Problem(field, found, allowed, f"{{found}} is not allowed here ({where}); allowed: {{accepted}}")
