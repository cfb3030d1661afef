"""What agents of simulated nodes would see: load by workload, shared out by the same rule as on real cards. Pure.

A workload's load follows from its name alone: a level, a slow wave and small steps, so that autoscaling and dashboards have
something to show and two runs show the same. What a pod gets of it is decided by planning/share.
"""

from __future__ import annotations

import hashlib
import math
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensorfusion_iac.agent.driver import Instance
from tensorfusion_iac.agent.enforcer import ContainerUse, Seen
from tensorfusion_iac.agent.partitions import Partitioned, Wanted
from tensorfusion_iac.agent.pods import NodePod
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.planning.share import Tenant, entitled

_INSTANCES = uuid.UUID("b7f0a5f4-2c0e-5d0b-9a53-0a8d6d2b9f11")  # of no meaning, but the same for ever
_STEP_S = 20.0


@dataclass(frozen=True, slots=True)
class Load:
    """What a workload would use of a card if it had it alone: a mean, a wave around it, and the wave's period."""

    mean: float
    swing: float
    period_s: float

    def at(self, now_s: float, phase: float) -> float:
        """The demand of one pod, a fraction of a card; `phase` (0..1) sets the pods of a workload apart."""
        wave = math.sin(2 * math.pi * (now_s / self.period_s + phase / 4))
        steps = _fraction(f"{phase}/{now_s // _STEP_S}") - 0.5
        return min(max(self.mean + self.swing * wave + 0.1 * steps, 0.0), 1.0)


def load_of(workload: str) -> Load:
    """The load of a workload, from its name."""
    one, two, three = (_fraction(f"{workload}/{part}") for part in ("mean", "swing", "period"))
    return Load(0.15 + 0.6 * one, 0.05 + 0.25 * two, 120 + 480 * three)


def simulate(pods: Iterable[NodePod], now_s: float) -> Seen:
    """What the agent of a node with these pods would see at `now_s`."""
    found = list(pods)
    uses: list[ContainerUse] = []
    ran: dict[str, float] = {}
    targets: dict[tuple[str, str], float] = {}
    busy: dict[str, int | None] = {}
    for card in sorted({card for pod in found for card in pod.cards}):
        on_card = [pod for pod in found if card in pod.cards]
        wanted = {pod.uid: load_of(pod.workload).at(now_s, _fraction(pod.uid)) for pod in on_card}
        granted = _shared_out(on_card, card, wanted)
        for pod in on_card:
            use = min(granted[pod.uid], wanted[pod.uid])
            uses.append(_use(pod, card, use, wanted[pod.uid]))
            if pod.paced:
                targets[pod.uid, card] = granted[pod.uid]
                ran[pod.uid] = min(ran.get(pod.uid, 1.0), use / wanted[pod.uid] if wanted[pod.uid] > 0 else 1.0)
        busy[card] = round(100 * sum(use.compute for use in uses if use.card == card))
    return Seen(tuple(uses), busy, ran=ran, targets=targets, at_s=now_s)


def partitioned(card: str, wanted: Iterable[Wanted]) -> Partitioned:
    """The partitions of a simulated card: as wanted, at once. Their UUIDs follow from the placement."""
    made = (
        (Instance(each.template, each.start, each.size, instance_uuid(card, each)), each.pod_uid)
        for each in sorted(wanted, key=lambda each: each.start)
    )  # fmt: skip
    return Partitioned(tuple(made))


def instance_uuid(card: str, placement: Wanted) -> str:
    """The UUID of a simulated instance."""
    return f"MIG-{uuid.uuid5(_INSTANCES, f'{card}/{placement.template}/{placement.start}')}"


def _shared_out(pods: Iterable[NodePod], card: str, wanted: Mapping[str, float]) -> dict[str, float]:
    """What each may have: paced pods by the water-filling, others up to their own bound."""
    tenants, granted = [], {}
    for pod in pods:
        limits = pod.cards[card]
        if pod.paced:
            bound = min(limits.limit, wanted[pod.uid])
            tenants.append(Tenant(pod.uid, limits.request, bound, pod.qos, bound, throttled=True))
        else:
            granted[pod.uid] = 1.0 if pod.isolation is Isolation.SHARED else limits.limit
    return granted | entitled(tenants)


def _use(pod: NodePod, card: str, compute: float, wanted: float) -> ContainerUse:
    """Memory follows the demand a little: weights that stay, and buffers that come and go."""
    container = next((name for name, cards in pod.cards_of.items() if card in cards), "")
    vram_bytes = round(pod.cards[card].vram_limit_bytes * min(0.45 + 0.4 * wanted, 0.95))
    return ContainerUse(pod.uid, container, card, compute, vram_bytes, 0.1)


def _fraction(text: str) -> float:
    """A number from 0 to 1 that follows from a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) / 2**32
