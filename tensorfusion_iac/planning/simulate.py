"""What would become of workloads on a cluster: the scheduler's own allocator, run offline (ARCHITECTURE, `simulate`).

Workers are placed one after the other, higher priority first and otherwise in the order given; nothing is evicted. What
already runs stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tensorfusion_iac.planning.allocate import Allocator
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.explain import Explanation, explain
from tensorfusion_iac.planning.fit import Asker
from tensorfusion_iac.planning.ledger import Ledger
from tensorfusion_iac.planning.shares import reserve
from tensorfusion_iac.planning.units import tflops_text


@dataclass(frozen=True, slots=True)
class Workload:
    """So many equal workers: what each claims, and whose they are."""

    name: str
    namespace: str
    claim: Claim
    replicas: int = 1
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """One worker on its GPUs (UUIDs)."""

    workload: str
    namespace: str
    node: str
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pending:
    """Workers of one workload that found no place, and why the first of them did not."""

    workload: str
    namespace: str
    workers: int
    why: Explanation


@dataclass(frozen=True, slots=True)
class PoolUse:
    """Use of one pool after all: compute in TFLOPS, memory in bytes, cards that nobody uses.

    `stranded_vram_bytes`: memory that is free on cards whose compute is all taken, and so of use to nobody who needs both.
    """

    pool: str
    gpus: int
    idle_gpus: int
    tflops: str
    free_tflops: str
    vram_bytes: int
    free_vram_bytes: int
    stranded_vram_bytes: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """The outcome."""

    placed: tuple[Placed, ...]
    pending: tuple[Pending, ...]
    pools: tuple[PoolUse, ...]


def simulate(ledger: Ledger, workloads: Iterable[Workload]) -> Simulation:
    """Place the workloads on the ledger's inventory. The ledger holds them afterwards."""
    allocator = Allocator(ledger.inventory)
    placed: list[Placed] = []
    pending: list[Pending] = []
    for workload in sorted(workloads, key=lambda one: -one.priority):
        for worker in range(workload.replicas):
            asker = Asker(workload.priority, ledger.budget(workload.namespace))
            chosen = allocator.allocate(workload.claim, asker)
            if chosen is None:
                why = explain(
                    ledger.inventory, workload.claim, asker,
                    quota=ledger.quota(workload.namespace), used=ledger.used(workload.namespace),
                )  # fmt: skip
                # Nothing was placed in between, so the others find no place either.
                pending.append(Pending(workload.name, workload.namespace, workload.replicas - worker, why))
                break
            uid = f"{workload.namespace}/{workload.name}/{worker}"
            made = reserve(
                workload.claim, chosen, uid=uid, namespace=workload.namespace, name=workload.name, priority=workload.priority
            )
            ledger.hold(made, float("inf"))
            placed.append(Placed(workload.name, workload.namespace, made.node, tuple(share.uuid for share in made.shares)))
    return Simulation(tuple(placed), tuple(pending), pool_use(ledger))


def pool_use(ledger: Ledger) -> tuple[PoolUse, ...]:
    """Use of every pool that has cards, by name."""
    inventory = ledger.inventory
    cards: dict[str, list[tuple[int, int]]] = {}
    for card in inventory.cards():
        place = inventory.place_of(card.uuid)
        if place is not None:
            cards.setdefault(inventory.node_facts(card.node).pool or "(no pool)", []).append(place)
    return tuple(_use(ledger, pool, places) for pool, places in sorted(cards.items()))


def _use(ledger: Ledger, pool: str, places: Sequence[tuple[int, int]]) -> PoolUse:
    inventory = ledger.inventory
    free_mflops = [max(int(inventory.free_mflops[place]), 0) for place in places]
    free_vram = [max(int(inventory.free_vram[place]), 0) for place in places]
    return PoolUse(
        pool,
        len(places),
        sum(1 for place in places if inventory.workers[place] == 0),
        tflops_text(sum(int(inventory.capacity_mflops[place]) for place in places)),
        tflops_text(sum(free_mflops)),
        sum(int(inventory.capacity_vram[place]) for place in places),
        sum(free_vram),
        sum(vram for vram, mflops in zip(free_vram, free_mflops, strict=True) if mflops == 0),
    )
