"""Nothing is refused that an object not at hand, or a value not known yet, might put right (SPEC §3)."""

from __future__ import annotations

from typing import Any

import pytest
from resolving import ENOUGH, a_pool, a_quota, accepted, ask, fields, raw_pod, warnings

from tensorfusion_iac.api import UNJUDGED, Problem, resolve
from tensorfusion_iac.api.resolve import set_aside

REMOTE = a_pool({"defaultUsingLocalGPU": False})
HARD = a_pool({"nodeManagerConfig": {"defaultIsolationMode": "hard"}})
SPLIT = {**ENOUGH, "container-gpu-count": '{"python":1}'}
STRICT = a_quota({"maxQoS": "low", "isolationModes": ["hard"], "maxGPUCount": 1}, {"requests": {"vram": "4Gi"}})


def named(annotations: dict[str, str], **sources: Any) -> list[str]:
    return fields(ask(annotations, **sources).problems)


RESTS_ON_THE_PROFILE: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({}, {}),  # nothing asked for
    ({**ENOUGH, "dedicated-gpu": "true"}, {"annotations_only": True}),
    ({"dedicated-gpu": "true"}, {}),  # no model
    ({**ENOUGH, "partition-template": "1g.10gb"}, {}),  # not partitioned
    (ENOUGH, {"pools": []}),  # no default pool
    (ENOUGH, {"pools": [a_pool(name="a"), a_pool(name="b")]}),
    (ENOUGH, {"pools": [REMOTE]}),  # remote without images
    (SPLIT, {"pools": [REMOTE]}),
    (ENOUGH, {"quota": STRICT}),  # qos, isolation
    ({"vram-limit": "8Gi"}, {"quota": STRICT}),  # the request that a limit stands for
    ({**ENOUGH, "gpu-indices": "0,1"}, {"quota": STRICT}),  # the count that indices stand for
    (ENOUGH, {"containers": [{"name": "python", "resources": {"limits": {"nvidia.com/gpu": 999}}}]}),
    ({"tflops-request": "9"}, {"quota": a_quota({"defaultLimits": {"tflops": 5}})}),
]


@pytest.mark.parametrize(("annotations", "sources"), RESTS_ON_THE_PROFILE)
def test_nothing_is_refused_that_the_unread_profile_may_say(annotations: dict[str, str], sources: dict[str, Any]) -> None:
    certain = sources.pop("annotations_only", False)
    unread = named(annotations, profile=UNJUDGED, **sources)
    absent = named(annotations, **sources)
    assert absent, "a case that proves nothing"
    assert unread == (["dedicated-gpu"] if certain else [])


def test_what_is_annotated_is_judged_whatever_the_profile_says() -> None:
    annotations = {
        "vram-request": "8Gi", "vram-limit": "4Gi", "qos": "high", "gpu-count": "2", "gpu-indices": "0", "isolation": "soft",
        "partition-template": "1g.10gb", "inject-container": "nobody", "gpupool": "x",
    }  # fmt: skip
    assert set(named(annotations, profile=UNJUDGED, quota=STRICT)) == {
        "vram-limit", "qos", "gpu-indices", "partition-template", "inject-container", "gpupool", "vram-request", "gpu-count",
        "isolation",
    }  # fmt: skip


def test_a_missing_profile_is_the_only_problem_of_what_it_might_have_said() -> None:
    assert named({"workload-profile": "nobody"}, profile=None, quota=STRICT) == ["workload-profile"]


def test_a_broken_profile_name_is_the_only_problem_of_what_the_profile_might_have_said() -> None:
    assert named({"workload-profile": "No Body"}, quota=STRICT) == ["workload-profile"]


RESTS_ON_THE_POOL: list[tuple[dict[str, str], dict[str, Any]]] = [
    (SPLIT, {}),
    (ENOUGH, {"quota": a_quota({"isolationModes": ["hard"]})}),
    (ENOUGH, {"quota": a_quota({"maxQoS": "low"})}),
    ({}, {}),  # nothing asked for: a pool may share whole cards
    ({**ENOUGH, "partition-template": "1g.10gb"}, {}),
]


@pytest.mark.parametrize(("annotations", "sources"), RESTS_ON_THE_POOL)
def test_nothing_is_refused_that_an_unread_pool_may_say(annotations: dict[str, str], sources: dict[str, Any]) -> None:
    assert named(annotations, pools=UNJUDGED, **sources) == []
    assert named({**annotations, "gpupool": "main"}, pools=UNJUDGED, **sources) == []
    plain = a_pool({"defaultUsingLocalGPU": False, "componentConfig": {"worker": {"image": "w"}, "client": {"image": "c"}}})
    assert named(annotations, pools=[plain], **sources), "a case that proves nothing"


def test_what_a_profile_says_is_judged_whatever_the_pool_says() -> None:
    profile = {"isolation": "soft", "isLocalGPU": False, "qos": "high"}
    assert set(named({**SPLIT, "partition-template": "1g.10gb"}, profile=profile, pools=UNJUDGED, quota=STRICT)) == {
        "partition-template",
        "container-gpu-count",
        "WorkloadProfile inference spec.qos",
        "WorkloadProfile inference spec.isolation",
    }


