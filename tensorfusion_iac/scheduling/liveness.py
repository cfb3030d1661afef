"""Which agents are alive, by the leases that they renew each 30 s (SPEC §9), judged by our own clock.

What counts is when we saw a lease change, as clocks of other machines differ. Only at first sight its own time is believed,
and a lease that is long out of date by then is taken for a dead agent's until it moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from tensorfusion_iac.api.names import AGENT_LEASE_NAMESPACE, AGENT_LEASE_PREFIX
from tensorfusion_iac.kube.informer import Change, ChangeType

LEASE_NAMESPACE = AGENT_LEASE_NAMESPACE
DEFAULT_LIFE_S = 90.0


@dataclass(frozen=True, slots=True)
class _Beat:
    renewed: str
    seen_at: float
    life_s: float


class Liveness:
    """The agents' heartbeats by node."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._clock, self._wall = clock, wall
        self._beats: dict[str, _Beat] = {}
        self._live: set[str] = set()
        self._listeners: list[Callable[[str], None]] = []

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call with the node when its agent comes to life or dies."""
        self._listeners.append(listener)

    def is_live(self, node: str) -> bool:
        """Whether the node's agent is alive."""
        return node in self._live

    def take(self, change: Change) -> None:
        """A lease was added, changed or deleted."""
        spec = change.object.get("spec") or {}
        node = spec.get("holderIdentity") or change.key[1].removeprefix(AGENT_LEASE_PREFIX)
        if change.type is ChangeType.DELETED:
            self._beats.pop(node, None)
        else:
            renewed, life_s = spec.get("renewTime") or "", float(spec.get("leaseDurationSeconds") or DEFAULT_LIFE_S)
            before = self._beats.get(node)
            if before is None:
                self._beats[node] = _Beat(renewed, self._clock() - self._age(renewed), life_s)
            elif before.renewed != renewed:
                self._beats[node] = _Beat(renewed, self._clock(), life_s)
        self._judge(node)

    def check(self) -> None:
        """Look for agents that have fallen silent."""
        for node in list(self._beats):
            self._judge(node)

    def assume_alive(self, nodes: Iterable[str]) -> None:
        """Take these nodes' agents for alive, whatever they say."""
        for node in nodes:
            self._beats[node] = _Beat("", self._clock(), float("inf"))
            self._judge(node)

    def _judge(self, node: str) -> None:
        beat = self._beats.get(node)
        live = beat is not None and self._clock() - beat.seen_at <= beat.life_s
        if live != (node in self._live):
            (self._live.add if live else self._live.discard)(node)
            for listener in self._listeners:
                listener(node)

    def _age(self, renewed: str) -> float:
        try:
            written = datetime.fromisoformat(renewed)
        except ValueError:
            return float("inf")
        if written.tzinfo is None:
            written = written.replace(tzinfo=UTC)
        return max(self._wall() - written.timestamp(), 0.0)
