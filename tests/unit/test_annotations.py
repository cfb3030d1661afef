"""Annotations of one source: the table is complete, values are read and written, each other's contradictions are found."""

from __future__ import annotations

from typing import Any

import pytest
from annotation_values import GOOD
from hypothesis import given
from hypothesis import strategies as st
from resolving import fields, texts

from tensorfusion_iac.api import (
    FIELDS,
    PREFIX,
    QoS,
    container_key,
    key,
    parse_annotations,
    write_annotations,
)

OF_THE_FORMAT = (
    "tflops-request", "vram-request", "tflops-limit", "vram-limit", "inject-container", "qos", "is-local-gpu", "gpu-count",
    "gpupool", "vendor", "gpu-model", "dedicated-gpu", "isolation", "compute-percent-request", "compute-percent-limit",
    "gpu-indices", "container-gpu-count", "workload", "workload-profile", "enabled-replicas", "autoscale",
    "autoscale-target", "standalone-worker-mode", "disable-features",
)  # fmt: skip
"""Of the public page (reference/), without `enabled`, a label, and `container-gpus`, which the system writes."""


def test_every_annotation_of_the_public_format_is_in_the_table() -> None:
    assert set(OF_THE_FORMAT) <= {row.key for row in FIELDS}
    assert len({row.key for row in FIELDS}) == len(FIELDS) == 28


def test_every_annotation_has_a_good_example_here() -> None:
    assert {name for name, *_ in GOOD} == {row.key for row in FIELDS}


@pytest.mark.parametrize(("name", "text", "value", "canonical"), GOOD)
def test_a_good_value_is_read_and_written_canonically(name: str, text: str, value: Any, canonical: str) -> None:
    parsed = parse_annotations({PREFIX + name: text})
    assert not parsed.problems
    assert parsed.values == {name: value}
    assert write_annotations(parsed.values) == {PREFIX + name: canonical}
    assert parse_annotations({PREFIX + name: canonical}).values == {name: value}


def test_annotations_of_others_are_left_alone() -> None:
    parsed = parse_annotations({"example.com/qos": "urgent", "tensor-fusion.ai.example.com/qos": "x", "qos": "x", 7: "x"})  # type: ignore[dict-item]
    assert (parsed.values, parsed.problems, parsed.warnings) == ({}, (), ())


@pytest.mark.parametrize("value", [None, True, 5, 0.5, ["high"], {"a": 1}])
def test_a_value_that_is_no_text_is_refused_and_named(value: object) -> None:
    (problem,) = parse_annotations({key("qos"): value}).problems
    assert problem.field == "qos"
    assert "annotations are text, in quotes" in problem.sentence()


@pytest.mark.parametrize("row", FIELDS, ids=lambda row: row.key)
@pytest.mark.parametrize("blank", ["", " ", "\t", "\n", "\u00a0"])
def test_an_empty_or_blank_value_is_an_error_that_names_the_annotation(row: Any, blank: str) -> None:
    (problem,) = parse_annotations({PREFIX + row.key: blank}).problems
    assert problem.field == row.key
    assert "is empty" in problem.sentence()
    assert row.takes in problem.sentence()


