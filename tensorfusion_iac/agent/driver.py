"""What the agent asks of a node's cards, and the values that it gets: the seam between its decisions and the hardware.

`nvml.py` answers from the vendor's library; `simulation.py` answers for KWOK nodes. Every call about a card names it by its
UUID and raises DriverError; one bad card never makes a call about another fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tensorfusion_iac.agent.health import Probe
from tensorfusion_iac.agent.samples import Sample

NO_LIMIT = 2**64 - 1
"""A hard memory limit that is none, as NVML writes it."""


class DriverError(Exception):
    """A call failed. `lost`: the card is off the bus or needs a reset. `unsupported`: this driver or card cannot do it."""

    def __init__(self, message: str, *, lost: bool = False, unsupported: bool = False) -> None:
        self.lost, self.unsupported = lost, unsupported
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Card:
    """One card. `usable_bytes` is without what the driver keeps for itself; `peers`: UUIDs and links of NVLink neighbours."""

    index: int
    uuid: str
    product: str
    usable_bytes: int
    numa_node: int | None = None
    peers: tuple[tuple[str, int], ...] = ()
    can_partition: bool = False
    partitioned: bool = False


@dataclass(frozen=True, slots=True)
class CardProcess:
    """A process on a card. `used_bytes` None: the driver does not say. `by_mps`: a client of an MPS server."""

    pid: int
    used_bytes: int | None
    by_mps: bool = False


@dataclass(frozen=True, slots=True)
class Instance:
    """A hardware partition that exists: its profile's name, memory slots, and the UUID that containers see."""

    template: str
    start: int
    size: int
    uuid: str


class Driver(Protocol):
    """The cards of one node."""

    @property
    def version(self) -> str:
        """The driver's version."""

    def restart(self) -> None:
        """Start the library anew: after a reset all its handles are stale."""

    def cards(self) -> Sequence[Card]:
        """The cards that answer, and those that once did."""

    def processes(self, uuid: str) -> Sequence[CardProcess]:
        """Processes with a compute context on the card."""

    def samples(self, uuid: str, since_us: int) -> Sequence[Sample]:
        """Utilisation samples newer than `since_us`; none for an idle card."""

    def busy_percent(self, uuid: str) -> int | None:
        """How busy the card as a whole was in its last sample window."""

    def used_bytes(self, uuid: str) -> int:
        """Memory in use on the card, without the driver's own."""

    def probe(self, uuid: str) -> Probe:
        """Ask the card how it is. Does not raise: a failure is part of the answer."""

    def wait_xid(self, timeout_s: float) -> tuple[str, int] | None:
        """Wait for the next XID event: the card's UUID and the number, None if there was none."""

    def can_limit_memory(self, uuid: str) -> bool:
        """Whether `limit_memory` works for the card."""

    def limit_memory(self, uuid: str, path: str, soft_bytes: int, hard_bytes: int) -> None:
        """Limit the memory of all processes of a cgroup (0 and NO_LIMIT: no more)."""

    def memory_limit(self, uuid: str, path: str) -> tuple[int, int]:
        """Soft and hard limit in force for a cgroup, in bytes."""

    def exclusive(self, uuid: str) -> bool:
        """Whether only one process (an MPS server) may open the card."""

    def set_exclusive(self, uuid: str) -> None:
        """Let only one process open the card."""

    def set_shared(self, uuid: str) -> None:
        """Let any process open the card again."""

    def instances(self, uuid: str) -> Sequence[Instance]:
        """The hardware partitions of the card."""

    def create_instance(self, uuid: str, template: str, start: int, size: int) -> Instance:
        """Make a partition at these memory slots; turns partitioning on if it is off."""

    def destroy_instance(self, uuid: str, instance: Instance) -> None:
        """Remove a partition. One that is in use is refused."""
