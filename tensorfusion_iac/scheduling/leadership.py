"""Whether this extender may answer: kube-scheduler's own lease decides, so that there is one writer (ARCHITECTURE, "One lease").

It serves while the holder's identity starts with a prefix (its pod's name; in `local`, the host's), and only after the books
were rebuilt from a list that began in this term of office. A lease that nobody renews is over after its own duration, by our
clock, counted from when we saw it change.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tensorfusion_iac.kube.informer import Change, ChangeType

log = logging.getLogger(__name__)

DEFAULT_DURATION_S = 15.0


@dataclass(frozen=True, slots=True)
class Term:
    """One holder's time in office."""

    holder: str
    transitions: int


class Leadership:
    """Follows one lease (`lease`: its name, for messages). `rebuild` is awaited once per term before the first answer."""

    def __init__(
        self,
        identity_prefix: str,
        lease: str,
        rebuild: Callable[[], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._prefix, self._lease, self._rebuild, self._clock = identity_prefix, lease, rebuild, clock
        self._term: Term | None = None
        self._ready_for: Term | None = None
        self._renewed, self._renewed_at, self._duration_s = "", float("-inf"), DEFAULT_DURATION_S
        self._task: asyncio.Task[None] | None = None

    def take(self, change: Change) -> None:
        """The lease was added, changed or deleted."""
        if change.type is ChangeType.DELETED:
            self._begin(None)
            return
        spec = change.object.get("spec") or {}
        renewed = f"{spec.get('holderIdentity')} {spec.get('renewTime')}"
        if renewed != self._renewed:
            self._renewed, self._renewed_at = renewed, self._clock()
        self._duration_s = float(spec.get("leaseDurationSeconds") or DEFAULT_DURATION_S)
        self._begin(Term(spec.get("holderIdentity") or "", spec.get("leaseTransitions") or 0))

    def left_s(self) -> float:
        """Seconds until the term is over unless the lease is renewed; 0 or less if it is over, or another's."""
        if self._term is None or not self._is_ours(self._term):
            return 0.0
        return self._renewed_at + self._duration_s - self._clock()

    def refusal(self) -> str | None:
        """Why no answer may be given now; None if it may."""
        if self._term is None or not self._term.holder:
            return f"nobody holds the lease {self._lease}"
        if not self._is_ours(self._term):
            return f"the lease {self._lease} is held by {self._term.holder}, not by {self._prefix}*"
        if self.left_s() <= 0:
            return f"the lease {self._lease} was not renewed in time"
        if self._ready_for != self._term:
            return "reservations are being read anew from the pods"
        return None

    def _is_ours(self, term: Term) -> bool:
        return bool(term.holder) and term.holder.startswith(self._prefix)

    def _begin(self, term: Term | None) -> None:
        if term == self._term:
            return
        self._term, self._ready_for = term, None
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if term is not None and self._is_ours(term):
            log.info("%s holds %s now: reading reservations anew", term.holder, self._lease)
            self._task = asyncio.ensure_future(self._prepare(term))

    async def _prepare(self, term: Term) -> None:
        await self._rebuild()
        if self._term == term:  # it may have gone and come back meanwhile
            self._ready_for = term
            log.info("ready")
