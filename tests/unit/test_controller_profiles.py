"""A profile that is edited, and the pods that were resolved with it (SPEC §3)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tensorfusion_iac.api import ENABLED_LABEL, Owner, WorkloadProfile, key, resolve
from tensorfusion_iac.api.worker import Compute, Unit, from_json
from tensorfusion_iac.controller.pods import resolved as read
from tensorfusion_iac.controller.profiles import as_edited

GIB = 2**30


def profile(requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **more: Any) -> WorkloadProfile:
    sides = {side: amounts for side, amounts in (("requests", requests), ("limits", limits)) if amounts}
    return WorkloadProfile.model_validate({"metadata": {"name": "p", "namespace": "ml"}, "spec": {"resources": sides} | more})


def resolved(with_: WorkloadProfile, **annotations: str) -> str:
    marks = {key(name.replace("_", "-")): value for name, value in annotations.items()}
    metadata = {
        "labels": {ENABLED_LABEL: "true"},
        "annotations": marks | {key("workload-profile"): "p", key("is-local-gpu"): "true"},
    }
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "app"}]}}
    found = resolve(pod, owner=Owner("Deployment", "chat", "u"), profile=with_)
    assert not found.problems
    return found.resolved()


def spec_of(edited: WorkloadProfile) -> dict[str, Any]:
    return edited.spec.model_dump(mode="json", by_alias=True, exclude_none=True)


EDITED = profile({"tflops": 20, "vram": "8Gi"}, {"tflops": 40, "vram": "9Gi"}, gpuCount=4, qos="high")


@pytest.mark.parametrize(
    ("first", "annotations"),
    [
        (profile({"tflops": 10, "vram": "4Gi"}, {"tflops": 10, "vram": "4Gi"}), {}),
        (profile({"tflops": 10, "vram": "4Gi"}, {"tflops": 10, "vram": "4Gi"}), {"vram_request": "2Gi", "qos": "low"}),
        (profile({"tflops": 10, "vram": "4Gi"}, {"tflops": 10, "vram": "4Gi"}), {"tflops_request": "5", "tflops_limit": "7"}),
        (profile({"compute": 10, "vram": "4Gi"}, {"compute": 10, "vram": "4Gi"}), {}),
    ],
    ids=["all of the profile", "a request of the pod's own", "compute of the pod's own", "another unit"],
)
def test_the_amounts_are_those_that_a_new_pod_would_get(first: WorkloadProfile, annotations: dict[str, str]) -> None:
    text = resolved(first, **annotations)
    found = as_edited(*read(text), spec_of(EDITED))
    new = from_json(resolved(EDITED, **annotations))
    amounts = ("compute_request", "compute_limit", "vram_request_bytes", "vram_limit_bytes")
    assert [getattr(found, name) for name in amounts] == [getattr(new, name) for name in amounts]


def test_what_follows_from_an_amount_follows_it_still() -> None:
    text = resolved(profile({"tflops": 10}, {"vram": "4Gi"}))
    found = as_edited(*read(text), {"resources": {"requests": {"tflops": 10}, "limits": {"vram": "6Gi"}}})
    assert (found.vram_request_bytes, found.vram_limit_bytes) == (6 * GIB, 6 * GIB)


def test_nothing_else_of_a_profile_reaches_a_running_pod() -> None:
    text = resolved(profile({"tflops": 10, "vram": "4Gi"}))
    found = as_edited(*read(text), spec_of(EDITED))
    before = from_json(text)
    assert (found.gpu_count, found.qos, found.isolation) == (before.gpu_count, before.qos, before.isolation)
    assert found.compute_request == Compute(Unit.TFLOPS, Decimal(20))


@pytest.mark.parametrize(
    "spec", [{}, {"resources": {"requests": {"tflops": "many"}}}, {"resources": 3}], ids=["empty", "wrong", "no object"]
)
def test_what_a_profile_no_longer_gives_stays(spec: dict[str, Any]) -> None:
    text = resolved(profile({"tflops": 10, "vram": "4Gi"}))
    assert as_edited(*read(text), spec) == from_json(text)
