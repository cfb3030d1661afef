"""Which GPU and GPUNode objects describe something that is gone (SPEC §9). Pure.

A node is gone when its Node object is. A card is gone when its node's agent, alive, no longer lists it; that has to be so for a
while, since the agent writes its objects one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ABSENT_S = 60.0
"""How long a card or a node is missed before its object goes."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What a live agent says of its node: the UUIDs of all its cards."""

    cards: frozenset[str]


def absent(
    gpus: Iterable[Mapping[str, Any]], gpu_nodes: Iterable[Mapping[str, Any]], nodes: frozenset[str], listed: Mapping[str, Listed]
) -> Iterator[tuple[str, str]]:
    """Kind and name of each object whose card or node is not there now. `listed`: by node, of live agents only."""
    for gpu_node in gpu_nodes:
        name = gpu_node["metadata"]["name"]
        if name not in nodes:
            yield "GPUNode", name
    for gpu in gpus:
        status = gpu.get("status") or {}
        node, uuid = status.get("nodeName"), status.get("uuid")
        if not node or not uuid:
            continue  # its agent has not said yet which card it is
        if node not in nodes or (node in listed and uuid not in listed[node].cards):
            yield "GPU", gpu["metadata"]["name"]


@dataclass(frozen=True, slots=True)
class Missed:
    """Since when objects are missed (seconds of a monotonic clock), by kind and name."""

    since: Mapping[tuple[str, str], float]

    def look(self, now_absent: Iterable[tuple[str, str]], now: float) -> tuple[Missed, list[tuple[str, str]]]:
        """What is missed after this look, and what has been for long enough."""
        since = {key: self.since.get(key, now) for key in now_absent}
        return Missed(since), [key for key, at in since.items() if now - at >= ABSENT_S]
