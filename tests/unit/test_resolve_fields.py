"""Each annotation by itself: its default, its value, a profile's, and which of them wins (SPEC §2, §3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from resolving import ENOUGH, a_pool, a_profile, accepted, ask, raw_pod

from tensorfusion_iac.api import (
    FIELDS,
    AutoscaleTarget,
    Compute,
    Feature,
    Isolation,
    Mode,
    Owner,
    QoS,
    Source,
    Unit,
    Vendor,
    WorkerSpec,
    resolve,
)
from tensorfusion_iac.api.worker import Gang, ProfileRef

GI = 2**30
IMAGES = {"worker": {"image": "worker:1"}, "client": {"image": "client:1"}}


@dataclass(frozen=True)
class Row:
    """What one annotation does to a worker: `read` is where it shows."""

    key: str
    read: Callable[[WorkerSpec], Any]
    default: Any
    text: str
    annotated: Any
    profile: Mapping[str, Any] | None = None
    from_profile: Any = None
    beside: Mapping[str, str] = field(default_factory=lambda: ENOUGH)


def tflops(value: str) -> Compute:
    return Compute(Unit.TFLOPS, Decimal(value))


def percent(value: str) -> Compute:
    return Compute(Unit.PERCENT, Decimal(value))


def resources(side: str, **amounts: Any) -> Mapping[str, Any]:
    return {"resources": {side: amounts}}


def scaling(**auto: Any) -> Mapping[str, Any]:
    return {"autoScalingConfig": {"autoSetResources": auto}}


A100 = {"gpu-model": "A100"}
SHARED = {"isolation": "shared"}
CUT = {"isolation": "partitioned", "vram-request": "4Gi"}

ROWS = [
    Row("tflops-request", lambda w: w.compute_request, None, "10", tflops("10"), resources("requests", tflops=5), tflops("5")),
    Row("tflops-limit", lambda w: w.compute_limit, None, "20", tflops("20"), resources("limits", tflops="15"), tflops("15")),
    Row("vram-request", lambda w: w.vram_request_bytes, None, "4Gi", 4 * GI, resources("requests", vram="3Gi"), 3 * GI, SHARED),
    Row("vram-limit", lambda w: w.vram_limit_bytes, None, "4Gi", 4 * GI, resources("limits", vram="3Gi"), 3 * GI, SHARED),
    Row("compute-percent-request", lambda w: w.compute_request, None, "50", percent("50"),
        resources("requests", compute=30), percent("30")),
    Row("compute-percent-limit", lambda w: w.compute_limit, None, "50", percent("50"),
        resources("limits", compute="30"), percent("30")),
    Row("inject-container", lambda w: w.containers, ("python",), "python", ("python",)),
    Row("qos", lambda w: w.qos, QoS.MEDIUM, "high", QoS.HIGH, {"qos": "low"}, QoS.LOW),
    Row("is-local-gpu", lambda w: w.mode, Mode.REMOTE, "true", Mode.LOCAL, {"isLocalGPU": True}, Mode.LOCAL),
    Row("gpu-count", lambda w: w.gpu_count, 1, "4", 4, {"gpuCount": 2}, 2),
    Row("gpupool", lambda w: w.pool, "main", "other", "other", {"poolName": "third"}, "third"),
    Row("vendor", lambda w: w.vendor, Vendor.NVIDIA, "amd", Vendor.AMD, {"vendor": "Ascend"}, Vendor.ASCEND),
    Row("gpu-model", lambda w: w.gpu_model, None, "a100", "a100", {"gpuModel": "H100"}, "H100"),
    Row("dedicated-gpu", lambda w: w.dedicated, False, "true", True, {"dedicatedGPU": True}, True, {**A100, **SHARED}),
    Row("isolation", lambda w: w.isolation, Isolation.SOFT, "hard", Isolation.HARD, {"isolation": "shared"}, Isolation.SHARED),
    Row("gpu-indices", lambda w: w.gpu_indices, None, "2,0", (2, 0), {"gpuIndices": [1, 3]}, (1, 3),
        {**ENOUGH, "gpu-count": "1"}),
    Row("container-gpu-count", lambda w: w.container_gpus, None, '{"python":2}', {"python": 2}, None, None,
        {**ENOUGH, "is-local-gpu": "true"}),
    Row("workload", lambda w: w.workload, "chat-0", "shared", "shared"),
    Row("workload-profile", lambda w: w.profile, None, "inference", ProfileRef("inference", 7)),
    Row("enabled-replicas", lambda w: w.enabled_replicas, None, "3", 3),
    Row("autoscale", lambda w: w.autoscale, None, "true", AutoscaleTarget.ALL, scaling(enable=True), AutoscaleTarget.ALL),
    Row("autoscale-target", lambda w: w.autoscale, AutoscaleTarget.ALL, "vram", AutoscaleTarget.VRAM,
        scaling(targetResource="compute"), AutoscaleTarget.COMPUTE, {**ENOUGH, "autoscale": "true"}),
    Row("standalone-worker-mode", lambda w: w.mode, Mode.LOCAL, "true", Mode.STANDALONE,
        {"standaloneWorkerMode": True}, Mode.STANDALONE, {**ENOUGH, "is-local-gpu": "true"}),
    Row("disable-features", lambda w: w.disable_features, (), "gpu-opt, gpu-limiter", (Feature.GPU_OPT, Feature.GPU_LIMITER),
        {"disableFeatures": ["mem-manager"]}, (Feature.MEM_MANAGER,)),
    Row("partition-template", lambda w: w.partition_template, None, "1g.10gb", "1g.10gb",
        {"partitionTemplateId": "2g.20gb"}, "2g.20gb", CUT),
    Row("eviction-protection", lambda w: w.eviction_protection, None, "30m", timedelta(minutes=30)),
    Row("gang-min-members", lambda w: w.gang, None, "4", Gang(4, None), {"gangScheduling": {"minMembers": 2}}, Gang(2, None)),
    Row("gang-timeout", lambda w: w.gang and w.gang.timeout, None, "5m", timedelta(minutes=5),
        {"gangScheduling": {"timeout": "1m"}}, timedelta(minutes=1), {**ENOUGH, "gang-min-members": "4"}),
]  # fmt: skip
WITH_PROFILE = [row for row in ROWS if row.profile]
POOLS = [a_pool({"defaultUsingLocalGPU": None, "componentConfig": IMAGES}, name) for name in ("main", "other", "third")]
POOLS = [
    POOLS[0],
    *(pool.model_copy(update={"metadata": pool.metadata.model_copy(update={"annotations": {}})}) for pool in POOLS[1:]),
]


def worker(annotations: Mapping[str, str], profile: Any = None) -> WorkerSpec:
    return accepted(ask(annotations, profile=profile, pools=POOLS))


def source(annotations: Mapping[str, str], key: str, profile: Any = None) -> Source | None:
    return ask(annotations, profile=profile, pools=POOLS).sources.get(key)


def by_key(row: Row) -> str:
    return row.key


def test_every_annotation_is_here_and_those_that_a_profile_can_give_have_a_profile() -> None:
    assert {row.key for row in ROWS} == {row.key for row in FIELDS}
    assert {row.key for row in WITH_PROFILE} == {row.key for row in FIELDS if row.profile}


@pytest.mark.parametrize("row", ROWS, ids=by_key)
def test_default(row: Row) -> None:
    assert row.read(worker(row.beside)) == row.default
    assert source(row.beside, row.key) not in (Source.ANNOTATION, Source.PROFILE)


@pytest.mark.parametrize("row", ROWS, ids=by_key)
def test_annotated(row: Row) -> None:
    profile = a_profile({}) if row.key == "workload-profile" else None
    annotations = {**row.beside, row.key: row.text}
    assert row.read(worker(annotations, profile)) == row.annotated
    assert source(annotations, row.key, profile) is Source.ANNOTATION


@pytest.mark.parametrize("row", WITH_PROFILE, ids=by_key)
def test_a_profile_gives_what_is_not_annotated(row: Row) -> None:
    assert row.read(worker(row.beside, row.profile)) == row.from_profile
    assert source(row.beside, row.key, row.profile) is Source.PROFILE


@pytest.mark.parametrize("row", WITH_PROFILE, ids=by_key)
def test_an_annotation_beats_the_profile(row: Row) -> None:
    annotations = {**row.beside, row.key: row.text}
    assert row.read(worker(annotations, row.profile)) == row.annotated
    assert source(annotations, row.key, row.profile) is Source.ANNOTATION


OFF = [
    ("is-local-gpu", {"isLocalGPU": True}, lambda w: w.mode, Mode.REMOTE),
    ("dedicated-gpu", {"dedicatedGPU": True, "gpuModel": "A100"}, lambda w: w.dedicated, False),
    ("autoscale", {"autoScalingConfig": {"autoSetResources": {"enable": True}}}, lambda w: w.autoscale, None),
    ("standalone-worker-mode", {"isLocalGPU": True, "standaloneWorkerMode": True}, lambda w: w.mode, Mode.LOCAL),
]  # fmt: skip


@pytest.mark.parametrize(("key", "profile", "read", "expected"), OFF, ids=[row[0] for row in OFF])
def test_an_annotated_false_turns_off_what_a_profile_turns_on(
    key: str, profile: Any, read: Callable[[WorkerSpec], Any], expected: Any
) -> None:
    assert read(worker({**ENOUGH, key: "false"}, profile)) == expected


def test_an_annotated_gang_of_0_turns_off_a_profiles_gang() -> None:
    profile = {"gangScheduling": {"minMembers": 4, "timeout": "5m"}}
    assert worker({**ENOUGH, "gang-min-members": "0"}, profile).gang is None


ZEROS = {
    "resources": {"requests": {"tflops": 0, "vram": "0", "compute": "0"}, "limits": {"tflops": "0", "vram": 0, "compute": 0}},
    "gpuCount": 0,
    "gpuModel": "",
    "poolName": "",
    "partitionTemplateId": "",
    "gpuIndices": [],
    "disableFeatures": [],
    "gangScheduling": {"minMembers": 0, "timeout": ""},
}


def test_in_a_profile_0_and_empty_mean_not_given() -> None:
    plain, with_zeros = worker(ENOUGH), worker(ENOUGH, ZEROS)
    assert with_zeros.profile == ProfileRef("inference", 7)
    for name in WorkerSpec.__slots__:
        if name != "profile":
            assert getattr(with_zeros, name) == getattr(plain, name)


POOL_GIVES = {
    "qos": ({"qosConfig": {"defaultQoS": "low"}}, lambda w: w.qos, QoS.LOW),
    "is-local-gpu": ({"defaultUsingLocalGPU": True}, lambda w: w.mode, Mode.LOCAL),
    "vendor": ({"nodeManagerConfig": {"defaultVendor": "intel"}}, lambda w: w.vendor, Vendor.INTEL),
    "isolation": ({"nodeManagerConfig": {"defaultIsolationMode": "shared"}}, lambda w: w.isolation, Isolation.SHARED),
}


@pytest.mark.parametrize("key", POOL_GIVES)
def test_a_pool_gives_what_neither_pod_nor_profile_says(key: str) -> None:
    spec, read, expected = POOL_GIVES[key]
    resolution = ask(ENOUGH, pools=[a_pool({"componentConfig": IMAGES, **spec})])
    assert read(accepted(resolution)) == expected
    assert resolution.sources[key] is Source.POOL


@pytest.mark.parametrize("key", POOL_GIVES)
def test_annotation_and_profile_beat_the_pool(key: str) -> None:
    spec, read, _ = POOL_GIVES[key]
    row = next(row for row in ROWS if row.key == key)
    pools = [a_pool({"componentConfig": IMAGES, **spec})]
    assert read(accepted(ask({**ENOUGH, key: row.text}, pools=pools))) == row.annotated
    profiles = {"qos": "critical", "isLocalGPU": False, "vendor": "Google", "isolation": "hard"}
    expected = {"qos": QoS.CRITICAL, "is-local-gpu": Mode.REMOTE, "vendor": Vendor.GOOGLE, "isolation": Isolation.HARD}
    assert read(accepted(ask(ENOUGH, profile=profiles, pools=pools))) == expected[key]


@pytest.mark.parametrize(
    ("vendors", "expected"), [(["AMD"], Vendor.AMD), (["AMD", "NVIDIA"], Vendor.NVIDIA), ([], Vendor.NVIDIA)]
)
def test_a_pool_with_one_vendor_gives_that_vendor(vendors: list[str], expected: Vendor) -> None:
    assert accepted(ask(ENOUGH, pools=[a_pool(vendors=vendors)])).vendor is expected


def test_a_pools_default_vendor_beats_the_vendors_of_its_cards() -> None:
    pool = a_pool({"nodeManagerConfig": {"defaultVendor": "Hygon"}}, vendors=["AMD"])
    assert accepted(ask(ENOUGH, pools=[pool])).vendor is Vendor.HYGON


@pytest.mark.parametrize("qos", list(QoS))
def test_the_priority_class_follows_the_qos_unless_the_pod_names_one(qos: QoS) -> None:
    assert worker({**ENOUGH, "qos": qos.value}).priority_class == f"tensor-fusion-{qos.value}"
    named = raw_pod({**ENOUGH, "qos": qos.value}, priorityClassName="mine")
    assert accepted(ask({}, pod=named)).priority_class == "mine"


@pytest.mark.parametrize(
    ("owner", "annotated", "expected", "source"),
    [
        (Owner("Deployment", "chat"), None, "chat", Source.OWNER),
        (None, None, "chat-0", Source.POD),
        (Owner("CronJob", "nightly"), "shared", "shared", Source.ANNOTATION),
    ],
)
def test_the_workload_is_the_named_one_else_the_top_owner_else_the_pod(
    owner: Owner | None, annotated: str | None, expected: str, source: Source
) -> None:
    resolution = ask({**ENOUGH, **({"workload": annotated} if annotated else {})}, owner=owner)
    assert accepted(resolution).workload == expected
    assert resolution.sources["workload"] is source


def test_the_profile_that_was_read_is_recorded_with_its_generation() -> None:
    assert worker(ENOUGH, a_profile({}, generation=12)).profile == ProfileRef("inference", 12)


def test_a_profile_that_the_pod_does_not_name_gives_nothing() -> None:
    resolution = ask(ENOUGH, pod=None, profile=None)
    pools = {"main": a_pool()}
    assert resolve(raw_pod(ENOUGH), profile=a_profile({"qos": "critical"}), pools=pools) == resolution
