"""Memory limits that the driver holds, on the pod's cgroup and on each of its containers' (r615 and newer, cgroup v2).

The pod's first: it is there before the first container, so that no process starts without a limit. The container's as well,
for it is what `cuMemGetInfo` inside tells. Every limit is read back; what is not in force is not reported. A record on a
memory file system lets a restarted agent remove the limits of pods that went meanwhile.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import NamedTuple

from tensorfusion_iac.agent.cgroups import Cgroups
from tensorfusion_iac.agent.driver import NO_LIMIT, Driver, DriverError
from tensorfusion_iac.agent.pacing import Place
from tensorfusion_iac.agent.pods import NodePod

log = logging.getLogger(__name__)

RECORD = Path("/run/tensor-fusion/agent/memory-limits.json")

READ_BACK_S = 10.0
"""A limit that was confirmed is read again after this time: somebody else may have changed it."""

SETTLED_S = 5.0
"""A pod all of whose containers were found is looked at again after this time: one may have ended."""

Spot = tuple[str, str]
"""A card's UUID and a cgroup's directory."""
Bytes = tuple[int, int]
"""Soft and hard limit."""


class _Settled(NamedTuple):
    """A pod's folders, its own first, and the containers that they stand for."""

    folders: list[Path]
    containers: Set[str]
    found_s: float


class MemoryLimits:
    """Keeps the limits of a node's pods. `applied` is what the driver confirmed last, by pod and card, in bytes.

    While a new limit is refused the old one is in force, and told: a shrink must not free room that a pod may still use.
    """

    def __init__(self, driver: Driver, cgroups: Cgroups, record: Path = RECORD) -> None:
        self.applied: Mapping[Place, int] = {}
        self._driver, self._cgroups, self._record = driver, cgroups, record
        self._set: dict[Spot, Bytes] = _read(record)
        self._read_back_s: dict[Spot, float] = {}
        self._folders: dict[str, Path] = {}
        self._settled: dict[str, _Settled] = {}
        self._looked = False

    def keep(self, pods: Mapping[str, NodePod]) -> None:
        """Make the limits what they should be now. Failures are logged and tried again by the next call."""
        self._looked = False
        wanted: dict[Spot, Bytes] = {}
        places: dict[Place, list[Spot]] = {}
        for pod in pods.values():
            for card, folders in self._spots(pod):
                limits = pod.cards[card]
                for folder in folders:
                    wanted[card, str(folder)] = (min(limits.vram_request_bytes, limits.vram_limit_bytes), limits.vram_limit_bytes)
                places[pod.uid, card] = [(card, str(folder)) for folder in folders]
        for uid in self._settled.keys() - pods.keys():
            del self._settled[uid]
        before = dict(self._set)
        for spot in self._set.keys() - wanted.keys():
            self._clear(spot)
        for spot, limit in wanted.items():
            self._ensure(spot, limit)
        self.applied = {
            place: max(self._set[spot][1] for spot in spots)
            for place, spots in places.items()
            if spots and all(spot in self._set for spot in spots)
        }
        if self._set != before:
            self._write()

    def clear_all(self) -> None:
        """Remove every limit that was set here."""
        for spot in list(self._set):
            self._clear(spot)
        self._write()
        self.applied = {}

    def _spots(self, pod: NodePod) -> Iterator[tuple[str, list[Path]]]:
        cards = [card for card in pod.cards if pod.memory_held and self._driver.can_limit_memory(card)]
        if not cards:
            return
        folders = self._folders_of(pod)
        for card in cards if folders else ():
            yield card, folders

    def _folders_of(self, pod: NodePod) -> list[Path]:
        """The pod's directory and those of its containers; none while its sandbox isn't made yet."""
        settled, now_s = self._settled.get(pod.uid), time.monotonic()
        if settled is not None and settled.containers == pod.containers.keys() and now_s - settled.found_s < SETTLED_S:
            return settled.folders
        self._settled.pop(pod.uid, None)
        folder = self._folders.get(pod.uid)
        if folder is None or not folder.is_dir():
            if fresh := self._fresh():
                self._folders = fresh
            folder = self._folders.get(pod.uid)
            if folder is None or not folder.is_dir():
                return []
        ours = {identifier: path for identifier, path in self._cgroups.containers(folder).items() if identifier in pod.containers}
        folders = [folder, *ours.values()]
        if ours.keys() == pod.containers.keys():
            self._settled[pod.uid] = _Settled(folders, ours.keys(), now_s)
        return folders

    def _fresh(self) -> dict[str, Path]:
        """The directories of all pods, looked for once in a round; empty if they were."""
        if self._looked:
            return {}
        self._looked = True
        return self._cgroups.pods()

    def _ensure(self, spot: Spot, limit: Bytes) -> None:
        """Have a limit in force; `_set` says afterwards what is."""
        card, folder = spot
        now_s = time.monotonic()
        try:
            if self._set.get(spot) != limit:
                self._driver.limit_memory(card, folder, *limit)
            elif now_s - self._read_back_s.get(spot, float("-inf")) < READ_BACK_S:
                return
            in_force = self._driver.memory_limit(card, folder)
        except DriverError as error:
            log.warning("memory limit of %s on %s: %s", folder, card, error)
            return
        if in_force != limit:
            log.warning("memory limit of %s on %s: set to %s, the driver says %s", folder, card, limit, in_force)
            self._set.pop(spot, None)
            return
        self._set[spot], self._read_back_s[spot] = limit, now_s

    def _clear(self, spot: Spot) -> None:
        card, folder = spot
        try:
            self._driver.limit_memory(card, folder, 0, NO_LIMIT)
        except DriverError as error:
            if not error.lost:  # with the card the limit is gone
                log.warning("memory limit of %s on %s is not removed: %s", folder, card, error)
                return
        del self._set[spot]
        self._read_back_s.pop(spot, None)

    def _write(self) -> None:
        rows = [[card, folder, *limit] for (card, folder), limit in self._set.items()]
        try:
            self._record.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._record.with_suffix(".new")
            fresh.write_text(json.dumps(rows))
            fresh.replace(self._record)
        except OSError as error:
            log.warning("%s: %s", self._record, error)


def _read(record: Path) -> dict[Spot, Bytes]:
    """What an earlier agent had set; nothing if it left no record that can be read."""
    try:
        rows = json.loads(record.read_text())
        return {(str(card), str(folder)): (int(soft), int(hard)) for card, folder, soft, hard in rows}
    except (OSError, ValueError, TypeError):
        return {}
