"""What a namespace's quota forbids one pod: per GPU, in all, by percent and whole cards too (SPEC §4)."""

from __future__ import annotations

from typing import Any

import pytest
from resolving import a_quota, accepted, ask, fields, problems

A100 = {"gpu-model": "A100"}  # 312 TFLOPS; 40 or 80 GiB
DEDICATED = {"dedicated-gpu": "true", **A100}


def single(**members: Any) -> Any:
    return a_quota(single=members)


def total(**members: Any) -> Any:
    return a_quota(total=members)


REFUSED: list[tuple[dict[str, str], Any, str]] = [
    # per GPU
    ({"vram-request": "16Gi"}, single(maxRequests={"vram": "8Gi"}),
     "vram-request: 16Gi is above 8Gi (GPUResourceQuota team single.maxRequests.vram); give at most 8Gi"),
    ({"tflops-request": "11"}, single(maxRequests={"tflops": 10}),
     "tflops-request: 11 is above 10 TFLOPS (GPUResourceQuota team single.maxRequests.tflops); give at most 10 TFLOPS"),
    ({"compute-percent-request": "51"}, single(maxRequests={"compute": 50}),
     "compute-percent-request: 51% is above 50% (GPUResourceQuota team single.maxRequests.compute); give at most 50%"),
    ({"vram-request": "1Gi", "vram-limit": "9Gi"}, single(maxLimits={"vram": "8Gi"}),
     "vram-limit: 9Gi is above 8Gi (GPUResourceQuota team single.maxLimits.vram); give at most 8Gi"),
    ({"tflops-request": "1", "tflops-limit": "11"}, single(maxLimits={"tflops": 10}),
     "tflops-limit: 11 is above 10 TFLOPS (GPUResourceQuota team single.maxLimits.tflops); give at most 10 TFLOPS"),
    # in all, once per GPU
    ({"vram-request": "2Gi", "gpu-count": "2"}, total(requests={"vram": "3Gi"}),
     "vram-request: 2Gi x 2 GPUs is above 3Gi (GPUResourceQuota team total.requests.vram); give at most 3Gi"),
    ({"tflops-request": "6", "gpu-count": "2"}, total(requests={"tflops": 10}),
     "tflops-request: 6 x 2 GPUs is above 10 TFLOPS (GPUResourceQuota team total.requests.tflops); give at most 10 TFLOPS"),
    ({"compute-percent-request": "60", "gpu-count": "2"}, total(requests={"compute": 100}),
     "compute-percent-request: 60% x 2 GPUs is above 100% (GPUResourceQuota team total.requests.compute); give at most 100%"),
    # percent on a known model is TFLOPS, and the other way round
    ({"compute-percent-request": "50", **A100}, single(maxRequests={"tflops": 100}),
     "compute-percent-request: 50% (at least 156 TFLOPS of A100) is above 100 TFLOPS "
     "(GPUResourceQuota team single.maxRequests.tflops); give at most 100 TFLOPS"),
    ({"tflops-request": "156", **A100}, single(maxRequests={"compute": 40}),
     "tflops-request: 156 (at least 50% of A100) is above 40% "
     "(GPUResourceQuota team single.maxRequests.compute); give at most 40%"),
    # whole cards
    (DEDICATED, single(maxRequests={"tflops": 100}),
     "dedicated-gpu: a whole card (at least 312 TFLOPS of A100) is above 100 TFLOPS "
     "(GPUResourceQuota team single.maxRequests.tflops); give at most 100 TFLOPS"),
    (DEDICATED, single(maxRequests={"compute": 50}),
     "dedicated-gpu: a whole card is above 50% (GPUResourceQuota team single.maxRequests.compute); give at most 50%"),
    (DEDICATED, single(maxRequests={"vram": "16Gi"}),
     "dedicated-gpu: a whole card (at least 36Gi of A100) is above 16Gi "
     "(GPUResourceQuota team single.maxRequests.vram); give at most 16Gi"),
    ({"isolation": "shared"}, single(maxRequests={"compute": 50}),
     "isolation: a whole card (shared, no amounts) is above 50% "
     "(GPUResourceQuota team single.maxRequests.compute); give at most 50%"),
    # no limit is the whole card
    ({"vram-request": "1Gi"}, single(maxLimits={"compute": 50}),
     "tflops-limit: no compute limit, so the whole card is above 50% "
     "(GPUResourceQuota team single.maxLimits.compute); give at most 50%"),
    ({"tflops-limit": "1", **A100}, single(maxLimits={"vram": "16Gi"}),
     "vram-limit: no memory limit, so the whole card (at least 36Gi of A100) is above 16Gi "
     "(GPUResourceQuota team single.maxLimits.vram); give at most 16Gi"),
    # 0 means none
    ({"vram-request": "1Mi"}, single(maxRequests={"vram": 0}),
     "vram-request: 1Mi is above 0 (GPUResourceQuota team single.maxRequests.vram); give at most 0"),
    ({"compute-percent-request": "1"}, single(maxRequests={"tflops": "0"}),
     "compute-percent-request: 1% is above 0 TFLOPS (GPUResourceQuota team single.maxRequests.tflops); give at most 0 TFLOPS"),
    ({"isolation": "shared"}, total(requests={"vram": 0}),
     "isolation: a whole card (shared, no amounts) is above 0 (GPUResourceQuota team total.requests.vram); give at most 0"),
    ({"vram-request": "1Gi"}, total(maxWorkers=0),
     "workload: 1 worker is above 0 (GPUResourceQuota team total.maxWorkers); give at most 0"),
    ({"vram-request": "1Gi"}, single(maxGPUCount=0),
     "gpu-count: 1 is above 0 (GPUResourceQuota team single.maxGPUCount); give at most 0"),
    # a partition is the part of a card that it is
    ({"isolation": "partitioned", "partition-template": "3g.20gb", **A100}, single(maxRequests={"compute": 40}),
     "partition-template: a partition 3g.20gb (at least 42.9% of A100) is above 40% "
     "(GPUResourceQuota team single.maxRequests.compute); give at most 40%"),
    ({"isolation": "partitioned", "partition-template": "3g.20gb", **A100}, single(maxLimits={"vram": "10Gi"}),
     "partition-template: a partition 3g.20gb (at least 18Gi of A100) is above 10Gi "
     "(GPUResourceQuota team single.maxLimits.vram); give at most 10Gi"),
    ({"isolation": "partitioned", "vram-request": "1Gi"}, single(maxRequests={"tflops": 0}),
     "isolation: a partition is above 0 TFLOPS (GPUResourceQuota team single.maxRequests.tflops); give at most 0 TFLOPS"),
    # counts and sets
    ({"vram-request": "1Gi", "gpu-count": "3"}, single(maxGPUCount=2),
     "gpu-count: 3 is above 2 (GPUResourceQuota team single.maxGPUCount); give at most 2"),
    ({"vram-request": "1Gi", "qos": "critical"}, single(maxQoS="high"),
     "qos: critical is above high (GPUResourceQuota team single.maxQoS); give at most high"),
    ({"vram-request": "1Gi", "isolation": "shared"}, single(isolationModes=["soft", "hard"]),
     "isolation: shared is not allowed here (GPUResourceQuota team single.isolationModes); allowed: soft, hard"),
    ({"vram-request": "1Gi", "disable-features": "gpu-limiter,gpu-opt"}, single(disableFeatures=["gpu-opt"]),
     "disable-features: gpu-limiter is not allowed here (GPUResourceQuota team single.disableFeatures); allowed: gpu-opt"),
    ({"vram-request": "1Gi", "disable-features": "gpu-opt"}, single(disableFeatures=[]),
     "disable-features: gpu-opt is not allowed here (GPUResourceQuota team single.disableFeatures); allowed: none"),
]  # fmt: skip


