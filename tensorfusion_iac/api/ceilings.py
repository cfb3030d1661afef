"""What a namespace's GPUResourceQuota forbids one pod, whatever else runs there (SPEC §4).

Here a worker is held against `single`, and against `total` as if it were alone; the scheduler's ledger adds up the rest. What
depends on the card is counted as the least that it can be (`counted.py`), so that only what is certain is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from tensorfusion_iac.api.counted import Amount, Side, counted
from tensorfusion_iac.api.levels import QOS_ORDER
from tensorfusion_iac.api.problem import Problem, literal
from tensorfusion_iac.api.quantity import format_bytes, format_decimal, round_up
from tensorfusion_iac.api.resources.quota import GPUResourceQuota, QuotaAmounts, QuotaSingle, QuotaTotal
from tensorfusion_iac.api.worker import WorkerSpec


def quota_problems(worker: WorkerSpec, quota: GPUResourceQuota) -> Iterator[Problem]:
    """Everything of `worker` that `quota` forbids, by short annotation key."""
    single, total = quota.spec.single or QuotaSingle(), quota.spec.total or QuotaTotal()
    name = literal(f"GPUResourceQuota {quota.metadata.name or '(unnamed)'}")
    sides: tuple[tuple[Side, QuotaAmounts | None, QuotaAmounts | None, str], ...] = (
        ("request", single.max_requests, total.requests, "Requests"),
        ("limit", single.max_limits, total.limits, "Limits"),
    )
    for side, each, together, word in sides:
        if each is not None:
            yield from _above(worker, side, each, 1, f"{name} single.max{word}")
        if together is not None:
            yield from _above(worker, side, together, worker.gpu_count, f"{name} total.{word.lower()}")
    if single.max_gpu_count is not None and worker.gpu_count > single.max_gpu_count:
        needs = ("container-gpu-count", "gpu-indices")
        yield _over("gpu-count", str(worker.gpu_count), str(single.max_gpu_count), f"{name} single.maxGPUCount", needs)
    if total.max_workers == 0:
        yield _over("workload", "1 worker", "0", f"{name} total.maxWorkers", ())
    yield from _not_allowed(worker, single, name)


def _above(worker: WorkerSpec, side: Side, ceiling: QuotaAmounts, gpus: int, where: str) -> Iterator[Problem]:
    amounts = counted(worker, side)
    for member, most, amount, show in (
        ("tflops", ceiling.tflops, amounts.tflops, _show_tflops),
        ("vram", ceiling.vram, amounts.vram, _show_bytes),
        ("compute", ceiling.compute, amounts.compute, _show_percent),
    ):
        if most is not None and amount is not None and amount.above(most, gpus):
            found = amount.text if gpus == 1 else f"{amount.text} x {gpus} GPUs"
            yield _over(amount.field, found, show(most), f"{where}.{member}", _rests_on(amount, gpus))


def _show_tflops(most: Decimal) -> str:
    return f"{format_decimal(most)} TFLOPS"


def _show_bytes(most: Decimal) -> str:
    return format_bytes(round_up(most))


def _show_percent(most: Decimal) -> str:
    return f"{format_decimal(most)}%"


def _rests_on(amount: Amount, gpus: int) -> tuple[str, ...]:
    """What the finding rests on; the count too, unless it is the least that there is."""
    return amount.rests_on if gpus == 1 else (*amount.rests_on, "gpu-count", "container-gpu-count")


def _not_allowed(worker: WorkerSpec, single: QuotaSingle, name: str) -> Iterator[Problem]:
    message = "{found} is not allowed here (%s); allowed: {accepted}"
    if single.max_qos is not None and QOS_ORDER.index(worker.qos) > QOS_ORDER.index(single.max_qos):
        yield _over("qos", worker.qos.value, single.max_qos.value, f"{name} single.maxQoS", ())
    modes = single.isolation_modes
    if modes is not None and worker.isolation not in modes:
        accepted = ", ".join(modes) or "none"
        yield Problem("isolation", worker.isolation.value, accepted, message % f"{name} single.isolationModes")
    features = single.disable_features
    refused = [] if features is None else [feature for feature in worker.disable_features if feature not in features]
    if refused:
        accepted = ", ".join(features or ()) or "none"
        yield Problem("disable-features", ", ".join(refused), accepted, message % f"{name} single.disableFeatures")


def _over(field: str, found: str, accepted: str, where: str, needs: tuple[str, ...]) -> Problem:
    return Problem(field, found, f"at most {accepted}", f"{{found}} is above {accepted} ({where}); give {{accepted}}", needs)
