"""The closed sets of the format: QoS, isolation, autoscale targets, features that can be turned off (SPEC §2, §6, §8)."""

from __future__ import annotations

from enum import StrEnum


class QoS(StrEnum):
    """Quality of service, lowest first. Each is also a priority class, `tensor-fusion-<qos>`."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


PRIORITY = {QoS.LOW: -10, QoS.MEDIUM: 0, QoS.HIGH: 10_000, QoS.CRITICAL: 100_000}
"""Value of each priority class (SPEC §2)."""

QOS_ORDER = tuple(QoS)


class Isolation(StrEnum):
    """How workers on one card are kept apart (SPEC §6). A card serves one kind at a time."""

    SHARED = "shared"
    SOFT = "soft"
    HARD = "hard"
    PARTITIONED = "partitioned"


class AutoscaleTarget(StrEnum):
    """Which amounts autoscaling sets."""

    COMPUTE = "compute"
    VRAM = "vram"
    ALL = "all"


class Feature(StrEnum):
    """What `disable-features` can turn off: the compute limit, the VRAM limit, and what workers understand by `gpu-opt`."""

    GPU_LIMITER = "gpu-limiter"
    MEM_MANAGER = "mem-manager"
    GPU_OPT = "gpu-opt"


class Mode(StrEnum):
    """Where the GPU is (SPEC §2a)."""

    LOCAL = "local"
    STANDALONE = "standalone"
    REMOTE = "remote"
