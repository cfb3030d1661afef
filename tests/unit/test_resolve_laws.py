"""Laws of `resolve`: pure, never raising, complete, and a profile never overrides the pod (SPEC §2, §3)."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from resolving import ENOUGH, a_pool, a_profile, a_quota, ask, fields, raw_pod

from tensorfusion_iac.api import (
    ENABLED_LABEL,
    FIELDS,
    PREFIX,
    UNJUDGED,
    Namespace,
    Owner,
    SpecProblems,
    annotation_naming,
    parse_annotations,
    profile_name,
    render,
    resolve,
)
from tensorfusion_iac.api.worker import Source, from_json

GOOD: dict[str, st.SearchStrategy[str]] = {
    "tflops-request": st.sampled_from(["1", "10", "312.5", "500m"]),
    "tflops-limit": st.sampled_from(["10", "20", "400"]),
    "vram-request": st.sampled_from(["1Gi", "4Gi", "1.5Gi", "2G"]),
    "vram-limit": st.sampled_from(["4Gi", "80Gi"]),
    "compute-percent-request": st.sampled_from(["0", "10", "33.3"]),
    "compute-percent-limit": st.sampled_from(["10", "50", "100"]),
    "inject-container": st.sampled_from(["python", "python, proxy", "proxy"]),
    "qos": st.sampled_from(["low", "medium", "high", "critical"]),
    "is-local-gpu": st.sampled_from(["true", "false"]),
    "gpu-count": st.sampled_from(["1", "2", "8"]),
    "gpupool": st.sampled_from(["main", "other", "nowhere"]),
    "vendor": st.sampled_from(["NVIDIA", "amd", "moorethreads"]),
    "gpu-model": st.sampled_from(["A100", "l40s", "MI300X", "unheard-of"]),
    "dedicated-gpu": st.sampled_from(["true", "false"]),
    "isolation": st.sampled_from(["shared", "soft", "hard", "partitioned"]),
    "gpu-indices": st.sampled_from(["0", "0,1", "3, 2, 1"]),
    "container-gpu-count": st.sampled_from(['{"python":1}', '{"python":2,"proxy":1}', '{"nobody":1}']),
    "workload": st.sampled_from(["shared", "chat"]),
    "workload-profile": st.just("inference"),
    "enabled-replicas": st.sampled_from(["0", "3"]),
    "autoscale": st.sampled_from(["true", "false"]),
    "autoscale-target": st.sampled_from(["compute", "vram", "all"]),
    "standalone-worker-mode": st.sampled_from(["true", "false"]),
    "disable-features": st.sampled_from(["gpu-limiter", "gpu-opt,mem-manager"]),
    "partition-template": st.sampled_from(["1g.10gb", "9g.999gb"]),
    "eviction-protection": st.sampled_from(["30m", "1h30m"]),
    "gang-min-members": st.sampled_from(["0", "2", "8"]),
    "gang-timeout": st.sampled_from(["0", "5m"]),
}
ANNOTATIONS = st.fixed_dictionaries({}, optional=GOOD)

AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        "tflops": st.sampled_from([0, 5, "15"]),
        "vram": st.sampled_from(["0", "3Gi"]),
        "compute": st.sampled_from([0, 20]),
    },
)
PROFILES = st.fixed_dictionaries(
    {},
    optional={
        "resources": st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS}),
        "qos": st.sampled_from(["low", "critical"]),
        "isLocalGPU": st.booleans(),
        "poolName": st.sampled_from(["main", "other"]),
        "gpuCount": st.sampled_from([0, 1, 4]),
        "gpuModel": st.sampled_from(["", "H100"]),
        "dedicatedGPU": st.booleans(),
        "isolation": st.sampled_from(["shared", "soft", "hard", "partitioned"]),
        "gpuIndices": st.sampled_from([[], [0], [4, 5]]),
        "partitionTemplateId": st.sampled_from(["", "2g.20gb"]),
        "standaloneWorkerMode": st.booleans(),
        "vendor": st.sampled_from(["AMD", "nvidia"]),
        "disableFeatures": st.sampled_from([[], ["gpu-opt"]]),
        "gangScheduling": st.sampled_from([{}, {"minMembers": 4, "timeout": "1m"}]),
        "autoScalingConfig": st.sampled_from([{}, {"autoSetResources": {"enable": True, "targetResource": "vram"}}]),
    },
)
IMAGES = {"worker": {"image": "worker:1"}, "client": {"image": "client:1"}}
POOLS = {
    "main": a_pool({"componentConfig": IMAGES, "qosConfig": {"defaultQoS": "high"}}),
    "other": a_pool({"defaultUsingLocalGPU": False}, name="other", default=False),
}
QUOTAS = st.sampled_from(
    [
        None,
        UNJUDGED,
        a_quota({"maxQoS": "high", "defaultRequests": {"vram": "1Gi"}}),
        a_quota(
            {"maxRequests": {"vram": "3Gi", "tflops": 100}, "isolationModes": ["soft", "shared"]}, {"limits": {"compute": 150}}
        ),
    ]
)
CONTAINERS = ("python", "proxy")


def decide(annotations: dict[str, str], profile: Any, quota: Any = None) -> Any:
    return resolve(
        raw_pod(annotations, CONTAINERS),
        owner=Owner("Deployment", "chat", "1"),
        namespace=Namespace("ml", {}),
        profile=profile,
        pools=POOLS,
        quota=quota,
    )


@given(ANNOTATIONS, PROFILES, QUOTAS)
def test_the_same_input_gives_the_same_answer_and_is_left_as_it_was(annotations: Any, spec: Any, quota: Any) -> None:
    pod, profile = raw_pod(annotations, CONTAINERS), a_profile(spec)
    before = copy.deepcopy(pod), profile.model_dump(), copy.deepcopy(POOLS)
    first = resolve(pod, profile=profile, pools=POOLS, quota=quota)
    again = resolve(pod, profile=profile, pools=POOLS, quota=quota)
    assert first == again
    assert first.worker is None or first.resolved() == again.resolved()
    assert (pod, profile.model_dump(), POOLS) == before


@given(ANNOTATIONS, PROFILES, QUOTAS)
def test_there_is_a_worker_exactly_if_there_is_no_problem(annotations: Any, spec: Any, quota: Any) -> None:
    resolution = decide(annotations, a_profile(spec), quota)
    assert (resolution.worker is None) == bool(resolution.problems)
    if resolution.worker is not None:
        assert from_json(resolution.resolved()) == resolution.worker


@given(ANNOTATIONS, PROFILES)
def test_a_profile_never_overrides_an_annotation(annotations: Any, spec: Any) -> None:
    annotations = {"workload-profile": "inference", **annotations}
    without, with_profile = decide(annotations, a_profile({})), decide(annotations, a_profile(spec))
    for key in annotations:
        assert with_profile.sources.get(key, Source.ANNOTATION) is Source.ANNOTATION
    if without.worker is None or with_profile.worker is None:
        return
    rewritten = {key: text for key, text in annotations.items() if key in with_profile.sources}
    alone = decide(rewritten, a_profile({}))
    for key in rewritten:
        assert shown(with_profile.worker, key) == shown(alone.worker, key)


def shown(worker: Any, key: str) -> Any:
    """What of a worker an annotation alone decides."""
    return {
        "tflops-request": worker.compute_request,
        "tflops-limit": worker.compute_limit,
        "compute-percent-request": worker.compute_request,
        "compute-percent-limit": worker.compute_limit,
        "vram-request": worker.vram_request_bytes,
        "vram-limit": worker.vram_limit_bytes,
        "inject-container": worker.containers,
        "qos": worker.qos,
        "gpu-count": worker.gpu_count,
        "gpupool": worker.pool,
        "vendor": worker.vendor,
        "gpu-model": worker.gpu_model,
        "dedicated-gpu": worker.dedicated,
        "isolation": worker.isolation,
        "gpu-indices": worker.gpu_indices,
        "container-gpu-count": worker.container_gpus,
        "workload": worker.workload,
        "enabled-replicas": worker.enabled_replicas,
        "disable-features": worker.disable_features,
        "partition-template": worker.partition_template,
        "eviction-protection": worker.eviction_protection,
    }.get(key)


@given(ANNOTATIONS, PROFILES)
def test_an_unread_profile_refuses_nothing_that_some_profile_would_have_allowed(annotations: Any, spec: Any) -> None:
    annotations = {**annotations, "workload-profile": "inference"}
    unread, read = decide(annotations, UNJUDGED), decide(annotations, a_profile(spec))
    if read.worker is not None:
        assert unread.problems == ()


@given(ANNOTATIONS, PROFILES, QUOTAS)
def test_unread_sources_refuse_no_more_than_read_ones(annotations: Any, spec: Any, quota: Any) -> None:
    annotations = {**annotations, "workload-profile": "inference"}
    pod = raw_pod(annotations, CONTAINERS)
    if resolve(pod, profile=a_profile(spec), pools=POOLS, quota=quota).worker is not None:
        assert resolve(pod, profile=UNJUDGED, pools=UNJUDGED, quota=UNJUDGED).problems == ()


@given(ANNOTATIONS, PROFILES, st.sets(st.sampled_from([row.key for row in FIELDS]), min_size=1, max_size=4))
def test_what_is_wrong_with_the_pods_own_words_is_told_whatever_else_is_wrong(annotations: Any, spec: Any, broken: Any) -> None:
    kept = {key: text for key, text in annotations.items() if key not in broken}
    contradictions = fields(parse_annotations({PREFIX + key: text for key, text in kept.items()}).problems)
    together = fields(decide({**kept, **dict.fromkeys(broken, "?!")}, a_profile(spec)).problems)
    assert {*broken, *contradictions} <= set(together)


@given(ANNOTATIONS, PROFILES, st.sampled_from([row.key for row in FIELDS if row.key != "workload-profile"]), st.data())
def test_a_pod_with_one_broken_value_that_is_good_otherwise_is_refused_for_that_value_alone(
    annotations: Any, spec: Any, key: str, data: st.DataObject
) -> None:
    annotations = {"inject-container": "python", "workload-profile": "inference", **annotations}
    good = decide({**annotations, key: data.draw(GOOD[key])}, a_profile(spec))
    broken = decide({**annotations, key: "?!"}, a_profile(spec))
    if good.worker is not None:
        assert fields(broken.problems) == [key]


FAULTS = {
    "tflops-request": "16Gi", "tflops-limit": "abc", "vram-request": "4", "vram-limit": "-1Gi", "compute-percent-request": "NaN",
    "compute-percent-limit": "101", "inject-container": "nobody", "qos": "urgent", "is-local-gpu": "yes", "gpu-count": "0",
    "gpupool": "nowhere", "vendor": "nvida", "gpu-model": " ", "dedicated-gpu": "1", "isolation": "strict", "gpu-indices": "",
    "container-gpu-count": "{}", "workload": "A", "workload-profile": "?", "enabled-replicas": "-1", "autoscale": "on",
    "autoscale-target": "cpu", "standalone-worker-mode": "no", "disable-features": "x", "partition-template": "1g",
    "eviction-protection": "30", "gang-min-members": "1", "gang-timeout": "soon",
}  # fmt: skip


def test_every_annotation_can_be_wrong_in_one_answer() -> None:
    assert FAULTS.keys() == {row.key for row in FIELDS}
    assert sorted(fields(ask(FAULTS).problems)) == sorted(FAULTS)


@given(st.sets(st.sampled_from(sorted(FAULTS))))
def test_the_faults_of_single_values_are_all_reported_together(keys: set[str]) -> None:
    alone = [problem for key in sorted(keys) for problem in ask({**ENOUGH, key: FAULTS[key]}).problems]
    together = ask({**ENOUGH, **{key: FAULTS[key] for key in sorted(keys)}}).problems
    assert set(together) == set(alone)


@given(st.sets(st.sampled_from(["vram-requests", "qos2", "resolved", "enabled", "is-default-pool", "zzz"])))
def test_warnings_never_refuse(keys: set[str]) -> None:
    plain, warned = ask(ENOUGH), ask({**ENOUGH, **dict.fromkeys(keys, "?")})
    assert warned.worker == plain.worker
    assert warned.problems == ()
    assert {warning.field for warning in warned.warnings} == {PREFIX + key for key in keys}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
KEYS = st.sampled_from([PREFIX + row.key for row in FIELDS] + [PREFIX + "resolved", PREFIX + "x", ENABLED_LABEL]) | st.text(
    max_size=5
)
JUNK_PODS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": JSON | st.fixed_dictionaries(
            {"labels": st.just({ENABLED_LABEL: "true"}) | JSON, "annotations": JSON | st.dictionaries(KEYS, JSON, max_size=6)},
            optional={"name": JSON, "generateName": JSON},
        ),
        "spec": JSON | st.fixed_dictionaries(
            {},
            optional={
                "containers": JSON | st.lists(JSON | st.fixed_dictionaries({"name": JSON, "resources": JSON}), max_size=3),
                "initContainers": JSON | st.lists(st.fixed_dictionaries({"name": JSON, "restartPolicy": JSON}), max_size=3),
                "priorityClassName": JSON,
            },
        ),
    },
)  # fmt: skip


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(JUNK_PODS | JSON, PROFILES, QUOTAS)
def test_no_input_raises_and_every_answer_can_be_shown(pod: Any, spec: Any, quota: Any) -> None:
    for profile in (None, UNJUDGED, a_profile(spec)):
        resolution = resolve(pod, profile=profile, pools=POOLS, quota=quota)
        shown = render("Pod", [*resolution.problems, *resolution.warnings], annotation_naming)
        assert json.dumps([problem.record(annotation_naming) for problem in resolution.problems])
        assert shown.encode()
    profile_name(pod)


@pytest.mark.parametrize("pod", [None, {}, [], "", 0, True, {"metadata": None}, {"spec": None}, {"metadata": {"labels": None}}])
def test_no_pod_at_all_is_not_ours(pod: Any) -> None:
    resolution = resolve(pod)
    assert not resolution.enabled
    assert resolution.worker is None


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        ([], "pod"), ("pod", "pod"), ({"metadata": []}, "metadata"), ({"metadata": {"labels": "x"}}, "metadata.labels"),
        ({"metadata": {"labels": {ENABLED_LABEL: True}}}, f"metadata.labels.{ENABLED_LABEL}"),
    ],
)  # fmt: skip
def test_where_it_cannot_be_told_whether_a_pod_is_ours_that_is_a_problem(pod: Any, field: str) -> None:
    assert fields(resolve(pod).problems) == [field]


def test_a_deeply_nested_value_and_a_very_long_number_are_shown_by_what_they_are() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    found = ask({"qos": deep, "gpu-count": 10**10_000}).problems
    assert [problem.found for problem in found if problem.field in ("qos", "gpu-count")] == [
        "a list (not text)",
        "a number of very many digits (a number)",
    ]
    while deep:  # or its end would be a recursion of its own
        deep = deep[0]


def test_a_long_value_is_cut_in_the_answer() -> None:
    (problem,) = ask({**ENOUGH, "qos": "x" * 1_000_000}).problems
    assert len(problem.text()) < 300


@pytest.mark.parametrize("label", ["false", None])
def test_a_pod_that_is_not_enabled_is_untouched_whatever_it_carries(label: str | None) -> None:
    pod = raw_pod({**FAULTS, "resolved": "{}", "unheard-of": "x"}, containers=())
    pod["metadata"]["labels"] = {} if label is None else {ENABLED_LABEL: label}
    resolution = resolve(pod, pools=POOLS)
    assert (resolution.enabled, resolution.worker, resolution.problems, resolution.warnings) == (False, None, (), ())
    assert resolution.forged == ()


@pytest.mark.parametrize("label", ["True", "yes", "", "1", "TRUE"])
def test_another_value_of_the_label_is_warned_of(label: str) -> None:
    pod = raw_pod(ENOUGH)
    pod["metadata"]["labels"] = {ENABLED_LABEL: label}
    resolution = resolve(pod)
    assert not resolution.enabled
    (warning,) = resolution.warnings
    assert '"true" or "false"' in warning.sentence()


def test_enabled_as_an_annotation_only_is_warned_of() -> None:
    pod = raw_pod({**ENOUGH, "enabled": "true"})
    pod["metadata"]["labels"] = {}
    resolution = resolve(pod)
    assert not resolution.enabled
    assert fields(resolution.warnings) == [ENABLED_LABEL]


def test_all_problems_of_an_object_are_in_one_exception() -> None:
    error = SpecProblems("Pod chat", ask(FAULTS).problems, annotation_naming)
    assert str(error).startswith("Pod chat: 28 problems\n")
    for key in FAULTS:
        assert f"  {PREFIX}{key}: " in str(error)
