"""GPU models, vendors and partitions that no catalogued card has: warned of, never refused (SPEC §2)."""

from __future__ import annotations

import pytest
from resolving import ENOUGH, accepted, ask, problems, warnings

from tensorfusion_iac.api import UNJUDGED
from tensorfusion_iac.api.catalogue import catalogue
from tensorfusion_iac.api.quantity import format_bytes, format_decimal
from tensorfusion_iac.api.vendors import Vendor

CUT = {**ENOUGH, "isolation": "partitioned"}


@pytest.mark.parametrize("model", ["A100", "a100", "A100_SXM_80G", "L40s", "l40S", "NVIDIA A100-SXM4-80GB", "H200"])
def test_a_known_model_or_family_in_any_case_is_kept_as_written_without_a_warning(model: str) -> None:
    resolution = ask({**ENOUGH, "gpu-model": model})
    assert accepted(resolution).gpu_model == model
    assert not warnings(resolution)


def test_a_model_that_the_catalogue_does_not_know_is_allowed_and_warned_of_with_the_nearest() -> None:
    resolution = ask({**ENOUGH, "gpu-model": "L40ss"})
    assert accepted(resolution).gpu_model == "L40ss"
    assert warnings(resolution) == [
        'gpu-model: "L40ss" is not in the catalogue; the pod waits until a node has it; did you mean L40S?'
    ]


def test_a_model_unlike_any_other_is_warned_of_without_a_guess() -> None:
    assert warnings(ask({**ENOUGH, "gpu-model": "Q-9"})) == [
        'gpu-model: "Q-9" is not in the catalogue; the pod waits until a node has it; `tensorfusion models` lists what is'
    ]


def test_a_model_of_another_vendor_is_warned_of() -> None:
    said = [
        'gpu-model: "MI300X" is made by AMD, and vendor is NVIDIA; the pod waits; give vendor AMD',
    ]
    assert warnings(ask({**ENOUGH, "gpu-model": "MI300X"})) == said
    assert not warnings(ask({**ENOUGH, "gpu-model": "MI300X", "vendor": "amd"}))


def test_more_memory_than_any_card_of_the_model_has_is_warned_of() -> None:
    assert warnings(ask({"vram-request": "81Gi", "gpu-model": "A100"})) == [
        "vram-request: 81Gi fits no A100, which has 80Gi; the pod waits"
    ]
    assert not warnings(ask({"vram-request": "80Gi", "gpu-model": "A100"}))


MOST_VRAM = format_bytes(max(model.nominal_vram_bytes for model in catalogue() if model.vendor is Vendor.NVIDIA))
MOST_TFLOPS = format_decimal(max(model.fp16_tflops for model in catalogue() if model.vendor is Vendor.NVIDIA))
OVER_ALL = "fits no NVIDIA card of the catalogue, whose largest has"
UNLESS = "; the pod waits, unless its pool is of another vendor"


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({"vram-request": "200Gi", "gpu-model": "L40S"}, ["vram-request: 200Gi fits no L40S, which has 48Gi; the pod waits"]),
        ({"tflops-request": "400", "gpu-model": "L40S"},
         ["tflops-request: 400 TFLOPS fits no L40S, which has 365; the pod waits"]),
        ({"tflops-request": "365", "vram-request": "48Gi", "gpu-model": "L40S"}, []),
        ({"compute-percent-request": "100", "gpu-model": "L40S"}, []),
        ({"vram-request": "9Ti"}, [f"vram-request: 9Ti {OVER_ALL} {MOST_VRAM}{UNLESS}"]),
        ({"tflops-request": "99999"}, [f"tflops-request: 99999 TFLOPS {OVER_ALL} {MOST_TFLOPS}{UNLESS}"]),
        ({"vram-request": "9Ti", "vendor": "nvidia"}, [f"vram-request: 9Ti {OVER_ALL} {MOST_VRAM}; the pod waits"]),
        ({"tflops-request": "99999", "vendor": "Cerebras"}, []),
        ({"vram-request": MOST_VRAM, "tflops-request": MOST_TFLOPS}, []),
        ({"vram-request": "9Ti", "gpu-model": "Q-9", "vram-limit": "9Ti"}, []),
    ],
)  # fmt: skip
def test_an_amount_that_no_card_has_is_warned_of_though_quota_and_pool_are_not_at_hand(
    annotations: dict[str, str], said: list[str]
) -> None:
    found = ask({**annotations, "is-local-gpu": "true"}, quota=UNJUDGED, pools=UNJUDGED)
    assert [text for text in warnings(found) if "catalogue; the" not in text] == said


def test_a_limit_alone_may_not_be_the_request_where_the_quota_is_not_at_hand() -> None:
    annotations = {"vram-limit": "81Gi", "gpu-model": "A100"}
    assert warnings(ask(annotations)) == ["vram-request: 81Gi fits no A100, which has 80Gi; the pod waits"]
    assert not warnings(ask(annotations, quota=UNJUDGED))


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({"gpu-model": "A100_SXM_80G", "partition-template": "1g.10gb"}, []),
        ({"gpu-model": "A100", "partition-template": "1g.5gb"}, []),
        ({"gpu-model": "A100_SXM_80G"}, []),
        ({"partition-template": "9g.999gb"}, []),
        ({"gpu-model": "A100", "partition-template": "9g.999gb"},
         ['partition-template: no A100 has "9g.999gb"; the pod waits; give another profile or model']),
        ({"gpu-model": "L4"}, ["isolation: no L4 can be partitioned; the pod waits; give another isolation or model"]),
    ],
)  # fmt: skip
def test_a_partition_that_no_card_of_the_model_has_is_warned_of(annotations: dict[str, str], said: list[str]) -> None:
    assert warnings(ask({**CUT, **annotations})) == said


def test_a_partition_template_is_only_for_partitioned_pods() -> None:
    template = {**ENOUGH, "partition-template": "1g.10gb"}
    assert problems(ask(template)) == [
        'partition-template: "1g.10gb" needs isolation: partitioned, and it is soft; leave one of the two out'
    ]
    accepted(ask(template, profile={"isolation": "partitioned"}))


def test_a_profiles_template_is_passed_over_with_a_warning_where_the_pod_is_not_partitioned() -> None:
    profile = {"isolation": "partitioned", "partitionTemplateId": "1g.10gb"}
    resolution = ask({**ENOUGH, "isolation": "soft"}, profile=profile)
    assert accepted(resolution).partition_template is None
    assert warnings(resolution) == [
        'WorkloadProfile inference spec.partitionTemplateId: "1g.10gb" is not used: isolation is soft, not partitioned'
    ]
    assert "partition-template" not in resolution.sources