@pytest.mark.parametrize(("annotations", "quota", "expected"), REFUSED)
def test_above_the_quota(annotations: dict[str, str], quota: Any, expected: str) -> None:
    assert problems(ask(annotations, quota=quota)) == [expected]


ALLOWED: list[tuple[dict[str, str], Any]] = [
    ({"vram-request": "8Gi"}, single(maxRequests={"vram": "8Gi"})),
    ({"vram-request": "2Gi", "gpu-count": "2"}, total(requests={"vram": "4Gi"})),
    ({"vram-request": "2Gi", "gpu-count": "2"}, single(maxRequests={"vram": "3Gi"})),
    ({"vram-request": "8Gi"}, single(maxRequests={"tflops": 0}, maxLimits={"tflops": 100})),
    ({"compute-percent-request": "0", "vram-request": "1Gi"}, single(maxRequests={"tflops": 0})),
    ({"compute-percent-request": "50"}, single(maxRequests={"tflops": 1})),  # on which card is not known yet
    ({"tflops-request": "500"}, single(maxRequests={"compute": 1})),
    ({"tflops-limit": "1"}, single(maxLimits={"vram": "1Gi"})),
    (DEDICATED, single(maxRequests={"vram": "36Gi", "tflops": 312, "compute": 100})),
    (DEDICATED, total(requests={"vram": "40Gi"})),
    ({"isolation": "partitioned", "partition-template": "1g.5gb", **A100}, single(maxLimits={"compute": 50, "vram": "10Gi"})),
    ({"isolation": "partitioned", "partition-template": "1g.5gb"}, single(maxLimits={"compute": 1, "vram": "1Gi"})),
    ({"isolation": "partitioned", "vram-request": "1Gi"}, single(maxLimits={"compute": 1})),
    ({"vram-request": "1Gi", "qos": "high", "isolation": "soft"}, single(maxQoS="high", isolationModes=["soft"])),
    ({"vram-request": "1Gi", "gpu-count": "2"}, single(maxGPUCount=2)),
    ({"vram-request": "1Gi"}, single(disableFeatures=[])),
    ({"vram-request": "1Gi"}, total(maxWorkers=1)),
    ({"vram-request": "9Ti"}, a_quota()),
    ({"vram-request": "9Ti"}, a_quota({}, {})),
    ({"vram-request": "9Ti"}, single(maxRequests={}, maxLimits={})),
]


