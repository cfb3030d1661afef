"""One writer among replicas: a `coordination.k8s.io` Lease that is taken, kept while its work runs, and given back.

As in Kubernetes' own components, what counts is when *we* saw the lease change, by our own clock: other machines' clocks
are never compared with ours. The work is cancelled before anyone else may think that the lease is free.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tensorfusion_iac.kube.client import Client, Object, PatchType
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import LEASES

log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a lease is good for without a renewal, when its holder gives up, and how often it renews (seconds)."""

    duration_s: float = 15.0
    give_up_s: float = 10.0
    renew_s: float = 2.0


class Lease:
    """A named lease, and one identity that would hold it."""

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        terms: Terms | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.identity = identity
        self._client, self._name, self._namespace, self._clock = client, name, namespace, clock
        self._terms = terms or Terms()
        self._seen: tuple[str, str] = ("", "")  # holder and renewTime, as last seen
        self._seen_at = float("-inf")
        self._renewed_at = float("-inf")

    @property
    def held(self) -> bool:
        """Whether this identity may act as the holder right now."""
        return self._clock() - self._renewed_at < self._terms.give_up_s

    async def run(self, work: Work) -> None:
        """Take the lease whenever it is free and run `work` as long as it is ours; for ever. Gives it back at the end."""
        try:
            while True:
                if await self._try():
                    log.info("%s is the holder of lease %s", self.identity, self._name)
                    await self._hold(work)
                    log.warning("%s is no longer the holder of lease %s", self.identity, self._name)
                await asyncio.sleep(self._terms.renew_s * random.uniform(0.8, 1.2))  # noqa: S311 - spreads replicas
        finally:
            await asyncio.shield(self._release())

    async def _hold(self, work: Work) -> None:
        task = asyncio.create_task(work(), name=f"holder of {self._name}")
        try:
            while self.held and not task.done():
                await asyncio.wait({task}, timeout=self._terms.renew_s)
                await self._try()
        finally:
            task.cancel()
            await asyncio.wait({task})  # not `await task`: a cancel that is meant for us would look like the work's own
        if not task.cancelled():
            task.result()

    async def _try(self) -> bool:
        """Take or renew the lease if that is allowed; whether it is ours now. Failures count as no."""
        asked_at = self._clock()
        try:
            async with asyncio.timeout(self._terms.give_up_s / 2):
                won = await self._write(asked_at)
        except (KubeError, TimeoutError) as error:
            log.warning("lease %s: %s", self._name, error)
            return False
        if won:
            self._renewed_at = asked_at
        return won

    async def _write(self, now: float) -> bool:
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: Object = {
            "holderIdentity": self.identity, "leaseDurationSeconds": int(self._terms.duration_s), "renewTime": stamp,
        }  # fmt: skip
        try:
            stored = await self._client.get(LEASES, self._name, self._namespace)
        except ApiError as error:
            if not error.not_found:
                raise
            spec |= {"acquireTime": stamp, "leaseTransitions": 0}
            return await self._unless_conflict(
                self._client.create(LEASES, {"metadata": {"name": self._name}, "spec": spec}, self._namespace)
            )
        old = stored.get("spec") or {}
        seen = (old.get("holderIdentity") or "", old.get("renewTime") or "")
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        holder = seen[0]
        if holder not in ("", self.identity):
            self._renewed_at = float("-inf")  # whatever we thought: it is another's
            if now - self._seen_at < float(old.get("leaseDurationSeconds") or 0):
                return False
        if holder != self.identity:
            spec |= {"acquireTime": stamp, "leaseTransitions": int(old.get("leaseTransitions") or 0) + 1}
        body = {"metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]}, "spec": spec}
        return await self._unless_conflict(self._client.patch(LEASES, self._name, body, PatchType.MERGE, self._namespace))

    async def _unless_conflict(self, call: Coroutine[Any, Any, Object]) -> bool:
        try:
            await call
        except ApiError as error:
            if error.conflict or error.already_exists or error.not_found:
                return False
            raise
        return True

    async def _release(self) -> None:
        """Let the next holder begin at once."""
        if not self.held:
            return
        self._renewed_at = float("-inf")
        with suppress(KubeError, TimeoutError):
            async with asyncio.timeout(self._terms.renew_s):
                stored = await self._client.get(LEASES, self._name, self._namespace)
                if (stored.get("spec") or {}).get("holderIdentity") != self.identity:
                    return
                body = {"metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]}, "spec": {"holderIdentity": ""}}
                await self._unless_conflict(self._client.patch(LEASES, self._name, body, PatchType.MERGE, self._namespace))
