"""Who uses what of which card now: the GPU objects and the pods joined with what the agents measured (`top`). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tensorfusion_iac.api.effective import from_text
from tensorfusion_iac.api.names import key
from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.quantity import parse_quantity
from tensorfusion_iac.operations.observed import Object, at, name_of, namespace_of


@dataclass(frozen=True, slots=True)
class Sample:
    """What a pod (by UID) used of a card (by UUID): compute in percent of the card, memory in bytes."""

    pod_uid: str
    gpu: str
    compute_percent: float
    vram_bytes: int


@dataclass(frozen=True, slots=True)
class CardUse:
    """One card. None: nobody told. `reserved_percent`: memory that is promised to pods, of the card's."""

    node: str
    index: int
    model: str
    health: str
    pods: int
    compute_percent: float | None
    vram_bytes: int | None
    vram_total_bytes: int
    reserved_percent: float | None
    uuid: str

    def record(self) -> dict[str, Any]:
        """For `--output json`."""
        return {
            "node": self.node, "index": self.index, "model": self.model, "uuid": self.uuid, "health": self.health,
            "pods": self.pods, "computePercent": self.compute_percent, "vramBytes": self.vram_bytes,
            "vramTotalBytes": self.vram_total_bytes, "vramReservedPercent": self.reserved_percent,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class PodUse:
    """One pod on one card, with its limits; use is None where nobody told."""

    namespace: str
    pod: str
    node: str
    index: int | None
    compute_percent: float | None
    limit_percent: float
    vram_bytes: int | None
    vram_limit_bytes: int
    enforced_by: str

    def record(self) -> dict[str, Any]:
        """For `--output json`."""
        return {
            "namespace": self.namespace, "pod": self.pod, "node": self.node, "index": self.index,
            "computePercent": self.compute_percent, "computeLimitPercent": self.limit_percent, "vramBytes": self.vram_bytes,
            "vramLimitBytes": self.vram_limit_bytes, "enforcedBy": self.enforced_by,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Use:
    """The whole cluster at one moment."""

    cards: Sequence[CardUse]
    pods: Sequence[PodUse]


def use(gpus: Iterable[Object], pods: Iterable[Object], samples: Iterable[Sample]) -> Use:
    """Cards by node and index, pods by name. Cards and pods that no sample is of are there, without use."""
    measured = {(sample.pod_uid, sample.gpu): sample for sample in samples}
    cards = {str(at(gpu, "status", "uuid")): gpu for gpu in gpus if at(gpu, "status", "uuid")}
    rows = [row for pod in pods for row in _pod_rows(pod, cards, measured)]
    found = [_card(uuid, gpu, measured) for uuid, gpu in cards.items()]
    return Use(
        sorted(found, key=lambda card: (card.node, card.index)),
        sorted(rows, key=lambda row: (row.namespace, row.pod, row.node, row.index or 0)),
    )


def _card(uuid: str, gpu: Object, measured: Mapping[tuple[str, str], Sample]) -> CardUse:
    status = at(gpu, "status")
    mine = [sample for sample in measured.values() if sample.gpu == uuid]
    capacity, available = _bytes(at(status, "capacity", "vram")), at(status, "available", "vram")
    reserved = None if available is None or not capacity else 100 * (1 - _bytes(available) / capacity)
    return CardUse(
        node=str(status.get("nodeName", "")), index=int(status.get("index") or 0), model=str(status.get("model", "")),
        health=str(status.get("health", "")), pods=len({row.get("uid") for row in status.get("pods") or ()}),
        compute_percent=sum(sample.compute_percent for sample in mine) if mine else None,
        vram_bytes=sum(sample.vram_bytes for sample in mine) if mine else None,
        vram_total_bytes=capacity, reserved_percent=reserved, uuid=uuid,
    )  # fmt: skip


def _pod_rows(pod: Object, cards: Mapping[str, Object], measured: Mapping[tuple[str, str], Sample]) -> Iterable[PodUse]:
    text, uid = at(pod, "metadata", "annotations", key("effective")), str(at(pod, "metadata", "uid"))
    if text is None or at(pod, "status", "phase") in ("Succeeded", "Failed"):
        return
    try:
        effective = from_text(str(text))
    except ValueError:
        return
    for amounts in effective.cards:
        card, sample = cards.get(amounts.id), measured.get((uid, amounts.id))
        yield PodUse(
            namespace=namespace_of(pod), pod=name_of(pod), node=str(at(pod, "spec", "nodeName") or ""),
            index=at(card, "status", "index"),
            compute_percent=None if sample is None else sample.compute_percent,
            limit_percent=100.0 if effective.exclusive else float(min(amounts.limits.percent, Decimal(100))),
            vram_bytes=None if sample is None else sample.vram_bytes,
            vram_limit_bytes=amounts.limits.vram_bytes,
            enforced_by=_held(card, uid),
        )  # fmt: skip


def _held(card: Object | None, uid: str) -> str:
    rows = at(card, "status", "pods") or ()
    return next((str(row.get("enforcedBy") or "") for row in rows if row.get("uid") == uid), "")


def _bytes(text: object) -> int:
    try:
        return int(parse_quantity(str(text)))
    except Fault:
        return 0