@pytest.mark.parametrize(("annotations", "quota"), ALLOWED)
def test_within_the_quota_or_not_certain_to_be_above(annotations: dict[str, str], quota: Any) -> None:
    accepted(ask(annotations, quota=quota))


def test_amounts_are_counted_once_per_gpu() -> None:
    quota = total(requests={"vram": "3Gi"})
    accepted(ask({"vram-request": "2Gi"}, quota=quota))
    assert fields(ask({"vram-request": "2Gi", "gpu-count": "2"}, quota=quota).problems) == ["vram-request"]


@pytest.mark.parametrize("annotations", [{"compute-percent-request": "100", **A100}, DEDICATED, {"isolation": "shared", **A100}])
def test_neither_a_percentage_nor_a_whole_card_passes_by_the_quota(annotations: dict[str, str]) -> None:
    found = ask(annotations, quota=total(requests={"tflops": 300})).problems
    assert len(found) == 1
    assert "300 TFLOPS" in found[0].accepted


def test_where_a_value_came_from_is_named_when_the_quota_forbids_it() -> None:
    quota = a_quota(
        {"maxQoS": "low", "maxRequests": {"vram": "2Gi"}, "defaultRequests": {"tflops": 5}}, {"requests": {"tflops": 1}}
    )
    assert fields(ask({}, profile={"qos": "high", "resources": {"requests": {"vram": "3Gi"}}}, quota=quota).problems) == [
        "WorkloadProfile inference spec.resources.requests.vram",
        "GPUResourceQuota team spec.single.defaultRequests.tflops",
        "WorkloadProfile inference spec.qos",
    ]


def test_the_quota_is_judged_beside_every_other_problem() -> None:
    quota = single(maxRequests={"vram": "2Gi"}, maxGPUCount=1)
    found = ask({"vram-request": "3Gi", "gpu-count": "2", "qos": "urgent", "inject-container": "nobody"}, quota=quota).problems
    assert set(fields(found)) == {"vram-request", "gpu-count", "qos", "inject-container"}


@pytest.mark.parametrize(
    ("annotations", "quota", "named"),
    [
        ({"vram-request": "1Gi", "qos": "urgent"}, single(maxQoS="low"), ["qos"]),
        ({"vram-request": "abc", "vram-limit": "9Gi"}, single(maxRequests={"vram": "8Gi"}), ["vram-request"]),
        ({"vram-request": "2Gi", "gpu-count": "x"}, total(requests={"vram": "3Gi"}), ["gpu-count"]),
        ({"dedicated-gpu": "maybe", "vram-request": "9Gi", "isolation": "shard"}, single(isolationModes=["hard"]),
         ["dedicated-gpu", "isolation"]),
    ],
)  # fmt: skip
def test_nothing_is_said_of_a_value_that_stands_in_for_a_broken_one(
    annotations: dict[str, str], quota: Any, named: list[str]
) -> None:
    assert fields(ask(annotations, quota=quota).problems) == named
