"""The annotation `resolved`: canonical JSON of a worker, read back to the same worker (SPEC §2)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from resolving import ENOUGH, a_profile, ask

from tensorfusion_iac.api import (
    AutoscaleTarget,
    Compute,
    Feature,
    Isolation,
    Mode,
    QoS,
    Source,
    Unit,
    Vendor,
    WorkerSpec,
)
from tensorfusion_iac.api.worker import Gang, ProfileRef, canonical, from_json, to_json

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
DURATIONS = st.integers(0, 365 * 86_400_000).map(lambda ms: timedelta(milliseconds=ms))
COMPUTE = st.builds(
    Compute, st.sampled_from(Unit), st.decimals(min_value=0, max_value=99_999, allow_nan=False, places=9).map(Decimal.normalize)
)
WORKERS = st.builds(
    WorkerSpec,
    mode=st.sampled_from(Mode),
    pool=st.none() | NAMES,
    workload=NAMES,
    qos=st.sampled_from(QoS),
    priority_class=NAMES,
    isolation=st.sampled_from(Isolation),
    vendor=st.sampled_from(Vendor),
    gpu_count=st.integers(1, 128),
    containers=st.lists(NAMES, max_size=3, unique=True).map(tuple),
    compute_request=st.none() | COMPUTE,
    compute_limit=st.none() | COMPUTE,
    vram_request_bytes=st.none() | st.integers(1, 10 * 2**40 - 1),
    vram_limit_bytes=st.none() | st.integers(1, 10 * 2**40 - 1),
    container_gpus=st.none() | st.dictionaries(NAMES, st.integers(0, 128), max_size=3),
    gpu_model=st.none() | st.text(min_size=1, max_size=10),
    gpu_indices=st.none() | st.lists(st.integers(0, 127), max_size=3, unique=True).map(tuple),
    dedicated=st.booleans(),
    partition_template=st.none() | st.just("1g.10gb"),
    profile=st.none() | st.builds(ProfileRef, NAMES, st.integers(0, 10**6)),
    enabled_replicas=st.none() | st.integers(0, 2**31 - 1),
    autoscale=st.none() | st.sampled_from(AutoscaleTarget),
    disable_features=st.lists(st.sampled_from(Feature), unique=True).map(tuple),
    eviction_protection=st.none() | DURATIONS,
    gang=st.none() | st.builds(Gang, st.integers(2, 100), st.none() | DURATIONS),
)
SOURCES = st.dictionaries(NAMES, st.sampled_from(Source))


@given(WORKERS, SOURCES)
def test_a_worker_written_and_read_is_the_same_worker(worker: WorkerSpec, sources: dict[str, Source]) -> None:
    assert from_json(canonical(to_json(worker, sources))) == worker


@given(WORKERS, SOURCES)
def test_equal_workers_are_written_in_equal_bytes(worker: WorkerSpec, sources: dict[str, Source]) -> None:
    text = canonical(to_json(worker, sources))
    assert text == canonical(to_json(from_json(text), dict(reversed(sources.items()))))
    assert text.isascii()
    assert json.loads(text)["sources"] == {key: source.value for key, source in sources.items()}


def test_the_order_in_which_containers_get_gpus_survives() -> None:
    split = {**ENOUGH, "container-gpu-count": '{"z":1,"a":2}'}
    worker = ask(split, containers=("z", "a")).worker
    text = ask(split, containers=("z", "a")).resolved()
    assert worker is not None
    assert list((from_json(text).container_gpus or {}).items()) == [("z", 1), ("a", 2)]


def test_what_the_annotation_looks_like() -> None:
    annotations = {"compute-percent-limit": "50", "vram-request": "4Gi", "gpu-count": "2"}
    assert json.loads(ask(annotations, profile=a_profile({"qos": "high"})).resolved()) == {
        "version": 1,
        "mode": "local",
        "pool": "main",
        "workload": "chat-0",
        "qos": "high",
        "priorityClass": "tensor-fusion-high",
        "isolation": "soft",
        "vendor": "NVIDIA",
        "gpuCount": 2,
        "containers": ["python"],
        "requests": {"percent": "50", "vram": 4294967296},
        "limits": {"percent": "50", "vram": 4294967296},
        "profile": {"name": "inference", "generation": 7},
        "sources": {
            "workload-profile": "annotation",
            "gpupool": "default",
            "is-local-gpu": "pool",
            "standalone-worker-mode": "default",
            "qos": "profile",
            "isolation": "default",
            "vendor": "default",
            "inject-container": "derived",
            "gpu-count": "annotation",
            "dedicated-gpu": "default",
            "compute-percent-limit": "annotation",
            "compute-percent-request": "derived",
            "vram-request": "annotation",
            "vram-limit": "derived",
            "workload": "pod",
            "autoscale": "default",
            "disable-features": "default",
        },
    }


def test_only_a_resolved_pod_has_the_annotation() -> None:
    with pytest.raises(ValueError, match="nothing was resolved"):
        ask({"qos": "urgent"}).resolved()


GOOD = json.loads(ask({**ENOUGH, "gang-min-members": "2", "gpu-indices": "0", "gpu-count": "1"}, profile={}).resolved())


def test_the_example_that_is_broken_below_is_good() -> None:
    assert from_json(json.dumps(GOOD)) == from_json(canonical(GOOD))


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", "1", '"x"', '{"version":1}', "{", "[" * 100_000])
def test_what_is_no_worker_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        from_json(text)


@pytest.mark.parametrize("version", [None, 0, 2, "1", 1.5])
def test_another_version_is_refused(version: Any) -> None:
    with pytest.raises(ValueError, match="version 1"):
        from_json(json.dumps({**GOOD, "version": version}))


BREAK: dict[str, Callable[[dict[str, Any]], object]] = {
    "no mode": lambda d: d.pop("mode"),
    "an unknown mode": lambda d: d.update(mode="cloud"),
    "a mode that is no text": lambda d: d.update(mode=["local"]),
    "no workload": lambda d: d.pop("workload"),
    "a workload that is no text": lambda d: d.update(workload=5),
    "a count that is no number": lambda d: d.update(gpuCount="2"),
    "a count that is true": lambda d: d.update(gpuCount=True),
    "containers that are text": lambda d: d.update(containers="python"),
    "containers that are numbers": lambda d: d.update(containers=[1]),
    "requests that are a list": lambda d: d.update(requests=[1]),
    "compute that is a number": lambda d: d.update(requests={"tflops": 5}),
    "compute that is not finite": lambda d: d.update(requests={"tflops": "NaN"}),
    "compute that is negative": lambda d: d.update(requests={"percent": "-1"}),
    "memory that is text": lambda d: d.update(limits={"vram": "4Gi"}),
    "indices that are text": lambda d: d.update(gpuIndices="0"),
    "a split that is text": lambda d: d.update(containerGPUs="ab"),
    "a split that is an object": lambda d: d.update(containerGPUs={"a": 1}),
    "a gang without members": lambda d: d.update(gang={}),
    "a gang that is a number": lambda d: d.update(gang=2),
    "a profile without a generation": lambda d: d.update(profile={"name": "x"}),
    "a feature that is unknown": lambda d: d.update(disableFeatures=["x"]),
    "a duration that is text": lambda d: d.update(evictionProtectionSeconds="30m"),
    "a duration that is endless": lambda d: d.update(evictionProtectionSeconds=1e300),
}


@pytest.mark.parametrize("name", BREAK)
def test_a_member_of_another_kind_is_refused(name: str) -> None:
    document = json.loads(json.dumps(GOOD))
    BREAK[name](document)
    with pytest.raises(ValueError):
        from_json(json.dumps(document))
