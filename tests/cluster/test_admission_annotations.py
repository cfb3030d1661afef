"""Every annotation of SPEC §2, end to end: its default, its precedence over a profile, good values and bad ones.

Each case is a pod that is sent to the API server (as a dry run) and comes back as it would be stored, or is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from running_plane import ControlPlane
from running_webhook import NAMESPACE, apply, pod, resolved, tried

from tensorfusion_iac.api import FIELDS, key
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError

pytestmark = pytest.mark.cluster

GIB = 1 << 30
BASE = {"vram-request": "1Gi"}
NEVER = ("", " ", "?!")
"""Values that no annotation takes."""


@dataclass(frozen=True)
class Row:
    """One annotation. `at` is where the value is in `resolved`; `with_` are annotations beside it in every case.

    `good` are texts with what they resolve to; `profile` is a profile's spec and what it resolves to where the pod says
    nothing; a profile and an annotation together give the annotation's value. `bad` are texts that are refused.
    """

    at: str
    default: Any
    good: Mapping[str, Any]
    bad: tuple[str, ...] = ()
    profile: tuple[dict[str, Any], Any] | None = None
    with_: Mapping[str, str] = field(default_factory=lambda: BASE)
    containers: tuple[str, ...] = ("main",)


def amounts(side: str, **values: Any) -> dict[str, Any]:
    return {"resources": {side: values}}


PARTITIONED = {**BASE, "isolation": "partitioned"}
AUTOSCALED = {"autoScalingConfig": {"autoSetResources": {"enable": True, "targetResource": "vram"}}}
TABLE = {
    "tflops-request": Row(
        "requests.tflops", None, {"10": "10", "0.5": "0.5", "500m": "0.5", "312.5": "312.5"},
        ("abc", "-1", "0", "NaN", "100%", "10Ti", "1e30", "100000"), (amounts("requests", tflops="30"), "30"),
    ),
    "tflops-limit": Row(
        "limits.tflops", None, {"20": "20"}, ("5 ", "-5", "0", "9"), (amounts("limits", tflops="40"), "40"),
        {**BASE, "tflops-request": "10"},
    ),
    "vram-request": Row(
        "requests.vram", None, {"4Gi": 4 * GIB, "1.5Gi": 3 * GIB // 2, "4G": 4 * 10**9, "1048576": 1 << 20},
        ("4 Gi", "4", "-1Gi", "10Ti", "9223372036854775808", "4gb"), (amounts("requests", vram="8Gi"), 8 * GIB),
        {"tflops-request": "1"},
    ),
    "vram-limit": Row(
        "limits.vram", GIB, {"2Gi": 2 * GIB}, ("512Mi", "0", "20Ti"), (amounts("limits", vram="6Gi"), 6 * GIB),
    ),
    "compute-percent-request": Row(
        "requests.percent", None, {"50": "50", "0.5": "0.5", "100": "100"}, ("101", "-1", "NaN", "Inf", "50%", "１０"),
        (amounts("requests", compute="30"), "30"),
    ),
    "compute-percent-limit": Row(
        "limits.percent", None, {"60": "60"}, ("0", "101", "49"), (amounts("limits", compute="70"), "70"),
        {**BASE, "compute-percent-request": "50"},
    ),
    "inject-container": Row(
        "containers", ["main"], {"main": ["main"]}, ("nobody", "main,,main", "Main", "main,main"),
    ),
    "qos": Row("qos", "medium", {"low": "low", "critical": "critical"}, ("urgent", "High"), ({"qos": "high"}, "high")),
    "is-local-gpu": Row(
        "mode", "local", {"false": "remote", "true": "local"}, ("yes", "True", "1"), ({"isLocalGPU": False}, "remote"),
        {**BASE, "gpupool": "images"},
    ),
    "gpu-count": Row("gpuCount", 1, {"1": 1, "128": 128}, ("0", "129", "-1", "1.5", "two"), ({"gpuCount": 4}, 4)),
    "gpupool": Row("pool", "default", {"images": "images"}, ("nowhere", "Default"), ({"poolName": "images"}, "images")),
    "vendor": Row(
        "vendor", "NVIDIA", {"AMD": "AMD", "ascend": "Ascend", "mooreThreads": "MThreads"}, ("Nvidiaa", "Apple"),
        ({"vendor": "Intel"}, "Intel"),
    ),
    "gpu-model": Row(
        "gpuModel", None, {"A100": "A100", "l40s": "l40s", "B999": "B999"}, (" A100", "A100\n"), ({"gpuModel": "T4"}, "T4"),
    ),
    "dedicated-gpu": Row(
        "dedicated", None, {"true": True}, ("yes",), ({"dedicatedGPU": True, "gpuModel": "T4"}, True),
        {"gpu-model": "A100", "isolation": "shared"},
    ),
    "isolation": Row(
        "isolation", "soft", {"shared": "shared", "hard": "hard", "partitioned": "partitioned"}, ("none", "Soft"),
        ({"isolation": "hard"}, "hard"),
    ),
    "gpu-indices": Row(
        "gpuIndices", None, {"0": [0], "3, 1": [3, 1]}, ("-1", "0,0", "a", "0,,1", "0;1"), ({"gpuIndices": [5]}, [5]),
    ),
    "container-gpu-count": Row(
        "containerGPUs", None, {'{"main":2}': [["main", 2], ["side", 0]], '{"main":1,"side":3}': [["main", 1], ["side", 3]]},
        ("3", "{}", '{"nobody":1}', '{"main":-1}', '{"main":1,"main":2}', '{"main":0.5}'),
        with_={**BASE, "inject-container": "main,side"}, containers=("main", "side"),
    ),
    "workload": Row("workload", "it", {"shared-workers": "shared-workers"}, ("Upper", "a" * 64, "-a")),
    "workload-profile": Row("profile.name", None, {"empty": "empty"}, ("missing", "Upper")),
    "enabled-replicas": Row("enabledReplicas", None, {"1": 1, "2147483647": 2147483647}, ("-1", "1.5", "2147483648", "all")),
    "autoscale": Row("autoscale", None, {"false": None, "true": "all"}, ("on",), (AUTOSCALED, "vram")),
    "autoscale-target": Row(
        "autoscale", "all", {"compute": "compute", "vram": "vram"}, ("gpu",), (AUTOSCALED, "vram"),
        {**BASE, "autoscale": "true"},
    ),
    "standalone-worker-mode": Row(
        "mode", "local", {"true": "standalone", "false": "local"}, ("yes",), ({"standaloneWorkerMode": True}, "standalone"),
        {**BASE, "gpupool": "images"},
    ),
    "disable-features": Row(
        "disableFeatures", None, {"gpu-limiter": ["gpu-limiter"], "gpu-opt, mem-manager": ["gpu-opt", "mem-manager"]},
        ("turbo", "gpu-limiter,", "gpu-limiter,gpu-limiter"), ({"disableFeatures": ["gpu-opt"]}, ["gpu-opt"]),
    ),
    "partition-template": Row(
        "partitionTemplate", None, {"1g.10gb": "1g.10gb"}, ("big", "1g"), ({"partitionTemplateId": "2g.20gb"}, "2g.20gb"),
        PARTITIONED,
    ),
    "eviction-protection": Row("evictionProtectionSeconds", None, {"30m": 1800, "1h30m": 5400}, ("30", "-1m", "1y", "8761h")),
    "gang-min-members": Row(
        "gang.minMembers", None, {"2": 2, "0": None}, ("1", "-2", "many"), ({"gangScheduling": {"minMembers": 3}}, 3),
    ),
    "gang-timeout": Row(
        "gang.timeoutSeconds", None, {"5m": 300}, ("5", "soon"), ({"gangScheduling": {"timeout": "10m"}}, 600),
        {**BASE, "gang-min-members": "2"},
    ),
}  # fmt: skip


def at(document: Any, path: str) -> Any:
    for part in path.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def profile_name(name: str) -> str:
    return f"for-{name}"


@pytest.fixture(scope="module")
def plane(admission: ControlPlane) -> Iterator[ControlPlane]:
    profiles = {"empty": {}} | {profile_name(name): row.profile[0] for name, row in TABLE.items() if row.profile}
    apply(
        admission,
        *(
            {
                "apiVersion": "tensor-fusion.ai/v1", "kind": "WorkloadProfile",
                "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec,
            }
            for name, spec in profiles.items()
        ),
    )  # fmt: skip
    yield admission
    admission.kubectl("delete", "workloadprofiles", "--all", "-n", NAMESPACE)


def made(row: Row, annotations: Mapping[str, str]) -> dict[str, Any]:
    return pod({**row.with_, **annotations}, *({"name": name, "image": "app:1"} for name in row.containers))


def ask(plane: ControlPlane, *pods: dict[str, Any]) -> list[dict[str, Any] | ApiError]:
    async def all_of(client: Client) -> list[dict[str, Any] | ApiError]:
        return list(await asyncio.gather(*(tried(client, item) for item in pods)))

    return plane.ask(all_of)


def test_the_table_has_every_annotation() -> None:
    assert set(TABLE) == {row.key for row in FIELDS}


@pytest.mark.parametrize("name", TABLE)
def test_default(plane: ControlPlane, name: str) -> None:
    row = TABLE[name]
    (found,) = ask(plane, made(row, {}))
    assert at(resolved(found), row.at) == row.default


@pytest.mark.parametrize("name", TABLE)
def test_good_values(plane: ControlPlane, name: str) -> None:
    row = TABLE[name]
    answers = ask(plane, *(made(row, {name: text}) for text in row.good))
    assert {text: at(resolved(found), row.at) for text, found in zip(row.good, answers, strict=True)} == row.good


@pytest.mark.parametrize("name", TABLE)
def test_bad_values_are_refused_by_name(plane: ControlPlane, name: str) -> None:
    texts = (*NEVER, *TABLE[name].bad)
    for text, found in zip(texts, ask(plane, *(made(TABLE[name], {name: text}) for text in texts)), strict=True):
        assert isinstance(found, ApiError), f"{name}: {text!r} is taken"
        assert found.status == 422, text
        assert f"\n  {key(name)}: " in found.message, text


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.profile])
def test_a_profile_holds_where_the_pod_says_nothing_and_the_pod_wins(plane: ControlPlane, name: str) -> None:
    row = TABLE[name]
    assert row.profile is not None
    named = {"workload-profile": profile_name(name)}
    text, value = next(iter(row.good.items()))
    without = {short: given for short, given in row.with_.items() if short != name}
    alone, together = ask(plane, made(row, named), made(row, {**without, **named, name: text}))
    assert at(resolved(alone), row.at) == row.profile[1]
    assert at(resolved(together), row.at) == value
