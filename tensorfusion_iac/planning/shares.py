"""What a worker holds: its share of each card, and the reservation that keeps the shares of one pod together.

A share says what is reserved of the card, what the limits are, and what is charged to the namespace's quota; all of it is
fixed when it is made, so that a release gives back exactly what was taken, whatever has become of the card since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.planning.cards import CardFacts
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.units import PPM, ppm_of


@dataclass(frozen=True, slots=True)
class Slot:
    """A MIG placement on a card: template, first memory slot, memory slots, compute slices."""

    template: str
    start: int
    size: int
    compute_slices: int

    @property
    def mask(self) -> int:
        """The memory slots as bits."""
        return ((1 << self.size) - 1) << self.start


@dataclass(frozen=True, slots=True)
class CardShare:
    """A worker's part of one card.

    `mflops`, `vram_bytes`: requests in force. `held_*`: what the books keep, which is more than the request while a shrink
    waits for the agent (SPEC §8). `*_ppm`: compute in parts of the card, for quotas in percent.
    """

    uuid: str
    mflops: int
    vram_bytes: int
    limit_mflops: int
    limit_vram_bytes: int
    request_ppm: int
    limit_ppm: int
    held_mflops: int
    held_vram_bytes: int
    slot: Slot | None = None

    def settled(self) -> CardShare:
        """The same with nothing held beyond the request."""
        return replace(self, held_mflops=self.mflops, held_vram_bytes=self.vram_bytes)

    @property
    def is_settled(self) -> bool:
        """Whether the books keep exactly the request."""
        return self.held_mflops == self.mflops and self.held_vram_bytes == self.vram_bytes


@dataclass(frozen=True, slots=True)
class Reservation:
    """The shares of one pod, all on one node. `exclusive`: whole cards, which nobody else may use meanwhile."""

    uid: str
    namespace: str
    name: str
    node: str
    isolation: Isolation
    firm: bool
    exclusive: bool
    shares: tuple[CardShare, ...]
    priority: int = 0


def share_on(claim: Claim, card: CardFacts, slot: Slot | None = None) -> CardShare:
    """The share of `card` that the claim takes; with a `slot`, the partition's part of the card instead (SPEC §6)."""
    if slot is not None and card.geometry is not None:
        mflops = card.capacity_mflops * slot.compute_slices // card.geometry.compute_slices
        vram = card.capacity_vram_bytes * slot.size // card.geometry.memory_slots
        ppm = ppm_of(mflops, card.capacity_mflops)
        return CardShare(card.uuid, mflops, vram, mflops, vram, ppm, ppm, mflops, vram, slot)
    mflops, vram = claim.mflops_on(card.capacity_mflops), claim.vram_on(card.capacity_vram_bytes)
    limit = claim.limit_mflops_on(card.capacity_mflops)
    return CardShare(
        card.uuid, mflops, vram, limit, claim.limit_vram_on(card.capacity_vram_bytes),
        min(ppm_of(mflops, card.capacity_mflops), PPM), ppm_of(limit, card.capacity_mflops), mflops, vram,
    )  # fmt: skip


def reserve(
    claim: Claim,
    chosen: tuple[tuple[CardFacts, Slot | None], ...],
    *,
    uid: str,
    namespace: str,
    name: str,
    priority: int,
) -> Reservation:
    """The reservation of a pod on the chosen cards of one node."""
    return Reservation(
        uid, namespace, name, chosen[0][0].node, claim.isolation, claim.firm, claim.whole_card,
        tuple(share_on(claim, card, slot) for card, slot in chosen), priority,
    )  # fmt: skip
