"""Keeps the simulated nodes in the API server: creates what is missing, removes what is no longer wanted, beats.

GPU and GPUNode objects wait for their CRDs, which Pulumi installs some time after `up`, and come back when deleted. All
waiting is by watches; nothing that is right is written again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from tensorfusion_iac.kube.client import Client, Object
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import CRDS, GPU_NODES, GPUS, LEASES, NODES, Resource
from tensorfusion_iac.local import fleet_objects
from tensorfusion_iac.local.fleet import FleetNode

AGENT, SCHEDULER = "tensorfusion-local-agent", "tensorfusion-local-scheduler"
"""Field managers: whose part we play when we write (SPEC §9, writers)."""

RETRY_S = 1.0
_CONCURRENT_WRITES = 16

log = logging.getLogger(__name__)

Write = Callable[[Object | None], Awaitable[None]]
"""Makes one object right; its argument is the object as it is now, None if it is not there."""


class FleetKeeper:
    """Keeps one fleet; `run` goes on until it is cancelled."""

    def __init__(self, client: Client, fleet: Sequence[FleetNode]) -> None:
        self._client = client
        self._fleet = fleet
        self._node_uids: dict[str, str] = {}
        self._nodes_known = asyncio.Event()
        self._writes = asyncio.Semaphore(_CONCURRENT_WRITES)

    async def run(self) -> None:
        """Keep Nodes, GPUNodes, GPUs and Leases."""
        nodes = {node.name: self._node_writer(node) for node in self._fleet}
        gpu_nodes = {node.name: self._gpu_node_writer(node) for node in self._fleet}
        gpus = {card.uuid.lower(): self._gpu_writer(node, index) for node in self._fleet for index, card in enumerate(node.cards)}
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep(NODES, nodes, self._nodes_known.set))
            tasks.create_task(self._keep(GPU_NODES, gpu_nodes))
            tasks.create_task(self._keep(GPUS, gpus))
            tasks.create_task(self._beat())

    async def _keep(self, resource: Resource, wanted: Mapping[str, Write], when_right: Callable[[], None] = lambda: None) -> None:
        while True:
            try:
                listing = await self._client.list(resource, label_selector=fleet_objects.SELECTOR)
                await self._reconcile(resource, wanted, listing.items)
                when_right()
                await self._until_one_goes(resource, listing.resource_version)
            except ApiError as error:
                if error.not_found:
                    await self._until_served(resource)
                elif not error.gone:
                    log.warning("%s: %s", resource.plural, error)
                    await asyncio.sleep(RETRY_S)
            except KubeError as error:
                log.warning("%s: %s", resource.plural, error)
                await asyncio.sleep(RETRY_S)

    async def _reconcile(self, resource: Resource, wanted: Mapping[str, Write], found: Sequence[Object]) -> None:
        present = {item["metadata"]["name"]: item for item in found}
        surplus = present.keys() - wanted.keys()
        await self._each(write(present.get(name)) for name, write in wanted.items())
        await self._each(self._client.delete(resource, name) for name in surplus)

    async def _until_one_goes(self, resource: Resource, version: str) -> None:
        """Return when one of our objects was deleted, or when the server ends the watch (after minutes)."""
        async with aclosing(
            self._client.watch(resource, resource_version=version, label_selector=fleet_objects.SELECTOR)
        ) as events:
            async for event in events:
                if event.type == "DELETED":
                    return

    async def _until_served(self, resource: Resource) -> None:
        """Return when the CRD of `resource` is there and the API server serves it."""
        crd = f"{resource.plural}.{resource.group}"
        try:
            async with aclosing(self._client.watch(CRDS, field_selector=f"metadata.name={crd}")) as events:
                async for event in events:
                    if event.type in ("ADDED", "MODIFIED") and _is_established(event.object):
                        log.info("%s is there", crd)
                        break
        except KubeError as error:
            log.warning("%s: %s", crd, error)
        await asyncio.sleep(RETRY_S)  # it is served a moment after it says so

    def _node_writer(self, node: FleetNode) -> Write:
        async def write(present: Object | None) -> None:
            wanted = fleet_objects.node(node)
            if present is None:
                present = await self._client.create(NODES, wanted, field_manager=AGENT)
            elif not fleet_objects.covers(present, wanted):
                status = {"metadata": {"name": node.name}, "status": wanted.pop("status")}
                await self._client.apply(NODES, status, AGENT, subresource="status")
                present = await self._client.apply(NODES, wanted, AGENT)
            self._node_uids[node.name] = present["metadata"]["uid"]

        return write

    def _gpu_node_writer(self, node: FleetNode) -> Write:
        async def write(present: Object | None) -> None:
            await self._write_with_status(GPU_NODES, fleet_objects.gpu_node(node), present)

        return write

    def _gpu_writer(self, node: FleetNode, position: int) -> Write:
        card = node.cards[position]

        async def write(present: Object | None) -> None:
            wanted = fleet_objects.gpu(node, card)
            present = await self._write_with_status(GPUS, wanted, present)
            if "available" not in present.get("status", {}):
                body = {"status": {"available": fleet_objects.amounts(card)}}
                name = wanted["metadata"]["name"]
                await self._client.merge(GPUS, name, body, field_manager=SCHEDULER, subresource="status")

        return write

    async def _write_with_status(self, resource: Resource, wanted: Object, present: Object | None) -> Object:
        if present is not None and fleet_objects.covers(present, wanted):
            return present
        status = {"metadata": {"name": wanted["metadata"]["name"]}, "status": wanted.pop("status")}
        await self._client.apply(resource, wanted, AGENT)
        return await self._client.apply(resource, status, AGENT, subresource="status")

    async def _beat(self) -> None:
        await self._nodes_known.wait()
        while True:
            now = datetime.now(UTC)
            leases = [fleet_objects.lease(node, self._node_uids[node.name], now) for node in self._fleet]
            try:
                await self._each(self._client.apply(LEASES, lease, AGENT) for lease in leases)
            except KubeError as error:
                log.warning("heartbeat: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            await asyncio.sleep(fleet_objects.HEARTBEAT_S)

    async def _each(self, calls: Iterable[Awaitable[Any]]) -> None:
        """Do all calls, a bounded number at a time; raises the first failure after the others had their turn."""

        async def one(call: Awaitable[Any]) -> None:
            async with self._writes:
                await call

        outcomes = await asyncio.gather(*(one(call) for call in calls), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome


def _is_established(crd: Object) -> bool:
    conditions = crd.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
