"""MIG by NVML: instances by profile *name* and placement; the driver's profile ids differ from card to card.

Functions over a device handle; they raise pynvml's errors. An instance counts once its compute instance is there, for only
then has it a UUID that containers can be given.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml as nvml

from tensorfusion_iac.agent.driver import Instance
from tensorfusion_iac.api.catalogue import profile_name

_MAX_INSTANCES = 16


@dataclass(frozen=True, slots=True)
class _Profile:
    """A profile of this card, as its driver has it."""

    name: str
    id: int
    slices: int


def turn_on(handle: Any) -> None:
    """Turn partitioning on. NVMLError with IN_USE if the card is not idle."""
    status = nvml.nvmlDeviceSetMigMode(handle, nvml.NVML_DEVICE_MIG_ENABLE)
    if status != nvml.NVML_SUCCESS:
        raise nvml.NVMLError(status)


def instances(handle: Any) -> Sequence[Instance]:
    """The instances that are complete."""
    uuids = _uuids(handle)
    return tuple(
        Instance(profile.name, info.placement.start, info.placement.size, uuids[info.id])
        for profile, _, info in _existing(handle)
        if info.id in uuids
    )


def create(handle: Any, template: str, start: int, size: int) -> Instance:
    """Make an instance. NVMLError if the placement is taken or the card has no such profile; then nothing is left behind."""
    wanted = profile_name(template)
    profile = next((each for each in _profiles(handle) if each.name == wanted), None)
    if profile is None:
        raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
    placement = nvml.c_nvmlGpuInstancePlacement_t(start, size)
    gpu_instance = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, profile.id, ctypes.byref(placement))
    try:
        nvml.nvmlGpuInstanceCreateComputeInstance(gpu_instance, _whole(gpu_instance, profile.slices))
        instance_id = nvml.nvmlGpuInstanceGetInfo(gpu_instance).id
        return Instance(profile.name, start, size, _uuids(handle)[instance_id])
    except (nvml.NVMLError, KeyError):
        _remove(gpu_instance)
        raise


def destroy(handle: Any, instance: Instance) -> None:
    """Remove an instance; one that is gone is fine. NVMLError with IN_USE while a process uses it."""
    for profile, gpu_instance, info in list(_existing(handle)):
        if (profile.name, info.placement.start) == (instance.template, instance.start):
            _remove(gpu_instance)


def _profiles(handle: Any) -> Iterator[_Profile]:
    for index in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, index)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
            continue
        name = profile_name(str(info.name))
        if name is not None:
            yield _Profile(name, info.id, info.sliceCount)


def _existing(handle: Any) -> Iterator[tuple[_Profile, Any, Any]]:
    for profile in _profiles(handle):
        found = (nvml.c_nvmlGpuInstance_t * _MAX_INSTANCES)()
        count = ctypes.c_uint(_MAX_INSTANCES)
        nvml.nvmlDeviceGetGpuInstances(handle, profile.id, found, ctypes.byref(count))
        for gpu_instance in found[: count.value]:
            yield profile, gpu_instance, nvml.nvmlGpuInstanceGetInfo(gpu_instance)


def _whole(gpu_instance: Any, slices: int) -> int:
    """The compute profile that takes all of an instance."""
    for index in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        try:
            info = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(
                gpu_instance, index, nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
            )
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
            continue
        if info.sliceCount == slices:
            return int(info.id)
    raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)


def _uuids(handle: Any) -> dict[int, str]:
    """The UUIDs of MIG devices by the id of their GPU instance."""
    found = {}
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nvml.NVMLError_NotFound:
            continue
        found[int(nvml.nvmlDeviceGetGpuInstanceId(device))] = str(nvml.nvmlDeviceGetUUID(device))
    return found


def _remove(gpu_instance: Any) -> None:
    for index in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        try:
            info = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(
                gpu_instance, index, nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
            )
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
            continue
        found = (nvml.c_nvmlComputeInstance_t * _MAX_INSTANCES)()
        count = ctypes.c_uint(_MAX_INSTANCES)
        nvml.nvmlGpuInstanceGetComputeInstances(gpu_instance, info.id, found, ctypes.byref(count))
        for compute_instance in found[: count.value]:
            nvml.nvmlComputeInstanceDestroy(compute_instance)
    nvml.nvmlGpuInstanceDestroy(gpu_instance)
