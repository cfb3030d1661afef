"""What a namespace's GPUResourceQuota forbids one pod, whatever else runs there (SPEC §4).

Here a worker is held against `single`, and against `total` as if it were alone; the scheduler's ledger adds up the rest.
A percentage, or a whole card, has no TFLOPS until a card is chosen: it is counted here as the least that it can be on the
cards that the model allows, so that only what is certain is refused, and counted exactly by the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from tensorfusion_iac.api.catalogue import GpuModel, find
from tensorfusion_iac.api.levels import QOS_ORDER
from tensorfusion_iac.api.problem import Problem, literal
from tensorfusion_iac.api.quantity import format_bytes, format_decimal, round_up
from tensorfusion_iac.api.resources.quota import GPUResourceQuota, QuotaAmounts, QuotaSingle, QuotaTotal
from tensorfusion_iac.api.worker import Compute, Unit, WorkerSpec

Side = Literal["request", "limit"]

_WHOLE = Compute(Unit.PERCENT, Decimal(100))
_USABLE = Decimal("0.9")
"""Share of a card's nominal memory that is usable at least; the driver reserves the rest."""


@dataclass(frozen=True, slots=True)
class _Amount:
    """One amount of one side on each GPU, as a quota counts it: where it was given, its text, and the least that it is.

    A least of None: more than 0, and nothing else is known.
    """

    field: str
    text: str
    least: Decimal | None
    rests_on: tuple[str, ...]

    def above(self, ceiling: Decimal, gpus: int) -> bool:
        """Whether it is certain that `gpus` of it exceed the ceiling; 0 allows none."""
        return ceiling == 0 if self.least is None else self.least * gpus > ceiling


def quota_problems(worker: WorkerSpec, quota: GPUResourceQuota) -> Iterator[Problem]:
    """Everything of `worker` that `quota` forbids, by short annotation key."""
    single, total = quota.spec.single or QuotaSingle(), quota.spec.total or QuotaTotal()
    name = literal(f"GPUResourceQuota {quota.metadata.name or '(unnamed)'}")
    if single.max_requests is not None:
        yield from _above(worker, "request", single.max_requests, 1, f"{name} single.maxRequests")
    if single.max_limits is not None:
        yield from _above(worker, "limit", single.max_limits, 1, f"{name} single.maxLimits")
    if total.requests is not None:
        yield from _above(worker, "request", total.requests, worker.gpu_count, f"{name} total.requests")
    if total.limits is not None:
        yield from _above(worker, "limit", total.limits, worker.gpu_count, f"{name} total.limits")
    if single.max_gpu_count is not None and worker.gpu_count > single.max_gpu_count:
        needs = ("container-gpu-count", "gpu-indices")
        yield _over("gpu-count", str(worker.gpu_count), str(single.max_gpu_count), f"{name} single.maxGPUCount", needs)
    if total.max_workers == 0:
        yield _over("workload", "1 worker", "0", f"{name} total.maxWorkers", ())
    yield from _not_allowed(worker, single, name)


def _not_allowed(worker: WorkerSpec, single: QuotaSingle, name: str) -> Iterator[Problem]:
    message = "{found} is not allowed here (%s); allowed: {accepted}"
    if single.max_qos is not None and QOS_ORDER.index(worker.qos) > QOS_ORDER.index(single.max_qos):
        yield _over("qos", worker.qos.value, single.max_qos.value, f"{name} single.maxQoS", ())
    modes = single.isolation_modes
    if modes is not None and worker.isolation not in modes:
        yield Problem("isolation", worker.isolation, ", ".join(modes) or "none", message % f"{name} single.isolationModes")
    features = single.disable_features
    refused = [] if features is None else [feature for feature in worker.disable_features if feature not in features]
    if refused:
        accepted = ", ".join(features or ()) or "none"
        yield Problem("disable-features", ", ".join(refused), accepted, message % f"{name} single.disableFeatures")


