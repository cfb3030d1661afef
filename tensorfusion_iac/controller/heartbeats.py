"""Which nodes' agents are alive, by the leases that they renew each 30 s (SPEC §9), judged by our own clock.

What counts is when we saw a lease change, since other machines' clocks differ; a lease is believed at first sight.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tensorfusion_iac.api.names import AGENT_LEASE_PREFIX
from tensorfusion_iac.kube.informer import Change, ChangeType

_LIFE_S = 90.0


class Heartbeats:
    """The agents' leases by node."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[str, float, float]] = {}  # renewTime, when we saw it, life in seconds

    def take(self, change: Change) -> None:
        """A lease was added, changed or deleted."""
        spec = change.object.get("spec") or {}
        node = spec.get("holderIdentity") or change.key[1].removeprefix(AGENT_LEASE_PREFIX)
        if change.type is ChangeType.DELETED:
            self._seen.pop(node, None)
            return
        renewed = spec.get("renewTime") or ""
        before = self._seen.get(node)
        if before is None or before[0] != renewed:
            self._seen[node] = (renewed, self._clock(), float(spec.get("leaseDurationSeconds") or _LIFE_S))

    def is_live(self, node: str) -> bool:
        """Whether the node's agent is alive."""
        seen = self._seen.get(node)
        return seen is not None and self._clock() - seen[1] < seen[2]
