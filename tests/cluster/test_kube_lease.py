"""One writer among replicas: leases at a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from running_plane import ControlPlane

from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.lease import Lease, Terms
from tensorfusion_iac.kube.resource import LEASES

pytestmark = pytest.mark.cluster

QUICK = Terms(duration_s=3.0, give_up_s=2.0, renew_s=0.3)
LONG_S = 20.0


@dataclass
class Contender:
    """An identity that wants the lease, and when it worked."""

    lease: Lease
    working: bool = False
    terms: int = 0
    task: asyncio.Task[None] | None = None

    async def work(self) -> None:
        self.working, self.terms = True, self.terms + 1
        try:
            await asyncio.Event().wait()
        finally:
            self.working = False

    def start(self) -> None:
        self.task = asyncio.create_task(self.lease.run(self.work))

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


@dataclass
class Race:
    """Two contenders for one lease. `most` is how many ever worked at a time."""

    left: Contender
    right: Contender
    most: int = 0
    watching: asyncio.Task[None] | None = field(default=None)

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, self.left.working + self.right.working)
            await asyncio.sleep(0.01)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LONG_S):
            while not condition():
                await asyncio.sleep(0.05)


def race(plane: ControlPlane, name: str, run: Callable[[Race], Awaitable[None]]) -> Race:
    """Two contenders on connections of their own; both have been stopped at the end."""

    async def both(client: Client) -> Race:
        async with await Client.from_kubeconfig(plane.kubeconfig) as other:
            found = Race(
                *(Contender(Lease(one, name, "default", side, QUICK)) for one, side in ((client, "left"), (other, "right")))
            )
            found.watching = asyncio.create_task(found.watch())
            found.left.start()
            await found.until(lambda: found.left.working)
            found.right.start()
            try:
                await run(found)
            finally:
                await asyncio.gather(found.left.stop(), found.right.stop())
                found.watching.cancel()
                await client.delete(LEASES, name, "default")
        return found

    return plane.ask(both)


def test_one_works_at_a_time_and_the_next_begins_when_it_stops(control_plane: ControlPlane) -> None:
    async def run(found: Race) -> None:
        await asyncio.sleep(QUICK.duration_s + 1)
        assert not found.right.working
        await found.left.stop()
        await found.until(lambda: found.right.working)
        found.left.start()
        await asyncio.sleep(1)
        await found.right.stop()
        await found.until(lambda: found.left.working)

    found = race(control_plane, "take-turns", run)
    assert found.most == 1
    assert (found.left.terms, found.right.terms) == (2, 1)


def test_a_holder_that_cannot_renew_stops_before_another_begins(control_plane: ControlPlane) -> None:
    async def run(found: Race) -> None:
        async def unreachable(now: float) -> bool:
            await asyncio.Event().wait()
            return False

        found.left.lease._write = unreachable  # type: ignore[method-assign]
        await found.until(lambda: found.right.working)
        assert not found.left.working
        assert not found.left.lease.held

    assert race(control_plane, "cut-off", run).most == 1


def test_a_lease_that_somebody_else_took_by_force_is_given_up(control_plane: ControlPlane) -> None:
    async def run(found: Race) -> None:
        await found.right.stop()
        async with await Client.from_kubeconfig(control_plane.kubeconfig) as client:
            await client.merge(LEASES, "by-force", {"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 1}}, "default")
        await found.until(lambda: not found.left.working)
        await found.until(lambda: found.left.working)  # the other never renewed

    assert race(control_plane, "by-force", run).left.terms == 2
