"""What autoscaling wants of a workload's pods: by the history of use, the clock, an external scaler (SPEC §8). Pure.

Of several the larger amounts count; where none says anything, what was asked for at first. A VRAM limit never goes below
present use with headroom, whoever asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from tensorfusion_iac.api.desired import Desired
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.api.resources.amounts import Amounts as AskedAmounts
from tensorfusion_iac.api.resources.amounts import Resources
from tensorfusion_iac.api.resources.autoscaling import AutoScalingConfig
from tensorfusion_iac.api.worker import WorkerSpec
from tensorfusion_iac.controller.external_answer import Answer, Heard
from tensorfusion_iac.controller.scaling import Memory
from tensorfusion_iac.planning.cards import CardFacts
from tensorfusion_iac.planning.recommend import (
    FLOOR_TFLOPS,
    FLOOR_VRAM_BYTES,
    VRAM_HEADROOM,
    Amounts,
    Ceiling,
    Policy,
    Side,
    inside,
    larger,
    recommend,
    worth_it,
)
from tensorfusion_iac.planning.recommend_cron import holding
from tensorfusion_iac.planning.recommend_histogram import bucket_of, end_of
from tensorfusion_iac.planning.shares import CardShare
from tensorfusion_iac.planning.units import MFLOPS_PER_TFLOPS

_MIB = 2**20
_HUNDREDTH, _MFLOPS = Decimal("0.01"), Decimal("0.000001")
_EXACT = 1e-6
"""What was given by a person is followed exactly, up to the rounding of floats."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A workload as autoscaling sees it: its settings, its worker, what that asked for at first, the most that it may have."""

    config: AutoScalingConfig
    policy: Policy
    worker: WorkerSpec
    original: Amounts
    ceiling: Ceiling
    edited: str = ""
    """The profile that was edited since the pods were made; `original` is what it gives now."""
    card_tflops: float = math.inf
    """Of the smallest card: what a percentage is of."""
    current: Amounts = field(default_factory=Amounts)
    """What is in force."""

    @property
    def learns(self) -> bool:
        """Whether its amounts follow its use."""
        return self.config.auto_set_resources is not None and self.config.auto_set_resources.enable


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a workload's pods should have; `amounts` None: as they are. `reason` for people; `rule`: the cron rule that holds."""

    amounts: Amounts | None
    reason: str
    rule: str | None = None


def original_of(worker: WorkerSpec, card: CardFacts) -> Amounts:
    """What a worker was resolved to, on a card: percent in TFLOPS, a missing limit as the whole card (SPEC §3)."""
    whole = card.capacity_mflops / MFLOPS_PER_TFLOPS
    asked = worker.compute_request or worker.compute_limit
    compute = None
    if asked is not None and asked.value > 0:
        most = Decimal(str(whole))
        limit = whole if worker.compute_limit is None else float(worker.compute_limit.tflops_on(most))
        compute = Side(float(asked.tflops_on(most)), limit)
    vram = None
    if worker.vram_request_bytes:
        vram = Side(float(worker.vram_request_bytes), float(worker.vram_limit_bytes or worker.vram_request_bytes))
    return Amounts(compute, vram)


def fixed_because(worker: WorkerSpec) -> str:
    """Why a running worker's amounts can't change; empty if they can (SPEC §8)."""
    if worker.whole_card:
        return "whole cards are not resized"
    if worker.isolation in (Isolation.HARD, Isolation.PARTITIONED):
        return f"amounts of isolation {worker.isolation.value} are fixed until the pod restarts"
    return ""


def want(subject: Subject, memory: Memory, used_vram: float, now: datetime, heard: Heard | None = None) -> Wanted:
    """What the workload's pods should have now. `used_vram`: bytes that a GPU of it uses at most, now; `heard`: what its
    external scaler has said, None if it has none.
    """
    config, policy, ceiling = subject.config, subject.policy, subject.ceiling
    auto, held = config.auto_set_resources, holding(config.cron_scaling_rules or (), now)
    notes = list(held.problems)
    found: Amounts | None = None
    present = end_of(bucket_of(used_vram, memory.vram.first), memory.vram.first) if used_vram else 0.0
    if auto is not None and auto.enable:
        if memory.first_s is None:
            notes.append("nothing is known of its use yet")
        elif now.timestamp() < (known_s := memory.first_s + policy.initial_delay_s):
            notes.append(f"its use is learned until {datetime.fromtimestamp(known_s, UTC):%Y-%m-%d %H:%M} UTC")
        else:
            found = _rounded(
                recommend(memory.compute, memory.vram, subject.original, subject.worker.qos, policy, ceiling, present)
            )
            notes.append("by the history of its use")
    rule = held.rule
    if rule is not None:
        set_ = _of_resources(rule.desired_resources or Resources(), subject, subject.original)
        found = set_ if found is None else larger(found, set_)
        notes.append(f"by the cron rule {rule.name or rule.start}")
    if heard is not None:
        said, note = _of_scaler(heard, subject)
        found = said if found is None or said is None else larger(found, said)
        notes.append(note)
    elif rule is None and found is None and not subject.learns and (config.cron_scaling_rules or subject.edited):
        found = subject.original
        notes.append("as asked for" if not subject.edited else f"as profile {subject.edited} says now")
    if fixed := fixed_because(subject.worker):
        notes.append(fixed)
    if found is not None and found.vram is not None and found.vram.limit < (least := _headroom(present, ceiling)):
        if least - found.vram.limit > _MIB:
            notes.append("with headroom above the memory that is in use")
        found = replace(found, vram=Side(found.vram.request, least))
    return Wanted(found, "; ".join(notes)[:1024], None if rule is None else rule.name or None)


