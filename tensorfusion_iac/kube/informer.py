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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum

from tensorfusion_iac.kube.client import Client, Object
from tensorfusion_iac.kube.errors import ApiError, ApiUnreachable, ApiUnreadable, KubeError
from tensorfusion_iac.kube.resource import Resource

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""Namespace (empty for cluster scope) and name."""

RETRY_FIRST_S, RETRY_MOST_S = 0.2, 10.0
MOMENT_S = 1.0
"""A watch that ends sooner, and without news, is a fault of the server: as in client-go ("very short watch")."""


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


def identity_of(item: Object) -> tuple[Key, str, str]:
    """Key, UID and resourceVersion of an object as the server tells it. Raises ApiUnreadable if it has none."""
    try:
        metadata = item["metadata"]
        name, uid, version = metadata["name"], metadata["uid"], metadata["resourceVersion"]
        key = metadata.get("namespace", ""), name
    except (KeyError, TypeError, AttributeError) as error:
        raise ApiUnreadable("an object without name, uid or resourceVersion") from error
    if not (name and uid and version):
        raise ApiUnreadable("an object whose name, uid or resourceVersion is empty")
    return key, uid, version


def version_of(bookmark: Object) -> str:
    """Up to where a bookmark says that all was told. Raises ApiUnreadable if it does not say so."""
    try:
        version: str = bookmark["metadata"]["resourceVersion"]
    except (KeyError, TypeError) as error:
        raise ApiUnreadable("a bookmark without resourceVersion") from error
    if not version:
        raise ApiUnreadable("a bookmark whose resourceVersion is empty")
    return version


class Backoff:
    """The pause before something is tried again: longer after each failure in a row, and spread at random."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def pause_s(self, least_s: float = 0.0) -> float:
        """For one more failure, in seconds; the first of a row costs `least_s`."""
        pause_s = max(self._next_s, least_s)
        self._next_s = min(max(2 * pause_s, RETRY_FIRST_S), RETRY_MOST_S)
        return pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries, hides nothing

    def succeeded(self, but_pause_s: float = 0.0) -> None:
        """The next failure is the first again, or costs at most `but_pause_s`."""
        self._next_s = min(self._next_s, but_pause_s)


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
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        """Set after the first complete list, and after its changes were handled."""
        self._client, self._namespace = client, namespace
        self._label_selector, self._field_selector = label_selector, field_selector
        self._keep, self._clock, self._sleep = keep, clock, sleep
        self._lists, self._watches = Backoff(), Backoff()
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
        while True:
            try:
                await self._list()
            except KubeError as error:
                await self._rest(self._lists, error)
            else:
                self._lists.succeeded()
                await self._follow()

    async def _rest(self, backoff: Backoff, error: KubeError) -> None:
        """Pause after a failure. A version that has become too old is none, the first time."""
        gone = isinstance(error, ApiError) and error.gone
        pause_s = backoff.pause_s(0.0 if gone else RETRY_FIRST_S)
        if pause_s:
            log.warning("%s: %s", self.resource.plural, error)
            await self._sleep(pause_s)

    async def _list(self) -> None:
        self._relist.clear()
        listing = await self._client.list(
            self.resource,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        self._heard_at = self._clock()
        found = {key: (uid, version, item) for item in listing.items for key, uid, version in (identity_of(item),)}
        if not listing.resource_version:
            raise ApiUnreadable("a list without resourceVersion")
        for key in self._objects.keys() - found.keys():
            self._emit(ChangeType.DELETED, key, self._objects.pop(key))
        for key, (uid, version, item) in found.items():
            self._take(key, uid, version, self._keep(item))
        for handler in self._after_list:
            handler(self._objects)
        self._version = listing.resource_version
        self.synced.set()

    async def _follow(self) -> None:
        """Follow the watch until it takes a new list to go on, or until somebody wants one."""
        watching = asyncio.ensure_future(self._watch())
        wanted = asyncio.ensure_future(self._relist.wait())
        try:
            await asyncio.wait({watching, wanted}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            wanted.cancel()
            watching.cancel()
            await asyncio.wait({watching})  # not `await watching`, whose error would hide that we are cancelled
        if not watching.cancelled():
            watching.result()

    async def _watch(self) -> None:
        """Watch again whenever the server ends a watch, and return after a failure: only a list helps then.

        A server ends the watches of slow readers, many times in a row when it is busy: such a watch brought something, and
        never costs more than the first pause.
        """
        while True:
            version, began = self._version, self._clock()
            try:
                await self._stream()
            except KubeError as error:
                # A connection may break at any time; but a refusal may take a busy server more than a moment.
                if self._clock() - began >= (MOMENT_S if isinstance(error, ApiUnreachable) else RETRY_MOST_S):
                    self._watches.succeeded()
                await self._rest(self._watches, error)
                return
            if self._clock() - began >= MOMENT_S:
                self._watches.succeeded()
            elif self._version != version:
                self._watches.succeeded(but_pause_s=RETRY_FIRST_S)
                await self._sleep(self._watches.pause_s())
            elif pause_s := self._watches.pause_s():
                log.warning("%s: the server ended a watch at once; next one in %.1f s", self.resource.plural, pause_s)
                await self._sleep(pause_s)

    async def _stream(self) -> None:
        """One watch, from where the last one ended."""
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
                if event.type == "BOOKMARK":
                    self._version = version_of(event.object)
                    continue
                key, uid, version = identity_of(event.object)
                if event.type != "DELETED":
                    self._take(key, uid, version, self._keep(event.object))
                elif (old := self._objects.pop(key, None)) is not None:
                    self._emit(ChangeType.DELETED, key, self._keep(event.object), old)
                self._version = version

    def _take(self, key: Key, uid: str, version: str, item: Object) -> None:
        old = self._objects.get(key)
        if old is not None and old["metadata"]["uid"] != uid:
            self._emit(ChangeType.DELETED, key, self._objects.pop(key))
            old = None
        if old is not None and old["metadata"]["resourceVersion"] == version:
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
