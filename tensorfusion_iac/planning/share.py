"""How the compute of one card is shared out among the soft-limited containers on it (SPEC §6; research/enforcement.md §4).

Weighted water-filling: first what was requested, then what is left by weight of QoS, to nobody more than its limit or than it
wants. What one does not want goes to the others, so a card is never idle while somebody below its limit is hungry. Amounts
are fractions of the card. The node agent asks twice a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorfusion_iac.api.levels import QOS_ORDER, QoS

CAPACITY = 0.98
"""What is shared out; the rest is room for the controller to err in."""
FLOOR = 0.05
"""What the requests of higher QoS leave to each lower tenant that wants it."""
WEIGHT: Mapping[QoS, float] = {QoS.LOW: 1.0, QoS.MEDIUM: 2.0, QoS.HIGH: 4.0, QoS.CRITICAL: 8.0}
CREDIT_MOST_S = 10.0

_GROWTH, _GROWTH_LEAST = 1.15, 0.02  # how much more than now a tenant that is not held back may want a moment later
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class Tenant:
    """One container on the card: request and limit, present use, whether it is held back, and its burst credit.

    `credit_s` is in seconds of the whole card: saved below the request, spent above it.
    """

    key: str
    request: float
    limit: float
    qos: QoS
    use: float
    throttled: bool
    credit_s: float = CREDIT_MOST_S

    @property
    def wanted(self) -> float:
        """What it would take now: nobody knows of one that is held back, so up to its limit."""
        demand = 1.0 if self.throttled else _GROWTH * self.use + _GROWTH_LEAST
        return max(min(self.limit, demand, 1.0), 0.0)

    @property
    def weight(self) -> float:
        """Its part of what is left over; half without credit."""
        return WEIGHT[self.qos] * (1.0 if self.credit_s > 0 else 0.5)


def entitled(tenants: Sequence[Tenant], capacity: float = CAPACITY) -> dict[str, float]:
    """What each tenant may use, by key. The sum is at most `capacity`, and equal to it if they want that much."""
    granted = _requested(tenants, capacity)
    _pour(tenants, granted, capacity - sum(granted.values()))
    return granted


def credit_after(credit_s: float, request: float, use: float, elapsed_s: float) -> float:
    """The burst credit after `elapsed_s` of such use, 0 to CREDIT_MOST_S."""
    return min(max(credit_s + (request - use) * elapsed_s, 0.0), CREDIT_MOST_S)


def _requested(tenants: Sequence[Tenant], capacity: float) -> dict[str, float]:
    """What of their requests they get: all, or from the highest QoS down if it is too much, a floor left for the others."""
    asked = {tenant.key: min(tenant.request, tenant.wanted) for tenant in tenants}
    if sum(asked.values()) <= capacity:
        return asked
    floor = min(FLOOR, capacity / len(tenants))
    floors = {key: min(floor, amount) for key, amount in asked.items()}
    granted: dict[str, float] = {}
    for qos in reversed(QOS_ORDER):
        keys = [tenant.key for tenant in tenants if tenant.qos is qos]
        kept = sum(floors[tenant.key] for tenant in tenants if tenant.key not in granted and tenant.qos is not qos)
        room = capacity - sum(granted.values()) - kept
        granted |= _scaled({key: asked[key] for key in keys}, floors, room)
    return granted


def _scaled(asked: Mapping[str, float], floors: Mapping[str, float], room: float) -> dict[str, float]:
    """The amounts, scaled by one factor so that they fit into `room`; whom that would bring below its floor gets the floor."""
    if sum(asked.values()) <= room:
        return dict(asked)
    at_floor: set[str] = set()
    while True:
        free = {key: amount for key, amount in asked.items() if key not in at_floor}
        total = sum(free.values())
        factor = max(room - sum(floors[key] for key in at_floor), 0.0) / total if total > 0 else 0.0
        low = {key for key, amount in free.items() if amount * factor < floors[key]}
        if not low:
            return {key: floors[key] if key in at_floor else asked[key] * factor for key in asked}
        at_floor |= low


def _pour(tenants: Sequence[Tenant], granted: dict[str, float], left: float) -> None:
    """Share `left` by weight among those who want more, until it or their wish is at an end."""
    thirsty = [tenant for tenant in tenants if tenant.wanted > granted[tenant.key]]
    while thirsty and left > _NOTHING:
        per_weight = left / sum(tenant.weight for tenant in thirsty)
        filled = [tenant for tenant in thirsty if tenant.wanted - granted[tenant.key] <= per_weight * tenant.weight]
        for tenant in filled or thirsty:
            more = min(per_weight * tenant.weight, tenant.wanted - granted[tenant.key])
            granted[tenant.key] += more
            left -= more
        thirsty = [tenant for tenant in thirsty if tenant not in filled] if filled else []
