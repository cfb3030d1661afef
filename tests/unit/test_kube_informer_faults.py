"""A watch cache beside a server that is not well: how often it asks, what it makes of strange answers, that it ends when told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest
from cancelling import has_ended

from tensorfusion_iac.kube import informer as module
from tensorfusion_iac.kube.client import Event, Listing
from tensorfusion_iac.kube.errors import ApiError, ApiUnreachable
from tensorfusion_iac.kube.informer import MOMENT_S, RETRY_FIRST_S, RETRY_MOST_S, Informer
from tensorfusion_iac.kube.resource import PODS

GONE = ApiError(410, "Expired", "too old")
BROKEN = ApiError(500, "InternalError", "etcd")
CUT_OFF = ApiUnreachable("https://server", OSError("reset"))
LONG_S = 300.0
FIRST = RETRY_FIRST_S
GROWING = [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST]


def pod(name: str, version: int, /, **members: Any) -> dict[str, Any]:
    """A pod; what is given as None its metadata lacks."""
    metadata = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)} | members
    return {"metadata": {key: value for key, value in metadata.items() if value is not None}}


def added(version: int) -> Event:
    return Event("ADDED", pod(f"pod-{version}", version))


@dataclass(frozen=True)
class Watch:
    """A watch that tells something and ends after a time: with an error, or as servers end watches."""

    lived_s: float = 0.001
    events: tuple[Event, ...] = ()
    error: Exception | None = None


Answer = list[Any] | Watch | Exception


def over_and_over(times: int, *answers: Answer) -> list[Answer]:
    return list(answers) * times


class Server:
    """Answers in turn, in a time of its own, which passes while somebody watches or sleeps; then no more.

    `asked` is what it was asked for, and for how long nobody asked: "list", "watch", seconds.
    """

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[str | float] = []
        self.exhausted = asyncio.Event()
        self.now_s = 0.0

    async def list(self, *_: Any, **__: Any) -> Listing:
        self.asked.append("list")
        answer = await self._next()
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, list)
        return Listing(answer, "100")

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[Event, None]:
        self.asked.append("watch")
        answer = await self._next()
        assert isinstance(answer, Watch)
        for event in answer.events:
            yield event
        self.now_s += answer.lived_s
        if answer.error:
            raise answer.error

    async def _next(self) -> Answer:
        if not self.answers:
            self.exhausted.set()
            await asyncio.Event().wait()
        return self.answers.pop(0)

    async def sleep(self, pause_s: float) -> None:
        if pause_s:
            self.asked.append(pause_s)
            self.now_s += pause_s
        await asyncio.sleep(0)


def follow(monkeypatch: pytest.MonkeyPatch, *answers: Answer) -> tuple[Server, Informer]:
    """An informer of a server, until that has given all its answers; pauses are not spread."""
    monkeypatch.setattr(random, "uniform", lambda low, high: high)

    async def run() -> tuple[Server, Informer]:
        server = Server(*answers)
        informer = Informer(server, PODS, clock=lambda: server.now_s, sleep=server.sleep)  # type: ignore[arg-type]
        running, done = asyncio.ensure_future(informer.run()), asyncio.ensure_future(server.exhausted.wait())
        await asyncio.wait({running, done}, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        assert done.done(), server.asked
        running.cancel()
        await asyncio.wait({running}, timeout=20)
        assert running.cancelled()
        return server, informer

    return asyncio.run(run())


def pauses(server: Server) -> list[float]:
    return [step for step in server.asked if isinstance(step, float)]


# How often it asks.


def test_a_version_too_old_after_a_long_watch_is_answered_at_once_with_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    server, _ = follow(monkeypatch, [], Watch(LONG_S), Watch(error=GONE), [], Watch(LONG_S, error=GONE), [])
    assert server.asked == ["list", "watch", "watch", "list", "watch", "list", "watch"]


def test_a_version_that_is_always_too_old_is_listed_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    server, _ = follow(monkeypatch, *over_and_over(5, [], Watch(error=GONE)))
    repeats = [step for pause_s in GROWING for step in ("list", "watch", pause_s)]
    assert server.asked == ["list", "watch", *repeats, "list"]


def test_a_refusal_that_takes_its_time_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    server, _ = follow(monkeypatch, *over_and_over(5, [], Watch(3 * MOMENT_S, error=GONE)))
    assert pauses(server) == GROWING


def test_a_list_that_is_always_too_old_is_asked_for_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    server, _ = follow(monkeypatch, *[GONE] * 5, [], Watch(LONG_S))
    assert server.asked[:4] == ["list", "list", FIRST, "list"]
    assert pauses(server) == GROWING


def test_a_watch_that_ends_at_once_is_asked_for_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    server, _ = follow(monkeypatch, [], *[Watch()] * 5)
    assert server.asked[:5] == ["list", "watch", "watch", FIRST, "watch"]
    assert pauses(server) == GROWING


@pytest.mark.parametrize("error", [BROKEN, CUT_OFF])
def test_other_failures_are_paused_for_from_the_first_on(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    server, _ = follow(monkeypatch, error, error, [], Watch(error=error), [], Watch(error=error), [])
    assert pauses(server) == [FIRST, 2 * FIRST, FIRST, 2 * FIRST]


def test_no_pause_is_longer_than_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, gone = over_and_over(20, Watch()), over_and_over(20, [], Watch(error=GONE))
    for answers in ([[], *ended], gone, over_and_over(20, GONE), over_and_over(20, BROKEN)):
        server, _ = follow(monkeypatch, *answers)
        assert max(pauses(server)) == RETRY_MOST_S


@pytest.mark.parametrize("healthy", [Watch(MOMENT_S), Watch(LONG_S, (added(101),))])
def test_a_watch_that_lived_begins_the_pauses_anew(monkeypatch: pytest.MonkeyPatch, healthy: Watch) -> None:
    server, _ = follow(monkeypatch, [], *[Watch()] * 3, healthy, *[Watch()] * 3)
    thrice = ["watch", "watch", FIRST, "watch", 2 * FIRST]
    assert server.asked == ["list", *thrice, "watch", *thrice, "watch"]


def test_a_reader_whose_watch_is_ended_over_and_over_waits_no_longer_than_the_first_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = [Watch(events=(added(version),)) for version in range(101, 121)]
    server, informer = follow(monkeypatch, [], *many)
    assert server.asked[:3] == ["list", "watch", "watch"]
    assert set(pauses(server)) == {FIRST}
    assert [item["metadata"]["resourceVersion"] for item in informer] == [str(version) for version in range(101, 121)]
    assert server.asked.count("list") == 1


def test_a_wanted_list_does_not_wait_for_a_pause() -> None:
    async def run() -> list[str | float]:
        server = Server([], Watch(error=BROKEN), [])
        pausing = asyncio.Event()

        async def sleep(pause_s: float) -> None:
            pausing.set()
            await asyncio.Event().wait()

        informer = Informer(server, PODS, sleep=sleep)  # type: ignore[arg-type]
        async with module.running(informer):
            await asyncio.wait_for(pausing.wait(), 20)
            informer.relist()
            await asyncio.wait_for(server.exhausted.wait(), 20)
        return server.asked

    assert asyncio.run(run()) == ["list", "watch", "list", "watch"]


# What it makes of strange answers.

STRANGE: list[Any] = [
    {}, {"metadata": None}, {"metadata": []}, {"metadata": "text"}, None,
    pod("a", 101, uid=None), pod("a", 101, name=None), pod("a", 101, resourceVersion=None), pod("a", 101, resourceVersion=""),
]  # fmt: skip


@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_an_event_that_names_no_object_is_a_failure_that_a_list_makes_good(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str, strange: Any
) -> None:
    server, informer = follow(monkeypatch, [pod("a", 1)], Watch(events=(Event(kind, strange),)), [pod("a", 1), pod("b", 2)])
    assert server.asked == ["list", "watch", FIRST, "list", "watch"]
    assert [item["metadata"]["name"] for item in informer] == ["a", "b"]
    assert "pods: the answer of the Kubernetes API cannot be read: an object " in caplog.text


BOOKMARKS: list[Any] = [{"kind": "Pod"}, {"metadata": {}}, {"metadata": None}, {"metadata": {"resourceVersion": ""}}, None]


@pytest.mark.parametrize("strange", BOOKMARKS)
def test_a_bookmark_of_nothing_is_a_failure_too(monkeypatch: pytest.MonkeyPatch, strange: Any) -> None:
    server, _ = follow(monkeypatch, [], Watch(events=(Event("BOOKMARK", strange),)), [])
    assert server.asked == ["list", "watch", FIRST, "list", "watch"]


@pytest.mark.parametrize("strange", STRANGE)
def test_a_list_with_an_object_that_is_none_changes_nothing(monkeypatch: pytest.MonkeyPatch, strange: Any) -> None:
    server, informer = follow(monkeypatch, [pod("a", 1)], Watch(LONG_S, error=GONE), [pod("b", 2), strange], [pod("c", 3)])
    assert server.asked == ["list", "watch", "list", FIRST, "list", "watch"]
    assert [item["metadata"]["name"] for item in informer] == ["c"]


def test_strange_events_over_and_over_are_listed_for_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    server, _ = follow(monkeypatch, *over_and_over(4, [], Watch(events=(added(101), Event("MODIFIED", {})))), [])
    assert pauses(server) == GROWING


# That it ends when told.


class Failing:
    """A server whose watch fails when it is told to."""

    def __init__(self, error: Exception) -> None:
        self.error, self.watching, self.fail = error, asyncio.Event(), asyncio.Event()

    async def list(self, *_: Any, **__: Any) -> Listing:
        return Listing([], "100")

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[Event, None]:
        self.watching.set()
        await self.fail.wait()
        if self.error:
            raise self.error
        yield Event("BOOKMARK", {})


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("error", [GONE, BROKEN, CUT_OFF, ZeroDivisionError()])
def test_a_cancel_in_the_turn_in_which_the_watch_fails_ends_the_cache(error: Exception, turns: int) -> None:
    async def run() -> bool:
        server = Failing(error)
        task = asyncio.ensure_future(Informer(server, PODS).run())  # type: ignore[arg-type]
        await asyncio.wait_for(server.watching.wait(), 20)
        server.watching.clear()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # the watch's own fault is told there
        server.fail.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        return await has_ended(task)

    assert asyncio.run(run())


def test_a_fault_that_is_not_the_servers_is_raised() -> None:
    async def run() -> None:
        server = Failing(ZeroDivisionError("ours"))
        server.fail.set()
        await asyncio.wait_for(Informer(server, PODS).run(), 20)  # type: ignore[arg-type]

    with pytest.raises(ZeroDivisionError, match="ours"):
        asyncio.run(run())


def test_a_cancel_while_a_watch_is_given_up_for_a_list_ends_the_cache() -> None:
    class Slow(Failing):
        """Takes a while to give its watch up."""

        giving_up, given_up = asyncio.Event(), asyncio.Event()

        async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[Event, None]:
            self.watching.set()
            try:
                await asyncio.Event().wait()
                yield Event("BOOKMARK", {})
            finally:
                self.giving_up.set()
                await self.given_up.wait()

    async def run() -> bool:
        server = Slow(GONE)
        informer = Informer(server, PODS)  # type: ignore[arg-type]
        task = asyncio.ensure_future(informer.run())
        await asyncio.wait_for(server.watching.wait(), 20)
        informer.relist()
        await asyncio.wait_for(server.giving_up.wait(), 20)
        task.cancel()
        server.given_up.set()
        return await has_ended(task)

    assert asyncio.run(run())
