"""The cards of this node by NVML, through pynvml (the distribution nvidia-ml-py).

NVML answers differently from driver to driver; here each answer is made one of the values of `driver.py`. Calls are made
from several threads, which NVML allows; only `restart` keeps the others out.
"""

from __future__ import annotations

import ctypes
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pynvml as nvml

from tensorfusion_iac.agent import nvml_mig
from tensorfusion_iac.agent.driver import Card, CardProcess, DriverError, Instance
from tensorfusion_iac.agent.health import Probe
from tensorfusion_iac.agent.samples import Sample

T = TypeVar("T")

_LOST = (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED)
_UNSUPPORTED = (
    nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND, nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
)  # fmt: skip
_NONE = (nvml.NVML_SUCCESS, nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_NO_DATA)
"""What pynvml raises for a list without entries, by driver."""
_SLOWED = (
    nvml.nvmlClocksEventReasonHwSlowdown | nvml.nvmlClocksEventReasonHwThermalSlowdown
    | nvml.nvmlClocksEventReasonSwThermalSlowdown | nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown
)  # fmt: skip
_PID, _TIME_US, _PERCENT = (
    getattr(nvml.c_nvmlProcessUtilizationSample_t, name).__get__ for name in ("pid", "timeStamp", "smUtil")
)
"""A sample's members. `sample.pid` goes through pynvml's search for text in each value, which at hundreds a second is felt."""
_MAX_LINKS = 18
_EVENT_PAUSE_S = 1.0


