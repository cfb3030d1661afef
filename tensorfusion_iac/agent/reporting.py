"""Writes the agent's objects: an object when it changes, at most once a second, and again after an outage (SPEC §9, P4).

What is wanted is kept by name; whatever happens on the way to the API server, the newest is written in the end. An object that
somebody deleted comes back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tensorfusion_iac.agent.objects import MANAGER, Object
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import Resource

log = logging.getLogger(__name__)

LEAST_PAUSE_S = 1.0
RETRY_S = 2.0
CONCURRENT = 16


@dataclass(slots=True)
class _Record:
    metadata: Object
    status: Object
    written: tuple[Object, Object] | None = None
    not_before_s: float = field(default=float("-inf"))


class Reporter:
    """The objects of one node. `want` says what they should be; `run` writes until it is cancelled."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self.writes = 0
        self._client, self._clock = client, clock
        self._records: dict[tuple[Resource, str], _Record] = {}
        self._changed = asyncio.Event()
        self._turns = asyncio.Semaphore(CONCURRENT)

    def want(self, resource: Resource, metadata: Object, status: Object) -> None:
        """Have an object be so; what is already written costs nothing."""
        key = (resource, metadata["name"])
        record = self._records.setdefault(key, _Record(metadata, status))
        record.metadata, record.status = metadata, status
        if record.written != (metadata, status):
            self._changed.set()

    def lost(self, resource: Resource, name: str) -> None:
        """Somebody deleted the object."""
        record = self._records.get((resource, name))
        if record is not None:
            record.written = None
            self._changed.set()

    def forget(self, resource: Resource, name: str) -> None:
        """The object is no longer ours to write."""
        self._records.pop((resource, name), None)

    async def run(self) -> None:
        """Write what has changed, for ever."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            now_s = self._clock()
            due = [key for key, record in self._records.items() if _is_due(record, now_s)]
            await asyncio.gather(*(self._write(*key) for key in due))
            later = [
                record.not_before_s for record in self._records.values() if record.written != (record.metadata, record.status)
            ]
            if later:
                await asyncio.sleep(max(min(later) - self._clock(), 0.01))
                self._changed.set()

    async def _write(self, resource: Resource, name: str) -> None:
        async with self._turns:
            record = self._records.get((resource, name))
            if record is not None:  # not forgotten meanwhile
                await self._write_record(resource, name, record)

    async def _write_record(self, resource: Resource, name: str, record: _Record) -> None:
        wanted = (record.metadata, record.status)
        record.not_before_s = self._clock() + LEAST_PAUSE_S
        try:
            if record.written is None or record.written[0] != record.metadata:
                await self._apply(resource, {"metadata": record.metadata})
            await self._apply(resource, {"metadata": {"name": name}, "status": wanted[1]}, subresource="status")
            record.written = wanted
        except ApiError as error:
            if error.not_found:
                record.written = None  # deleted, or its kind isn't installed yet
            log.warning("%s %s: %s", resource.kind, name, error)
            record.not_before_s = self._clock() + RETRY_S
        except KubeError as error:
            log.warning("%s %s: %s", resource.kind, name, error)
            record.not_before_s = self._clock() + RETRY_S

    async def _apply(self, resource: Resource, body: Object, **options: Any) -> None:
        self.writes += 1
        await self._client.apply(resource, body, MANAGER, **options)


def _is_due(record: _Record, now_s: float) -> bool:
    return record.written != (record.metadata, record.status) and now_s >= record.not_before_s
