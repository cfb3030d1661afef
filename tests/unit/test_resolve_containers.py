"""Which containers get GPUs, how many each, and how many GPUs a worker has (SPEC §2, §7)."""

from __future__ import annotations

from typing import Any

import pytest
from resolving import ENOUGH, a_quota, accepted, ask, container, problems, warnings

from tensorfusion_iac.api import Source

SPLIT = {**ENOUGH, "container-gpu-count": '{"trainer":3,"evaluator":1}'}
TWO = ("trainer", "evaluator")
PROXY = container("proxy", sidecar=True)


@pytest.mark.parametrize(
    ("annotations", "containers", "init", "expected"),
    [
        ({}, ("python",), (), ("python",)),
        ({}, ("python",), ("setup",), ("python",)),
        ({}, ("python",), (PROXY,), ("python",)),
        ({"inject-container": "b"}, ("a", "b", "c"), (), ("b",)),
        ({"inject-container": "c, a"}, ("a", "b", "c"), (), ("a", "c")),
        ({"inject-container": "setup,a"}, ("a", "b"), ("setup",), ("setup", "a")),
        ({"inject-container": "proxy"}, ("a",), (PROXY,), ("proxy",)),
        ({"container-gpu-count": '{"c":1,"a":2,"b":0}'}, ("a", "b", "c"), (), ("a", "c")),
        ({"container-gpu-count": '{"proxy":1}'}, ("a",), (PROXY,), ("proxy",)),
    ],
)
def test_injected_are_the_named_ones_else_those_with_gpus_else_the_only_one(
    annotations: dict[str, str], containers: Any, init: Any, expected: tuple[str, ...]
) -> None:
    assert accepted(ask({**ENOUGH, **annotations}, containers=containers, init=init)).containers == expected


def test_of_several_containers_one_must_be_named() -> None:
    assert problems(ask(ENOUGH, containers=("a", "b"), init=("setup",))) == [
        "inject-container: 2 containers, and none is named; give inject-container one or more of setup, a, b"
    ]


def test_every_injected_container_must_exist() -> None:
    assert problems(ask({**ENOUGH, "inject-container": "a,x,y"}, containers=("a", "b"))) == [
        'inject-container: "x", "y": not a container of the pod; its containers are a, b'
    ]


@pytest.mark.parametrize("containers", [(), None])
def test_a_pod_without_containers_is_refused(containers: Any) -> None:
    pod = {"metadata": {"labels": {"tensor-fusion.ai/enabled": "true"}}, "spec": {"containers": containers}}
    assert "spec.containers: no container; give at least one" in problems(ask({}, pod=pod))


def test_two_containers_of_one_name_are_refused() -> None:
    assert problems(ask({**ENOUGH, "inject-container": "a"}, containers=("a", "b"), init=("a",))) == [
        'spec.containers: "a" is the name of 2 containers; give each its own'
    ]


def test_without_a_split_the_injected_containers_share_all_gpus() -> None:
    worker = accepted(ask({**ENOUGH, "inject-container": "a,b", "gpu-count": "2"}, containers=("a", "b")))
    assert worker.container_gpus is None
    assert worker.gpu_count == 2


def test_a_split_names_each_injected_container_in_pod_order_sidecars_first() -> None:
    annotations = {**ENOUGH, "inject-container": "a,b,proxy", "container-gpu-count": '{"b":1,"proxy":2}'}
    worker = accepted(ask(annotations, containers=("a", "b", "c"), init=(PROXY,)))
    assert list((worker.container_gpus or {}).items()) == [("proxy", 2), ("a", 0), ("b", 1)]
    assert worker.gpu_count == 3


def test_a_plain_init_container_may_be_injected_beside_a_split_and_is_not_in_it() -> None:
    worker = accepted(ask({**SPLIT, "inject-container": "setup,trainer,evaluator"}, containers=TWO, init=("setup",)))
    assert worker.containers == ("setup", *TWO)
    assert worker.container_gpus == {"trainer": 3, "evaluator": 1}


