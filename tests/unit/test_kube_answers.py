"""What the client makes of answers that no API server should give: a proxy's page, JSON that is cut, events without an object."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tensorfusion_iac.kube.client import Client, Event
from tensorfusion_iac.kube.credentials import Credentials
from tensorfusion_iac.kube.errors import ApiError, ApiUnreadable
from tensorfusion_iac.kube.resource import PODS

GOOD = b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}'


def ask(answer: bytes, use: Callable[[Client], Awaitable[Any]]) -> Any:
    """Use a client of a server that gives one answer to everything."""

    async def run() -> Any:
        async def handle(_: web.Request) -> web.Response:
            return web.Response(body=answer, content_type="application/json")

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        async with TestServer(app) as server:
            at = Credentials(str(server.make_url("")).rstrip("/"), ssl.create_default_context(), lambda: None)
            async with Client(at) as client:
                return await use(client)

    return asyncio.run(run())


@pytest.mark.parametrize("answer", [b"", b"<html>Sign in</html>", b'{"items": [{"metada', b"[]", b'"text"', b"null", b"\xff\xfe"])
def test_an_answer_that_is_no_object_is_told_as_such(answer: bytes) -> None:
    for use in (lambda client: client.get(PODS, "a", "ns"), lambda client: client.list(PODS)):
        with pytest.raises(ApiUnreadable, match=r"^the answer of the Kubernetes API cannot be read: .* /api/v1/.*pods"):
            ask(answer, use)


@pytest.mark.parametrize("answer", [b'{"items": 1}', b'{"items": {"a": 1}}', b'{"items": [], "metadata": "text"}'])
def test_a_list_that_is_none_is_told_as_such(answer: bytes) -> None:
    with pytest.raises(ApiUnreadable, match="a list "):
        ask(answer, lambda client: client.list(PODS))


@pytest.mark.parametrize("line", [b"{cut", b"[]", b"1", b"null", b"{}", b'{"type":"ADDED"}', b'{"object":{}}', b"\xff"])
def test_a_line_of_a_watch_that_is_no_event_is_told_as_such_after_the_events_before(line: bytes) -> None:
    seen: list[Event] = []

    async def use(client: Client) -> None:
        async for event in client.watch(PODS):
            seen.append(event)  # noqa: PERF401 - what came before the failure counts

    with pytest.raises(ApiUnreadable, match="event"):
        ask(GOOD + b"\n" + line + b"\n", use)
    assert [event.object for event in seen] == [{"metadata": {"name": "a"}}]


def test_a_secret_that_is_cut_is_not_quoted() -> None:
    async def use(client: Client) -> None:
        async for _ in client.watch(PODS):
            pass

    with pytest.raises(ApiUnreadable) as error:
        ask(b'{"type":"ADDED","object":{"data":{"tls.key":"c2VjcmV0\n', use)
    assert "c2VjcmV0" not in str(error.value)


@pytest.mark.parametrize(("object_", "status"), [(b'{"code":410}', 410), (b'{"code":"x"}', 500), (b"null", 500), (b"[]", 500)])
def test_an_error_in_a_watch_has_a_status_whatever_it_says(object_: bytes, status: int) -> None:
    async def use(client: Client) -> None:
        async for _ in client.watch(PODS):
            pass

    with pytest.raises(ApiError) as error:
        ask(b'{"type":"ERROR","object":' + object_ + b"}\n", use)
    assert error.value.status == status
