"""Where autoscaling's memory outlives the controller: a ConfigMap per workload UID in our namespace (SPEC §9).

At most one write in five minutes for each. A ConfigMap whose workload is gone goes too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tensorfusion_iac.api.names import COMPONENT_LABEL
from tensorfusion_iac.controller.scaling import Memory, from_text, to_text
from tensorfusion_iac.controller.writing import Writer
from tensorfusion_iac.kube.client import Client, Object
from tensorfusion_iac.kube.resource import CONFIG_MAPS

log = logging.getLogger(__name__)

PERIOD_S = 300.0
LABEL, VALUE, KEY, UID = COMPONENT_LABEL, "usage-histogram", "usage", "tensor-fusion.ai/workload-uid"


@dataclass(slots=True)
class Checkpoints:
    """The ConfigMaps of all workloads. `load` comes first."""

    client: Client
    writer: Writer
    namespace: str
    clock: Callable[[], float] = time.monotonic
    _stored: dict[str, Object] = field(default_factory=dict)
    _written_s: dict[str, float] = field(default_factory=dict)

    async def load(self) -> dict[str, Memory]:
        """What is remembered, by workload UID. One that can't be read is logged and begun anew."""
        listing = await self.client.list(CONFIG_MAPS, self.namespace, label_selector=f"{LABEL}={VALUE}")
        self._stored, found = {}, {}
        for item in listing.items:
            uid = (item["metadata"].get("annotations") or {}).get(UID, "")
            self._stored[uid] = item
            try:
                found[uid] = from_text((item.get("data") or {}).get(KEY) or "")
            except ValueError as error:
                log.warning("ConfigMap %s: %s", item["metadata"]["name"], error)
        return found

    async def save(self, uid: str, memory: Memory) -> None:
        """Store a memory, unless that was done a moment ago."""
        now = self.clock()
        if now - self._written_s.get(uid, float("-inf")) < PERIOD_S:
            return
        text, stored = to_text(memory), self._stored.get(uid)
        if stored is None:
            metadata = {
                "name": f"tensor-fusion-usage-{uid}".lower(), "namespace": self.namespace, "labels": {LABEL: VALUE},
                "annotations": {UID: uid},
            }  # fmt: skip
            made = await self.writer.create(CONFIG_MAPS, {"metadata": metadata, "data": {KEY: text}})
            if made is None:
                return
            self._stored[uid] = made
        elif (stored.get("data") or {}).get(KEY) != text:
            await self.writer.merge(CONFIG_MAPS, stored, {"data": {KEY: text}})
            self._stored[uid] = stored | {"data": {KEY: text}}
        self._written_s[uid] = now

    async def keep_only(self, uids: Collection[str]) -> None:
        """Remove the memories of workloads that are gone."""
        for uid in [uid for uid in self._stored if uid not in uids]:
            await self.writer.remove(CONFIG_MAPS, self._stored[uid])
            del self._stored[uid]
            self._written_s.pop(uid, None)