@pytest.mark.parametrize(
    ("annotations", "init", "expected"),
    [
        ({"container-gpu-count": '{"nobody":1}'}, (),
         'container-gpu-count: "nobody": not a container of the pod; its containers are trainer, evaluator'),
        ({"container-gpu-count": '{"setup":1}'}, ("setup",),
         'container-gpu-count: "setup": an init container sees all GPUs of the worker; name containers and native sidecars only'),
        ({**SPLIT, "inject-container": "trainer"}, (),
         'container-gpu-count: "evaluator": has GPUs and is not in inject-container; add it there, or give it 0'),
        ({**SPLIT, "is-local-gpu": "false"}, (),
         "container-gpu-count: a split of the GPUs works with local GPUs only; set is-local-gpu to true, or leave it out"),
        ({**SPLIT, "gpu-count": "5"}, (), "gpu-count: 5 is not the sum of container-gpu-count, 4; leave one of the two out"),
        ({**SPLIT, "gpu-indices": "0,1"}, (), "gpu-indices: 2 indices for gpu-count 4; give at least 4"),
    ],
)  # fmt: skip
def test_a_split_that_cannot_be_is_refused(annotations: dict[str, str], init: tuple[str, ...], expected: str) -> None:
    assert expected in problems(ask({**ENOUGH, **annotations}, containers=TWO, init=init))


def test_a_split_of_0_for_a_container_that_is_not_injected_is_no_problem() -> None:
    annotations = {**ENOUGH, "inject-container": "trainer", "container-gpu-count": '{"trainer":1,"evaluator":0}'}
    assert accepted(ask(annotations, containers=TWO)).container_gpus == {"trainer": 1}


@pytest.mark.parametrize(
    ("annotations", "profile", "expected", "source"),
    [
        ({}, None, 1, Source.DEFAULT),
        ({"gpu-count": "2"}, {"gpuCount": 3}, 2, Source.ANNOTATION),
        ({"container-gpu-count": '{"python":4}'}, {"gpuCount": 3}, 4, Source.DERIVED),
        ({"gpu-count": "4", "container-gpu-count": '{"python":4}'}, None, 4, Source.ANNOTATION),
        ({}, {"gpuCount": 3, "gpuIndices": [0, 1, 2, 3]}, 3, Source.PROFILE),
        ({"gpu-indices": "0,1"}, None, 2, Source.DERIVED),
        ({}, {"gpuIndices": [0, 1, 2]}, 3, Source.DERIVED),
        ({"gpu-indices": "5"}, {"gpuIndices": [0, 1, 2]}, 1, Source.DERIVED),
    ],
)
def test_the_number_of_gpus_by_precedence(annotations: dict[str, str], profile: Any, expected: int, source: Source) -> None:
    resolution = ask({**ENOUGH, **annotations}, profile=profile)
    assert accepted(resolution).gpu_count == expected
    assert resolution.sources["gpu-count"] is source


@pytest.mark.parametrize(("annotations", "expected"), [({"gpu-count": "2"}, 2), ({"gpu-indices": "0"}, 1), ({}, 8)])
def test_native_requests_count_only_where_nothing_else_says_how_many(annotations: dict[str, str], expected: int) -> None:
    assert accepted(ask({**ENOUGH, **annotations}, containers=[container("python", 8)])).gpu_count == expected


def test_a_number_taken_from_the_indices_is_warned_of() -> None:
    assert warnings(ask({**ENOUGH, "gpu-indices": "0,1"})) == [
        "gpu-indices: 2 indices, and nothing says how many GPUs: one for each is taken; to choose among them, give gpu-count"
    ]
    assert not warnings(ask({**ENOUGH, "gpu-indices": "0,1", "gpu-count": "1"}))


def test_more_gpus_than_devices_to_choose_from_are_refused_wherever_the_two_come_from() -> None:
    """Distinct GPUs or none: a worker never gets fewer cards than it asked for."""
    by_profile = ask({**ENOUGH, "gpu-count": "3"}, profile={"gpuIndices": [0, 1]})
    assert problems(by_profile) == ["WorkloadProfile inference spec.gpuIndices: 2 indices for gpu-count 3; give at least 3"]
    by_pod = ask({**ENOUGH, "gpu-indices": "0"}, profile={"gpuCount": 2})
    assert problems(by_pod) == ["gpu-indices: 1 index for gpu-count 2; give at least 2"]