@pytest.mark.parametrize(
    ("unknown", "nearest"),
    [
        ("vram-requests", "vram-request"), ("tflop-limit", "tflops-limit"), ("gpu_count", "gpu-count"), ("QoS", "qos"),
        ("GPU-Model", "gpu-model"), ("pool", "gpupool"), ("container-gpu-counts", "container-gpu-count"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_warned_of_with_the_nearest_known_name(unknown: str, nearest: str) -> None:
    parsed = parse_annotations({PREFIX + unknown: "4Gi"})
    assert not parsed.problems
    (warning,) = parsed.warnings
    assert warning.field == PREFIX + unknown
    assert f"did you mean {PREFIX}{nearest}?" in warning.sentence()


@pytest.mark.parametrize("unknown", ["zzz", "", "/", "x" * 100_000])
def test_an_unknown_key_that_is_like_no_other_is_warned_of_without_a_guess(unknown: str) -> None:
    (warning,) = parse_annotations({PREFIX + unknown: "4Gi"}).warnings
    assert "did you mean" not in warning.sentence()


FORGED = [
    "resolved", "effective", "desired", "grey", "gpu-ids", "gpu-ids.python", "visible-devices.python", "container-gpus",
    "partition-ids", "sm-percent.python", "vram-fraction.python", "vram-limit-mib.python", "enforced-by", "wake",
]  # fmt: skip


@pytest.mark.parametrize("name", [*FORGED, container_key("visible-devices", "c" * 63).removeprefix(PREFIX)])
def test_a_system_annotation_set_by_a_user_is_forged_and_warned_of(name: str) -> None:
    parsed = parse_annotations({PREFIX + name: '{"python":["GPU-1"]}', key("qos"): "high"})
    assert parsed.forged == (PREFIX + name,)
    assert [warning.field for warning in parsed.warnings] == [PREFIX + name]
    assert "system only" in parsed.warnings[0].sentence()
    assert parsed.values == {"qos": QoS.HIGH}


def test_enabled_as_an_annotation_is_warned_of() -> None:
    (warning,) = parse_annotations({key("enabled"): "true"}).warnings
    assert "use the label tensor-fusion.ai/enabled" in warning.sentence()


def test_the_mark_of_a_default_pool_is_warned_of_on_a_pod() -> None:
    (warning,) = parse_annotations({key("is-default-pool"): "true"}).warnings
    assert "belongs on a GPUPool" in warning.sentence()


CONTRADICTIONS: list[tuple[dict[str, str], list[str]]] = [
    ({"tflops-request": "1", "compute-percent-request": "10"}, ["compute-percent-request"]),
    ({"tflops-request": "1", "compute-percent-request": "0"}, ["compute-percent-request"]),
    ({"tflops-limit": "1", "compute-percent-limit": "10"}, ["compute-percent-limit"]),
    ({"tflops-request": "2", "tflops-limit": "1.999"}, ["tflops-limit"]),
    ({"vram-request": "4Gi", "vram-limit": "4G"}, ["vram-limit"]),
    ({"compute-percent-request": "51", "compute-percent-limit": "50"}, ["compute-percent-limit"]),
    ({"dedicated-gpu": "true", "gpu-model": "A100", "vram-request": "1Gi"}, ["dedicated-gpu"]),
    ({"dedicated-gpu": "true", "gpu-model": "A100", "compute-percent-limit": "50"}, ["dedicated-gpu"]),
    ({"gpu-count": "3", "container-gpu-count": '{"a":1,"b":1}'}, ["gpu-count"]),
    ({"gpu-count": "3", "gpu-indices": "0,1"}, ["gpu-indices"]),
    ({"container-gpu-count": '{"a":2,"b":1}', "gpu-indices": "0,1"}, ["gpu-indices"]),
    ({"partition-template": "1g.10gb", "isolation": "hard"}, ["partition-template"]),
]  # fmt: skip


@pytest.mark.parametrize(("annotations", "named"), CONTRADICTIONS)
def test_what_cannot_stand_together_in_one_source_is_refused(annotations: dict[str, str], named: list[str]) -> None:
    assert fields(parse_annotations({PREFIX + name: text for name, text in annotations.items()}).problems) == named


HARMONIES = [
    {"tflops-request": "1", "compute-percent-limit": "10"},
    {"compute-percent-request": "50", "tflops-limit": "1"},
    {"tflops-request": "2", "tflops-limit": "2"},
    {"vram-request": "4G", "vram-limit": "4Gi"},
    {"dedicated-gpu": "false", "vram-request": "1Gi"},
    {"gpu-count": "2", "container-gpu-count": '{"a":1,"b":1}'},
    {"gpu-count": "2", "gpu-indices": "0,1,2"},
    {"partition-template": "1g.10gb", "isolation": "partitioned"},
]


@pytest.mark.parametrize("annotations", HARMONIES)
def test_what_can_stand_together_is_not_refused(annotations: dict[str, str]) -> None:
    assert not parse_annotations({PREFIX + name: text for name, text in annotations.items()}).problems


def test_a_limit_below_its_request_says_both_in_the_names_of_a_manifest() -> None:
    parsed = parse_annotations({key("vram-request"): "4Gi", key("vram-limit"): "2Gi"})
    assert texts(parsed.problems) == ["vram-limit: 2Gi is below vram-request 4Gi; give at least 4Gi, or leave it out"]


def test_every_bad_item_of_a_list_is_named_at_once() -> None:
    parsed = parse_annotations(
        {
            key("inject-container"): "ok,A_b,-c",
            key("gpu-indices"): "0,x,-1",
            key("disable-features"): "gpu-limiter,fast,slow",
            key("container-gpu-count"): '{"a":-1,"b":1.5,"c":2}',
        }
    )
    assert texts(parsed.problems) == [
        'inject-container: "A_b", "-c": not a container name (lower-case letters, digits and -, at most 63)',
        'gpu-indices: "x", "-1": not device indices (whole numbers from 0)',
        'disable-features: "fast", "slow": not one of gpu-limiter, mem-manager, gpu-opt',
        "container-gpu-count: -1 for a, 1.5 for b: not a whole number of GPUs from 0 to 128",
    ]


def test_a_misspelled_vendor_is_answered_with_the_nearest() -> None:
    (problem,) = parse_annotations({key("vendor"): "nvida"}).problems
    assert problem.sentence().endswith("did you mean NVIDIA?")


@pytest.mark.parametrize("value", ["{accepted}", "{found}", "{qos}"])
@pytest.mark.parametrize("name", [row.key for row in FIELDS])
def test_braces_in_a_value_are_shown_as_written(name: str, value: str) -> None:
    (problem,) = parse_annotations({PREFIX + name: value}).problems
    assert f'"{value}"' in problem.sentence(str.upper)


@given(st.dictionaries(st.sampled_from([PREFIX + row.key for row in FIELDS]), st.text() | st.from_regex(r"[0-9a-zA-Z.,{}\":]*")))
def test_any_text_is_read_or_refused_by_name(annotations: dict[str, str]) -> None:
    parsed = parse_annotations(annotations)
    named = {problem.field for problem in parsed.problems} | parsed.values.keys()
    assert {PREFIX + name for name in named} == annotations.keys()
