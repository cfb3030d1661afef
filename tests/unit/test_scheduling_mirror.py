"""How many writes the mirror in `GPU.status` makes while pods are being placed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from test_scheduling_state import Cluster, spec

from tensorfusion_iac.scheduling.mirror import LEAST_WRITES, MOST_WRITES, Mirror


class Api:
    """Counts the writes of each period."""

    def __init__(self) -> None:
        self.periods = [0]

    async def merge(self, resource: Any, name: str, body: Any, **_: Any) -> None:
        self.periods[-1] += 1


@pytest.mark.parametrize(("placed", "written"), [(0, MOST_WRITES), (60, MOST_WRITES - 60), (500, LEAST_WRITES)])
def test_the_more_pods_are_placed_the_fewer_cards_are_written(placed: int, written: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, api = Cluster(cards=4, nodes=50), Api()
    client: Any = api
    told = Mirror(client, cluster.state, lambda: True)
    cluster.run("holds", spec(10))
    told.mark_all()
    for _ in range(placed):
        told.placed()

    async def pass_by(seconds: float) -> None:
        if len(api.periods) == 3:
            raise asyncio.CancelledError
        api.periods.append(0)

    monkeypatch.setattr(asyncio, "sleep", pass_by)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(told.run())
    assert api.periods == [0, written, MOST_WRITES], "and when no more are placed, the rest is"
