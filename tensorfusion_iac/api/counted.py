"""What a worker counts for against a quota on each GPU, before its card is chosen: the least that it can be (SPEC §4).

A percentage, a partition or a whole card has no TFLOPS and no bytes until a card is chosen, so each is counted as on the
smallest of the catalogue's cards that the model allows; without a model it is more than nothing, and no more is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Literal, NamedTuple

from tensorfusion_iac.api.catalogue import GpuModel, find, mig_template
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.api.worker import Compute, Unit, WorkerSpec

Side = Literal["request", "limit"]

_USABLE = Decimal("0.9")
"""Share of a card's nominal memory that is usable at least; the driver reserves the rest."""


class Amount(NamedTuple):
    """One amount on each GPU: the annotation that it comes from, its text, the least that it is, and what that rests on.

    A least of None: more than 0, and nothing else is known.
    """

    field: str
    text: str
    least: Decimal | None
    rests_on: tuple[str, ...] = ()

    def above(self, ceiling: Decimal, gpus: int) -> bool:
        """Whether it is certain that `gpus` of it exceed the ceiling; 0 allows none."""
        return ceiling == 0 if self.least is None else self.least * gpus > ceiling


class Counted(NamedTuple):
    """One side of a worker, by the members of a quota: TFLOPS, bytes, percent of a card. None: nothing is asked for."""

    tflops: Amount | None = None
    vram: Amount | None = None
    compute: Amount | None = None


class _Least(NamedTuple):
    """The least that a whole card, or a partition, has: percent of a card, TFLOPS, bytes. None: not known."""

    percent: Decimal | None
    tflops: Decimal | None
    vram_bytes: Decimal | None


def counted(worker: WorkerSpec, side: Side) -> Counted:
    """What the requests, or the limits, of a worker count for on each of its GPUs."""
    cards = find(worker.gpu_model) if worker.gpu_model else ()
    if worker.whole_card:
        return _whole_card(worker, cards)
    unsaid = _partition(worker, cards) if worker.isolation is Isolation.PARTITIONED else _unsaid(worker, side, cards)
    compute, vram_bytes = worker.compute_request, worker.vram_request_bytes
    if side == "limit":
        compute, vram_bytes = worker.compute_limit, worker.vram_limit_bytes
    tflops, vram, percent = unsaid
    if compute is not None and compute.value > 0:
        tflops, percent = _compute(worker, side, compute, cards)
    if vram_bytes is not None:
        vram = Amount(f"vram-{side}", format_bytes(vram_bytes), Decimal(vram_bytes), (f"vram-{_other(side)}",))
    return Counted(tflops, vram, percent)


def _compute(worker: WorkerSpec, side: Side, compute: Compute, cards: tuple[GpuModel, ...]) -> tuple[Amount, Amount]:
    """In TFLOPS and in percent, of which one is as given."""
    rests_on = (f"tflops-{_other(side)}",)
    if compute.unit is Unit.TFLOPS:
        given = Amount(f"tflops-{side}", format_decimal(compute.value), compute.value, rests_on)
        percent = _min(compute.value * 100 / card.fp16_tflops for card in cards)
        return given, _as_percent(worker, given, percent)
    given = Amount(f"compute-percent-{side}", f"{format_decimal(compute.value)}%", compute.value, rests_on)
    return _as_tflops(worker, given, _min(compute.tflops_on(card.fp16_tflops) for card in cards)), given


def _whole_card(worker: WorkerSpec, cards: tuple[GpuModel, ...]) -> Counted:
    if worker.dedicated:
        return _all(worker, Amount("dedicated-gpu", "a whole card", None), _card(cards))
    needs = ("tflops-request", "tflops-limit", "vram-request", "vram-limit")
    return _all(worker, Amount("isolation", "a whole card (shared, no amounts)", None, needs), _card(cards))


def _partition(worker: WorkerSpec, cards: tuple[GpuModel, ...]) -> Counted:
    """A partition of the named profile, or else of one that is not known yet."""
    template = worker.partition_template
    if template is None:
        return _all(worker, Amount("isolation", "a partition", None, ("partition-template",)), _Least(None, None, None))
    least = _Least(None, None, None)
    fitting = [(card, found) for card in cards if card.mig and (found := mig_template(card, template))]
    if fitting:
        shares = [Decimal(found.compute_slices) / card.mig.compute_slices for card, found in fitting if card.mig]
        least = _Least(
            _min(share * 100 for share in shares),
            _min(share * card.fp16_tflops for share, (card, _) in zip(shares, fitting, strict=True)),
            _min(found.memory_gib * 2**30 * _USABLE for _, found in fitting),
        )
    return _all(worker, Amount("partition-template", f"a partition {template}", None), least)


def _unsaid(worker: WorkerSpec, side: Side, cards: tuple[GpuModel, ...]) -> Counted:
    """What amounts count for that are not given: a request for nothing, a limit for the whole card."""
    if side == "request":
        return Counted()
    compute = _all(worker, Amount("tflops-limit", "no compute limit, so the whole card", None, ("isolation",)), _card(cards))
    memory = _all(worker, Amount("vram-limit", "no memory limit, so the whole card", None, ("vram-request",)), _card(cards))
    return Counted(compute.tflops, memory.vram, compute.compute)


def _all(worker: WorkerSpec, amount: Amount, least: _Least) -> Counted:
    """One way of asking, in every member."""
    text = None if least.vram_bytes is None else f"at least {format_decimal(round(least.vram_bytes / 2**30, 1))}Gi"
    return Counted(
        _as_tflops(worker, amount, least.tflops),
        _converted(worker, amount, least.vram_bytes, text),
        amount._replace(least=least.percent) if least.percent == 100 else _as_percent(worker, amount, least.percent),
    )


def _as_tflops(worker: WorkerSpec, amount: Amount, least: Decimal | None) -> Amount:
    return _converted(worker, amount, least, None if least is None else f"at least {format_decimal(round(least, 1))} TFLOPS")


def _as_percent(worker: WorkerSpec, amount: Amount, least: Decimal | None) -> Amount:
    return _converted(worker, amount, least, None if least is None else f"at least {format_decimal(round(least, 1))}%")


def _converted(worker: WorkerSpec, amount: Amount, least: Decimal | None, as_what: str | None) -> Amount:
    text = amount.text if as_what is None else f"{amount.text} ({as_what} of {worker.gpu_model})"
    return Amount(amount.field, text, least, (*amount.rests_on, "gpu-model"))


def _card(cards: tuple[GpuModel, ...]) -> _Least:
    return _Least(
        Decimal(100),
        _min(card.fp16_tflops for card in cards),
        _min(card.nominal_vram_bytes * _USABLE for card in cards),
    )


def _min(amounts: Iterable[Decimal]) -> Decimal | None:
    return min(amounts, default=None)


def _other(side: Side) -> Side:
    return "limit" if side == "request" else "request"
