"""Which cards a simulated node has: what a driver would say of it, read from its Node object's annotation. Pure.

Whoever makes the Node writes how many cards of which model it has; their UUIDs follow from the node's name and the card's index
alone, so they are the same for ever.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from tensorfusion_iac.agent.driver import Card
from tensorfusion_iac.api.catalogue import find
from tensorfusion_iac.api.names import PREFIX

SIMULATED_LABEL = f"{PREFIX}simulated"
"""On simulated nodes, and on the objects that their agents keep."""

SELECTOR = f"{SIMULATED_LABEL}=true"
CARDS_ANNOTATION = f"{PREFIX}simulated-cards"
"""On a simulated Node: how many cards of which model of the catalogue, `4 x A100_SXM_80G`."""

_CARDS = re.compile(r"([1-9][0-9]{0,2}) x (.+)")
_UUIDS = uuid.UUID("8a1f8a3e-6c53-5f0e-9d0b-6f2f0c1d7e55")  # of no meaning, but the same for ever


def cards_text(count: int, model: str) -> str:
    """The annotation of a node with so many cards of a model."""
    return f"{count} x {model}"


def cards_of(node: Mapping[str, Any]) -> tuple[Card, ...]:
    """The cards of a Node; none if it says nothing of them, or names a model that is not in the catalogue."""
    metadata = node["metadata"]
    match = _CARDS.fullmatch((metadata.get("annotations") or {}).get(CARDS_ANNOTATION, ""))
    model = None if match is None else next((one for one in find(match[2]) if one.name == match[2]), None)
    if match is None or model is None:
        return ()
    count, name = int(match[1]), str(metadata["name"])
    return tuple(
        Card(
            index, card_uuid(name, index), model.name, model.nominal_vram_bytes,
            numa_node=0 if index * 2 < count else 1,  # two sockets, as in servers of this kind
            can_partition=model.mig is not None,
        )
        for index in range(count)
    )  # fmt: skip


def card_uuid(node: str, index: int) -> str:
    """The UUID of a card: `GPU-` and a version 5 UUID of node and index."""
    return f"GPU-{uuid.uuid5(_UUIDS, f'{node}/{index}')}"
