"""The controller's work queue: one look for many changes, none lost, and failures tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tensorfusion_iac.controller import queue
from tensorfusion_iac.controller.queue import WorkQueue
from tensorfusion_iac.kube.errors import KubeError

Act = Callable[[WorkQueue[str]], Awaitable[None]]


def looks(act: Act, look: Callable[[WorkQueue[str], str], Awaitable[None]], period_s: float = 0.02) -> None:
    async def run() -> None:
        work: WorkQueue[str] = WorkQueue(period_s)

        async def one(key: str) -> None:
            await look(work, key)

        running = asyncio.create_task(work.run(one, 2))
        await act(work)
        async with asyncio.timeout(10):
            while len(work):
                await asyncio.sleep(0.005)
        running.cancel()

    asyncio.run(run())


def test_many_changes_before_a_look_cost_one_look() -> None:
    seen: list[str] = []

    async def look(_: WorkQueue[str], key: str) -> None:
        seen.append(key)

    async def act(work: WorkQueue[str]) -> None:
        for _ in range(100):
            work.add("a")
        work.add("b")

    looks(act, look)
    assert sorted(seen) == ["a", "b"]


def test_a_change_during_a_look_is_looked_at_after_it_and_never_at_the_same_time() -> None:
    seen: list[str] = []
    inside: set[str] = set()

    async def look(work: WorkQueue[str], key: str) -> None:
        assert key not in inside
        inside.add(key)
        if not seen:
            work.add(key)
        await asyncio.sleep(0.01)
        inside.discard(key)
        seen.append(key)

    async def act(work: WorkQueue[str]) -> None:
        work.add("a")

    looks(act, look)
    assert seen == ["a", "a"]


def test_a_look_that_fails_is_repeated_and_holds_up_nothing_else() -> None:
    tries: list[str] = []

    async def look(_: WorkQueue[str], key: str) -> None:
        tries.append(key)
        if key == "bad" and tries.count("bad") < 2:
            raise KubeError("no")
        if key == "strange" and tries.count("strange") < 2:
            raise ValueError("what is this")

    async def act(work: WorkQueue[str]) -> None:
        for key in ("bad", "strange", "good"):
            work.add(key)

    first, queue.RETRY_FIRST_S = queue.RETRY_FIRST_S, 0.01
    try:
        looks(act, look)
    finally:
        queue.RETRY_FIRST_S = first
    assert sorted(tries) == ["bad", "bad", "good", "strange", "strange"]


def test_a_change_is_looked_at_before_a_look_that_was_put_off() -> None:
    seen: list[str] = []

    async def look(work: WorkQueue[str], key: str) -> None:
        seen.append(key)
        if len(seen) < 3:
            work.later(key, 3600)
            work.add(key)

    async def act(work: WorkQueue[str]) -> None:
        work.later("a", 3600)
        work.add("a")

    looks(act, look)
    assert seen == ["a", "a", "a"]


def test_what_was_being_looked_at_when_the_lease_was_lost_is_looked_at_in_the_next_term() -> None:
    seen: list[str] = []

    async def run() -> None:
        work: WorkQueue[str] = WorkQueue(0.0)

        async def stuck(key: str) -> None:
            await asyncio.sleep(3600)

        async def look(key: str) -> None:
            seen.append(key)

        work.add("a")
        term = asyncio.create_task(work.run(stuck))
        await asyncio.sleep(0.02)
        term.cancel()
        await asyncio.gather(term, return_exceptions=True)
        term = asyncio.create_task(work.run(look))
        await asyncio.sleep(0.02)
        term.cancel()

    asyncio.run(run())
    assert seen == ["a"]
