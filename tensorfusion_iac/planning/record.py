"""Between a reservation and the pod's annotations: what is written at bind, and how the books are read back (SPEC §2, §7).

The annotations of living pods are the truth after a restart, so what is written here says everything that is reserved, and
reading it back gives the same reservation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal

from tensorfusion_iac.api import names
from tensorfusion_iac.api.effective import Amount, Effective, EffectiveCard, Partition, from_text, to_text
from tensorfusion_iac.api.levels import Isolation, Mode
from tensorfusion_iac.api.vendors import DeviceForm, visible_devices
from tensorfusion_iac.api.worker import WorkerSpec
from tensorfusion_iac.planning.cards import CardFacts
from tensorfusion_iac.planning.claim import claim_of
from tensorfusion_iac.planning.shares import CardShare, Reservation, Slot
from tensorfusion_iac.planning.units import PPM, mflops_up, ppm_up, tflops

MIB = 2**20
_FRACTION_DIGITS = 10**4
_CORES = {"Inferentia": 4, "Inferentia2": 2, "Trainium": 2, "Trainium1": 2, "Trainium2": 8, "Trainium3": 8}
"""NeuronCores per device, by model or alias (AWS Neuron documentation, architecture pages)."""


def holders(worker: WorkerSpec) -> tuple[str, ...]:
    """The containers of the pod that open the devices: the injected ones, or the sidecar of a standalone worker (SPEC §2a)."""
    return (names.WORKER_CONTAINER,) if worker.mode is Mode.STANDALONE else worker.containers


def split(worker: WorkerSpec) -> Mapping[str, tuple[int, ...]]:
    """For each container that opens devices, the positions of its GPUs among the worker's.

    With `container_gpus` each gets the next ones, in that order; init containers, which are not in it, see all. Without
    it all containers share all GPUs.
    """
    every = tuple(range(worker.gpu_count))
    if worker.container_gpus is None or worker.mode is Mode.STANDALONE:
        return dict.fromkeys(holders(worker), every)
    positions: dict[str, tuple[int, ...]] = dict.fromkeys(holders(worker), every)
    start = 0
    for container, count in worker.container_gpus.items():
        positions[container] = every[start : start + count]
        start += count
    return positions


def bind_annotations(
    worker: WorkerSpec, reservation: Reservation, cards: Mapping[str, CardFacts], instances: Mapping[str, str]
) -> dict[str, str]:
    """Everything that the Binding carries (full keys).

    `cards` are the facts of the reserved cards by UUID; `instances` the MIG UUIDs of partitioned ones, by card UUID.
    """
    ids = [share.uuid for share in reservation.shares]
    by_container = split(worker)
    found = {
        names.key("effective"): effective_text(reservation),
        names.key("gpu-ids"): ",".join(ids),
        names.key("container-gpus"): json.dumps(
            {container: [ids[at] for at in positions] for container, positions in by_container.items()}, separators=(",", ":")
        ),
    }
    if instances:
        found[names.key("partition-ids")] = ",".join(instances[uuid] for uuid in ids)
    for container, positions in by_container.items():
        if positions:
            shares = [reservation.shares[at] for at in positions]
            values = _of_container(worker, shares, cards, instances)
            found |= {names.container_key(name, container): value for name, value in values.items()}
    return found


def effective_text(reservation: Reservation) -> str:
    """The annotation `effective` of a reservation."""
    return to_text(Effective(tuple(_effective_card(share) for share in reservation.shares), reservation.exclusive))


def reservation_of(
    worker: WorkerSpec, text: str, *, uid: str, namespace: str, name: str, node: str, priority: int
) -> Reservation:
    """The reservation of a bound pod from its annotations. ValueError if `effective` is not readable."""
    effective, claim = from_text(text), claim_of(worker)
    shares = tuple(_share(card) for card in effective.cards)
    return Reservation(uid, namespace, name, node, claim.isolation, claim.firm, effective.exclusive, shares, priority)


def _of_container(
    worker: WorkerSpec, shares: list[CardShare], cards: Mapping[str, CardFacts], instances: Mapping[str, str]
) -> dict[str, str]:
    values = {"gpu-ids": ",".join(share.uuid for share in shares)}
    facts = [cards[share.uuid] for share in shares]
    visible = visible_devices(worker.vendor)
    if visible is not None:
        values["visible-devices"] = _visible(visible.form, facts, instances)
    limit = min(min(share.limit_vram_bytes, card.capacity_vram_bytes) for share, card in zip(shares, facts, strict=True))
    values["vram-limit-mib"] = str(limit // MIB)
    values["vram-fraction"] = _fraction(worker, shares, facts)
    if worker.isolation is Isolation.HARD:
        percent = max(-(-share.limit_ppm * 100 // PPM) for share in shares)
        values["sm-percent"] = str(min(max(percent, 1), 100))
    return values


def _visible(form: DeviceForm, cards: list[CardFacts], instances: Mapping[str, str]) -> str:
    if form is DeviceForm.UUID:
        return ",".join(instances.get(card.uuid, card.uuid) for card in cards)
    if form is DeviceForm.INDEX:
        return ",".join(str(card.index) for card in cards)
    cores: list[int] = []
    for card in cards:
        per_card = _CORES.get(card.model, 2)
        cores += range(card.index * per_card, (card.index + 1) * per_card)
    return ",".join(map(str, cores))


def _fraction(worker: WorkerSpec, shares: list[CardShare], cards: list[CardFacts]) -> str:
    """Limit / usable memory, rounded down, of the card where it is least; 1 where a container sees the limit as the total."""
    if worker.isolation is Isolation.PARTITIONED or all(card.vram_seen for card in cards):
        return "1"
    parts = min(
        min(share.limit_vram_bytes, card.capacity_vram_bytes) * _FRACTION_DIGITS // max(card.capacity_vram_bytes, 1)
        for share, card in zip(shares, cards, strict=True)
    )
    return "1" if parts >= _FRACTION_DIGITS else f"{parts / _FRACTION_DIGITS:.4f}".rstrip("0").rstrip(".")


def _effective_card(share: CardShare) -> EffectiveCard:
    held = Amount(tflops(share.held_mflops), share.held_vram_bytes, _percent(share.request_ppm))
    slot = share.slot
    return EffectiveCard(
        share.uuid,
        Amount(tflops(share.mflops), share.vram_bytes, _percent(share.request_ppm)),
        Amount(tflops(share.limit_mflops), share.limit_vram_bytes, _percent(share.limit_ppm)),
        None if share.is_settled else held,
        None if slot is None else Partition(slot.template, slot.start, slot.size, slot.compute_slices),
    )


def _share(card: EffectiveCard) -> CardShare:
    part, held = card.partition, card.held or card.requests
    return CardShare(
        card.id,
        mflops_up(card.requests.tflops),
        card.requests.vram_bytes,
        mflops_up(card.limits.tflops),
        card.limits.vram_bytes,
        ppm_up(card.requests.percent),
        ppm_up(card.limits.percent),
        mflops_up(held.tflops),
        held.vram_bytes,
        None if part is None else Slot(part.template, part.start, part.size, part.slices),
    )


def _percent(ppm: int) -> Decimal:
    return Decimal(ppm) * 100 / PPM
