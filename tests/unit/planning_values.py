"""Cards, claims and inventories for the tests of planning, written in the units that people use."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.planning.allocate import Allocator
from tensorfusion_iac.planning.cards import CardFacts, NodeFacts, geometry_of
from tensorfusion_iac.planning.claim import Claim, ComputeClaim
from tensorfusion_iac.planning.fit import ANYBODY, Asker
from tensorfusion_iac.planning.inventory import Inventory, PoolFacts
from tensorfusion_iac.planning.ledger import Ledger
from tensorfusion_iac.planning.shares import Reservation, reserve
from tensorfusion_iac.planning.units import ppm_up

GIB = 2**30
TFLOPS = 1_000_000


def card(
    uuid: str, node: str = "n0", *, tflops: int = 100, gib: int = 80, model: str = "A100_SXM_80G", **facts: Any
) -> CardFacts:
    facts.setdefault("geometry", geometry_of(model))
    facts.setdefault("index", int(uuid.rsplit("-", 1)[-1]) if uuid.rsplit("-", 1)[-1].isdigit() else 0)
    return CardFacts(uuid, node, model, facts.pop("vendor", Vendor.NVIDIA), tflops * TFLOPS, gib * GIB, **facts)


def inventory(*cards: CardFacts, pool: PoolFacts | None = None) -> Inventory:
    """All nodes in pool `p`."""
    made = Inventory(nodes=1, cards=1)
    made.set_pool("p", pool or PoolFacts())
    for node in dict.fromkeys(each.node for each in cards):
        made.set_node(node, NodeFacts("p"))
    for each in cards:
        made.set_card(each)
    return made


def claim(*, tflops: float | None = None, percent: float | None = None, gib: float = 0, count: int = 1, **more: Any) -> Claim:
    compute = None
    if tflops is not None:
        compute = ComputeClaim(mflops=round(tflops * TFLOPS))
    elif percent is not None:
        compute = ComputeClaim(ppm=ppm_up(Decimal(str(percent))))
    more.setdefault("isolation", Isolation.SOFT)
    more.setdefault("vendor", Vendor.NVIDIA)
    return Claim(pool="p", gpu_count=count, compute=compute, vram_bytes=round(gib * GIB), **more)


class Cluster:
    """An inventory with its books, and pods that are placed one after the other."""

    def __init__(self, *cards: CardFacts, pool: PoolFacts | None = None) -> None:
        self.inventory = inventory(*cards, pool=pool)
        self.ledger = Ledger(self.inventory)
        self.allocator = Allocator(self.inventory)
        self._count = 0

    def place(self, wanted: Claim, *, namespace: str = "ns", priority: int = 0, uid: str = "") -> Reservation | None:
        """Place a pod for good; None if it fits nowhere."""
        asker = Asker(priority, self.ledger.budget(namespace))
        chosen = self.allocator.allocate(wanted, asker)
        if chosen is None:
            return None
        self._count += 1
        made = reserve(
            wanted, chosen, uid=uid or f"pod-{self._count}", namespace=namespace, name=f"pod-{self._count}", priority=priority
        )
        self.ledger.hold(made, until=1.0)
        self.ledger.commit(made.uid, until=1.0)
        return made

    def fits(self, wanted: Claim, asker: Asker = ANYBODY) -> bool:
        return self.allocator.allocate(wanted, asker) is not None


def uuids(made: Reservation | None) -> Sequence[str]:
    return [share.uuid for share in made.shares] if made else []
