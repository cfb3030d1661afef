"""The rounds of autoscaling, by a clock that the test turns: when a workload's use is looked at, and what does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from controller_values import GIB, NOW, member
from planning_values import card

from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.controller.pods import DESIRED
from tensorfusion_iac.controller.scaler import Scaler
from tensorfusion_iac.controller.scaling import Memory, Row
from tensorfusion_iac.kube.resource import PODS, Resource
from tensorfusion_iac.planning.charge import Charge
from tensorfusion_iac.planning.shares import CardShare, Reservation

T0 = 1_767_258_000.0  # 2026-01-01 09:00 UTC
ROUND_S = 30.0
TFLOPS = 1_000_000
CARD = card("GPU-0")  # 100 TFLOPS, 80 GiB
MEMBER = member()


class Stopped(BaseException):
    """The rounds that a test asked for are over."""


@dataclass
class Turning:
    """The clock, the agents' answers, and what is written, in one: each question of use is a round later."""

    rounds: int
    settings: Mapping[str, Any]
    now_s: float = T0
    asked: list[tuple[float, str]] = field(default_factory=list)
    """When the pod's `desired` was written, and what it said."""

    def wall(self) -> float:
        return self.now_s

    def forget(self) -> None:
        """There is no use from before."""

    async def ask(self, agents: object, now_s: float) -> list[Row]:
        if self.rounds == 0:
            raise Stopped
        self.rounds -= 1
        self.now_s += ROUND_S
        # A use that grows all the time, so that every look wants more.
        compute = min(0.1 + (now_s - T0) / 10_000, 1.0)
        return [Row(MEMBER.uid, "GPU-0", now_s - ROUND_S, compute, 2 * GIB)]

    async def merge(self, resource: Resource, item: Any, body: Any, subresource: str | None = None) -> None:
        if resource == PODS:
            self.asked.append((self.now_s - ROUND_S - T0, body["metadata"]["annotations"][DESIRED]))

    async def load(self) -> dict[str, Memory]:
        return {}

    async def save(self, uid: str, memory: Memory) -> None:
        """Nothing outlives the test."""

    async def keep_only(self, uids: object) -> None:
        """As above."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        metadata = {"namespace": "ml", "name": "chat", "uid": "uid-chat", "creationTimestamp": NOW}
        yield {"metadata": metadata, "spec": {"autoScalingConfig": dict(self.settings)}}


async def _closed() -> None:
    """There is no external scaler."""


async def turned(settings: Mapping[str, Any], rounds: int = 60) -> list[tuple[float, str]]:
    """Run so many rounds of the scaler over one workload."""
    world: Any = Turning(rounds, settings)
    share = CardShare("GPU-0", 10 * TFLOPS, 4 * GIB, 20 * TFLOPS, 8 * GIB, 1, 1, 1, 1)
    held = Reservation(MEMBER.uid, "ml", MEMBER.name, "n0", Isolation.SOFT, False, False, (share,))

    anything: Any = SimpleNamespace
    scaler = Scaler(
        world, world, world,
        fleet=anything(agents={}, cards={"gpu-0": CARD}),
        pods=anything(members=lambda key: (MEMBER,), reservation=lambda key: held),
        stored=world,
        pod_objects=anything(get=lambda name, namespace: {"metadata": {"annotations": {}}}),
        quotas=anything(quota=lambda namespace: None, used=lambda namespace: Charge()),
        profiles=anything(get=lambda name, namespace: None),
        external=anything(keep_only=lambda uids: None, close=_closed),
        round_s=0.0, wall=world.wall,
    )  # fmt: skip
    with pytest.raises(Stopped):
        await scaler.run()
    asked: list[tuple[float, str]] = world.asked
    return asked


def changes(asked: list[tuple[float, str]]) -> list[float]:
    """When what is asked for was another than before."""
    return [at for (at, text), before in zip(asked, [(0.0, ""), *asked], strict=False) if text != before[1]]


def learning(**more: Any) -> dict[str, Any]:
    return {"autoSetResources": {"enable": True, "initialDelayPeriod": "1s", **more}}


def test_use_is_looked_at_in_each_round_where_no_interval_is_given() -> None:
    found = changes(asyncio.run(turned(learning())))
    assert len(found) > 12
    assert min(later - sooner for sooner, later in pairwise(found)) == ROUND_S


@pytest.mark.parametrize(("interval", "every_s"), [("5m", 300), ("100s", 120), ("10s", 30)])
def test_use_is_looked_at_again_only_after_the_workloads_own_interval(interval: str, every_s: float) -> None:
    found = changes(asyncio.run(turned(learning(interval=interval))))
    assert len(found) >= 4, "it is looked at again"
    assert all(at % every_s == 0 for at in found)


def test_a_cron_rule_does_not_wait_for_the_interval() -> None:
    rule = {"name": "day", "start": "10 9 * * *", "end": "0 12 * * *", "desiredResources": {"requests": {"tflops": 90}}}
    found = changes(asyncio.run(turned({**learning(interval="1h"), "cronScalingRules": [rule]})))
    assert 600.0 in found, "it begins at 9:10"
