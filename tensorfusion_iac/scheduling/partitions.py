"""Hardware partitions: what is wanted on a card goes to `GPU.spec.partitions`, and its UUID comes back in the status (SPEC §9).

A MIG UUID exists only after the agent has made the instance, so a bind waits for it. What is wanted is exactly what the
books hold; when a pod goes, or a bind is rolled back, its placement goes from the spec, and the agent takes it apart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import KubeError
from tensorfusion_iac.kube.resource import GPUS
from tensorfusion_iac.planning.ledger import State
from tensorfusion_iac.planning.shares import CardShare, Reservation
from tensorfusion_iac.scheduling.state import ClusterState

log = logging.getLogger(__name__)

WAIT_S = 20.0
MANAGER = "tensor-fusion-scheduler"
_RETRY_S = 1.0


class Partitions:
    """Keeps `GPU.spec.partitions` as the books say, while `may_write`."""

    def __init__(self, client: Client, state: ClusterState, may_write: Callable[[], bool], wait_s: float = WAIT_S) -> None:
        self._client, self._state, self._may_write, self._wait_s = client, state, may_write, wait_s
        self._dirty: set[str] = set()
        self._work, self._seen = asyncio.Event(), asyncio.Condition()
        state.on_card(self._mark)

    async def provide(self, reservation: Reservation) -> dict[str, str] | None:
        """Wait until the reserved partitions exist: MIG UUIDs by card UUID. None if they do not in time."""
        for share in reservation.shares:
            self._mark(share.uuid)
        try:
            async with asyncio.timeout(self._wait_s), self._seen:
                while (found := self._made(reservation)) is None:
                    await self._seen.wait()
                return found
        except TimeoutError:
            return None

    async def status_changed(self) -> None:
        """A GPU object has changed: those who wait look again."""
        async with self._seen:
            self._seen.notify_all()

    def mark_all(self) -> None:
        """Look at every card: after a restart, or a new term."""
        for card in self._state.inventory.cards():
            self._mark(card.uuid)

    async def run(self) -> None:
        """Write what is wanted, for ever."""
        while True:
            await self._work.wait()
            self._work.clear()
            if not self._may_write():
                await asyncio.sleep(_RETRY_S)
                self._work.set()
                continue
            while self._dirty:
                uuid = self._dirty.pop()
                try:
                    await self._write(uuid)
                except KubeError as error:
                    log.warning("partitions of %s: %s", uuid, error)
                    self._dirty.add(uuid)
                    await asyncio.sleep(_RETRY_S)

    async def _write(self, uuid: str) -> None:
        gpu = self._state.gpus.get(uuid)
        if gpu is None:
            return
        wanted = self._wanted(uuid)
        if ((gpu.get("spec") or {}).get("partitions") or []) == wanted:
            return
        body = {"spec": {"partitions": wanted}}
        written = await self._client.merge(GPUS, gpu["metadata"]["name"], body, field_manager=MANAGER)
        if uuid in self._state.gpus:
            self._state.gpus[uuid]["spec"] = written.get("spec")

    def _wanted(self, uuid: str) -> list[dict[str, Any]]:
        """What the books hold of a card, holds that may still come to nothing excepted."""
        wanted = []
        for uid, (share, _) in self._state.inventory.holders(uuid).items():
            entry = self._state.ledger.get(uid)
            if share.slot is not None and entry is not None and entry.state is not State.HELD:
                slot = share.slot
                wanted.append({"template": slot.template, "start": slot.start, "size": slot.size, "podUID": uid})
        return sorted(wanted, key=lambda part: part["start"])

    def _made(self, reservation: Reservation) -> dict[str, str] | None:
        found = {share.uuid: self._uuid_of(share, reservation.uid) for share in reservation.shares}
        return {card: uuid for card, uuid in found.items() if uuid} if all(found.values()) else None

    def _uuid_of(self, share: CardShare, uid: str) -> str:
        card = self._state.inventory.card(share.uuid)
        if card is None or share.slot is None:
            return ""
        for instance in card.instances:
            same = (instance.template, instance.start) == (share.slot.template, share.slot.start)
            if same and instance.uuid and instance.pod_uid in ("", uid):
                return instance.uuid
        return ""

    def _mark(self, uuid: str) -> None:
        card = self._state.inventory.card(uuid)
        if card is not None and card.geometry is not None:
            self._dirty.add(uuid)
            self._work.set()
