"""Where on a card a hardware partition goes: NVIDIA's placement rules, least waste, and large slots kept free (SPEC §6).

A card is its geometry, the memory slots that are taken (as bits) and the compute slices that are. A partition starts only
where its template allows. Among the templates that cover a claim the one with the least waste is taken, and among its
free starts the one after which the card can still take the most.
"""

from __future__ import annotations

from functools import lru_cache

from tensorfusion_iac.api.catalogue import MigGeometry, MigTemplate, profile_name
from tensorfusion_iac.planning.claim import Claim
from tensorfusion_iac.planning.shares import Slot

_COMPUTE_WASTE, _VRAM_WASTE = 0.6, 0.4  # what surplus compute and memory count (research/upstream.md §2)


def covering(geometry: MigGeometry, claim: Claim, capacity_mflops: int, capacity_vram_bytes: int) -> tuple[MigTemplate, ...]:
    """The templates that satisfy the claim on such a card, the least waste first; the named one alone if it names one.

    Without a name only plain profiles count: those with media or graphics engines are for who names them.
    """
    if claim.template is not None:
        wanted = profile_name(claim.template)
        return tuple(template for template in geometry.templates if template.name == wanted)
    mflops, vram = claim.mflops_on(capacity_mflops), claim.vram_on(capacity_vram_bytes)
    return _covering(geometry, mflops, vram, capacity_mflops, capacity_vram_bytes)


@lru_cache(maxsize=4096)
def _covering(geometry: MigGeometry, mflops: int, vram: int, card_mflops: int, card_vram: int) -> tuple[MigTemplate, ...]:
    wastes = []
    for position, template in enumerate(geometry.templates):
        has_mflops = card_mflops * template.compute_slices // geometry.compute_slices
        has_vram = card_vram * template.size // geometry.memory_slots
        if template.variant == "" and has_mflops >= mflops and has_vram >= vram:
            waste = _COMPUTE_WASTE * (has_mflops - mflops) / max(card_mflops, 1)
            waste += _VRAM_WASTE * (has_vram - vram) / max(card_vram, 1)
            wastes.append((waste, position, template))
    return tuple(template for _, _, template in sorted(wastes, key=lambda row: row[:2]))


@lru_cache(maxsize=65536)
def place(geometry: MigGeometry, template: MigTemplate, taken_slots: int, taken_slices: int) -> Slot | None:
    """The best free placement of a template, None if there is none.

    `max_instances` of plain templates follows from slots and slices; that of others is the caller's to check.
    """
    if taken_slices + template.compute_slices > geometry.compute_slices:
        return None
    slots = [Slot(template.name, start, template.size, template.compute_slices) for start in template.starts]
    free = [slot for slot in slots if not slot.mask & taken_slots]
    if not free:
        return None
    slices = taken_slices + template.compute_slices
    # The later start wins among equals: slot 0 is where the largest templates begin.
    return max(free, key=lambda slot: (*_room(geometry, taken_slots | slot.mask, slices), slot.start))


@lru_cache(maxsize=65536)
def _room(geometry: MigGeometry, taken_slots: int, taken_slices: int) -> tuple[int, int]:
    """What a card can still take: the slots of the largest plain template, and the ways to place any of them."""
    largest = ways = 0
    for template in geometry.templates:
        if template.variant or taken_slices + template.compute_slices > geometry.compute_slices:
            continue
        bits = (1 << template.size) - 1
        starts = sum(1 for start in template.starts if not (bits << start) & taken_slots)
        ways += starts * template.size
        if starts:
            largest = max(largest, template.size)
    return largest, ways
