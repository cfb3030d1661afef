"""P8 of TARGETS.md: `api.resolve` (annotations, profile, pool -> worker spec) against pydantic reading the same annotations.

Ours: `resolve` of a raw pod with nine annotations, with its profile and its pool (objects that a watch cache holds), to a
worker spec with the source of every field. Baseline: one `model_validate` of a plain pydantic model of the same nine
annotations with typed fields, each value held to SPEC's rule for it (quantities by a short parser of their grammar and
bounds, an enum, a strict bool and int, names by pattern), without our messages. It has no rule between fields, no profile,
no pool, no containers, and no cache. Ours has lru_caches of parsed texts, never of
resolutions; so two loads are measured. Typical: common sizes, which recur as they do in a cluster. All different: no amount
comes twice, so that a cache only costs.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from typing import Annotated, Any

import measure
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from tensorfusion_iac.api import PREFIX, GPUPool, Owner, QoS, WorkloadProfile, resolve

GOAL_RATIO = 3.0
GOAL_PER_S = 10_000
PODS = 2_000
SEED = 8
LEVELS = [level.value for level in QoS]

Pod = dict[str, Any]

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,2}))?")
_WHOLE = re.compile(r"0|[1-9][0-9]{0,9}")
_SCALE: dict[str | None, Decimal] = {
    None: Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"),
    **{suffix: Decimal(1000**power) for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{suffix: Decimal(1024**power) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}  # fmt: skip


def _quantity(text: str) -> Decimal:
    match = _QUANTITY.fullmatch(text) if len(text) <= 32 else None
    if match is None:
        raise ValueError("not a Kubernetes quantity")
    number, suffix, exponent = match.groups()
    return Decimal(number).scaleb(int(exponent)) if exponent else Decimal(number) * _SCALE[suffix]


def _bytes(text: str) -> int:
    value = _quantity(text)
    if value < 2**20 and text[-1] in "0123456789.":
        raise ValueError("less than 1Mi, in bytes")
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def _whole(text: str) -> int:
    if _WHOLE.fullmatch(text) is None:
        raise ValueError("not a whole number")
    return int(text)


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("not true or false")
    return text == "true"


def _names(text: str) -> list[str]:
    return [name.strip(" ") for name in text.split(",")]


Tflops = Annotated[Decimal, BeforeValidator(_quantity), Field(gt=0, lt=100_000)]
Bytes = Annotated[int, BeforeValidator(_bytes), Field(gt=0, lt=10 * 2**40)]
Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Name = Annotated[
    str, StringConstraints(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
]


class BareQoS(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Bare(BaseModel):
    """The nine annotations of the published example, each value held to SPEC's rule for it, and nothing else."""

    model_config = ConfigDict(frozen=True)

    inject_container: Annotated[tuple[Label, ...], BeforeValidator(_names)] = Field(alias=f"{PREFIX}inject-container")
    tflops_limit: Tflops = Field(alias=f"{PREFIX}tflops-limit")
    tflops_request: Tflops = Field(alias=f"{PREFIX}tflops-request")
    vram_limit: Bytes = Field(alias=f"{PREFIX}vram-limit")
    vram_request: Bytes = Field(alias=f"{PREFIX}vram-request")
    qos: BareQoS = Field(alias=f"{PREFIX}qos")
    workload_profile: Name = Field(alias=f"{PREFIX}workload-profile")
    is_local_gpu: Annotated[bool, BeforeValidator(_flag)] = Field(alias=f"{PREFIX}is-local-gpu")
    gpu_count: Annotated[int, BeforeValidator(_whole), Field(ge=1, le=128)] = Field(alias=f"{PREFIX}gpu-count")


def pod(tflops: int | str, vram: int | str, qos: str, gpus: int) -> Pod:
    """A pod with nine annotations; the limits are the requests."""
    annotations = {
        "inject-container": "python",
        "tflops-limit": str(tflops),
        "tflops-request": str(tflops),
        "vram-limit": f"{vram}Mi",
        "vram-request": f"{vram}Mi",
        "qos": qos,
        "workload-profile": "default-profile",
        "is-local-gpu": "true",
        "gpu-count": str(gpus),
    }
    return {
        "metadata": {
            "name": "web-7d4b9c",
            "labels": {f"{PREFIX}enabled": "true", "app": "web"},
            "annotations": {PREFIX + key: text for key, text in annotations.items()},
        },
        "spec": {"containers": [{"name": "python", "image": "app:1", "resources": {"limits": {"cpu": "1"}}}]},
    }


