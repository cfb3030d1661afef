"""`check_resource`: what an API server with our CRDs would say of an object, without one (SPEC §4).

The table is shared with tests/cluster/test_crds_on_a_server.py, which puts the same rows to a real server.
"""

from __future__ import annotations

import datetime
from collections import UserDict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorfusion_iac.api import KINDS, Problem
from tensorfusion_iac.api.annotations import one_source_problems
from tensorfusion_iac.api.check import check_resource, is_ours
from tensorfusion_iac.api.names import API_VERSION
from tensorfusion_iac.api.resources import WorkloadSpec

ROWS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "cases" / "resources.yaml").read_text("utf-8"))
KIND_NAMES = tuple(model.KIND.kind for model in KINDS)


def object_of(row: dict[str, Any]) -> dict[str, Any]:
    members = row["object"] if "object" in row else {"metadata": {"name": "a"}, "spec": row["spec"]}
    return {"apiVersion": API_VERSION, "kind": row["kind"], **members}


def profile(spec: object) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "WorkloadProfile", "metadata": {"name": "a"}, "spec": spec}


def fields(problems: list[Problem]) -> list[str]:
    return sorted(problem.field for problem in problems)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["what"]))
def test_every_fault_is_found_at_its_field_and_nothing_else_is_refused(row: dict[str, Any]) -> None:
    problems, warnings = check_resource(object_of(row))
    assert fields(problems) == sorted(row.get("refused", []))
    if not problems:
        assert fields(warnings) == sorted(row.get("warned", []))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"gpuModle": "A100"}, "spec.gpuModle: unknown field; did you mean gpuModel?"),
        ({"gpu_count": 2}, "spec.gpu_count: unknown field; did you mean gpuCount?"),
        ({"GPUCOUNT": 2}, "spec.GPUCOUNT: unknown field; did you mean gpuCount?"),
        ({"qos": "highest"}, 'spec.qos: "highest" is not one of low, medium, high, critical'),
        ({"isLocalGPU": "true"}, 'spec.isLocalGPU: "true" is not true or false, without quotes'),
        ({"gpuCount": "4"}, 'spec.gpuCount: "4" is not a whole number, without quotes'),
        ({"gpuCount": 200}, "spec.gpuCount: 200 is too large; give at most 128"),
        ({"gpuModel": 4090}, "spec.gpuModel: 4090 is not text; put it in quotes"),
        ({"resources": []}, "spec.resources: a list is not an object"),
        ({"gpuIndices": 0}, "spec.gpuIndices: 0 is not a list"),
        ({"gpuIndices": [1] * 3}, "spec.gpuIndices: 1 stands in the list more than once; give each once"),
        ({"gpuIndices": list(range(129))}, "spec.gpuIndices: a list of 129 is too long; give at most 128 items"),
        (
            {"vendor": "NVDIA"},
            'spec.vendor: "NVDIA" is not one of NVIDIA, AMD, Ascend, Intel, Hygon, MetaX, MThreads, Cambricon, Enflame, '
            "Qualcomm, Cerebras, AWSNeuron, Google; did you mean NVIDIA?",
        ),
        (
            {"resources": {"limits": {"vram": "4 Gi"}}},
            'spec.resources.limits.vram: "4 Gi" is not a Kubernetes quantity such as 10, 0.5, 500m, 4Gi or 4G',
        ),
        (
            {"resources": {"limits": {"vram": 0.5}}},
            "spec.resources.limits.vram: 0.5 is a YAML float, which Kubernetes refuses here; give the number as text, in quotes",
        ),
        (
            {"resources": {"limits": {"vram": "2Gi"}, "requests": {"vram": "4Gi"}}},
            'spec.resources.limits.vram: limits.vram is below requests.vram, found "2Gi"; give at least as much, or leave it out',
        ),
        (
            {"autoScalingConfig": {"cronScalingRules": [{"name": "x" * 64}]}},
            "spec.autoScalingConfig.cronScalingRules[0].name: text of 64 characters is too long; give at most 63 characters",
        ),
        (
            {"autoScalingConfig": {"externalScaler": {"apiKeySecretRef": {}}}},
            "spec.autoScalingConfig.externalScaler.apiKeySecretRef.name: is missing; give a value",
        ),
        (
            {"autoScalingConfig": {"cronScalingRules": [{"start": datetime.date(2026, 1, 1)}]}},
            "spec.autoScalingConfig.cronScalingRules[0].start: a value of type date is not text, a number, true, false, a list "
            "or an object; put a date or a time in quotes",
        ),
    ],
)
def test_a_problem_says_where_what_and_what_is_accepted(spec: object, text: str) -> None:
    problems, _ = check_resource(profile(spec))
    assert [problem.text() for problem in problems] == [text]


