"""Keeps the Node objects of the simulated nodes: makes what is missing, removes what is no longer wanted.

KWOK keeps them Ready, and their agents (`tensorfusion serve simulated-agents`) all that is ours. Waiting is by a watch; what is
right is not written again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import aclosing
from typing import Any

from tensorfusion_iac.agent.simulated_cards import SELECTOR
from tensorfusion_iac.kube.client import Client, Object
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import NODES
from tensorfusion_iac.local import fleet_objects
from tensorfusion_iac.local.fleet import FleetNode

MANAGER = "tensorfusion-local"
RETRY_S = 1.0
_CONCURRENT_WRITES = 16

log = logging.getLogger(__name__)


class FleetKeeper:
    """Keeps one fleet; `run` goes on until it is cancelled."""

    def __init__(self, client: Client, fleet: Sequence[FleetNode]) -> None:
        self._client = client
        self._fleet = {node.name: node for node in fleet}
        self._writes = asyncio.Semaphore(_CONCURRENT_WRITES)

    async def run(self) -> None:
        """Keep the nodes."""
        while True:
            try:
                listing = await self._client.list(NODES, label_selector=SELECTOR)
                await self._reconcile(listing.items)
                await self._until_one_goes(listing.resource_version)
            except KubeError as error:
                if not (isinstance(error, ApiError) and error.gone):
                    log.warning("nodes: %s", error)
                    await asyncio.sleep(RETRY_S)

    async def _reconcile(self, found: Sequence[Object]) -> None:
        present = {item["metadata"]["name"]: item for item in found}
        await self._each(self._write(node, present.get(name)) for name, node in self._fleet.items())
        await self._each(self._client.delete(NODES, name) for name in present.keys() - self._fleet.keys())

    async def _write(self, node: FleetNode, present: Object | None) -> None:
        wanted = fleet_objects.node(node)
        if present is None:
            await self._client.create(NODES, wanted, field_manager=MANAGER)
        elif not fleet_objects.covers(present, wanted):
            status = {"metadata": {"name": node.name}, "status": wanted.pop("status")}
            await self._client.apply(NODES, status, MANAGER, subresource="status")
            await self._client.apply(NODES, wanted, MANAGER)

    async def _until_one_goes(self, version: str) -> None:
        """Return when one of the nodes was deleted, or when the server ends the watch (after minutes)."""
        async with aclosing(self._client.watch(NODES, resource_version=version, label_selector=SELECTOR)) as events:
            async for event in events:
                if event.type == "DELETED":
                    return

    async def _each(self, calls: Iterable[Awaitable[Any]]) -> None:
        """Do all calls, a bounded number at a time; raises the first failure after the others had their turn."""

        async def one(call: Awaitable[Any]) -> None:
            async with self._writes:
                await call

        outcomes = await asyncio.gather(*(one(call) for call in calls), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
