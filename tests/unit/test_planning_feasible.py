"""Nothing allocatable is refused, and nothing refused was allocatable: a brute-force solver on small random clusters.

The solver knows the rules from SPEC §4 to §7 and tries every set of cards; it shares no code with the allocator but the
values. TENSORFUSION_CLUSTERS sets how many clusters are tried.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from itertools import combinations, product

import pytest
from planning_values import GIB, TFLOPS, Cluster, card, claim

from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.planning.cards import CardFacts
from tensorfusion_iac.planning.charge import Ceiling, Quota
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.fit import Asker
from tensorfusion_iac.planning.inventory import PoolFacts
from tensorfusion_iac.planning.shares import Reservation

CLUSTERS = int(os.environ.get("TENSORFUSION_CLUSTERS", "300"))
ARRIVALS = 14


@dataclass
class Held:
    """What the solver knows of a card's use."""

    kind: Isolation | None = None
    whole: bool = False
    workers: int = 0
    mflops: int = 0
    firm: int = 0
    vram: int = 0
    parts: list[tuple[str, int, int, int]] = field(default_factory=list)


def _needs(wanted: Claim, facts: CardFacts) -> tuple[int, int]:
    if wanted.whole_card:
        return facts.capacity_mflops, facts.capacity_vram_bytes
    compute = wanted.compute
    mflops = 0
    if compute is not None:
        mflops = compute.mflops if compute.mflops is not None else -(-(compute.ppm or 0) * facts.capacity_mflops // 1_000_000)
    return mflops, wanted.vram_bytes


def _takes(wanted: Claim, facts: CardFacts, held: Held, oversell: int) -> list[tuple[int, int]]:
    """The ways in which one card can take one GPU of the claim, each as what it costs: MFLOPS and bytes."""
    if held.kind not in (None, wanted.isolation) or held.whole:
        return []
    if wanted.whole_card:
        return [_needs(wanted, facts)] if held.workers == 0 else []
    mflops, vram = _needs(wanted, facts)
    if wanted.isolation is Isolation.PARTITIONED:
        return _partitions(mflops, vram, facts, held)
    if mflops > facts.capacity_mflops or held.vram + vram > facts.capacity_vram_bytes:
        return []
    if held.mflops + mflops > facts.capacity_mflops * oversell // 100:
        return []
    if wanted.firm and held.firm + mflops > facts.capacity_mflops:
        return []
    return [(mflops, vram)]


def _partitions(mflops: int, vram: int, facts: CardFacts, held: Held) -> list[tuple[int, int]]:
    geometry = facts.geometry
    if geometry is None:
        return []
    found = []
    for template in geometry.templates:
        has = facts.capacity_mflops * template.compute_slices // geometry.compute_slices
        memory = facts.capacity_vram_bytes * template.size // geometry.memory_slots
        if "+" in template.name or has < mflops or memory < vram:
            continue
        if sum(slices for *_, slices in held.parts) + template.compute_slices > geometry.compute_slices:
            continue
        for start in template.starts:
            taken = {slot for _, first, size, _ in held.parts for slot in range(first, first + size)}
            if taken.isdisjoint(range(start, start + template.size)):
                found.append((has, memory))
    return found


def _feasible(wanted: Claim, facts: list[CardFacts], use: dict[str, Held], oversell: int, left: tuple[int, int] | None) -> bool:
    for name in {each.node for each in facts}:
        options = [ways for each in facts if each.node == name if (ways := _takes(wanted, each, use[each.uuid], oversell))]
        for chosen in combinations(options, wanted.gpu_count):
            if left is None:
                return True
            for ways in product(*chosen):
                if sum(way[0] for way in ways) <= left[0] and sum(way[1] for way in ways) <= left[1]:
                    return True
    return False


def _book(made: Reservation, use: dict[str, Held]) -> None:
    for share in made.shares:
        held = use[share.uuid]
        held.kind, held.whole, held.workers = made.isolation, made.exclusive, held.workers + 1
        held.mflops += share.mflops
        held.vram += share.vram_bytes
        held.firm += share.mflops if made.firm else 0
        if share.slot:
            held.parts.append((share.slot.template, share.slot.start, share.slot.size, share.slot.compute_slices))


def _cards(rng: random.Random) -> list[CardFacts]:
    kinds = [("A100_SXM_80G", 80, 312), ("A30", 24, 165), ("T4", 16, 65)]
    facts = []
    for node in range(rng.randint(1, 3)):
        mixed = rng.random() < 0.4
        model, gib, tflops = rng.choice(kinds)
        for index in range(rng.randint(1, 4)):
            if mixed:
                model, gib, tflops = rng.choice(kinds)
            facts.append(card(f"n{node}-{index}", f"n{node}", model=model, gib=gib, tflops=tflops, numa_node=index % 2))
    return facts


def _wanted(rng: random.Random) -> Claim:
    roll = rng.random()
    count = rng.choice([1, 1, 1, 2, 3])
    if roll < 0.12:
        return claim(count=count, whole_card=True)
    if roll < 0.3:
        return claim(gib=rng.choice([1, 5, 10, 20]), tflops=rng.choice([1, 20, 80]), count=count, isolation=Isolation.PARTITIONED)
    kind = rng.choice([Isolation.SOFT, Isolation.SOFT, Isolation.HARD, Isolation.SHARED])
    firm = kind is not Isolation.SOFT or rng.random() < 0.4
    gib = rng.choice([0, 1, 4, 8, 16, 40])
    if rng.random() < 0.5:
        return claim(percent=rng.choice([1, 10, 33.3, 50, 100]), gib=gib, count=count, isolation=kind, firm=firm)
    return claim(tflops=rng.choice([1, 30, 65, 100, 300]), gib=gib, count=count, isolation=kind, firm=firm)


@pytest.mark.parametrize("batch", range(6))
def test_the_allocator_agrees_with_a_brute_force_solver(batch: int) -> None:
    placed = refused = 0
    for seed in range(batch, CLUSTERS, 6):
        rng = random.Random(seed)
        facts = _cards(rng)
        oversell = rng.choice([100, 100, 150, 300])
        mode = rng.choice(["CompactFirst", "LowLoadFirst", "NodeCompactGPULowLoad"])
        cluster = Cluster(*facts, pool=PoolFacts(oversell, mode))
        quota = (rng.randint(100, 900) * TFLOPS, rng.randint(20, 300) * GIB) if rng.random() < 0.4 else None
        if quota:
            cluster.ledger.set_quota("ns", Quota("q", Ceiling(request_mflops=quota[0], request_vram_bytes=quota[1])))
        use = {each.uuid: Held() for each in facts}
        for step in range(ARRIVALS):
            wanted = _wanted(rng)
            used = cluster.ledger.used("ns")
            left = (quota[0] - used.request_mflops, quota[1] - used.request_vram_bytes) if quota else None
            expected = _feasible(wanted, facts, use, oversell, left)
            made = cluster.place(wanted)
            assert (made is not None) == expected, f"seed {seed}, step {step}: {wanted}, expected {expected}, got {made}"
            if made is None:
                refused += 1
                assert not cluster.fits(wanted, Asker(budget=cluster.ledger.budget("ns")))
            else:
                placed += 1
                assert len({share.uuid for share in made.shares}) == wanted.gpu_count
                _book(made, use)
    assert placed > 100
    assert refused > 50
