"""The simulated cards of one node, as who drives them sees them: it writes their mapped state, and starts them and jobs.

Its `environment` makes a child process load our `libnvidia-ml.so.1` under the real pynvml, which finds the library by
LD_LIBRARY_PATH; setting that inside a running process would come too late.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.virtual_gpus.state import (
    EVENT_XID,
    EVENTS,
    GIB,
    KIND_COMPUTE,
    MAGIC,
    NO_INSTANCE,
    SAMPLES,
    Card,
    Process,
    State,
)


class Fake:
    """The cards of one node. `built` is what `build` returned."""

    def __init__(self, built: Path, path: Path, *, old_driver: bool = False) -> None:
        with path.open("wb") as file:
            file.truncate(ctypes.sizeof(State))
        self._open(built, path, built / ("old" if old_driver else "new"))
        self.state.driver_version = b"580.95.05" if old_driver else b"615.71.05"
        self.state.cuda_version = 13000 if old_driver else 13040
        self.state.magic = MAGIC

    @classmethod
    def opened(cls, built: Path, path: Path) -> Fake:
        """The cards that somebody else made, under a driver with memory limits."""
        fake = cls.__new__(cls)
        fake._open(built, path, built / "new")
        return fake

    def _open(self, built: Path, path: Path, library: Path) -> None:
        self._built, self.path, self._library = built, path, library
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), ctypes.sizeof(State))
        self.state = State.from_buffer(self._map)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a child that is to see these cards."""
        return os.environ | {"LD_LIBRARY_PATH": str(self._library), "FAKE_NVML_STATE": str(self.path)}

    @property
    def library(self) -> Path:
        """The shared object itself."""
        return self._library / "libnvidia-ml.so.1"

    def add_card(
        self,
        name: str = "NVIDIA A100-SXM4-80GB",
        total_gib: int = 80,
        *,
        reserved_bytes: int = 600 * 2**20,
        numa_node: int = 0,
        uuid: str = "",
    ) -> Card:
        """One more card; its bus id follows from its index, and its UUID where none is given."""
        index = self.state.card_count
        card: Card = self.state.cards[index]
        card.uuid = uuid.encode() or b"GPU-%08x-0000-4000-8000-000000000000" % (0xAB00 + index)
        card.name = name.encode()
        card.bus_id = b"00000000:%02X:00.0" % (index + 1)
        card.total_bytes, card.reserved_bytes = total_gib * GIB, reserved_bytes
        card.numa_node, card.recovery_supported = numa_node, 1
        self.state.card_count = index + 1
        return card

    def add_process(self, card: Card, pid: int, used_bytes: int = 0, kind: int = KIND_COMPUTE) -> Process:
        """A process on a card, with no work of its own; tests add its samples."""
        slot: Process = next(slot for slot in card.processes if slot.pid == 0)
        slot.kind, slot.used_bytes, slot.gpu_instance, slot.compute_instance = kind, used_bytes, NO_INSTANCE, NO_INSTANCE
        slot.pid = pid
        return slot

    def add_sample(self, card: Card, pid: int, sm: int, time_us: int | None = None) -> None:
        """A utilisation sample, now unless `time_us` is given."""
        sample = card.samples[card.sample_count % SAMPLES]
        sample.time_us = time.time_ns() // 1000 if time_us is None else time_us
        sample.pid, sample.sm = pid, sm
        card.sample_count += 1

    def add_xid(self, card_index: int, xid: int) -> None:
        """An event of the driver."""
        event = self.state.events[self.state.event_count % EVENTS]
        event.type, event.data, event.card = EVENT_XID, xid, card_index
        self.state.event_count += 1

    def answer(self, call: str, code: int, card: int = -1) -> None:
        """Let a call answer an error from now on (0: as usual again)."""
        for rule in self.state.overrides:
            if rule.call in (b"", call.encode()):
                rule.card, rule.code, rule.call = card, code, call.encode()
                return

    def reset_card(self, card: Card) -> None:
        """What a GPU reset does: it answers again, but handles from before are stale."""
        card.error, card.recovery_action = 0, 0
        card.resets += 1

    def limits(self, card: Card) -> Mapping[str, tuple[int, int]]:
        """The memory limits in force: path -> (soft, hard) bytes."""
        return {limit.path.decode(): (limit.soft_bytes, limit.hard_bytes) for limit in card.limits if limit.path}

    def allow_mig(self, card: Card, profiles: Sequence[tuple[str, int, int, Sequence[int], int]], first_id: int = 14) -> None:
        """Let a card be partitioned: profiles as (name, NVML index, slices, starts, size)."""
        card.mig_supported = 1
        for number, (name, index, slices, starts, size) in enumerate(profiles):
            profile = card.profiles[number]
            profile.index, profile.id, profile.slices, profile.size = index, first_id + number, slices, size
            profile.instances, profile.start_count = len(starts), len(starts)
            for position, start in enumerate(starts):
                profile.starts[position] = start
            profile.memory_mb = int(name.partition("g.")[2].partition("gb")[0]) * 1024
            profile.name = name.encode()

    def job_seconds(self, pid: int) -> float:
        """GPU seconds that a job has been given so far; 0 for one that has ended."""
        return next((slot.drained_ns / 1e9 for card in self.cards for slot in card.processes if slot.pid == pid), 0.0)

    @property
    def cards(self) -> list[Card]:
        """The cards, by index."""
        return list(self.state.cards[: self.state.card_count])

    @contextmanager
    def working(self) -> Iterator[None]:
        """The cards do the work that jobs ask for, for the length of the block."""
        card = subprocess.Popen([str(self._built / "card"), str(self.path)])
        try:
            yield
        finally:
            card.kill()
            card.wait()

    def job_command(
        self,
        *,
        card: int = 0,
        kernel_us: int = 1000,
        submit_us: int = 0,
        sync_kernels: int = 20,
        depth: int = 1024,
        vram_bytes: int = GIB,
        seconds: int = 600,
    ) -> list[str]:
        """The command line of a virtual GPU job: `kernel_us` of the card for each kernel, a wait after `sync_kernels`."""
        numbers = (card, kernel_us, submit_us, sync_kernels, depth, vram_bytes, seconds)
        return [str(self._built / "job"), str(self.path), *map(str, numbers)]

    def start_job(self, **wanted: Any) -> subprocess.Popen[bytes]:
        """Start a job and wait until it is on its card."""
        job = subprocess.Popen(self.job_command(**wanted), stdout=subprocess.PIPE)
        if job.stdout is None or job.stdout.readline() != b"ready\n":
            raise LocalError("a virtual job did not get onto its card")
        return job

    def close(self) -> None:
        """Unmap; the file stays for those who still have it."""
        del self.state
        self._map.close()
