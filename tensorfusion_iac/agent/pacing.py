"""From measured use to pulses: once or twice a second, for all soft-limited pods of a node (SPEC §6; planning/share, duty).

A pod is one tenant of each of its cards, whatever containers and processes it has there: a card is charged once a worker. It
has one pulse, the strictest that its cards ask for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorfusion_iac.agent.pods import NodePod
from tensorfusion_iac.planning import duty
from tensorfusion_iac.planning.duty import FREE, LONGEST_FREEZE_S, Duty, Pulse
from tensorfusion_iac.planning.share import CAPACITY, CREDIT_MOST_S, Tenant, credit_after, entitled

Place = tuple[str, str]
"""A pod's UID and a card's UUID."""

_ALONE = 0.01  # of a card, used by all others together


@dataclass
class Pacing:
    """Keeps the controllers' state by pod and card."""

    duties: dict[Place, Duty] = field(default_factory=dict)
    credits_s: dict[Place, float] = field(default_factory=dict)
    targets: dict[Place, float] = field(default_factory=dict)

    def step(
        self, pods: Mapping[str, NodePod], use: Mapping[Place, float], ran: Mapping[str, float], elapsed_s: float
    ) -> dict[str, Pulse]:
        """The pulse of each paced pod from now on. `use`: of each place, a fraction of the card; `ran`: by pod."""
        paced = {uid: pod for uid, pod in pods.items() if pod.paced}
        self._forget(paced)
        for card in {card for pod in paced.values() for card in pod.cards}:
            self._step_card(card, {uid: pod for uid, pod in paced.items() if card in pod.cards}, use, ran, elapsed_s)
        return {uid: self._pulse(uid, pod) for uid, pod in paced.items()}

    def unreachable(self, place: Place) -> bool:
        """Whether the limit cannot be kept there, although everything is done."""
        found = self.duties.get(place)
        return found is not None and found.unreachable

    def _step_card(
        self, card: str, pods: Mapping[str, NodePod], use: Mapping[Place, float], ran: Mapping[str, float], elapsed_s: float
    ) -> None:
        tenants = [self._tenant(pod, card, use.get((uid, card), 0.0), elapsed_s) for uid, pod in pods.items()]
        granted = entitled(tenants)
        spare = max(CAPACITY - sum(granted.values()), 0.0)  # nobody wants it now, so whoever begins to may have it
        for tenant in tenants:
            place, pod = (tenant.key, card), pods[tenant.key]
            others = sum(other.use for other in tenants) - tenant.use
            alone = tenant.limit >= 1.0 and others < _ALONE
            target = 1.0 if alone else min(granted[tenant.key] + spare, tenant.limit)
            self.targets[place] = target
            self.duties[place] = duty.step(
                self.duties.get(place, Duty(target=target)), target=target, use=tenant.use, ran=ran.get(tenant.key, 1.0),
                elapsed_s=elapsed_s, longest_freeze_s=LONGEST_FREEZE_S[pod.qos],
            )  # fmt: skip

    def _tenant(self, pod: NodePod, card: str, use: float, elapsed_s: float) -> Tenant:
        place, limits = (pod.uid, card), pod.cards[card]
        credit_s = credit_after(self.credits_s.get(place, CREDIT_MOST_S), limits.request, use, elapsed_s)
        self.credits_s[place] = credit_s
        throttled = self.duties[place].throttled if place in self.duties else False
        return Tenant(pod.uid, limits.request, limits.limit, pod.qos, min(use, 1.0), throttled, credit_s)

    def _pulse(self, uid: str, pod: NodePod) -> Pulse:
        lowest = min((self.duties[uid, card].duty for card in pod.cards), default=1.0)
        return duty.pulse(lowest, LONGEST_FREEZE_S[pod.qos]) if lowest < 1.0 else FREE

    def _forget(self, paced: Mapping[str, NodePod]) -> None:
        for book in (self.duties, self.credits_s, self.targets):
            for place in [place for place in book if place[0] not in paced or place[1] not in paced[place[0]].cards]:
                del book[place]
