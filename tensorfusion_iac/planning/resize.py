"""Other amounts for a pod that runs: the new shares, or why they cannot be; and when a shrink has freed its room (SPEC §8).

A grow is reserved before it comes into force. A shrink comes into force at once, and keeps its old room until the agent says
that the lower limits are applied. One change is acknowledged before the next is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensorfusion_iac.api.desired import Desired
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.quantity import format_bytes
from tensorfusion_iac.planning.charge import charge_of
from tensorfusion_iac.planning.ledger import Ledger
from tensorfusion_iac.planning.shares import CardShare, Reservation
from tensorfusion_iac.planning.units import mflops_up, ppm_of, tflops_text


@dataclass(frozen=True, slots=True)
class Applied:
    """The limits that the agent holds a pod to on one card: MFLOPS and bytes."""

    mflops: int
    vram_bytes: int


def resized(ledger: Ledger, uid: str, desired: Desired) -> tuple[CardShare, ...] | str:
    """The pod's shares with the desired amounts; or in words why they cannot be."""
    entry = ledger.get(uid)
    if entry is None:
        return "the pod holds no GPUs"
    held = entry.reservation
    if held.isolation in (Isolation.HARD, Isolation.PARTITIONED) or held.exclusive:
        what = "whole cards" if held.exclusive else f"isolation {held.isolation.value}"
        return f"amounts of {what} are fixed until the pod restarts"
    shares = []
    for share in held.shares:
        card = ledger.inventory.card(share.uuid)
        if card is None:
            return f"GPU {share.uuid} is not there"
        changed = _changed(share, desired, card.capacity_mflops)
        if changed.limit_mflops < changed.mflops or changed.limit_vram_bytes < changed.vram_bytes:
            return "a limit would be below its request"
        if changed.mflops > card.capacity_mflops or changed.vram_bytes > card.capacity_vram_bytes:
            has = f"{tflops_text(card.capacity_mflops)} TFLOPS and {format_bytes(card.capacity_vram_bytes)}"
            return f"GPU {share.uuid} has {has} at most"
        shares.append(changed)
    missing = ledger.fits({share.uuid: share for share in shares}, uid) or _over_quota(ledger, held, tuple(shares))
    return missing or tuple(shares)


def is_in_force(shares: tuple[CardShare, ...], desired: Desired) -> bool:
    """Whether nothing needs to change."""
    return all(
        (desired.tflops_request is None or mflops_up(desired.tflops_request) == share.mflops)
        and (desired.tflops_limit is None or mflops_up(desired.tflops_limit) == share.limit_mflops)
        and desired.vram_request_bytes in (None, share.vram_bytes)
        and desired.vram_limit_bytes in (None, share.limit_vram_bytes)
        for share in shares
    )


def acknowledged(reservation: Reservation, applied: Mapping[str, Applied]) -> bool:
    """Whether the agent says of every card that it holds the pod to the limits in force.

    Only then may they change again. Else its word of an earlier, lower limit, still on the way, would be taken for the newest:
    the room of a limit that it has yet to read, and will apply for a moment, would be given to another pod.
    """
    return all(applied.get(share.uuid) == Applied(share.limit_mflops, share.limit_vram_bytes) for share in reservation.shares)


def settled(reservation: Reservation, applied: Mapping[str, Applied]) -> tuple[CardShare, ...] | None:
    """The shares with the room given back whose lower limits the agent has applied (by card); None if there is none."""
    shares = tuple(_settle(share, applied.get(share.uuid)) for share in reservation.shares)
    return None if shares == reservation.shares else shares


def larger_held(share: CardShare, other: CardShare) -> CardShare:
    """The share with the room of both: for when it is not known which of them is in force."""
    return replace(
        share,
        held_mflops=max(share.held_mflops, other.held_mflops),
        held_vram_bytes=max(share.held_vram_bytes, other.held_vram_bytes),
    )


def _changed(share: CardShare, desired: Desired, capacity_mflops: int) -> CardShare:
    mflops = share.mflops if desired.tflops_request is None else mflops_up(desired.tflops_request)
    limit = share.limit_mflops if desired.tflops_limit is None else mflops_up(desired.tflops_limit)
    vram = share.vram_bytes if desired.vram_request_bytes is None else desired.vram_request_bytes
    return CardShare(
        share.uuid,
        mflops,
        vram,
        limit,
        share.limit_vram_bytes if desired.vram_limit_bytes is None else desired.vram_limit_bytes,
        ppm_of(mflops, capacity_mflops),
        ppm_of(limit, capacity_mflops),
        max(share.held_mflops, mflops),
        max(share.held_vram_bytes, vram),
    )


def _over_quota(ledger: Ledger, held: Reservation, shares: tuple[CardShare, ...]) -> str | None:
    quota = ledger.quota(held.namespace)
    if quota is None:
        return None
    others = ledger.used(held.namespace).minus(charge_of(held.shares))
    if quota.left(others).allows(shares) or _no_more(charge_of(shares), charge_of(held.shares)):
        return None
    return f"quota {quota.name} does not allow it"


def _no_more(after: tuple[int, ...], before: tuple[int, ...]) -> bool:
    """Whether nothing grows: a shrink is never refused, even where the quota is exceeded already."""
    return all(one <= other for one, other in zip(after, before, strict=True))


def _settle(share: CardShare, applied: Applied | None) -> CardShare:
    if share.is_settled or applied is None:
        return share
    compute_is_down = applied.mflops <= share.limit_mflops
    memory_is_down = applied.vram_bytes <= share.limit_vram_bytes
    return replace(
        share,
        held_mflops=share.mflops if compute_is_down else share.held_mflops,
        held_vram_bytes=share.vram_bytes if memory_is_down else share.held_vram_bytes,
    )