def _above(worker: WorkerSpec, side: Side, ceiling: QuotaAmounts, gpus: int, where: str) -> Iterator[Problem]:
    cards = find(worker.gpu_model) if worker.gpu_model else ()
    for what, most, amount in (
        ("tflops", ceiling.tflops, _tflops(worker, side, cards)),
        ("compute", ceiling.compute, _percent(worker, side, cards)),
        ("vram", ceiling.vram, _vram(worker, side, cards)),
    ):
        if most is None or amount is None or not amount.above(most, gpus):
            continue
        found = f"{amount.text} x {gpus} GPUs" if gpus > 1 else amount.text
        shown = {"tflops": f"{format_decimal(most)} TFLOPS", "compute": f"{format_decimal(most)}%"}
        needs = (*amount.rests_on, "gpu-count", "container-gpu-count") if gpus > 1 else amount.rests_on
        yield _over(amount.field, found, shown.get(what) or format_bytes(round_up(most)), f"{where}.{what}", needs)


def _compute(worker: WorkerSpec, side: Side) -> tuple[Compute, _Amount] | None:
    """The compute of one side, and as what it is shown; its least is in its own unit."""
    if worker.whole_card:
        return _WHOLE, _whole_card(worker, Decimal(100))
    compute = worker.compute_request if side == "request" else worker.compute_limit
    if compute is None and side == "limit":
        text = "no compute limit (the whole card)"
        return _WHOLE, _Amount("tflops-limit", text, Decimal(100), ("isolation",))
    if compute is None or compute.value == 0:
        return None
    percent = compute.unit is Unit.PERCENT
    field = f"{'compute-percent' if percent else 'tflops'}-{side}"
    text = f"{format_decimal(compute.value)}{'%' if percent else ''}"
    return compute, _Amount(field, text, compute.value, (f"tflops-{_other(side)}",))


def _tflops(worker: WorkerSpec, side: Side, cards: tuple[GpuModel, ...]) -> _Amount | None:
    given = _compute(worker, side)
    if given is None or given[0].unit is Unit.TFLOPS:
        return given and given[1]
    compute, amount = given
    least = min((compute.tflops_on(card.fp16_tflops) for card in cards), default=None)
    return _converted(amount, least, f"at least {format_decimal(least)} TFLOPS of {worker.gpu_model}" if least else "")


def _percent(worker: WorkerSpec, side: Side, cards: tuple[GpuModel, ...]) -> _Amount | None:
    given = _compute(worker, side)
    if given is None or given[0].unit is Unit.PERCENT:
        return given and given[1]
    compute, amount = given
    least = min((compute.value * 100 / card.fp16_tflops for card in cards), default=None)
    return _converted(amount, least, f"at least {least:.1f}% of {worker.gpu_model}" if least else "")


def _vram(worker: WorkerSpec, side: Side, cards: tuple[GpuModel, ...]) -> _Amount | None:
    vram_bytes = worker.vram_request_bytes if side == "request" else worker.vram_limit_bytes
    if worker.whole_card or (vram_bytes is None and side == "limit"):
        least = min((card.nominal_vram_bytes * _USABLE for card in cards), default=None)
        text = f"at least {format_decimal(round(least / 2**30, 1))}Gi of {worker.gpu_model}" if least else ""
        unbounded = _Amount("vram-limit", "no memory limit (the whole card)", None, ("vram-request",))
        return _converted(_whole_card(worker, least) if worker.whole_card else unbounded, least, text)
    if vram_bytes is None:
        return None
    return _Amount(f"vram-{side}", format_bytes(vram_bytes), Decimal(vram_bytes), (f"vram-{_other(side)}",))


def _whole_card(worker: WorkerSpec, least: Decimal | None) -> _Amount:
    if worker.dedicated:
        return _Amount("dedicated-gpu", "a whole card", least, ("gpu-model",))
    needs = ("gpu-model", "tflops-request", "tflops-limit", "vram-request", "vram-limit")
    return _Amount("isolation", "a whole card (shared, no amounts)", least, needs)


def _converted(amount: _Amount, least: Decimal | None, as_what: str) -> _Amount:
    text = f"{amount.text} ({as_what})" if as_what else amount.text
    return _Amount(amount.field, text, least, (*amount.rests_on, "gpu-model"))


def _other(side: Side) -> Side:
    return "limit" if side == "request" else "request"


def _over(field: str, found: str, accepted: str, where: str, needs: tuple[str, ...]) -> Problem:
    return Problem(field, found, f"at most {accepted}", f"{{found}} is above {accepted} ({where}); give {{accepted}}", needs)
