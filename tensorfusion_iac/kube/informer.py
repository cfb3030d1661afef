"""A watch cache of one kind of object: list once, then follow the watch, and list again when the server says so.

Every program reads the cluster through it. Handlers are plain functions, called one after the other in the order of the
server's events, so that a handler which keeps books never sees half of a change. What a lost event would have said is made
up for at the next list: objects that are gone, or that another of the same name has replaced, are reported as deleted.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum

from tensorfusion_iac.kube.client import Client, Object
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import Resource

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""Namespace (empty for cluster scope) and name."""

RETRY_FIRST_S, RETRY_MOST_S = 0.2, 10.0


class ChangeType(StrEnum):
    """What happened to an object."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Change:
    """One change: the object as it is now (for DELETED: as it was last seen), and as the cache had it before."""

    type: ChangeType
    key: Key
    object: Object
    old: Object | None = None


Handler = Callable[[Change], None]


def key_of(item: Object) -> Key:
    """The key of an object in the cache."""
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def trimmed(item: Object) -> Object:
    """The object without `managedFields`, which nobody reads and which is often the largest part of it."""
    item["metadata"].pop("managedFields", None)
    return item


class Informer:
    """The objects of one kind (of a namespace, or that a selector names), as they are on the server, a moment ago.

    `keep` may cut objects down to what is read of them, before they are stored. `run` goes on until it is cancelled.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        keep: Callable[[Object], Object] = trimmed,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        """Set after the first complete list, and after its changes were handled."""
        self._client, self._namespace = client, namespace
        self._label_selector, self._field_selector = label_selector, field_selector
        self._keep, self._clock = keep, clock
        self._objects: dict[Key, Object] = {}
        self._handlers: list[Handler] = []
        self._after_list: list[Callable[[Mapping[Key, Object]], None]] = []
        self._relist = asyncio.Event()
        self._heard_at = float("-inf")
        self._version = ""

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Object]:
        return iter(self._objects.values())

    def get(self, name: str, namespace: str = "") -> Object | None:
        """An object by name, None if the cache has none."""
        return self._objects.get((namespace, name))

    def on_change(self, handler: Handler) -> None:
        """Call `handler` for every change; what is cached already is told as ADDED first."""
        self._handlers.append(handler)
        for key, item in self._objects.items():
            handler(Change(ChangeType.ADDED, key, item))

    def after_list(self, handler: Callable[[Mapping[Key, Object]], None]) -> None:
        """Call `handler` with the whole cache after each complete list, once its changes are handled."""
        self._after_list.append(handler)

    def silent_s(self) -> float:
        """Seconds since the server was last heard: a list, an event or a bookmark (about one a minute)."""
        return self._clock() - self._heard_at

    def relist(self) -> None:
        """List again now: for someone who has reason to doubt the cache."""
        self._relist.set()

    async def run(self) -> None:
        """List and watch for ever. Failures are logged, and tried again after a growing pause."""
        pause_s = RETRY_FIRST_S
        while True:
            try:
                await self._list()
                pause_s = RETRY_FIRST_S
                await self._follow()
            except ApiError as error:
                if not error.gone:
                    log.warning("%s: %s", self.resource.plural, error)
                    await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - spreads retries, hides nothing
                    pause_s = min(pause_s * 2, RETRY_MOST_S)
            except KubeError as error:
                log.warning("%s: %s", self.resource.plural, error)
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311
                pause_s = min(pause_s * 2, RETRY_MOST_S)

    async def _list(self) -> None:
        self._relist.clear()
        listing = await self._client.list(
            self.resource,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        self._heard_at = self._clock()
        found = {key_of(item): self._keep(item) for item in listing.items}
        for key in self._objects.keys() - found.keys():
            self._emit(ChangeType.DELETED, key, self._objects.pop(key))
        for key, item in found.items():
            self._take(key, item)
        for handler in self._after_list:
            handler(self._objects)
        self._version = listing.resource_version
        self.synced.set()

    async def _follow(self) -> None:
        """Follow the watch until the server ends it for good, or until somebody wants a new list."""
        watching = asyncio.ensure_future(self._watch())
        wanted = asyncio.ensure_future(self._relist.wait())
        try:
            await asyncio.wait({watching, wanted}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            wanted.cancel()
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _watch(self) -> None:
        while True:
            events = self._client.watch(
                self.resource,
                self._namespace,
                resource_version=self._version,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
            )
            async with aclosing(events):
                async for event in events:
                    self._heard_at = self._clock()
                    if event.type == "DELETED":
                        key = key_of(event.object)
                        if (old := self._objects.pop(key, None)) is not None:
                            self._emit(ChangeType.DELETED, key, self._keep(event.object), old)
                    elif event.type != "BOOKMARK":
                        self._take(key_of(event.object), self._keep(event.object))
                    self._version = event.object["metadata"]["resourceVersion"]

    def _take(self, key: Key, item: Object) -> None:
        old = self._objects.get(key)
        if old is not None and old["metadata"]["uid"] != item["metadata"]["uid"]:
            self._emit(ChangeType.DELETED, key, self._objects.pop(key))
            old = None
        if old is not None and old["metadata"]["resourceVersion"] == item["metadata"]["resourceVersion"]:
            return
        self._objects[key] = item
        self._emit(ChangeType.ADDED if old is None else ChangeType.MODIFIED, key, item, old)

    def _emit(self, kind: ChangeType, key: Key, item: Object, old: Object | None = None) -> None:
        change = Change(kind, key, item, old)
        for handler in self._handlers:
            try:
                handler(change)
            except Exception:  # one strange object must not end the cache for all others
                log.exception("%s %s/%s: a handler failed", self.resource.plural, *key)


@asynccontextmanager
async def running(*informers: Informer) -> AsyncIterator[None]:
    """Run informers for the length of the block, which begins when all of them have listed once."""
    tasks = [asyncio.create_task(informer.run(), name=f"informer {informer.resource.plural}") for informer in informers]
    try:
        await asyncio.gather(*(informer.synced.wait() for informer in informers))
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
