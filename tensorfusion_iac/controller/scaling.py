"""What autoscaling remembers of a workload and what it wants of its pods (SPEC §8). Pure.

Use comes in rows of half a minute from the agents; each row is learned once, whatever is asked twice after a restart. What is
wanted is the recommendation, or the larger of it and the cron rule that holds; without either, what was asked for at first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal
from typing import Any, NamedTuple

from tensorfusion_iac.api.desired import Desired
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.api.resources.amounts import Amounts as AskedAmounts
from tensorfusion_iac.api.resources.amounts import Resources
from tensorfusion_iac.api.resources.autoscaling import AutoScalingConfig, CronScalingRule
from tensorfusion_iac.api.worker import WorkerSpec, canonical
from tensorfusion_iac.planning.cards import CardFacts
from tensorfusion_iac.planning.recommend import (
    Amounts,
    Ceiling,
    Policy,
    Side,
    compute_histogram,
    larger,
    recommend,
    vram_histogram,
    worth_it,
)
from tensorfusion_iac.planning.recommend_cron import holding
from tensorfusion_iac.planning.recommend_histogram import Histogram, Sample, bucket_of, end_of, from_json
from tensorfusion_iac.planning.shares import CardShare
from tensorfusion_iac.planning.units import MFLOPS_PER_TFLOPS

ROW_S = 30.0
"""Length of a row where the agent does not say; one that is younger may still grow, and is left for the next time."""
_LONGEST_ROW_S = 300.0
_VERSION = 1
_MIB = 2**20
_HUNDREDTH, _MFLOPS = Decimal("0.01"), Decimal("0.000001")
_EXACT = 1e-6
"""What was given by a person is followed exactly, up to the rounding of floats."""


class Row(NamedTuple):
    """What one pod used of one card in a while: compute as a fraction of the card (mean), memory in bytes (peak)."""

    pod_uid: str
    gpu: str
    begin_s: float
    compute: float
    vram_bytes: int
    length_s: float = ROW_S


@dataclass(frozen=True, slots=True)
class Memory:
    """All that is remembered of a workload. `seen`: the begin of the newest row that was learned, by pod and card."""

    compute: Histogram
    vram: Histogram
    first_s: float | None = None
    seen: Mapping[tuple[str, str], float] = field(default_factory=dict)


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


def blank(policy: Policy) -> Memory:
    """Nothing is remembered."""
    return Memory(compute_histogram(policy), vram_histogram(policy))


def read_rows(document: object) -> list[Row]:
    """The rows of an agent's answer. What isn't one is left out: an agent is not trusted to make the controller fail."""
    found = []
    entries = document.get("usage") if isinstance(document, Mapping) else None
    length_s = document.get("bucketSeconds") if isinstance(document, Mapping) else None
    if not isinstance(length_s, int | float) or not 1 <= length_s <= _LONGEST_ROW_S:
        length_s = ROW_S
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, Mapping) or not isinstance(rows := entry.get("rows"), list):
            continue
        for row in rows:
            try:
                begin_s, compute, _, vram_bytes = map(float, row)
            except (TypeError, ValueError):
                continue
            if all(map(math.isfinite, (begin_s, compute, vram_bytes))) and compute >= 0 and vram_bytes >= 0:
                uid, gpu = str(entry.get("podUID")), str(entry.get("gpu"))
                found.append(Row(uid, gpu, begin_s, min(compute, 1.0), int(vram_bytes), float(length_s)))
    return found


def learned(memory: Memory, rows: Iterable[Row], card_mflops: Mapping[str, int], pods: Collection[str], now_s: float) -> Memory:
    """The memory with rows of its pods (by UID) that were not learned yet. `card_mflops`: capacity of the cards."""
    seen = {place: at for place, at in memory.seen.items() if place[0] in pods}
    compute, vram, first_s = [], [], memory.first_s
    for row in sorted(rows, key=lambda one: (one.begin_s, one.pod_uid, one.gpu)):
        place = (row.pod_uid, row.gpu)
        complete = row.begin_s + row.length_s <= now_s
        if not complete or row.pod_uid not in pods or row.gpu not in card_mflops or row.begin_s <= seen.get(place, -math.inf):
            continue
        seen[place] = row.begin_s
        first_s = row.begin_s if first_s is None else min(first_s, row.begin_s)
        tflops = row.compute * card_mflops[row.gpu] / MFLOPS_PER_TFLOPS
        weight = row.length_s / ROW_S
        compute.append(Sample(tflops, weight, row.begin_s))
        vram.append(Sample(float(row.vram_bytes), weight, row.begin_s))
    return Memory(memory.compute.adding(compute), memory.vram.adding(vram), first_s, seen)


def with_policy(memory: Memory, policy: Policy) -> Memory:
    """The memory, with the half-life of now: a workload's owner may change the length of its history."""
    if memory.compute.half_life_s == policy.half_life_s:
        return memory
    return replace(
        memory,
        compute=replace(memory.compute, half_life_s=policy.half_life_s),
        vram=replace(memory.vram, half_life_s=policy.half_life_s),
    )