def current_of(shares: Sequence[CardShare]) -> Amounts:
    """What a pod with these shares has on each of its GPUs."""
    share = shares[0]
    return Amounts(
        Side(share.mflops / MFLOPS_PER_TFLOPS, share.limit_mflops / MFLOPS_PER_TFLOPS),
        Side(float(share.vram_bytes), float(share.limit_vram_bytes)),
    )


def desired_of(wanted: Amounts, shares: Sequence[CardShare], subject: Subject) -> Desired | None:
    """The annotation `desired` of a pod that holds these shares; None if what it has is near enough."""
    policy = subject.policy
    changes = worth_it(current_of(shares), wanted, policy if subject.learns else replace(policy, threshold=_EXACT))
    if changes == Amounts():
        return None
    compute, vram = changes.compute, changes.vram
    return Desired(
        None if compute is None else _tflops(compute.request),
        None if compute is None else _tflops(compute.limit),
        None if vram is None else _bytes(vram.request),
        None if vram is None else _bytes(vram.limit),
    )


def in_status(amounts: Amounts) -> dict[str, Any]:
    """Amounts as `resources` of a status."""
    sides: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    if amounts.compute is not None:
        sides["requests"]["tflops"] = format_decimal(_tflops(amounts.compute.request))
        sides["limits"]["tflops"] = format_decimal(_tflops(amounts.compute.limit))
    if amounts.vram is not None:
        sides["requests"]["vram"] = format_bytes(_bytes(amounts.vram.request))
        sides["limits"]["vram"] = format_bytes(_bytes(amounts.vram.limit))
    return {side: given for side, given in sides.items() if given}


def _of_scaler(heard: Heard, subject: Subject) -> tuple[Amounts | None, str]:
    """What an external scaler asks for, None if it has nothing to say; and a note."""
    answer = heard.answer
    if answer is None:
        return None, f"the external scaler: {heard.problem or 'has not been asked yet'}"
    late = f" (its last answer holds: {heard.problem})" if heard.problem else ""
    if not answer.up and not answer.down:
        return None, f"the external scaler asks for no change{late}"
    current, original, ratios = subject.current, subject.original, subject.policy
    asked = _of_resources(Resources(requests=answer.requests, limits=answer.limits), subject, current)
    compute, vram = asked.compute, asked.vram
    sides = (answer.requests, answer.limits)
    if not any(side.tflops or side.compute for side in sides):
        compute = None
    if not any(side.vram for side in sides):
        vram = None
    if compute is not None and original.compute is not None:
        compute = _one_way(compute, current.compute, answer)
        compute = inside(compute, original.compute, ratios.compute_ratios, FLOOR_TFLOPS, subject.ceiling.compute)
    if vram is not None and original.vram is not None:
        vram = inside(
            _one_way(vram, current.vram, answer), original.vram, ratios.vram_ratios, FLOOR_VRAM_BYTES, subject.ceiling.vram
        )
    why = f": {answer.reason}" if answer.reason else ""
    return Amounts(compute, vram), f"by the external scaler{why}{late}"


def _one_way(side: Side, current: Side | None, answer: Answer) -> Side:
    """What asks for more only never takes away, and the other way round."""
    if current is None or answer.up == answer.down:
        return side
    pick = max if answer.up else min
    return Side(pick(side.request, current.request), pick(side.limit, current.limit))


def _headroom(present: float, ceiling: Ceiling) -> float:
    """The least VRAM limit beside so much present use: whole MiB."""
    return min(math.ceil(VRAM_HEADROOM * present / _MIB) * float(_MIB), ceiling.vram.limit)


def _of_resources(resources: Resources, subject: Subject, otherwise: Amounts) -> Amounts:
    """What a person's resources set; what they leave out is as `otherwise`. A server without our webhook takes a limit below
    its request.
    """
    requests, limits = resources.requests or AskedAmounts(), resources.limits or AskedAmounts()
    ceiling, card = subject.ceiling, subject.card_tflops
    compute = _pair(_compute(requests, card), _compute(limits, card), otherwise.compute, ceiling.compute)
    vram = _pair(float(requests.vram or 0), float(limits.vram or 0), otherwise.vram, ceiling.vram)
    return Amounts(compute, vram)


def _compute(amounts: AskedAmounts, card_tflops: float) -> float:
    """TFLOPS; a percentage is of the card."""
    if amounts.tflops or not amounts.compute or math.isinf(card_tflops):
        return float(amounts.tflops or 0)
    return float(amounts.compute) * card_tflops / 100


def _pair(request: float, limit: float, original: Side | None, ceiling: Side) -> Side | None:
    if not request and not limit:
        return original
    limit = limit or max(request, original.limit if original else 0.0)
    request = request or min(limit, original.request if original else limit)
    limit = min(max(request, limit), ceiling.limit)
    return Side(min(request, limit, ceiling.request), limit)


def _rounded(amounts: Amounts) -> Amounts:
    """Amounts that people can read: hundredths of TFLOPS, MiB; never more than was recommended."""
    compute, vram = amounts.compute, amounts.vram
    return Amounts(
        None if compute is None else Side(_hundredths(compute.request), _hundredths(compute.limit)),
        None if vram is None else Side(_mebibytes(vram.request), _mebibytes(vram.limit)),
    )


def _hundredths(value: float) -> float:
    return float(max(Decimal(str(value)).quantize(_HUNDREDTH, ROUND_FLOOR), _HUNDREDTH))


def _mebibytes(value: float) -> float:
    return float(max(int(value) // _MIB, 1) * _MIB)


def _tflops(value: float) -> Decimal:
    return max(Decimal(str(value)).quantize(_MFLOPS, ROUND_FLOOR), _MFLOPS)


def _bytes(value: float) -> int:
    return max(int(value), 1)
