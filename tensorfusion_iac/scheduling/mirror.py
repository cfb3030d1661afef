"""The mirror in `GPU.status`: what is free of each card, the isolation that it serves, and who holds how much (SPEC §4, §9).

For people and dashboards; nothing here is read back. At most one write a second for a card, and the fewer in all the more pods
are being placed, so that the mirror never slows down what it shows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.quantity import format_bytes
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import GPUS
from tensorfusion_iac.planning.ledger import State
from tensorfusion_iac.planning.units import tflops_text
from tensorfusion_iac.scheduling.state import ClusterState

log = logging.getLogger(__name__)

MANAGER = "tensor-fusion-scheduler"
PERIOD_S = 1.0
MOST_WRITES, LEAST_WRITES = 80, 1
"""In a period. Pods that are being placed count too: a Binding costs the API server as much as a write of ours."""
_CONCURRENT = 8


class Mirror:
    """Writes what has changed, while `may_write`."""

    def __init__(self, client: Client, state: ClusterState, may_write: Callable[[], bool]) -> None:
        self._client, self._state, self._may_write = client, state, may_write
        self._dirty: dict[str, None] = {}
        self._placed = 0
        state.on_card(self._mark)

    def placed(self) -> None:
        """A pod is being placed now."""
        self._placed += 1

    def mark_all(self) -> None:
        """Look at every card: after a restart, or a new term."""
        for card in self._state.inventory.cards():
            self._mark(card.uuid)

    async def run(self) -> None:
        """Write, for ever; the cards that waited longest come first."""
        while True:
            await asyncio.sleep(PERIOD_S)
            most = max(LEAST_WRITES, MOST_WRITES - self._placed)
            self._placed = 0
            if not self._dirty or not self._may_write():
                continue
            batch = list(self._dirty)[:most]
            for uuid in batch:
                del self._dirty[uuid]
            for start in range(0, len(batch), _CONCURRENT):
                await asyncio.gather(*(self._write(uuid) for uuid in batch[start : start + _CONCURRENT]))

    def status_of(self, uuid: str) -> dict[str, Any] | None:
        """The mirrored part of a card's status; None if there is no such card."""
        card = self._state.inventory.card(uuid)
        if card is None:
            return None
        mflops, vram = card.capacity_mflops, card.capacity_vram_bytes
        allocations, isolation = [], None
        for uid, (share, reservation) in self._state.inventory.holders(uuid).items():
            entry = self._state.ledger.get(uid)
            if entry is None or entry.state is State.HELD:
                continue
            mflops, vram = mflops - share.held_mflops, vram - share.held_vram_bytes
            isolation = reservation.isolation
            allocations.append({
                "uid": uid, "namespace": reservation.namespace, "name": reservation.name,
                "tflops": tflops_text(share.mflops), "vram": format_bytes(share.vram_bytes),
            })  # fmt: skip
        return {
            "available": {"tflops": tflops_text(max(mflops, 0)), "vram": format_bytes(max(vram, 0))},
            "isolationMode": None if isolation is None else Isolation(isolation).value,
            "allocations": sorted(allocations, key=lambda one: (one["namespace"], one["name"], one["uid"])),
        }

    async def _write(self, uuid: str) -> None:
        gpu, status = self._state.gpus.get(uuid), self.status_of(uuid)
        if gpu is None or status is None:
            return
        now = gpu.get("status") or {}
        if all((now.get(key) or None) == (value or None) for key, value in status.items()):
            return
        try:
            await self._client.merge(
                GPUS, gpu["metadata"]["name"], {"status": status}, field_manager=MANAGER, subresource="status"
            )
        except ApiError as error:
            if not error.not_found:
                log.warning("status of GPU %s: %s", uuid, error)
                self._dirty[uuid] = None
        except KubeError as error:
            log.warning("status of GPU %s: %s", uuid, error)
            self._dirty[uuid] = None

    def _mark(self, uuid: str) -> None:
        self._dirty[uuid] = None
