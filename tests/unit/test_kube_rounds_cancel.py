"""That what waits for news or for a time ends when it is cancelled in the turn in which the news come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from cancelling import has_ended

from tensorfusion_iac.admission.certificates import Certificates, Place
from tensorfusion_iac.agent.simulated_program import SimulatedAgents


class Silent:
    """A server that takes all and tells nothing."""

    async def apply(self, *_: Any) -> None:
        pass

    async def delete(self, *_: Any) -> None:
        pass


Rounds = tuple[Coroutine[Any, Any, None], asyncio.Event]


def reporting(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    certificates = Certificates(Silent(), Place((), "me"))  # type: ignore[arg-type]
    return certificates.report(), certificates._to_report


def keeping(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    async def keep_once(self: Certificates) -> None:
        pass

    monkeypatch.setattr(Certificates, "keep_once", keep_once)
    certificates = Certificates(Silent(), Place((), "me"))  # type: ignore[arg-type]
    return certificates.keep(), certificates._changed


def simulating(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    agents = SimulatedAgents(Silent())  # type: ignore[arg-type]
    return agents._rounds(), agents._changed


@pytest.mark.parametrize("rounds", [reporting, keeping, simulating])
def test_a_cancel_in_the_turn_of_the_news_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, rounds: Callable[[pytest.MonkeyPatch], Rounds]
) -> None:
    async def run() -> bool:
        work, news = rounds(monkeypatch)
        task = asyncio.ensure_future(work)
        for _ in range(5):
            await asyncio.sleep(0)  # it waits now
        news.set()
        task.cancel()
        return await has_ended(task, within_s=2)

    assert asyncio.run(run())
