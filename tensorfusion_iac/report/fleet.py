"""The cards of each pool as far as a report needs them: which models, how large, and how their VRAM limits are held (SPEC §6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorfusion_iac.api.catalogue import matches
from tensorfusion_iac.api.worker import WorkerSpec
from tensorfusion_iac.planning.cards import CardFacts, cards_named
from tensorfusion_iac.scheduling.state import ClusterState

WATCH = "watch"


@dataclass(frozen=True, slots=True)
class PoolCards:
    """The cards of one pool. `watched`: how many have a VRAM limit that the agent only watches, and ends over-use."""

    cards: tuple[CardFacts, ...]
    watched: int


def fleet_of(state: ClusterState) -> Mapping[str, PoolCards]:
    """The cards of all pools."""
    cards: dict[str, list[CardFacts]] = {}
    watched: dict[str, int] = {}
    for card in state.inventory.cards():
        pool = state.inventory.node_facts(card.node).pool or ""
        cards.setdefault(pool, []).append(card)
        capabilities = ((state.gpus.get(card.uuid) or {}).get("status") or {}).get("capabilities") or {}
        watched[pool] = watched.get(pool, 0) + (capabilities.get("vramLimit") == WATCH)
    return {pool: PoolCards(tuple(of_pool), watched[pool]) for pool, of_pool in cards.items()}


def cards_for(worker: WorkerSpec, fleet: Mapping[str, PoolCards]) -> Sequence[CardFacts]:
    """One card of each kind that the worker may get: of its pool's if that is known, else by the model that it names."""
    pool = fleet.get(worker.pool or "")
    if pool is not None:
        fits = [card for card in pool.cards if worker.gpu_model is None or matches(worker.gpu_model, card.model)]
        return list({(card.model, card.capacity_mflops, card.capacity_vram_bytes): card for card in fits}.values())
    return cards_named(worker.gpu_model)