def test_all_problems_of_an_object_come_at_once() -> None:
    raw = profile(
        {
            "qos": "x",
            "gpuCount": 0.5,
            "gpuModle": "A100",
            "dedicatedGPU": True,
            "resources": {"requests": {"vram": "4Gi", "tflops": "x"}, "limits": {"vram": "2Gi"}},
            "gangScheduling": {"minMembers": 1, "mode": "y"},
        }
    )
    raw["metadata"] = {"name": "A", "labels": {"v": 1}}
    assert fields(check_resource(raw)[0]) == [
        "metadata.labels.v",
        "metadata.name",
        "spec.dedicatedGPU",  # beside resources; not "without gpuModel", which stands there misspelt
        "spec.gangScheduling.minMembers",
        "spec.gangScheduling.mode",
        "spec.gpuCount",
        "spec.gpuModle",
        "spec.qos",
        "spec.resources.limits.vram",
        "spec.resources.requests.tflops",
    ]


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (None, "object"),
        ([], "object"),
        ("WorkloadProfile", "object"),
        ({}, "apiVersion"),
        ({"apiVersion": "v1", "kind": "Pod"}, "apiVersion"),
        ({"apiVersion": "tensor-fusion.ai/v2", "kind": "GPUPool"}, "apiVersion"),
        ({"apiVersion": 1}, "apiVersion"),
        ({"apiVersion": API_VERSION}, "kind"),
        ({"apiVersion": API_VERSION, "kind": "gpupool"}, "kind"),
        ({"apiVersion": API_VERSION, "kind": ["GPUPool"]}, "kind"),
        ({"apiVersion": API_VERSION, "kind": "GPUPool", "metadata": "a"}, "metadata"),
        ({"apiVersion": API_VERSION, "kind": "GPUPool", "metadata": {"name": 7}}, "metadata.name"),
    ],
)
def test_what_is_no_object_of_ours_is_one_problem(raw: object, field: str) -> None:
    assert fields(check_resource(raw)[0]) == [field]


@pytest.mark.parametrize(
    ("raw", "ours"),
    [
        ({"apiVersion": API_VERSION}, True),
        ({"apiVersion": "tensor-fusion.ai/v2", "kind": "Other"}, True),
        ({"apiVersion": "apps/v1"}, False),
        ({"apiVersion": 1}, False),
        ({}, False),
        (None, False),
    ],
)
def test_our_objects_are_known_by_their_group(raw: object, ours: bool) -> None:
    assert is_ours(raw) is ours


def test_a_nest_without_end_is_one_problem() -> None:
    spec: dict[str, Any] = {}
    spec["workerPodTemplate"] = spec
    problems, _ = check_resource(profile(spec))
    assert [problem.found for problem in problems] == ["nesting"]


def test_a_mapping_that_is_no_dict_is_read_like_one() -> None:
    assert check_resource(UserDict(profile(UserDict({"qos": "low"})))) == ([], [])


_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.binary(max_size=4)
    | st.dates() | st.decimals() | st.sampled_from(["4Gi", "10", "1e99", "-1", "A100", "nvidia", "high", "soft", "30m"])
)  # fmt: skip
_JUNK = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8) | st.integers() | st.none() | st.tuples(st.integers()), inner, max_size=4)
    ),
    max_leaves=12,
)


def _names_of(model: Any, found: set[str]) -> set[str]:
    for name, field in model.model_fields.items():
        found.add(field.alias or name)
        for part in str(field.annotation).split("["):
            found.add(part[:1])
    return found


_NAMES = sorted(
    {name for model in KINDS for name in _names_of(model, set())}
    | {"resources", "requests", "limits", "tflops", "vram", "compute", "autoScalingConfig", "cronScalingRules", "gpuIndices",
       "gangScheduling", "minMembers", "nodeManagerConfig", "qosConfig", "total", "single", "partitions", "matchLabels"}
)  # fmt: skip
_SHAPED = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=5),
    max_leaves=16,
)


@given(_JUNK)
def test_junk_never_raises(raw: object) -> None:
    problems, _ = check_resource(raw)
    assert problems


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(KIND_NAMES), _SHAPED, _SHAPED, _SHAPED)
def test_an_object_of_ours_full_of_junk_never_raises(kind: str, metadata: object, spec: object, status: object) -> None:
    raw = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec, "status": status}
    problems, warnings = check_resource(raw)
    assert all("\n" not in problem.text() for problem in [*problems, *warnings])


_TFLOPS = st.none() | st.sampled_from([0, 1, 5, 10, "10", "0.5"])
_VRAM = st.none() | st.sampled_from([0, "1Gi", "4Gi", "4096Mi", "8Gi"])
_PERCENT = st.none() | st.sampled_from([0, 10, 50, "50", 100])
_SIDE = st.fixed_dictionaries({"tflops": _TFLOPS, "vram": _VRAM, "compute": _PERCENT})
_SPEC = st.fixed_dictionaries(
    {
        "resources": st.fixed_dictionaries({"requests": _SIDE, "limits": _SIDE}),
        "dedicatedGPU": st.none() | st.booleans(),
        "gpuCount": st.none() | st.integers(0, 3),
        "gpuIndices": st.none() | st.lists(st.integers(0, 3), unique=True, max_size=3),
    }
)


@given(_SPEC)
def test_the_rules_of_a_spec_are_those_of_annotations(spec: dict[str, Any]) -> None:
    spec["gpuModel"] = "A100"
    problems, _ = check_resource(profile(spec))
    as_annotations = one_source_problems(WorkloadSpec.model_validate(spec).layer())
    assert bool(problems) == bool(as_annotations)


def test_a_program_may_give_amounts_as_decimals() -> None:
    spec = WorkloadSpec.model_validate({"resources": {"limits": {"tflops": Decimal("0.5"), "vram": 2**30}}})
    assert spec.layer() == {"tflops-limit": Decimal("0.5"), "vram-limit": 2**30}
