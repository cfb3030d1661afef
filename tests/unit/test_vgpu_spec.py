"""`VGPUSpec`: the same values as typed fields and as annotations, both ways, and every problem at once (SPEC §2)."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from annotation_values import GOOD
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tensorfusion_iac.api import (
    FIELDS,
    PREFIX,
    AutoscaleTarget,
    Feature,
    Isolation,
    QoS,
    SpecProblems,
    Vendor,
    VGPUSpec,
    parse_annotations,
)
from tensorfusion_iac.api.vgpu import problems_of

LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
TFLOPS = st.decimals(min_value="0.000000001", max_value=99_999, places=9)
PERCENT = st.decimals(min_value="0.000000001", max_value=100, places=9)
BYTES = st.integers(1, 10 * 2**40 - 1)
DURATIONS = st.integers(0, 365 * 86_400_000).map(lambda ms: timedelta(milliseconds=ms))
FIELD_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "tflops_request": TFLOPS,
    "tflops_limit": TFLOPS,
    "vram_request": BYTES.filter(lambda size: size >= 2**20),
    "vram_limit": BYTES.filter(lambda size: size >= 2**20),
    "compute_percent_request": st.just(Decimal(0)) | PERCENT,
    "compute_percent_limit": PERCENT,
    "inject_container": st.lists(LABELS, min_size=1, max_size=3, unique=True),
    "qos": st.sampled_from(QoS),
    "is_local_gpu": st.booleans(),
    "gpu_count": st.integers(1, 128),
    "gpupool": LABELS,
    "vendor": st.sampled_from(Vendor),
    "gpu_model": st.sampled_from(["A100", "Intel(R) Data Center GPU Max 1550"]),
    "dedicated_gpu": st.booleans(),
    "isolation": st.sampled_from(Isolation),
    "gpu_indices": st.lists(st.integers(0, 127), min_size=1, max_size=4, unique=True),
    "container_gpu_count": st.dictionaries(LABELS, st.integers(1, 32), min_size=1, max_size=3),
    "workload": LABELS,
    "workload_profile": LABELS,
    "enabled_replicas": st.integers(0, 2**31 - 1),
    "autoscale": st.booleans(),
    "autoscale_target": st.sampled_from(AutoscaleTarget),
    "standalone_worker_mode": st.booleans(),
    "disable_features": st.lists(st.sampled_from(Feature), min_size=1, unique=True),
    "partition_template": st.sampled_from(["1g.10gb", "3g.40gb", "1g.24gb-me"]),
    "eviction_protection": DURATIONS,
    "gang_min_members": st.just(0) | st.integers(2, 2**31 - 1),
    "gang_timeout": DURATIONS,
}
ARGUMENTS = st.fixed_dictionaries({}, optional=FIELD_VALUES)


def consistent(arguments: dict[str, Any]) -> VGPUSpec | None:
    try:
        return VGPUSpec(**arguments)
    except ValidationError:  # drawn values contradict each other; what they are is tested elsewhere
        return None


def test_every_annotation_is_a_field() -> None:
    assert list(VGPUSpec.model_fields) == [row.argument for row in FIELDS]
    assert FIELD_VALUES.keys() == VGPUSpec.model_fields.keys()


@given(st.sampled_from(sorted(FIELD_VALUES)), st.data())
def test_each_typed_value_survives_the_way_to_an_annotation_and_back(name: str, data: st.DataObject) -> None:
    spec = VGPUSpec(**{name: data.draw(FIELD_VALUES[name])})
    assert len(spec.annotations()) == 1
    assert VGPUSpec.from_annotations(spec.annotations()) == spec
    assert VGPUSpec(**spec.model_dump(exclude_none=True)) == spec


@given(ARGUMENTS)
def test_a_typed_spec_survives_the_way_to_annotations_and_back(arguments: dict[str, Any]) -> None:
    spec = consistent(arguments)
    if spec is None:
        return
    annotations = spec.annotations()
    assert annotations.keys() == {PREFIX + row.key for row in FIELDS if row.argument in arguments}
    assert VGPUSpec.from_annotations(annotations) == spec
    assert VGPUSpec.from_annotations(annotations).annotations() == annotations


@given(st.dictionaries(st.sampled_from([PREFIX + row.key for row in FIELDS]), st.sampled_from([text for _, text, *_ in GOOD])))
def test_annotations_become_canonical_and_mean_the_same(annotations: dict[str, str]) -> None:
    try:
        spec = VGPUSpec.from_annotations(annotations)
    except SpecProblems:
        assert parse_annotations(annotations).problems
        return
    assert spec.annotations().keys() == annotations.keys()
    assert parse_annotations(spec.annotations()).values == parse_annotations(annotations).values


@pytest.mark.parametrize(("name", "text", "value", "canonical"), GOOD)
def test_text_is_taken_as_in_an_annotation(name: str, text: str, value: Any, canonical: str) -> None:
    spec = VGPUSpec(**{name.replace("-", "_"): text})
    assert spec.values() == {name: value}
    assert spec.annotations() == {PREFIX + name: canonical}


@pytest.mark.parametrize(
    ("arguments", "annotations"),
    [
        ({"tflops_request": 10, "tflops_limit": 20.5}, {"tflops-request": "10", "tflops-limit": "20.5"}),
        ({"tflops_request": Decimal("1E+1")}, {"tflops-request": "10"}),
        ({"gpu_count": 2.0}, {"gpu-count": "2"}),
        ({"vram_request": 4 * 2**30}, {"vram-request": "4Gi"}),
        ({"gpu_indices": [0, "1", 2.0]}, {"gpu-indices": "0,1,2"}),
        ({"gpu_indices": 3}, {"gpu-indices": "3"}),
        ({"inject_container": ("a", "b")}, {"inject-container": "a,b"}),
        ({"disable_features": [Feature.GPU_OPT]}, {"disable-features": "gpu-opt"}),
        ({"container_gpu_count": {"b": 1, "a": 2.0}}, {"container-gpu-count": '{"b":1,"a":2}'}),
        ({"is_local_gpu": False, "autoscale": True}, {"is-local-gpu": "false", "autoscale": "true"}),
        ({"eviction_protection": timedelta(minutes=90)}, {"eviction-protection": "1h30m"}),
        ({"qos": None}, {}),
    ],
)
def test_python_values_are_taken_where_they_are_natural(arguments: dict[str, Any], annotations: dict[str, str]) -> None:
    assert VGPUSpec(**arguments).annotations() == {PREFIX + key: text for key, text in annotations.items()}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"qos": True}, "true is not taken here; give text"),
        ({"qos": 5}, "5 is not taken here; give text"),
        ({"gpu_count": True}, "true is not taken here; give a number or text"),
        ({"gpu_count": 1.5}, '"1.5" is not a whole number from 1 to 128'),
        ({"is_local_gpu": 1}, "1 is not taken here; give True, False or text"),
        ({"vram_request": float("nan")}, "nan is not a Kubernetes quantity"),
        ({"vram_request": 10**5000}, "a number of very many digits is not a Kubernetes quantity"),
        ({"vram_request": -1}, '"-1" is not a Kubernetes quantity'),
        ({"gpu_indices": {0, 1}}, "a value of type set is not taken here; give a list or comma-separated text"),
        ({"gpu_indices": [[0]]}, "a list is not taken here"),
        ({"inject_container": ["a,b"]}, '"a,b" is one item with a comma in it; give each item by itself'),
        ({"inject_container": []}, "is empty"),
        ({"container_gpu_count": {"a": True}}, "true for a: not a whole number"),
        ({"container_gpu_count": {"a": object()}}, "values that are no numbers"),
        ({"container_gpu_count": {}}, "JSON object"),
        ({"eviction_protection": timedelta(seconds=-1)}, "-1s is not a duration from 0"),
        ({"eviction_protection": 30}, "30 is not taken here; give a timedelta or text such as 30m"),
        ({"gpu_model": b"A100"}, "a value of type bytes is not taken here"),
        ({"vram_requests": "4Gi"}, "an unknown argument; did you mean vram_request?"),
        ({"zzz": 1}, "an unknown argument; the arguments are the annotations' names in snake_case"),
        ({"vram_request": ""}, "is empty"),
    ],
)
def test_a_wrong_argument_is_told_at_its_name(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        VGPUSpec(**arguments)
    (error,) = caught.value.errors()
    assert error["loc"] == tuple(arguments)
    assert said in error["msg"]


def test_every_problem_is_told_at_once_each_at_its_argument() -> None:
    with pytest.raises(ValidationError) as caught:
        VGPUSpec(
            qos="urgent", gpu_count=0, vram_request="4Gi", vram_limit="2Gi", tflops_request=1, compute_percent_request=5, zzz=1
        )  # type: ignore[call-arg]
    assert [error["loc"] for error in caught.value.errors()] == [
        ("qos",), ("gpu_count",), ("zzz",), ("compute_percent_request",), ("vram_limit",),
    ]  # fmt: skip
    assert [problem.field for problem in problems_of(caught.value)] == [
        "qos", "gpu-count", "zzz", "compute-percent-request", "vram-limit",
    ]  # fmt: skip
    assert "2Gi is below vram_request 4Gi" in str(caught.value)


def test_every_problem_of_annotations_is_in_one_exception() -> None:
    with pytest.raises(SpecProblems) as caught:
        VGPUSpec.from_annotations({f"{PREFIX}qos": "urgent", f"{PREFIX}gpu-count": "0", f"{PREFIX}vram-request": ""})
    assert [problem.field for problem in caught.value.problems] == ["qos", "gpu-count", "vram-request"]


def test_a_spec_can_be_copied_pickled_and_compared_and_not_changed() -> None:
    spec = VGPUSpec(container_gpu_count={"a": 1}, gpu_indices="0,1")
    assert copy.deepcopy(spec) == pickle.loads(pickle.dumps(spec)) == spec
    read = VGPUSpec.from_annotations(spec.annotations())
    assert copy.deepcopy(read) == read
    with pytest.raises(ValidationError):
        spec.qos = QoS.LOW  # type: ignore[misc]


@pytest.mark.parametrize("given_as", ["a list", None, 5])
def test_what_is_no_mapping_is_refused_without_a_crash(given_as: object) -> None:
    with pytest.raises(ValidationError) as caught:
        VGPUSpec.model_validate(given_as)
    assert problems_of(caught.value)
