"""P5: how full small clusters get when pods arrive in random order, against the best that any order could have done.

Seeds are chosen at run time and printed. Two mixes: fractions of a card (compute and memory in step), which the goal is for,
and mixed shapes (compute and memory each for itself), which is reported.
"""

from __future__ import annotations

import random
import secrets
import statistics

from measure import Row, percentile, quick
from packing import Size, optimum, value

from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.planning.allocate import Allocator
from tensorfusion_iac.planning.cards import CardFacts, NodeFacts
from tensorfusion_iac.planning.claim import Claim, ComputeClaim
from tensorfusion_iac.planning.inventory import Inventory, PoolFacts
from tensorfusion_iac.planning.ledger import Ledger
from tensorfusion_iac.planning.shares import reserve

GIB = 2**30
FRACTIONS: tuple[Size, ...] = ((5, 5), (10, 10), (12, 12), (20, 20), (25, 25), (30, 30), (50, 50), (100, 100))
SHAPES: tuple[Size, ...] = (
    (5, 5), (10, 5), (5, 10), (10, 10), (20, 10), (10, 20), (25, 25), (20, 40), (40, 20), (50, 50), (50, 25), (25, 50), (30, 30),
)  # fmt: skip
ARRIVALS = 3
"""Times the cluster's capacity that arrives: it is saturated."""


def fill() -> list[Row]:
    """Rows of P5."""
    orders = 200 if quick() else 1000
    seed = secrets.randbelow(2**32)
    print(f"P5: seed {seed}")
    found = []
    for name, sizes, goal in (("fractions", FRACTIONS, True), ("mixed shapes", SHAPES, False)):
        for mode in ("CompactFirst", "NodeCompactGPULowLoad"):
            fills, stranded = _fills(sizes, mode, orders, random.Random(seed))
            middle, low = statistics.median(fills), percentile(fills, 5)
            what = f"fill at saturation, {name}, {mode}"
            found += [
                Row("P5", f"{what}, median", middle * 100, "% of the optimum", None, None, ">= 98 %" if goal else None,
                    middle >= 0.98 if goal else None),
                Row("P5", f"{what}, 5th percentile", low * 100, "% of the optimum", None, None, ">= 92 %" if goal else None,
                    low >= 0.92 if goal else None),
                Row("P5", f"stranded VRAM, {name}, {mode}, mean", statistics.fmean(stranded) * 100, "%"),
            ]  # fmt: skip
    return found


def _fills(sizes: tuple[Size, ...], mode: str, orders: int, rng: random.Random) -> tuple[list[float], list[float]]:
    """Share of the optimum that was placed, and share of the memory that was left unused, of each order."""
    fills, stranded = [], []
    for _ in range(orders // 20):
        nodes, per_node = rng.choice([(1, 2), (1, 3), (2, 2), (2, 3), (1, 4)])
        cards = nodes * per_node
        pods: list[Size] = []
        while sum(map(value, pods)) < ARRIVALS * cards * 1000:
            pods.append(rng.choice(sizes))
        best = optimum(pods, cards)
        for _ in range(20):
            rng.shuffle(pods)
            placed, memory = _arrive(pods, nodes, per_node, mode)
            fills.append(placed / best)
            stranded.append(1 - memory / (100 * cards))
    return fills, stranded


def _arrive(pods: list[Size], nodes: int, per_node: int, mode: str) -> tuple[int, int]:
    inventory = Inventory(nodes, per_node)
    inventory.set_pool("p", PoolFacts(mode=mode))
    for node in range(nodes):
        inventory.set_node(f"n{node}", NodeFacts("p"))
        for index in range(per_node):
            uuid = f"{node}-{index}"
            inventory.set_card(CardFacts(uuid, f"n{node}", "A", Vendor.NVIDIA, 100_000_000, 100 * GIB, index))
    ledger, allocator = Ledger(inventory), Allocator(inventory)
    placed = memory = 0
    for at, size in enumerate(pods):
        compute = ComputeClaim(mflops=size[0] * 1_000_000)
        claim = Claim("p", Vendor.NVIDIA, 1, Isolation.SOFT, compute=compute, vram_bytes=size[1] * GIB)
        chosen = allocator.allocate(claim)
        if chosen is not None:
            ledger.hold(reserve(claim, chosen, uid=str(at), namespace="b", name=str(at), priority=0), 1.0)
            placed += value(size)
            memory += size[1]
    return placed, memory
