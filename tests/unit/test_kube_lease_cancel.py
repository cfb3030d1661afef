"""That the holder of a lease ends when it is told to, whatever its work does in that moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cancelling import has_ended

from tensorfusion_iac.kube.lease import Lease, Terms

QUICK = Terms(duration_s=15.0, give_up_s=10.0, renew_s=0.001)


class Leases:
    """A server with one lease, which somebody may take by force."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {"metadata": {"resourceVersion": "1"}, "spec": {}}

    async def get(self, *_: Any) -> dict[str, Any]:
        return self.stored

    async def patch(self, resource: object, name: str, body: dict[str, Any], *_: Any) -> dict[str, Any]:
        self.stored = self.stored | {"spec": self.stored["spec"] | body["spec"]}
        return self.stored

    def taken(self) -> None:
        self.stored = self.stored | {"spec": {"holderIdentity": "other", "renewTime": "now", "leaseDurationSeconds": 1000}}


def test_a_cancel_while_the_work_of_a_lost_lease_ends_is_not_taken_for_the_works_own() -> None:
    begun, ending, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await ended.wait()

    async def run() -> bool:
        server = Leases()
        task = asyncio.ensure_future(Lease(server, "one", "ns", "me", QUICK).run(work))  # type: ignore[arg-type]
        await asyncio.wait_for(begun.wait(), 20)
        server.taken()
        await asyncio.wait_for(ending.wait(), 20)
        task.cancel()
        ended.set()
        return await has_ended(task)

    assert asyncio.run(run())


def test_work_that_fails_ends_its_holder() -> None:
    async def work() -> None:
        raise ZeroDivisionError("a fault of the work")

    async def run() -> None:
        await asyncio.wait_for(Lease(Leases(), "one", "ns", "me", QUICK).run(work), 20)  # type: ignore[arg-type]

    with pytest.raises(ZeroDivisionError, match="a fault of the work"):
        asyncio.run(run())
