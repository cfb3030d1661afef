"""Which cards a bound pod holds, and how much of each, for `explain`: the pod's `effective` joined with the GPU objects. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.api.effective import Amount, EffectiveCard, from_text
from tensorfusion_iac.api.names import key
from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.operations.observed import Object, at


@dataclass(frozen=True, slots=True)
class Held:
    """One card of a pod. `index` and `model` are None where no GPU object tells them."""

    index: int | None
    model: str | None
    card: EffectiveCard
    exclusive: bool

    def record(self) -> dict[str, Any]:
        """For `--output json`."""
        part = self.card.partition
        return {
            "uuid": self.card.id, "index": self.index, "model": self.model, "exclusive": self.exclusive,
            "requests": _record(self.card.requests), "limits": _record(self.card.limits),
            "partition": None if part is None else {"template": part.template, "start": part.start, "size": part.size},
        }  # fmt: skip

    def text(self) -> str:
        """`GPU 0 L40S (GPU-...): 10 to 40 TFLOPS, 4Gi VRAM`."""
        known = [f"GPU {'?' if self.index is None else self.index}", *([self.model] if self.model else [])]
        name = f"{' '.join(known)} ({self.card.id})"
        if self.exclusive:
            return f"{name}: the whole card"
        wanted, most = self.card.requests, self.card.limits
        compute = _range(format_decimal(wanted.tflops), format_decimal(most.tflops))
        vram = _range(format_bytes(wanted.vram_bytes), format_bytes(most.vram_bytes))
        part = self.card.partition
        instance = "" if part is None else f"MIG {part.template} at memory slot {part.start}, "
        return f"{name}: {instance}{compute} TFLOPS, {vram} VRAM"


def held_by(uids: Collection[str], objects: Iterable[Object]) -> dict[str, list[Held]]:
    """The cards of the pods with these UIDs, in the order in which they have them; none of a pod that does not tell."""
    gpus: dict[str, Object] = {}
    texts: dict[str, str] = {}
    for item in objects:
        uid = str(at(item, "metadata", "uid"))
        if item.get("kind") == "GPU":
            gpus[str(at(item, "status", "uuid"))] = item
        elif item.get("kind") == "Pod" and uid in uids:
            texts[uid] = str(at(item, "metadata", "annotations", key("effective")))
    return {uid: _of_pod(texts.get(uid, ""), gpus) for uid in uids}


def _of_pod(text: str, gpus: Mapping[str, Object]) -> list[Held]:
    try:
        effective = from_text(text)
    except ValueError:
        return []
    return [_held(card, gpus.get(card.id), effective.exclusive) for card in effective.cards]


def _held(card: EffectiveCard, gpu: Object | None, exclusive: bool) -> Held:
    status: Mapping[str, Any] = at(gpu, "status") or {}
    return Held(status.get("index"), status.get("model"), card, exclusive)


def _record(amount: Amount) -> dict[str, Any]:
    return {"tflops": float(amount.tflops), "vramBytes": amount.vram_bytes}


def _range(request: str, limit: str) -> str:
    return request if request == limit else f"{request} to {limit}"
