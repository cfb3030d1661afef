"""The layout of the mapped file that holds the simulated cards: the structures of state.h, and its constants."""

from __future__ import annotations

import ctypes

MAGIC = 0x54464E56
CARDS, PROCESSES, SAMPLES, LIMITS, PROFILES, STARTS, INSTANCES = 16, 512, 2048, 64, 20, 16, 16
EVENTS, OVERRIDES, LINKS = 64, 32, 18
KIND_COMPUTE, KIND_GRAPHICS, KIND_MPS = 1, 2, 3
NO_INSTANCE = 0xFFFFFFFF
EVENT_XID = 0x8
GPU_IS_LOST, NOT_SUPPORTED = 15, 3
GIB = 2**30

U32, I32, U64 = ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64


class Process(ctypes.Structure):
    """A process on a card, and of a job: the GPU time that it has asked for and been given."""

    _fields_ = (
        ("pid", U32), ("kind", U32), ("used_bytes", U64), ("gpu_instance", U32), ("compute_instance", U32), ("is_job", U32),
        ("padding", U32), ("submitted_ns", U64), ("drained_ns", U64), ("window_ns", U64),
    )  # fmt: skip


class Sample(ctypes.Structure):
    """A utilisation sample."""

    _fields_ = (("time_us", U64), ("pid", U32), ("sm", U32), ("memory", U32), ("padding", U32))


class Limit(ctypes.Structure):
    """A memory limit: on a cgroup's path, in bytes."""

    _fields_ = (("path", ctypes.c_char * 512), ("soft_bytes", U64), ("hard_bytes", U64))


class Profile(ctypes.Structure):
    """A GPU instance profile of a card that can be partitioned."""

    _fields_ = (
        ("name", ctypes.c_char * 96), ("index", U32), ("id", U32), ("slices", U32), ("instances", U32), ("size", U32),
        ("start_count", U32), ("starts", U32 * STARTS), ("memory_mb", U64),
    )  # fmt: skip


class Instance(ctypes.Structure):
    """A GPU instance."""

    _fields_ = (
        ("exists", U32), ("id", U32), ("profile_id", U32), ("start", U32), ("size", U32), ("slices", U32), ("has_compute", U32),
        ("busy", U32), ("uuid", ctypes.c_char * 80),
    )  # fmt: skip


class Card(ctypes.Structure):
    """One card."""

    _fields_ = (
        ("uuid", ctypes.c_char * 80), ("name", ctypes.c_char * 96), ("bus_id", ctypes.c_char * 32), ("total_bytes", U64),
        ("reserved_bytes", U64), ("numa_node", I32), ("error", U32), ("resets", U32), ("compute_mode", U32),
        ("mig_supported", U32), ("mig_current", U32), ("mig_pending", U32), ("recovery_action", U32),
        ("recovery_supported", U32), ("remapped", U32 * 4), ("ecc_uncorrected", U64), ("clocks_reasons", U64),
        ("gpu_percent", U32), ("idle_success", U32), ("links", (ctypes.c_char * 32) * LINKS),
        ("processes", Process * PROCESSES), ("samples", Sample * SAMPLES), ("sample_count", U64), ("limits", Limit * LIMITS),
        ("profiles", Profile * PROFILES), ("instances", Instance * INSTANCES),
    )  # fmt: skip


class Event(ctypes.Structure):
    """An event of the driver."""

    _fields_ = (("type", U64), ("data", U64), ("card", U32), ("padding", U32))


class Override(ctypes.Structure):
    """An error that a call is to answer."""

    _fields_ = (("call", ctypes.c_char * 64), ("card", I32), ("code", U32))


class State(ctypes.Structure):
    """The whole file."""

    _fields_ = (
        ("magic", U32), ("card_count", U32), ("driver_version", ctypes.c_char * 80), ("cuda_version", U32), ("init_error", U32),
        ("overrides", Override * OVERRIDES), ("events", Event * EVENTS), ("event_count", U64), ("calls", U64),
        ("cards", Card * CARDS),
    )  # fmt: skip
