"""Compute and memory from several sources: one field per side, what is missing, what must be asked for (SPEC §3)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from resolving import a_quota, accepted, ask, fields, problems, warnings

from tensorfusion_iac.api import UNJUDGED, Compute, Source, Unit, WorkerSpec

GI = 2**30
A100 = {"gpu-model": "A100"}


def amounts(worker: WorkerSpec) -> tuple[str | None, str | None, str | None, str | None]:
    """Compute request and limit, memory request and limit, short."""
    return (
        shown(worker.compute_request),
        shown(worker.compute_limit),
        gib(worker.vram_request_bytes),
        gib(worker.vram_limit_bytes),
    )


def shown(compute: Compute | None) -> str | None:
    return None if compute is None else f"{compute.value}{'%' if compute.unit is Unit.PERCENT else ''}"


def gib(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else f"{Decimal(size_bytes) / GI}Gi"


def resources(requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"resources": {"requests": requests, "limits": limits}}


BOTH = resources({"tflops": "5", "vram": "3Gi"}, {"tflops": "15", "vram": "3Gi"})
QUOTA = a_quota({"defaultRequests": {"tflops": 1, "vram": "1Gi"}, "defaultLimits": {"tflops": 2, "vram": "2Gi"}})
PERCENT_QUOTA = a_quota({"defaultRequests": {"compute": 10}})


@pytest.mark.parametrize(
    ("annotations", "profile", "quota", "expected"),
    [
        # a missing request is the limit; a missing memory limit the request; a missing compute limit the whole card
        ({"tflops-limit": "20"}, None, None, ("20", "20", None, None)),
        ({"tflops-request": "10"}, None, None, ("10", None, None, None)),
        ({"vram-limit": "4Gi"}, None, None, (None, None, "4Gi", "4Gi")),
        ({"vram-request": "4Gi"}, None, None, (None, None, "4Gi", "4Gi")),
        ({"compute-percent-limit": "50"}, None, None, ("50%", "50%", None, None)),
        ({"vram-request": "2Gi", "vram-limit": "4Gi"}, None, None, (None, None, "2Gi", "4Gi")),
        # mixed units on the two sides
        ({"compute-percent-request": "50", "tflops-limit": "20"}, None, None, ("50%", "20", None, None)),
        ({"tflops-request": "500", "compute-percent-limit": "1"}, None, None, ("500", "1%", None, None)),
        # per field: annotation, then profile
        ({}, BOTH, None, ("5", "15", "3Gi", "3Gi")),
        ({"tflops-request": "10"}, BOTH, None, ("10", "15", "3Gi", "3Gi")),
        ({"tflops-limit": "20", "vram-limit": "4Gi"}, BOTH, None, ("5", "20", "3Gi", "4Gi")),
        # an annotated percentage replaces a profile's TFLOPS of the same side, and the other way round
        ({"compute-percent-request": "50"}, BOTH, None, ("50%", "15", "3Gi", "3Gi")),
        ({"compute-percent-limit": "50"}, BOTH, None, ("5", "50%", "3Gi", "3Gi")),
        ({"tflops-request": "10"}, resources({"compute": 50}), None, ("10", None, None, None)),
        # a request of 0 percent asks for nothing, and replaces a profile's
        ({"compute-percent-request": "0", "vram-request": "1Gi"}, resources({"tflops": 5}), None, ("0%", None, "1Gi", "1Gi")),
        # then the quota's defaults, before a request is taken from a limit
        ({}, None, QUOTA, ("1", "2", "1Gi", "2Gi")),
        ({"vram-limit": "8Gi"}, None, QUOTA, ("1", "2", "1Gi", "8Gi")),
        ({}, BOTH, QUOTA, ("5", "15", "3Gi", "3Gi")),
        ({"tflops-request": "1"}, resources({"vram": "2Gi"}), QUOTA, ("1", "2", "2Gi", "2Gi")),
        ({"compute-percent-request": "50", "compute-percent-limit": "50"}, None, QUOTA, ("50%", "50%", "1Gi", "2Gi")),
        ({"tflops-request": "3"}, None, PERCENT_QUOTA, ("3", None, None, None)),
        ({"vram-request": "3Gi"}, None, PERCENT_QUOTA, ("10%", None, "3Gi", "3Gi")),
    ],
)
def test_amounts(annotations: dict[str, str], profile: Any, quota: Any, expected: tuple[str | None, ...]) -> None:
    assert amounts(accepted(ask(annotations, profile=profile, quota=quota))) == expected


def test_the_source_of_each_amount_is_told() -> None:
    resolution = ask({"vram-limit": "8Gi"}, profile=resources({"tflops": 2}), quota=QUOTA)
    assert not problems(resolution)
    told = {key: source for key, source in resolution.sources.items() if "tflops" in key or "vram" in key}
    assert told == {
        "tflops-request": Source.PROFILE,
        "tflops-limit": Source.QUOTA,
        "vram-request": Source.QUOTA,
        "vram-limit": Source.ANNOTATION,
    }
    derived = ask({"compute-percent-limit": "50", "vram-request": "1Gi"})
    assert derived.sources["compute-percent-request"] is Source.DERIVED
    assert derived.sources["vram-limit"] is Source.DERIVED


@pytest.mark.parametrize(
    ("annotations", "profile", "quota", "expected"),
    [
        ({"tflops-request": "20"}, BOTH, None,
         "WorkloadProfile inference spec.resources.limits.tflops: 15 is below tflops-request 20; "
         "give tflops-limit of at least 20"),
        ({"vram-limit": "2Gi"}, BOTH, None,
         "vram-limit: 2Gi is below WorkloadProfile inference spec.resources.requests.vram 3Gi; give vram-limit of at least 3Gi"),
        ({"vram-request": "4Gi", "tflops-request": "1"}, None, QUOTA,
         "GPUResourceQuota team spec.single.defaultLimits.vram: 2Gi is below vram-request 4Gi; give vram-limit of at least 4Gi"),
        ({"compute-percent-limit": "5"}, None, PERCENT_QUOTA,
         "compute-percent-limit: 5 is below GPUResourceQuota team spec.single.defaultRequests.compute 10; "
         "give compute-percent-limit of at least 10"),
    ],
)  # fmt: skip
def test_a_limit_below_a_request_of_another_source_is_refused(
    annotations: dict[str, str], profile: Any, quota: Any, expected: str
) -> None:
    assert problems(ask(annotations, profile=profile, quota=quota)) == [expected]


def test_a_profile_that_contradicts_itself_is_refused_in_its_own_words() -> None:
    profile = resources({"tflops": 5, "compute": 50, "vram": "4Gi"}, {"vram": "2Gi"})
    assert problems(ask({}, profile=profile)) == [
        "WorkloadProfile inference spec.resources.requests.compute: 50 stands beside "
        "WorkloadProfile inference spec.resources.requests.tflops; give one of the two",
        "WorkloadProfile inference spec.resources.limits.vram: 2Gi is below "
        "WorkloadProfile inference spec.resources.requests.vram 4Gi; give at least 4Gi, or leave it out",
    ]


NO_BOUND = "bounds no compute; give compute-percent-limit or tflops-limit"


@pytest.mark.parametrize(
    ("annotations", "others", "said"),
    [
        ({"compute-percent-request": "10"}, {}, [f"isolation: hard without a compute limit {NO_BOUND}"]),
        ({"vram-request": "1Gi"}, {}, [f"isolation: hard without a compute limit {NO_BOUND}"]),
        ({"compute-percent-limit": "10"}, {}, []),
        ({"tflops-request": "10", "tflops-limit": "20"}, {}, []),
        ({"vram-request": "1Gi"}, {"profile": {"resources": {"limits": {"tflops": "20"}}}}, []),
        ({"vram-request": "1Gi"}, {"profile": UNJUDGED}, []),
        ({"vram-request": "1Gi"}, {"quota": a_quota({"defaultLimits": {"tflops": 20}})}, []),
        ({"dedicated-gpu": "true", "gpu-model": "A100"}, {}, []),
    ],
)
def test_hard_isolation_without_a_compute_limit_is_warned_of(
    annotations: dict[str, str], others: dict[str, Any], said: list[str]
) -> None:
    assert warnings(ask({"isolation": "hard", **annotations}, **others)) == said


def test_percent_and_tflops_from_one_source_are_refused() -> None:
    assert problems(ask({"tflops-request": "10", "compute-percent-request": "50"})) == [
        "compute-percent-request: 50 stands beside tflops-request; give one of the two"
    ]


NOTHING = "vram-request: nothing asked for: give vram-request, tflops-request or compute-percent-request"


@pytest.mark.parametrize(
    ("annotations", "profile"),
    [
        ({}, None),
        ({"compute-percent-request": "0"}, None),
        ({"compute-percent-request": "0", "compute-percent-limit": "50"}, None),
        ({"isolation": "hard"}, None),
        ({"isolation": "partitioned"}, None),
        ({"gpu-model": "A100", "gpu-count": "2"}, None),
        ({}, {"qos": "high"}),
        ({}, resources({"tflops": "0", "vram": "0"})),
    ],
)
def test_compute_or_memory_must_be_asked_for(annotations: dict[str, str], profile: Any) -> None:
    assert problems(ask(annotations, profile=profile)) == [NOTHING]


@pytest.mark.parametrize(
    "annotations",
    [
        {"vram-request": "1Gi"},
        {"vram-limit": "1Gi"},
        {"tflops-request": "1"},
        {"compute-percent-limit": "1"},
        {"dedicated-gpu": "true", "gpu-model": "A100"},
        {"isolation": "shared"},
        {"isolation": "shared", "compute-percent-request": "0"},
        {"isolation": "partitioned", "partition-template": "1g.10gb"},
    ],
)
def test_one_amount_or_a_way_that_needs_none_is_enough(annotations: dict[str, str]) -> None:
    accepted(ask(annotations))


def test_a_dedicated_card_replaces_the_amounts_of_profile_and_quota() -> None:
    worker = accepted(ask({"dedicated-gpu": "true", **A100}, profile=BOTH, quota=QUOTA))
    assert worker.dedicated
    assert worker.whole_card
    assert amounts(worker) == (None, None, None, None)


def test_a_dedicated_card_needs_a_model() -> None:
    assert problems(ask({"dedicated-gpu": "true"})) == ["dedicated-gpu: true needs gpu-model: which cards to take"]
    accepted(ask({"dedicated-gpu": "true"}, profile={"gpuModel": "A100"}))


def test_a_dedicated_card_beside_amounts_of_the_same_source_is_refused() -> None:
    assert problems(ask({"dedicated-gpu": "true", **A100, "vram-request": "1Gi", "tflops-limit": "5"})) == [
        "dedicated-gpu: true stands beside tflops-limit, vram-request; give amounts or a dedicated card, not both"
    ]
    profile = {"dedicatedGPU": True, "gpuModel": "A100", **resources({"vram": "1Gi"})}
    assert fields(ask({}, profile=profile).problems) == ["WorkloadProfile inference spec.dedicatedGPU"]


def test_amounts_that_the_pod_asks_for_replace_a_profiles_dedicated_card_with_a_warning() -> None:
    resolution = ask({"vram-request": "10Gi"}, profile={"dedicatedGPU": True, "gpuModel": "A100"})
    worker = accepted(resolution)
    assert not worker.dedicated
    assert worker.vram_request_bytes == 10 * GI
    assert warnings(resolution) == [
        "WorkloadProfile inference spec.dedicatedGPU: true is not used, since the pod gives vram-request: "
        "it asks for a part of a card"
    ]


@pytest.mark.parametrize(
    ("annotations", "whole"),
    [
        ({"isolation": "shared"}, True),
        ({"isolation": "shared", "compute-percent-request": "0"}, True),
        ({"isolation": "shared", "vram-request": "1Gi"}, False),
        ({"isolation": "shared", "tflops-limit": "1"}, False),
        ({"dedicated-gpu": "true", **A100}, True),
        ({"vram-request": "1Gi"}, False),
    ],
)
def test_a_whole_card_is_charged_where_no_amount_says_otherwise(annotations: dict[str, str], whole: bool) -> None:
    assert accepted(ask(annotations)).whole_card is whole


@pytest.mark.parametrize(
    ("unit", "value", "card", "expected"), [(Unit.PERCENT, "50", "312", "156"), (Unit.TFLOPS, "20", "312", "20")]
)
def test_percent_becomes_tflops_by_the_card(unit: Unit, value: str, card: str, expected: str) -> None:
    assert Compute(unit, Decimal(value)).tflops_on(Decimal(card)) == Decimal(expected)


@pytest.mark.parametrize("text", ["1.5Gi", "1610612736"])
def test_a_size_that_is_no_whole_gibibyte_is_kept_exactly(text: str) -> None:
    assert accepted(ask({"vram-request": text})).vram_request_bytes == 1610612736


@pytest.mark.parametrize(("text", "expected"), [("312.5", "312.5"), ("500m", "0.5")])
def test_tflops_that_are_no_whole_number_are_kept_exactly(text: str, expected: str) -> None:
    assert accepted(ask({"tflops-request": text})).compute_request == Compute(Unit.TFLOPS, Decimal(expected))


@pytest.mark.parametrize(
    ("key", "text"),
    [("tflops-request", "16Gi"), ("vram-request", str(2**63)), ("vram-request", "1e30"), ("vram-request", "-1Gi")],
)
def test_an_amount_beyond_all_reason_is_refused_and_never_wraps(key: str, text: str) -> None:
    resolution = ask({key: text})
    assert fields(resolution.problems) == [key]
    assert resolution.problems[0].found == f'"{text}"'


def test_less_memory_than_a_mebibyte_is_warned_of() -> None:
    assert warnings(ask({"vram-request": "500m"})) == ["vram-request: 1 byte is less than 1Mi"]


def test_an_amount_under_a_wrong_key_is_warned_of_and_asks_for_nothing() -> None:
    resolution = ask({"vram-requests": "4Gi"})
    assert problems(resolution) == [NOTHING]
    assert warnings(resolution) == ["vram-requests: unknown annotation, ignored; did you mean vram-request?"]


def test_what_is_left_out_constrains_nothing() -> None:
    worker = accepted(ask({"vram-request": "1Gi"}))
    assert (worker.gpu_model, worker.gpu_indices, worker.compute_limit, worker.container_gpus) == (None, None, None, None)


def test_an_allocation_that_a_user_writes_is_named_for_removal_and_decides_nothing() -> None:
    forged = {"container-gpus": '{"python":["GPU-1"]}', "gpu-ids.python": "GPU-1", "effective": "{}", "resolved": "{}"}
    resolution = ask({"vram-request": "1Gi", **forged})
    assert accepted(resolution) == accepted(ask({"vram-request": "1Gi"}))
    assert resolution.forged == tuple(f"tensor-fusion.ai/{key}" for key in forged)
    assert len(warnings(resolution)) == len(forged)
