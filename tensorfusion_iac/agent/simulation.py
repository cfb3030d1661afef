"""What agents of simulated nodes would see: load by workload, shared out by the same rule as on real cards. Pure.

What pods would use is decided in `simulated_load`; what they get of it, by planning/share.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from tensorfusion_iac.agent.driver import Instance
from tensorfusion_iac.agent.enforcer import ContainerUse, Seen
from tensorfusion_iac.agent.partitions import Partitioned, Wanted
from tensorfusion_iac.agent.pods import NodePod
from tensorfusion_iac.agent.simulated_load import Load, fraction
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.planning.share import Tenant, entitled

_INSTANCES = uuid.UUID("b7f0a5f4-2c0e-5d0b-9a53-0a8d6d2b9f11")  # of no meaning, but the same for ever
_MOST_MEMORY = 0.97
"""Of its limit: a process that would go over it is refused."""


def simulate(pods: Iterable[NodePod], loads: Mapping[str, Load], now_s: float) -> Seen:
    """What the agent of a node with these pods would see at `now_s`. `loads`: by the pods' UIDs."""
    found = list(pods)
    uses: list[ContainerUse] = []
    ran: dict[str, float] = {}
    targets: dict[tuple[str, str], float] = {}
    busy: dict[str, int | None] = {}
    for card in sorted({card for pod in found for card in pod.cards}):
        on_card = [pod for pod in found if card in pod.cards]
        wanted = {pod.uid: loads[pod.uid].at(now_s, fraction(pod.uid)) for pod in on_card}
        granted = _shared_out(on_card, card, wanted)
        for pod in on_card:
            use = min(granted[pod.uid], wanted[pod.uid])
            uses.append(_use(pod, card, use, loads[pod.uid].memory_at(wanted[pod.uid])))
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


def _use(pod: NodePod, card: str, compute: float, vram_bytes: int) -> ContainerUse:
    container = next((name for name, cards in pod.cards_of.items() if card in cards), "")
    most = int(pod.cards[card].vram_limit_bytes * _MOST_MEMORY)
    return ContainerUse(pod.uid, container, card, compute, min(vram_bytes, most), 0.1)
