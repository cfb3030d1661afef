"""What autoscaling remembers of a workload: use in two histograms, and which of it was learned (SPEC §8). Pure.

Use comes in rows from the agents; each row is learned once, whatever is asked twice after a restart.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tensorfusion_iac.api.resources.autoscaling import AutoSetResources
from tensorfusion_iac.api.values import parse_duration
from tensorfusion_iac.api.worker import canonical
from tensorfusion_iac.planning.recommend import Policy, compute_histogram, vram_histogram
from tensorfusion_iac.planning.recommend_histogram import Histogram, Sample, from_json
from tensorfusion_iac.planning.units import MFLOPS_PER_TFLOPS

ROW_S = 30.0
"""Length of a row where the agent does not say; one that is younger may still grow, and is left for the next time."""
_LONGEST_ROW_S = 300.0
_VERSION = 1


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


class Look(NamedTuple):
    """A workload's memory as it was when its use was looked at, and when that was."""

    at_s: float
    memory: Memory


def looked(before: Look | None, memory: Memory, config: AutoSetResources, now_s: float) -> Look:
    """The look that counts now: the one before until the workload's own `interval` is over, and then what is remembered now.

    Without an interval each is a new one. What is learned meanwhile is not lost, and a clock that was set back holds nothing up.
    """
    interval_s = parse_duration(config.interval).total_seconds() if config.interval else 0.0
    if before is None or not before.at_s <= now_s < before.at_s + interval_s:
        return Look(now_s, memory)
    return before


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