class Nvml:
    """This node's cards. A card that fails stays in the list as it was last known, so that its loss is seen."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._handles: dict[str, Any] = {}
        self._known: dict[str, Card] = {}
        self._limits: dict[str, bool] = {}
        self._lost: set[str] = set()
        self._events: Any = None
        self.version = ""
        self._start()

    def restart(self) -> None:
        """Start the library anew; handles from before are forgotten."""
        with self._lock:
            _checked(nvml.nvmlShutdown)
            self._start()

    def close(self) -> None:
        """End the use of the library."""
        with self._lock:
            _checked(nvml.nvmlShutdown)

    def cards(self) -> Sequence[Card]:
        """The cards by index; a lost one as it was."""
        return list(self._known.values())

    def processes(self, uuid: str) -> Sequence[CardProcess]:
        """Compute processes, and clients of MPS servers."""
        handle = self._handle(uuid)
        found = {
            each.pid: CardProcess(each.pid, each.usedGpuMemory)
            for each in _listed(nvml.nvmlDeviceGetComputeRunningProcesses_v3, handle)
        }
        for each in _listed(nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, handle):
            found[each.pid] = CardProcess(each.pid, each.usedGpuMemory, by_mps=True)
        return list(found.values())

    def samples(self, uuid: str, since_us: int) -> Sequence[Sample]:
        """Samples of processes; a partitioned card has none."""
        listed = _listed(nvml.nvmlDeviceGetProcessUtilization, self._handle(uuid), since_us)
        return [Sample(_PID(each), _TIME_US(each), _PERCENT(each)) for each in listed]

    def busy_percent(self, uuid: str) -> int | None:
        """The card's own figure, None where it has none."""
        try:
            return int(_checked(nvml.nvmlDeviceGetUtilizationRates, self._handle(uuid)).gpu)
        except DriverError as error:
            if error.unsupported:
                return None
            raise

    def used_bytes(self, uuid: str) -> int:
        """Memory in use by processes."""
        return int(_memory(self._handle(uuid))[1])

    def probe(self, uuid: str) -> Probe:
        """Ask all that can be asked about the card's health."""
        try:
            handle = self._handle(uuid)
            _checked(nvml.nvmlDeviceGetUUID, handle)
            remapped = _optional(nvml.nvmlDeviceGetRemappedRows, handle)
            ecc = _optional(
                nvml.nvmlDeviceGetTotalEccErrors, handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            )
            reasons = _optional(nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
            action = _recovery_action(handle)
        except DriverError as error:
            if not error.lost:
                return Probe(error=str(error))
            self._lost.add(uuid)
            return Probe(lost=True)
        was_reset = uuid in self._lost
        self._lost.discard(uuid)
        return Probe(
            recovery_action=action, remap_failed=bool(remapped and remapped[3]), remap_pending=bool(remapped and remapped[2]),
            ecc_uncorrected=ecc, was_reset=was_reset, slowed=bool(reasons and reasons & _SLOWED),
        )  # fmt: skip

    def wait_xid(self, timeout_s: float) -> tuple[str, int] | None:
        """The next XID. A failing wait is no event, and does not spin."""
        events = self._events
        if events is None:
            threading.Event().wait(min(timeout_s, _EVENT_PAUSE_S))
            return None
        try:
            data = nvml.nvmlEventSetWait_v2(events, round(timeout_s * 1000))
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_TIMEOUT:
                threading.Event().wait(min(timeout_s, _EVENT_PAUSE_S))
            return None
        if data.eventType != nvml.nvmlEventTypeXidCriticalError:
            return None
        try:
            return str(_checked(nvml.nvmlDeviceGetUUID, data.device)), int(data.eventData)
        except DriverError as error:
            return (self._owner_of(data.device), int(data.eventData)) if error.lost else None

    def can_limit_memory(self, uuid: str) -> bool:
        """Whether the driver has limits by cgroup and allows them on this card; asked once."""
        if uuid not in self._limits:
            try:
                self.memory_limit(uuid, "/sys/fs/cgroup")
                self._limits[uuid] = True
            except DriverError as error:
                if not error.unsupported:
                    return False
                self._limits[uuid] = False
        return self._limits[uuid]

    def limit_memory(self, uuid: str, path: str, soft_bytes: int, hard_bytes: int) -> None:
        """Set both limits of a cgroup."""
        wanted = nvml.c_nvmlSetMemoryLimits_v1_t(nameSpace=path.encode(), softLimit=soft_bytes, hardLimit=hard_bytes)
        _checked(nvml.nvmlDeviceSetMemoryLimits_v1, self._handle(uuid), wanted)

    def memory_limit(self, uuid: str, path: str) -> tuple[int, int]:
        """Read the limits of a cgroup back."""
        found = nvml.c_nvmlGetMemoryLimits_v1_t(nameSpace=path.encode())
        _checked(nvml.nvmlDeviceGetMemoryLimits_v1, self._handle(uuid), found)
        return int(found.softLimit), int(found.hardLimit)

    def exclusive(self, uuid: str) -> bool:
        """Whether the card is in EXCLUSIVE_PROCESS mode."""
        return bool(_checked(nvml.nvmlDeviceGetComputeMode, self._handle(uuid)) == nvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)

    def set_exclusive(self, uuid: str) -> None:
        """EXCLUSIVE_PROCESS mode."""
        _checked(nvml.nvmlDeviceSetComputeMode, self._handle(uuid), nvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)

    def set_shared(self, uuid: str) -> None:
        """The default mode."""
        _checked(nvml.nvmlDeviceSetComputeMode, self._handle(uuid), nvml.NVML_COMPUTEMODE_DEFAULT)

    def instances(self, uuid: str) -> Sequence[Instance]:
        """MIG instances that have their compute instance."""
        handle = self._handle(uuid)
        return _asked(lambda: nvml_mig.instances(handle)) if self._known[uuid].partitioned else ()

    def create_instance(self, uuid: str, template: str, start: int, size: int) -> Instance:
        """Make a MIG instance with one compute instance over all of it."""
        handle = self._handle(uuid)
        if not self._known[uuid].partitioned:
            _asked(lambda: nvml_mig.turn_on(handle))
            self._known[uuid] = replace(self._known[uuid], partitioned=True)
        return _asked(lambda: nvml_mig.create(handle, template, start, size))

    def destroy_instance(self, uuid: str, instance: Instance) -> None:
        """Remove a MIG instance."""
        handle = self._handle(uuid)
        _asked(lambda: nvml_mig.destroy(handle, instance))

    def _start(self) -> None:
        _checked(nvml.nvmlInitWithFlags, 0)
        self.version = str(_checked(nvml.nvmlSystemGetDriverVersion))
        self._handles.clear()
        self._limits.clear()
        for index in range(_checked(nvml.nvmlDeviceGetCount)):
            self._add(index)
        by_bus = {str(_checked(nvml.nvmlDeviceGetPciInfo_v3, handle).busId): uuid for uuid, handle in self._handles.items()}
        for uuid, handle in self._handles.items():
            self._known[uuid] = replace(self._known[uuid], peers=_peers(handle, by_bus))
        self._known = dict(sorted(self._known.items(), key=lambda item: item[1].index))
        self._events = self._register()

    def _add(self, index: int) -> None:
        try:
            handle = _checked(nvml.nvmlDeviceGetHandleByIndex, index)
            uuid = str(_checked(nvml.nvmlDeviceGetUUID, handle))
            card = _card(index, uuid, handle)
        except DriverError:
            return  # the others are there all the same; a lost card stays known from before
        self._handles[uuid], self._known[uuid] = handle, card

    def _register(self) -> Any:
        try:
            events = _checked(nvml.nvmlEventSetCreate)
        except DriverError:
            return None
        for handle in self._handles.values():
            _optional(nvml.nvmlDeviceRegisterEvents, handle, nvml.nvmlEventTypeXidCriticalError, events)
        return events

    def _handle(self, uuid: str) -> Any:
        with self._lock:
            handle = self._handles.get(uuid)
        if handle is None:
            raise DriverError(f"{uuid} does not answer", lost=True)
        return handle

    def _owner_of(self, device: Any) -> str:
        address = ctypes.cast(device, ctypes.c_void_p).value
        pairs = ((uuid, ctypes.cast(handle, ctypes.c_void_p).value) for uuid, handle in self._handles.items())
        return next((uuid for uuid, known in pairs if known == address), "")


def _asked(call: Callable[[], T]) -> T:
    """The value of a call, its failure as a DriverError."""
    try:
        return call()
    except nvml.NVMLError as error:
        raise _failure(error) from None


def _checked(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except nvml.NVMLError as error:
        raise _failure(error) from None


def _failure(error: nvml.NVMLError) -> DriverError:
    return DriverError(str(error), lost=error.value in _LOST, unsupported=error.value in _UNSUPPORTED)


def _optional(call: Callable[..., Any], *arguments: Any) -> Any:
    """The value, None where the driver or the card does not have it."""
    try:
        return _checked(call, *arguments)
    except DriverError as error:
        if error.unsupported:
            return None
        raise


def _listed(call: Callable[..., Any], *arguments: Any) -> Sequence[Any]:
    try:
        found: Sequence[Any] = call(*arguments)
    except nvml.NVMLError as error:
        if error.value in _NONE or error.value in _UNSUPPORTED:
            return ()
        raise _failure(error) from None
    return found


def _memory(handle: Any) -> tuple[int, int]:
    """Usable and used bytes; an older driver counts its own part as used."""
    memory = _optional(nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
    if memory is not None:
        return memory.total - memory.reserved, memory.used
    memory = _checked(nvml.nvmlDeviceGetMemoryInfo, handle)
    return memory.total, memory.used


def _recovery_action(handle: Any) -> int | None:
    values = _optional(nvml.nvmlDeviceGetFieldValues, handle, [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if values is None or values[0].nvmlReturn != nvml.NVML_SUCCESS:
        return None
    return int(values[0].value.uiVal)


def _card(index: int, uuid: str, handle: Any) -> Card:
    mig = _optional(nvml.nvmlDeviceGetMigMode, handle)
    return Card(
        index, uuid, str(_checked(nvml.nvmlDeviceGetName, handle)), _memory(handle)[0],
        numa_node=_optional(nvml.nvmlDeviceGetNumaNodeId, handle), can_partition=mig is not None,
        partitioned=bool(mig and mig[0] == nvml.NVML_DEVICE_MIG_ENABLE),
    )  # fmt: skip


def _peers(handle: Any, by_bus: dict[str, str]) -> tuple[tuple[str, int], ...]:
    links: Counter[str] = Counter()
    for link in range(_MAX_LINKS):
        try:
            if _checked(nvml.nvmlDeviceGetNvLinkState, handle, link):
                links[str(_checked(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link).busId)] += 1
        except DriverError:
            continue  # no such link, or what is behind it is a switch
    return tuple((by_bus[bus], count) for bus, count in sorted(links.items()) if bus in by_bus)
