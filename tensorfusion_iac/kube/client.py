"""A small asynchronous client of the Kubernetes API: objects are plain dictionaries, as orjson reads them.

Every program of this project talks to the API server through it. It adds nothing to the API but paging, the decoding of
watch streams, and errors that say which server answered what; caches and leases are built on top.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from tensorfusion_iac.kube.credentials import Credentials, from_kubeconfig, in_cluster
from tensorfusion_iac.kube.errors import ApiError, ApiUnreachable, ApiUnreadable
from tensorfusion_iac.kube.resource import Resource

Object = dict[str, Any]

REQUEST_TIMEOUT_S = 30.0
WATCH_TIMEOUT_S = 300
_WATCH_SLACK_S = 30.0  # how much longer than the server's own end of a watch we wait for a byte


class PatchType(StrEnum):
    """The body formats of PATCH."""

    APPLY = "application/apply-patch+yaml"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects of a list call, and the version from which a watch continues it."""

    items: list[Object]
    resource_version: str


@dataclass(frozen=True, slots=True)
class Event:
    """One change in a watch: `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`, with the object."""

    type: str
    object: Object


class Client:
    """One API server and one identity. Used as an async context manager; calls may run concurrently.

    Every call raises ApiError for the server's refusal, ApiUnreachable if no answer came, ApiUnreadable if one came that is
    no answer.
    """

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    async def from_kubeconfig(cls, path: Path, context: str | None = None) -> Self:
        """A client for a kubeconfig's context. Raises CredentialsError."""
        return cls(await from_kubeconfig(path, context))

    @classmethod
    def in_cluster(cls) -> Self:
        """A client for the service account of this pod. Raises CredentialsError."""
        return cls(in_cluster())

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self.credentials.tls, limit=64),
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
            headers={"Accept": "application/json", "User-Agent": "tensorfusion-iac"},
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, resource: Resource, name: str, namespace: str | None = None, subresource: str | None = None) -> Object:
        """One object (or its subresource)."""
        return await self._object("GET", resource.path(namespace, name, subresource))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = 500,
    ) -> Listing:
        """All objects (of a namespace, or of all) that match, page by page. `page_size` 0: in one answer."""
        query = _query(labelSelector=label_selector, fieldSelector=field_selector, limit=page_size)
        items: list[Object] = []
        while True:
            page = await self._object("GET", resource.path(namespace), query)
            found, metadata = page.get("items") or [], page.get("metadata") or {}
            if not isinstance(found, list) or not isinstance(metadata, dict):
                raise ApiUnreadable("a list whose items or metadata are none")
            items += found
            if not metadata.get("continue"):
                return Listing(items, metadata.get("resourceVersion", ""))
            query["continue"] = metadata["continue"]

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: int = WATCH_TIMEOUT_S,
    ) -> AsyncGenerator[Event, None]:
        """Changes since `resource_version` (empty: first all objects as `ADDED`), until the server ends the stream.

        An end without an error is normal: watch again from the last object's or bookmark's resourceVersion. ApiError
        with `gone`: list again.
        """
        query = _query(
            labelSelector=label_selector, fieldSelector=field_selector, resourceVersion=resource_version,
            timeoutSeconds=timeout_s,
        ) | {"watch": "true", "allowWatchBookmarks": "true"}  # fmt: skip
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_TIMEOUT_S, sock_read=timeout_s + _WATCH_SLACK_S)
        try:
            async with self._open().get(
                self.credentials.server + resource.path(namespace),
                params=query,
                headers=self._headers(),
                timeout=timeout,
            ) as response:
                if response.status >= 400:
                    raise _failure(response.status, await response.read())
                try:
                    async for line in _lines(response.content.iter_any()):
                        event = _event(line)
                        if event.type == "ERROR":
                            raise _failure(_status(event.object), orjson.dumps(event.object))
                        yield event
                finally:
                    _drop(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiUnreachable(self.credentials.server, error) from error

    async def create(
        self,
        resource: Resource,
        body: Object,
        namespace: str | None = None,
        *,
        name: str | None = None,
        subresource: str | None = None,
        field_manager: str = "",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """Create an object; an existing one is an ApiError with `already_exists`. `query` for `dryRun`, `fieldValidation`.

        With a name and a subresource, what is created is a subresource of that object: a Binding, an Eviction, a token.
        """
        asked = _query(fieldManager=field_manager) | dict(query or {})
        return await self._object("POST", resource.path(namespace, name, subresource), asked, body=body)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Any,
        patch_type: PatchType,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """Patch an object in one of the four formats; `query` for `dryRun`, `fieldManager`, `force`."""
        path = resource.path(namespace, name, subresource)
        return await self._object("PATCH", path, query or {}, body=body, content_type=patch_type)

    async def apply(self, resource: Resource, body: Object, field_manager: str, *, subresource: str | None = None) -> Object:
        """Server-side apply, taking over fields that others hold: the object becomes what `body` says, and is created
        if absent. A field that an earlier apply of the same manager set and this one omits is removed.
        """
        metadata = body["metadata"]
        return await self.patch(
            resource, metadata["name"], {"apiVersion": resource.api_version, "kind": resource.kind} | body,
            PatchType.APPLY, metadata.get("namespace"), subresource=subresource,
            query={"fieldManager": field_manager, "force": "true"},
        )  # fmt: skip

    async def merge(
        self,
        resource: Resource,
        name: str,
        body: Object,
        namespace: str | None = None,
        *,
        field_manager: str = "",
        subresource: str | None = None,
    ) -> Object:
        """JSON merge patch: given members replace, null removes, the rest stays."""
        return await self.patch(
            resource, name, body, PatchType.MERGE, namespace, subresource=subresource,
            query=_query(fieldManager=field_manager),
        )  # fmt: skip

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        propagation: str = "Background",
        resource_version: str = "",
    ) -> None:
        """Delete an object; one that is already gone is fine. With `resource_version`, only if it is still that one: else
        ApiError with `conflict`.
        """
        options: Object = {"propagationPolicy": propagation}
        if resource_version:
            options["preconditions"] = {"resourceVersion": resource_version}
        try:
            await self._object("DELETE", resource.path(namespace, name), body=options)
        except ApiError as error:
            if not error.not_found:
                raise

    async def text(self, path: str) -> str:
        """The body of a plain GET, for `/readyz` and its like."""
        return (await self._request("GET", path)).decode(errors="replace")

    async def _object(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Object:
        text = await self._request(method, path, query, body=body, content_type=content_type)
        try:
            answer = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ApiUnreadable(f"{error}, in {len(text)} bytes for {method} {path}") from error
        if not isinstance(answer, dict):
            raise ApiUnreadable(f"no object for {method} {path}")
        return answer

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Any = None,
        content_type: str = "application/json",
    ) -> bytes:
        data = None if body is None else orjson.dumps(body)
        headers = self._headers() | ({} if data is None else {"Content-Type": content_type})
        try:
            async with self._open().request(
                method, self.credentials.server + path, params=query, data=data, headers=headers
            ) as response:
                answer = await response.read()
                if response.status >= 400:
                    raise _failure(response.status, answer)
                return answer
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiUnreachable(self.credentials.server, error) from error

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("Client is used outside `async with`")
        return self._session

    def _headers(self) -> dict[str, str]:
        token = self.credentials.bearer()
        return {"Authorization": f"Bearer {token}"} if token else {}


def _query(**members: str | int) -> dict[str, str]:
    """Query parameters without those left empty."""
    return {name: str(value) for name, value in members.items() if value}


def _event(line: bytes) -> Event:
    """A line of a watch. What cannot be read is not quoted: it may be of a Secret."""
    try:
        found = orjson.loads(line)
        return Event(found["type"], found["object"])
    except orjson.JSONDecodeError as error:
        raise ApiUnreadable(f"{error}, in an event of {len(line)} bytes") from error
    except (KeyError, TypeError) as error:
        raise ApiUnreadable("an event without type or object") from error


def _status(failure: Any) -> int:
    """The HTTP status that the `Status` object of an ERROR event stands for."""
    code = failure.get("code") if isinstance(failure, dict) else None
    return code if isinstance(code, int) else HTTPStatus.INTERNAL_SERVER_ERROR


def _failure(status: int, body: bytes) -> ApiError:
    """The server's `Status` object as an error; a body that is none (a proxy's page, `/readyz`) is quoted."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict) or answer.get("kind") != "Status":
        return ApiError(status, "Unknown", body[:500].decode(errors="replace").strip() or "no explanation")
    return ApiError(status, answer.get("reason") or "Unknown", answer.get("message") or "no explanation")


def _drop(response: aiohttp.ClientResponse) -> None:
    """Cut a stream that is left early: a polite end of its TLS session would outlive the client that asked for it."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Split a stream at newlines; an object may be larger than any chunk, so only new bytes are searched."""
    pending = bytearray()
    async for chunk in chunks:
        searched = len(pending)
        pending += chunk
        while (end := pending.find(b"\n", searched)) >= 0:
            line = bytes(pending[:end])
            del pending[: end + 1]
            searched = 0
            if line.strip():
                yield line
