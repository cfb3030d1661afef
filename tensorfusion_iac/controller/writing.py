"""The only way by which the controller writes: while it holds the lease, and counted.

Two controllers never both write, because a write is refused here as soon as the lease may be another's (SPEC §9, ARCHITECTURE).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from tensorfusion_iac.controller.metrics import Metrics
from tensorfusion_iac.kube.client import Client, Object, PatchType
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.eviction import evict
from tensorfusion_iac.kube.resource import EVENTS, Resource

log = logging.getLogger(__name__)

FIELD_MANAGER = "tensor-fusion-controller"
_MESSAGE, _NAME = 1024, 200


class NotHolderError(KubeError):
    """Not written: another controller may hold the lease. Whoever does will do it."""


class Writer:
    """Writes objects while `may_write`. An object that is gone needs no write, and that is no failure."""

    def __init__(self, client: Client, may_write: Callable[[], bool], metrics: Metrics) -> None:
        self._client, self._may_write, self._metrics = client, may_write, metrics
        self._told: set[asyncio.Task[None]] = set()

    async def create(self, resource: Resource, body: Object) -> Object | None:
        """Create an object; None if there is one of that name, which the watch will show."""
        self._check(resource.plural)
        typed: Object = {"apiVersion": resource.api_version, "kind": resource.kind} | body
        try:
            return await self._client.create(resource, typed, body["metadata"].get("namespace"), field_manager=FIELD_MANAGER)
        except ApiError as error:
            if error.already_exists or error.not_found:  # the namespace is gone
                return None
            raise

    async def merge(self, resource: Resource, item: Mapping[str, Any], patch: Object, subresource: str | None = None) -> None:
        """A merge patch of this very object: one of the same name and another UID is left alone."""
        self._check(resource.plural)
        await self._patch(resource, item, patch, PatchType.MERGE, subresource)

    async def conditions(self, resource: Resource, item: Mapping[str, Any], conditions: list[Object]) -> None:
        """Put conditions among those of a built-in object, by type."""
        self._check(resource.plural)
        await self._patch(resource, item, {"status": {"conditions": conditions}}, PatchType.STRATEGIC, "status")

    async def delete(self, resource: Resource, item: Mapping[str, Any]) -> None:
        """Delete this very state of an object; one that has changed since is looked at again."""
        self._check(resource.plural)
        metadata = item["metadata"]
        await self._client.delete(
            resource, metadata["name"], metadata.get("namespace"), resource_version=metadata["resourceVersion"]
        )

    async def remove(self, resource: Resource, item: Mapping[str, Any]) -> None:
        """Delete an object that nobody else writes, whatever its state."""
        self._check(resource.plural)
        await self._client.delete(resource, item["metadata"]["name"], item["metadata"].get("namespace"))

    async def evict(self, namespace: str, name: str, uid: str) -> None:
        """Evict this very pod, as far as budgets allow: one that they protect is an ApiError, to be tried again."""
        self._check("Eviction")
        try:
            await evict(self._client, namespace, name, uid)
        except ApiError as error:
            if not error.not_found and not error.conflict:
                raise

    def tell(self, item: Mapping[str, Any], kind: str, api_version: str, reason: str, message: str) -> None:
        """An Event (Warning) about an object. Not waited for: it is for people."""
        task = asyncio.ensure_future(self._tell(item, kind, api_version, reason, message))
        self._told.add(task)
        task.add_done_callback(self._told.discard)

    async def _tell(self, item: Mapping[str, Any], kind: str, api_version: str, reason: str, message: str) -> None:
        metadata = item["metadata"]
        namespace = metadata.get("namespace") or "default"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        about = {"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
        body: Object = {
            "metadata": {"generateName": f"{metadata['name'][:_NAME]}.", "namespace": namespace},
            "type": "Warning", "reason": reason, "message": message[:_MESSAGE],
            "involvedObject": about | ({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
            "source": {"component": FIELD_MANAGER}, "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        }  # fmt: skip
        try:
            self._check(EVENTS.plural)
            await self._client.create(EVENTS, body, namespace)
        except KubeError as error:
            log.warning("event about %s %s: %s", kind, metadata["name"], error)

    async def _patch(
        self, resource: Resource, item: Mapping[str, Any], patch: Object, form: PatchType, subresource: str | None
    ) -> None:
        metadata = item["metadata"]
        body = patch | {"metadata": {**patch.get("metadata", {}), "uid": metadata["uid"]}}
        try:
            await self._client.patch(
                resource, metadata["name"], body, form, metadata.get("namespace"), subresource=subresource,
                query={"fieldManager": FIELD_MANAGER},
            )  # fmt: skip
        except ApiError as error:
            if not error.not_found and not error.conflict:  # a wrong UID is a conflict: the object was replaced
                raise

    def _check(self, what: str) -> None:
        if not self._may_write():
            raise NotHolderError(f"{what}: this controller does not hold the lease")
        self._metrics.writes.labels(what).inc()
