"""Which real nodes there are, and their names, addresses and folders: all follow from the control plane's folder and two numbers.

The nodes hang on a bridge of this machine, whose address is the way to the API server. Links are called after the folder, so that
what a killed control plane left is found again, and no other's is touched.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tensorfusion_iac.agent.simulated_cards import card_uuid
from tensorfusion_iac.local.layout import Layout

MAX_REAL_NODES = 4
CARDS_PER_NODE = 2
CARD_MODEL, CARD_GIB = "NVIDIA A100-SXM4-80GB", 80

_POD_PREFIX = 26
_FIRST_NODE = 10


@dataclass(frozen=True, slots=True)
class Network:
    """The addresses of one control plane's nodes: `number` (0-255) tells them from another's on the same machine."""

    number: int

    @property
    def nodes(self) -> ipaddress.IPv4Network:
        """Of the bridge and the nodes."""
        return ipaddress.IPv4Network(f"10.89.{self.number}.0/24")

    @property
    def pods(self) -> ipaddress.IPv4Network:
        """Of all pods of these nodes."""
        return ipaddress.IPv4Network(f"10.90.{self.number}.0/24")

    @property
    def gateway(self) -> str:
        """This machine, as the nodes see it."""
        return str(self.nodes[1])


@dataclass(frozen=True, slots=True)
class RealNode:
    """One real node."""

    ordinal: int
    network: Network
    layout: Layout

    @property
    def name(self) -> str:
        """Of the Node object, and the node's hostname."""
        return f"real-{self.ordinal}"

    @property
    def address(self) -> str:
        """Of the node."""
        return str(self.network.nodes[_FIRST_NODE + self.ordinal])

    @property
    def pods(self) -> ipaddress.IPv4Network:
        """The addresses of its pods."""
        ranges: Iterator[ipaddress.IPv4Network] = self.network.pods.subnets(new_prefix=_POD_PREFIX)
        return list(ranges)[self.ordinal]

    @property
    def link(self) -> str:
        """This machine's end of the node's cable."""
        return f"{bridge_name(self.layout)}n{self.ordinal}"

    @property
    def folder(self) -> Path:
        """Everything of the node: configuration, containerd's and kubelet's files."""
        return self.layout.real_nodes / self.name

    @property
    def cards(self) -> Path:
        """The folder with the state of its simulated cards."""
        return self.folder / "cards"

    def card_uuid(self, index: int) -> str:
        """Of one of its cards: the same for ever, and another on every node."""
        return card_uuid(self.name, index)


def planned(layout: Layout, number: int, count: int) -> tuple[RealNode, ...]:
    """The nodes of a control plane."""
    return tuple(RealNode(ordinal, Network(number), layout) for ordinal in range(count))


def bridge_name(layout: Layout) -> str:
    """Of the nodes' bridge: at most 12 characters, as a link's name may have 15."""
    return f"tfl-{hashlib.sha256(str(layout.root).encode()).hexdigest()[:8]}"


def choose_number(remembered: int | None, taken: Iterable[ipaddress.IPv4Network]) -> int | None:
    """A network that overlaps none of `taken`, the remembered one if it still can be had; None if there is none left."""
    others = list(taken)
    for number in range(256) if remembered is None else (remembered, *range(256)):
        network = Network(number)
        if not any(ours.overlaps(other) for ours in (network.nodes, network.pods) for other in others):
            return number
    return None