@pytest.mark.parametrize(
    ("containers", "init", "inject", "expected"),
    [
        ([container("a", 2)], [], "a", 2),
        ([container("a", "2")], [], "a", 2),
        ([container("a", 1), container("b", 1)], [], "a,b", 2),
        ([container("a", 1), container("b", 4)], [], "a", 1),
        ([container("a", 1)], [container("proxy", 1, sidecar=True)], "a,proxy", 2),
        ([container("a", 1)], [container("setup", 3)], "a,setup", 3),
        ([container("a", 2)], [container("setup", 1)], "a,setup", 2),
        ([container("a", 1)], [container("setup", 8)], "a", 1),
        ([container("a", 0)], [], "a", 1),
        ([container("a", "0")], [container("setup", 2)], "a,setup", 2),
        ([container("a", "2000m")], [], "a", 2),
        ([{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": "2"}}}], [], "a", 2),
        ([{"name": "a", "resources": {"limits": {"nvidia.com/gpu": None}, "requests": {}}}], [], "a", 1),
        ([{"name": "a", "resources": {"requests": {"nvidia.com/gpu": 3}}}], [], "a", 3),
        ([{"name": "a", "resources": {"limits": None, "requests": []}}], [], "a", 1),
    ],
)
def test_native_requests_are_the_most_of_init_containers_or_the_sum_of_the_others(
    containers: Any, init: Any, inject: str, expected: int
) -> None:
    worker = accepted(ask({**ENOUGH, "inject-container": inject}, containers=containers, init=init))
    assert worker.gpu_count == expected


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("1.5", '"1.5"'), ("-1", '"-1"'), (-1, "-1"), (1.5, "1.5"), ("1500m", '"1500m"'), ("junk", '"junk"'), ("", '""'),
        (True, "true"), ([1], "a list"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("counted", [{}, {"gpu-count": "1"}], ids=["asked", "said elsewhere"])
def test_a_native_request_that_is_no_number_of_gpus_is_refused(value: object, found: str, counted: dict[str, str]) -> None:
    assert problems(ask({**ENOUGH, **counted}, containers=[container("python", value)])) == [
        f"container python resources.limits nvidia.com/gpu: {found} is not a whole number of GPUs, from 0"
    ]


def test_native_requests_that_differ_from_their_limit_are_refused() -> None:
    resources = {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": 0}}
    assert problems(ask(ENOUGH, containers=[{"name": "python", "resources": resources}])) == [
        "container python resources.requests nvidia.com/gpu: 0 is not the limit; give 2, or leave one of the two out"
    ]


def test_every_wrong_native_request_is_named() -> None:
    resources = {"limits": {"nvidia.com/gpu": "x"}, "requests": {"nvidia.com/gpu": "y"}}
    found = ask(ENOUGH, containers=[{"name": "python", "resources": resources}], init=[container("setup", -2)]).problems
    assert [(problem.field, problem.found) for problem in found] == [
        ("container setup resources.limits nvidia.com/gpu", "-2"),
        ("container python resources.limits nvidia.com/gpu", '"x"'),
        ("container python resources.requests nvidia.com/gpu", '"y"'),
    ]


def test_a_native_sidecar_and_its_application_ask_for_the_sum_of_their_gpus() -> None:
    resolution = ask(
        {**ENOUGH, "inject-container": "app,proxy"}, containers=[container("app", 1)], init=[container("proxy", 1, sidecar=True)]
    )
    assert accepted(resolution).gpu_count == 2
    assert resolution.sources["gpu-count"] is Source.POD


def test_more_native_gpus_than_a_worker_can_have_are_refused() -> None:
    assert problems(ask(ENOUGH, containers=[container("python", "1e9")])) == [
        "gpu-count: 1000000000 GPUs asked for natively by the injected containers; give at most 128"
    ]


@pytest.mark.parametrize("init", [(), ("setup",), (container("setup", 4),)])
def test_a_plain_init_container_changes_nothing_about_the_quota(init: Any) -> None:
    quota = a_quota(total={"requests": {"vram": "24Gi"}})
    refused = ask({"vram-request": "16Gi", "gpu-count": "2"}, init=init, quota=quota)
    assert problems(refused) == [
        "vram-request: 16Gi x 2 GPUs is above 24Gi (GPUResourceQuota team total.requests.vram); give at most 24Gi"
    ]
    assert accepted(ask({"vram-request": "12Gi", "gpu-count": "2"}, init=init, quota=quota)).gpu_count == 2
