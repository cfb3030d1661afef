"""Where the GPU is, and what a pool must have for it (SPEC §2a)."""

from __future__ import annotations

from typing import Any

import pytest
from resolving import ENOUGH, a_pool, accepted, ask, problems, warnings

from tensorfusion_iac.api import Mode

WORKER, CLIENT = {"worker": {"image": "worker:1"}}, {"client": {"image": "client:1"}}
IMAGES = {**WORKER, **CLIENT}


def pools(local: bool | None, components: dict[str, Any] | None = None) -> list[Any]:
    return [a_pool({"defaultUsingLocalGPU": local, "componentConfig": IMAGES if components is None else components})]


@pytest.mark.parametrize(
    ("local", "standalone", "pool_local", "expected"),
    [
        (None, None, True, Mode.LOCAL),
        (None, None, False, Mode.REMOTE),
        (None, None, None, Mode.REMOTE),
        ("true", None, False, Mode.LOCAL),
        ("false", None, True, Mode.REMOTE),
        ("true", "false", None, Mode.LOCAL),
        ("true", "true", None, Mode.STANDALONE),
        (None, "true", True, Mode.STANDALONE),
        ("false", "true", True, Mode.REMOTE),
    ],
)
def test_mode(local: str | None, standalone: str | None, pool_local: bool | None, expected: Mode) -> None:
    given = {"is-local-gpu": local, "standalone-worker-mode": standalone}
    annotations = {**ENOUGH, **{key: text for key, text in given.items() if text is not None}}
    assert accepted(ask(annotations, pools=pools(pool_local))).mode is expected


def test_standalone_without_local_gpus_is_ignored_with_a_warning() -> None:
    said = ": true says nothing without is-local-gpu: true; ignored"
    annotations = {**ENOUGH, "is-local-gpu": "false"}
    by_pod = ask({**annotations, "standalone-worker-mode": "true"}, pools=pools(None))
    assert warnings(by_pod) == [f"standalone-worker-mode{said}"]
    by_profile = ask(annotations, profile={"standaloneWorkerMode": True}, pools=pools(None))
    assert warnings(by_profile) == [f"WorkloadProfile inference spec.standaloneWorkerMode{said}"]


@pytest.mark.parametrize("components", [{}, WORKER, CLIENT, {"worker": {"image": ""}, **CLIENT}, {"worker": {}, "client": {}}])
def test_a_local_pod_needs_no_images(components: dict[str, Any]) -> None:
    accepted(ask(ENOUGH, pools=pools(True, components)))


MISSING = [
    ({}, "spec.componentConfig.worker.image and spec.componentConfig.client.image"),
    (WORKER, "spec.componentConfig.client.image"),
    (CLIENT, "spec.componentConfig.worker.image"),
]


@pytest.mark.parametrize(("components", "missing"), MISSING)
def test_a_remote_pod_in_a_pool_without_its_images_is_refused(components: dict[str, Any], missing: str) -> None:
    assert problems(ask({**ENOUGH, "is-local-gpu": "false"}, pools=pools(None, components))) == [
        f"is-local-gpu: a remote GPU needs {missing} on GPUPool main, or set is-local-gpu to true"
    ]


@pytest.mark.parametrize(("components", "missing"), MISSING)
def test_a_standalone_pod_in_a_pool_without_its_images_is_refused(components: dict[str, Any], missing: str) -> None:
    assert problems(ask({**ENOUGH, "standalone-worker-mode": "true"}, pools=pools(True, components))) == [
        f"standalone-worker-mode: a standalone worker needs {missing} on GPUPool main, or set standalone-worker-mode to false"
    ]


def test_where_remote_comes_from_is_named() -> None:
    (problem,) = problems(ask(ENOUGH, pools=pools(False, {})))
    assert problem.startswith("GPUPool main spec.defaultUsingLocalGPU: a remote GPU needs")
