"""What agents are asked for: what is new to the controller, and everything after they were away (SPEC §8)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tensorfusion_iac.controller.scaling import Row
from tensorfusion_iac.controller.usage import HISTORY_S, OVERLAP_S, Agent, Usage
from tensorfusion_iac.kube.client import Client

AGENTS = {"lease-a": Agent("a", "https://a", "pem-a"), "lease-b": Agent("b", "https://b", "pem-b")}


class Answering(Usage):
    """Agents that answer with one row, unless they are away."""

    def __init__(self) -> None:
        super().__init__(cast("Client", None), "system")
        self.away: set[str] = set()
        self.asked: list[tuple[str, float]] = []

    async def _own_token(self) -> str:
        return "token"

    async def _ask(self, session: Any, agent: Agent, token: str, since_s: float) -> list[Row] | None:
        self.asked.append((agent.node, since_s))
        return None if agent.node in self.away else [Row(agent.node, "GPU-0", since_s, 0.1, 1)]


def test_what_an_agent_kept_while_it_was_away_is_asked_for_when_it_is_back() -> None:
    usage = Answering()

    def ask(now_s: float) -> list[tuple[str, float]]:
        usage.asked.clear()
        asyncio.run(_ask(usage, now_s))
        return sorted(usage.asked)

    assert ask(100_000) == [("a", 100_000 - HISTORY_S), ("b", 100_000 - HISTORY_S)]
    usage.away = {"b"}
    assert ask(100_030) == [("a", 100_000 - OVERLAP_S), ("b", 100_000 - OVERLAP_S)]
    usage.away = set()
    assert ask(101_000) == [("a", 100_030 - OVERLAP_S), ("b", 100_000 - OVERLAP_S)]
    assert ask(101_030) == [("a", 101_000 - OVERLAP_S), ("b", 101_000 - OVERLAP_S)]
    usage.forget()
    assert ask(101_060) == [("a", 101_060 - HISTORY_S), ("b", 101_060 - HISTORY_S)]


async def _ask(usage: Usage, now_s: float) -> list[Row]:
    return await usage.ask(AGENTS, now_s)