def test_a_pool_that_could_not_be_chosen_is_the_only_problem_of_what_it_might_have_said() -> None:
    assert named({**SPLIT, "gpupool": "x"}, quota=a_quota({"isolationModes": ["hard"]})) == ["gpupool"]
    assert named({**SPLIT, "gpupool": "No Pool"}, pools=[REMOTE]) == ["gpupool"]


def test_a_broken_pool_name_does_not_send_the_pod_to_the_profiles_pool() -> None:
    assert named({**ENOUGH, "gpupool": "No Pool"}, profile={"poolName": "gone"}) == ["gpupool"]


def test_nothing_asked_for_is_no_problem_where_an_unread_quota_may_have_defaults() -> None:
    assert named({}, quota=UNJUDGED) == []
    assert named({"compute-percent-request": "0"}, quota=UNJUDGED) == []
    assert named({}) == ["vram-request"]


def test_a_limit_that_a_broken_one_would_replace_is_not_held_against_a_request() -> None:
    profile = {"resources": {"limits": {"tflops": 5}}}
    assert named({"tflops-request": "10", "tflops-limit": "x"}, profile=profile) == ["tflops-limit"]
    assert named({"tflops-request": "10", "compute-percent-limit": "x"}, profile=profile) == ["compute-percent-limit"]


@pytest.mark.parametrize(
    ("annotations", "named_only"),
    [
        ({"vram-request": "x"}, "vram-request"),
        ({"vram-limit": ""}, "vram-limit"),
        ({"tflops-request": "x"}, "tflops-request"),
        ({"compute-percent-limit": "0"}, "compute-percent-limit"),
        ({"isolation": "x"}, "isolation"),
        ({"dedicated-gpu": "x"}, "dedicated-gpu"),
        ({"dedicated-gpu": "true", "gpu-model": ""}, "gpu-model"),
        ({**ENOUGH, "partition-template": "1g.10gb", "isolation": "x"}, "isolation"),
        ({**ENOUGH, "is-local-gpu": "x", "container-gpu-count": '{"python":1}'}, "is-local-gpu"),
        ({**ENOUGH, "gpu-count": "x", "gpu-indices": "0"}, "gpu-count"),
    ],
)
def test_a_broken_value_is_the_only_problem_of_what_it_might_have_said(annotations: dict[str, str], named_only: str) -> None:
    assert named(annotations, pools=[REMOTE] if "container-gpu-count" in annotations else None) == [named_only]


def test_a_broken_list_of_containers_is_not_also_called_missing() -> None:
    assert named({**ENOUGH, "inject-container": "A"}, containers=("a", "b")) == ["inject-container"]
    assert named({**ENOUGH, "container-gpu-count": "{"}, containers=("a", "b")) == ["container-gpu-count"]


@pytest.mark.parametrize(
    "annotations", [{"autoscale": "x", "autoscale-target": "all"}, {"gang-min-members": "1", "gang-timeout": "1m"}]
)
def test_nothing_is_warned_of_that_rests_on_a_broken_value(annotations: dict[str, str]) -> None:
    assert warnings(ask({**ENOUGH, **annotations})) == []


def test_nothing_is_warned_of_that_rests_on_an_unread_source() -> None:
    annotations = {**ENOUGH, "autoscale-target": "all", "gang-timeout": "1m", "standalone-worker-mode": "true"}
    assert warnings(ask(annotations, profile=UNJUDGED, pools=UNJUDGED)) == []
    assert len(
        warnings(ask(annotations, pools=[a_pool({"componentConfig": {"worker": {"image": "w"}, "client": {"image": "c"}}})]))
    )


@pytest.mark.parametrize(
    ("unknown", "left"),
    [
        (set(), ["vram-request", "gpupool"]),
        ({"vram-request"}, ["gpupool"]),
        ({"tflops-limit"}, ["gpupool"]),
        ({"gpupool"}, ["vram-request"]),
        ({"workload-profile"}, []),
        ({"vram-limit", "gpupool"}, []),
        ({"qos", "workload"}, ["vram-request", "gpupool"]),
    ],
)
def test_a_caller_sets_aside_what_rests_on_values_it_does_not_know_yet(unknown: set[str], left: list[str]) -> None:
    found = resolve(raw_pod({"isolation": "soft"}), pools={}).problems
    assert sorted(fields(set_aside(found, unknown))) == sorted(left)


def test_problems_that_rest_on_nothing_are_never_set_aside_and_each_is_told_once() -> None:
    problem = Problem("qos", '"x"', "low")
    assert set_aside([problem, problem], {"qos", "workload-profile", "gpupool"}) == (problem,)


def test_nothing_unread_is_needed_for_a_worker_that_says_enough() -> None:
    annotations = {**ENOUGH, "gpupool": "main", "is-local-gpu": "true"}
    worker = accepted(ask(annotations, profile=UNJUDGED, pools=UNJUDGED, quota=UNJUDGED))
    assert worker.pool == "main"
    assert worker.profile is None