def typical_pods(chance: random.Random) -> list[Pod]:
    """Common sizes that recur: 20 x 20 x 4 x 4 combinations."""
    sizes = [1024 * gib for gib in range(1, 21)]
    return [
        pod(5 * chance.randint(1, 20), chance.choice(sizes), chance.choice(LEVELS), 2 ** chance.randint(0, 3))
        for _ in range(PODS)
    ]


def different_pods() -> Callable[[], list[Pod]]:
    """Pods of which no two, over all repeats, have an amount in common."""
    count = itertools.count(1)

    def make() -> list[Pod]:
        return [
            pod(f"{1 + n % 300}.{n:06d}", f"{2048 + n % 8192}.{n:06d}", LEVELS[n % 4], 1 + n % 8)
            for n in itertools.islice(count, PODS)
        ]

    return make


def main() -> int:
    profile = WorkloadProfile.model_validate(
        {
            "metadata": {"name": "default-profile", "generation": 3},
            "spec": {
                "resources": {"requests": {"tflops": "5", "vram": "3Gi"}, "limits": {"tflops": "15", "vram": "3Gi"}},
                "isLocalGPU": True, "poolName": "default-pool", "qos": "medium", "gpuCount": 1, "gpuModel": "A100",
            },
        }
    )  # fmt: skip
    pool = GPUPool.model_validate(
        {
            "metadata": {"name": "default-pool", "annotations": {f"{PREFIX}is-default-pool": "true"}},
            "spec": {"qosConfig": {"defaultQoS": "low"}},
        }
    )
    pools, owner = {"default-pool": pool}, Owner("Deployment", "web", "4f1c")

    def ours(pods: Sequence[Pod]) -> None:
        for one in pods:
            resolve(one, owner=owner, profile=profile, pools=pools)

    def bare(pods: Sequence[Pod]) -> None:
        for one in pods:
            Bare.model_validate(one["metadata"]["annotations"])

    typical = typical_pods(random.Random(SEED))
    for one in [*typical, *different_pods()()]:
        found = resolve(one, owner=owner, profile=profile, pools=pools)
        assert found.worker is not None, found.problems
        assert not found.warnings, found.warnings
    repeats = measure.repeats(25)
    often = measure.interleaved(_on(lambda: typical, ours), _on(lambda: typical, bare), repeats)
    fresh = different_pods()
    never = measure.interleaved(_on(fresh, ours), _on(fresh, bare), repeats)
    rows = []
    for what, pair in (("resolve, typical pods", often), ("resolve, all values different", never)):
        ours_us, bare_us = (series.median / PODS * 1e6 for series in (pair.ours, pair.baseline))
        print(measure.describe(f"{what}: ours", pair.ours, "us of CPU a pod", 1e6 / PODS))
        print(measure.describe(f"{what}: one bare model_validate", pair.baseline, "us of CPU a pod", 1e6 / PODS))
        print(measure.describe(f"{what}: ratio", pair.ratio, "x"))
        ratio = pair.ratio.median
        rows.append(measure.Row("P8", what, ours_us, "us", bare_us, ratio, f"<= {GOAL_RATIO:g} x", ratio <= GOAL_RATIO))
    per_s = PODS / often.ours.median
    rows.append(
        measure.Row("P8", "resolve on one core, typical pods", per_s, "pods/s", PODS / often.baseline.median, None,
                    f"about {GOAL_PER_S:,} pods/s", per_s >= GOAL_PER_S)
    )  # fmt: skip
    return measure.report(rows)


def _on(fresh: Callable[[], list[Pod]], work: Callable[[Sequence[Pod]], None]) -> Callable[[], float]:
    """A measurement of CPU time that makes its pods before the clock starts."""

    def seconds() -> float:
        pods = fresh()
        return measure.timed(lambda: work(pods), time.process_time)()

    return seconds


if __name__ == "__main__":
    raise SystemExit(main())
