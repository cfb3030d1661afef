"""A good value of every annotation: its key, a text, the typed value, and the canonical text."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from tensorfusion_iac.api import AutoscaleTarget, Feature, Isolation, QoS, Vendor

GOOD: list[tuple[str, str, Any, str]] = [
    ("tflops-request", "312.5", Decimal("312.5"), "312.5"),
    ("tflops-limit", "500m", Decimal("0.5"), "0.5"),
    ("vram-request", "1.5Gi", 1536 * 2**20, "1536Mi"),
    ("vram-limit", "4G", 4 * 10**9, "4G"),
    ("compute-percent-request", "0", Decimal(0), "0"),
    ("compute-percent-limit", "33.3", Decimal("33.3"), "33.3"),
    ("inject-container", " a , b", ("a", "b"), "a,b"),
    ("qos", "critical", QoS.CRITICAL, "critical"),
    ("is-local-gpu", "true", True, "true"),
    ("gpu-count", "128", 128, "128"),
    ("gpupool", "pool-1.eu", "pool-1.eu", "pool-1.eu"),
    ("vendor", "nVidia", Vendor.NVIDIA, "NVIDIA"),
    ("vendor", "MooreThreads", Vendor.MTHREADS, "MThreads"),
    ("gpu-model", "Intel(R) Data Center GPU Max 1550", "Intel(R) Data Center GPU Max 1550", "Intel(R) Data Center GPU Max 1550"),
    ("dedicated-gpu", "false", False, "false"),
    ("isolation", "partitioned", Isolation.PARTITIONED, "partitioned"),
    ("gpu-indices", "0, 3,1", (0, 3, 1), "0,3,1"),
    ("container-gpu-count", '{ "b": 2, "a": 0 }', {"b": 2, "a": 0}, '{"b":2,"a":0}'),
    ("workload", "chat", "chat", "chat"),
    ("workload-profile", "a.b-c", "a.b-c", "a.b-c"),
    ("enabled-replicas", "2147483647", 2**31 - 1, "2147483647"),
    ("enabled-replicas", "0", 0, "0"),
    ("autoscale", "true", True, "true"),
    ("autoscale-target", "vram", AutoscaleTarget.VRAM, "vram"),
    ("standalone-worker-mode", "true", True, "true"),
    ("disable-features", "gpu-opt , gpu-limiter", (Feature.GPU_OPT, Feature.GPU_LIMITER), "gpu-opt,gpu-limiter"),
    ("partition-template", "1g.10gb+me", "1g.10gb+me", "1g.10gb+me"),
    ("eviction-protection", "90m", timedelta(minutes=90), "1h30m"),
    ("eviction-protection", "0", timedelta(0), "0s"),
    ("gang-min-members", "2", 2, "2"),
    ("gang-min-members", "0", 0, "0"),
    ("gang-timeout", "1.5s", timedelta(milliseconds=1500), "1s500ms"),
]