def to_text(memory: Memory) -> str:
    """A checkpoint."""
    seen = [[*place, at] for place, at in sorted(memory.seen.items())]
    compute, vram = memory.compute.to_json(), memory.vram.to_json()
    return canonical({"version": _VERSION, "compute": compute, "vram": vram, "first": memory.first_s, "seen": seen})


def from_text(text: str) -> Memory:
    """Read a checkpoint back. ValueError if it is none, or of another version."""
    try:
        document = json.loads(text)
        if document["version"] != _VERSION:
            raise ValueError(f"a checkpoint of version {document['version']}")
        seen = {(str(uid), str(gpu)): float(at) for uid, gpu, at in document["seen"]}
        first_s = None if document["first"] is None else float(document["first"])
        return Memory(from_json(document["compute"]), from_json(document["vram"]), first_s, seen)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a checkpoint: {type(error).__name__} {error}") from error


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


def want(subject: Subject, memory: Memory, used_vram: float, now: datetime) -> Wanted:
    """What the workload's pods should have now. `used_vram`: bytes that a GPU of it uses at most, now."""
    config, policy, ceiling = subject.config, subject.policy, subject.ceiling
    auto, held = config.auto_set_resources, holding(config.cron_scaling_rules or (), now)
    notes = list(held.problems)
    found: Amounts | None = None
    if auto is not None and auto.enable:
        if memory.first_s is None:
            notes.append("nothing is known of its use yet")
        elif now.timestamp() < (known_s := memory.first_s + policy.initial_delay_s):
            notes.append(f"its use is learned until {datetime.fromtimestamp(known_s, UTC):%Y-%m-%d %H:%M} UTC")
        else:
            present = end_of(bucket_of(used_vram, memory.vram.first), memory.vram.first) if used_vram else 0.0
            found = _rounded(
                recommend(memory.compute, memory.vram, subject.original, subject.worker.qos, policy, ceiling, present)
            )
            notes.append("by the history of its use")
    rule = held.rule
    if rule is not None:
        set_ = _of_rule(rule, subject.original, ceiling)
        found = set_ if found is None else larger(found, set_)
        notes.append(f"by the cron rule {rule.name or rule.start}")
    elif found is None and not subject.learns and (config.cron_scaling_rules or subject.edited):
        found = subject.original
        notes.append("as asked for" if not subject.edited else f"as profile {subject.edited} says now")
    if fixed := fixed_because(subject.worker):
        notes.append(fixed)
    return Wanted(found, "; ".join(notes)[:1024], None if rule is None else rule.name or None)


def desired_of(wanted: Amounts, shares: Sequence[CardShare], subject: Subject) -> Desired | None:
    """The annotation `desired` of a pod that holds these shares; None if what it has is near enough."""
    share, policy = shares[0], subject.policy
    current = Amounts(
        Side(share.mflops / MFLOPS_PER_TFLOPS, share.limit_mflops / MFLOPS_PER_TFLOPS),
        Side(float(share.vram_bytes), float(share.limit_vram_bytes)),
    )
    changes = worth_it(current, wanted, policy if subject.learns else replace(policy, threshold=_EXACT))
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


def _of_rule(rule: CronScalingRule, original: Amounts, ceiling: Ceiling) -> Amounts:
    """What a rule sets; what it leaves out is as asked for. A server without our webhook takes a limit below its request."""
    resources = rule.desired_resources or Resources()
    requests, limits = resources.requests or AskedAmounts(), resources.limits or AskedAmounts()
    card = ceiling.compute.limit
    compute = _pair(_compute(requests, card), _compute(limits, card), original.compute, ceiling.compute)
    vram = _pair(float(requests.vram or 0), float(limits.vram or 0), original.vram, ceiling.vram)
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
