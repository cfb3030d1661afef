"""What the agent reads of pods: the system's annotations only, and nothing of what it cannot read."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from tensorfusion_iac.agent.pods import node_pod
from tensorfusion_iac.api.effective import Amount, Effective, EffectiveCard, to_text
from tensorfusion_iac.api.levels import Feature, Isolation, Mode, QoS
from tensorfusion_iac.api.names import key
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.worker import WorkerSpec, canonical, to_json

GIB = 2**30
CARD = "GPU-1"


def pod(*, exclusive: bool = False, limit_percent: str = "50", phase: str = "Running", **changes: Any) -> dict[str, Any]:
    members = {"isolation": Isolation.SOFT, "mode": Mode.LOCAL, "containers": ("main",)} | changes
    worker = WorkerSpec(
        pool=None, workload="w", qos=QoS.HIGH, priority_class="", vendor=Vendor.NVIDIA, gpu_count=1, **members
    )  # fmt: skip
    request, limit = Amount(Decimal(30), GIB, Decimal(10)), Amount(Decimal(156), 2 * GIB, Decimal(limit_percent))
    effective = Effective((EffectiveCard(CARD, request, limit),), exclusive)
    return {
        "metadata": {
            "name": "p", "namespace": "ns", "uid": "u",
            "annotations": {key("resolved"): canonical(to_json(worker, {})), key("effective"): to_text(effective)},
        },
        "status": {
            "phase": phase,
            "initContainerStatuses": [{"name": "sidecar", "containerID": "cri-o://bb"}],
            "containerStatuses": [{"name": "main", "containerID": "containerd://aa"}, {"name": "waiting"}],
        },
    }  # fmt: skip


def test_amounts_and_containers_are_read() -> None:
    found = node_pod(pod())
    assert found is not None
    assert (found.uid, found.namespace, found.name, found.qos, found.workload) == ("u", "ns", "p", QoS.HIGH, "w")
    limits = found.cards[CARD]
    assert (limits.request, limits.limit, limits.vram_request_bytes, limits.vram_limit_bytes) == (0.1, 0.5, GIB, 2 * GIB)
    assert limits.tflops_limit == 156
    assert found.containers == {"aa": "main", "bb": "sidecar"}
    assert found.cards_of == {"main": (CARD,)}
    assert found.paced
    assert found.memory_held


def test_the_record_of_who_sees_what_is_followed() -> None:
    raw = pod()
    raw["metadata"]["annotations"][key("container-gpus")] = json.dumps({"main": [CARD], "none": []})
    found = node_pod(raw)
    assert found is not None
    assert found.cards_of == {"main": (CARD,)}


def test_an_exclusive_pod_has_no_compute_limit() -> None:
    found = node_pod(pod(exclusive=True))
    assert found is not None
    assert found.cards[CARD].limit == 1.0


@pytest.mark.parametrize(
    ("changes", "paced", "memory_held"),
    [
        ({}, True, True),
        ({"isolation": Isolation.SHARED}, False, False),
        ({"isolation": Isolation.HARD}, False, True),
        ({"isolation": Isolation.PARTITIONED}, False, False),
        ({"disable_features": (Feature.GPU_LIMITER,)}, False, True),
        ({"disable_features": (Feature.MEM_MANAGER,)}, True, False),
    ],
)
def test_isolation_and_disabled_features_decide_what_is_held(changes: dict[str, Any], paced: bool, memory_held: bool) -> None:
    found = node_pod(pod(**changes))
    assert found is not None
    assert (found.paced, found.memory_held) == (paced, memory_held)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing(phase: str) -> None:
    assert node_pod(pod(phase=phase)) is None


@pytest.mark.parametrize("name", ["resolved", "effective"])
@pytest.mark.parametrize("text", [None, "", "{}", "null", "[1]", '{"version":99}'])
def test_a_pod_that_cannot_be_read_is_none_of_ours(name: str, text: str | None) -> None:
    raw = pod()
    del raw["metadata"]["annotations"][key(name)]
    if text is not None:
        raw["metadata"]["annotations"][key(name)] = text
    assert node_pod(raw) is None


def test_the_users_own_keys_are_not_read() -> None:
    raw = pod()
    raw["metadata"]["annotations"] |= {key("isolation"): "shared", key("qos"): "critical", key("disable-features"): "gpu-limiter"}
    found = node_pod(raw)
    assert found is not None
    assert (found.isolation, found.qos, found.paced) == (Isolation.SOFT, QoS.HIGH, True)


def test_more_than_a_card_is_the_whole_card() -> None:
    found = node_pod(pod(limit_percent="250"))
    assert found is not None
    assert found.cards[CARD].limit == 1.0
