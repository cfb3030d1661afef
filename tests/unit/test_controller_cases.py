"""Public bug reports about workloads, counters, quotas and autoscaling, each a test of the controller, with its case's number."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import pytest
from controller_values import DEPLOYMENT, GIB, NOW, effective, pod, worker
from planning_values import card
from scripted_server import Script

from tensorfusion_iac.api import names
from tensorfusion_iac.api.effective import Amount, Effective, EffectiveCard, to_text
from tensorfusion_iac.api.levels import QoS
from tensorfusion_iac.api.resources import GPUPool, GPUResourceQuota
from tensorfusion_iac.api.resources.autoscaling import AutoScalingConfig
from tensorfusion_iac.controller.metrics import Metrics
from tensorfusion_iac.controller.podindex import PodIndex
from tensorfusion_iac.controller.pods import reservation
from tensorfusion_iac.controller.pools import Fleet, NodeView, statuses
from tensorfusion_iac.controller.quotas import status_changes, used_of
from tensorfusion_iac.controller.scaling import Row, blank, learned
from tensorfusion_iac.controller.wanting import Subject, original_of, want
from tensorfusion_iac.controller.writing import NotHolderError, Writer
from tensorfusion_iac.kube.client import Client, Event
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.informer import Informer, running
from tensorfusion_iac.kube.resource import PODS
from tensorfusion_iac.planning.recommend import Ceiling, Policy, Side, policy_of

CARDS = tuple(card(f"GPU-{at}") for at in range(8))  # 100 TFLOPS and 80 GiB each
Pod = dict[str, Any]


def seen(*answers: list[Any] | Exception) -> PodIndex:
    """The pods as the controller has them after all that."""

    async def run() -> PodIndex:
        script = Script(*answers)
        informer = Informer(script, PODS)  # type: ignore[arg-type]
        index = PodIndex(informer, {})
        async with running(informer):
            await asyncio.wait_for(script.exhausted.wait(), 20)
        return index

    return asyncio.run(run())


def free(index: PodIndex) -> str:
    nodes = [NodeView("n0", {}, has_gpus=True, takes_pods=True)]
    pools = {"p": GPUPool.model_validate({"metadata": {"name": "p"}})}
    fleet = Fleet(pools, nodes, CARDS, list(index.reservations()), frozenset(), NOW)
    return str(dict(statuses(fleet, {}))["p"]["availableTFlops"])


def bound(name: str, uuid: str, **more: Any) -> Pod:
    return pod(name, owner=DEPLOYMENT, node="n0", card=uuid, **more)


def of_cards(name: str, gib: int, *uuids: str) -> Pod:
    amount = Amount(Decimal(10), gib * GIB, Decimal(10))
    text = to_text(Effective(tuple(EffectiveCard(uuid, amount, amount) for uuid in uuids)))
    return pod(name, node="n0", annotations={names.key("effective"): text})


# Case 1.
def test_a_deletion_that_was_lost_is_found_by_the_next_list() -> None:
    pods = [bound(f"a-{at}", one.uuid) for at, one in enumerate(CARDS)]
    assert free(seen(pods)) == "720"
    assert free(seen(pods, ApiError(410, "Expired", "too old"), [])) == "800"


# Case 2.
def test_a_controller_that_lost_its_lease_writes_nothing_whatever_it_believes() -> None:
    held = [True]
    writer = Writer(cast("Client", None), lambda: held[0], Metrics())
    held[0] = False
    for call in (
        writer.merge(PODS, pod(), {}), writer.create(PODS, pod()), writer.delete(PODS, pod()), writer.remove(PODS, pod()),
        writer.evict("ml", "a", "u"), writer.conditions(PODS, pod(), []),
    ):  # fmt: skip
        with pytest.raises(NotHolderError):
            asyncio.run(call)


# Case 17.
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing_however_often_it_is_told(phase: str) -> None:
    ended = bound("a", "GPU-0", phase=phase)
    again = ended | {"metadata": ended["metadata"] | {"resourceVersion": "2"}}
    index = seen([bound("a", "GPU-0")], [Event("MODIFIED", ended), Event("MODIFIED", again), Event("MODIFIED", again)])
    assert free(index) == "800"
    assert list(index.reservations("ml")) == []


def used(*pods: Pod, **total: Any) -> dict[str, Any]:
    quota = GPUResourceQuota.model_validate({"metadata": {"name": "q", "namespace": "ml"}, "spec": {"total": total}})
    held = [found for one in pods if (found := reservation(one)) is not None]
    return status_changes(quota, {}, used_of(held), "q", NOW)


def reasons(status: dict[str, Any]) -> set[str]:
    return {one["type"] for one in status["conditions"] if one["status"] == "True"}


# Case 34.
def test_a_quota_counts_each_gpu() -> None:
    status = used(of_cards("a", 2, "GPU-0", "GPU-1"), requests={"vram": "3Gi"})
    assert status["used"]["requests"]["vram"] == "4Gi"
    assert status["used"]["workers"] == 1
    assert "Exceeded" in reasons(status)


# Case 15.
def test_a_gpu_counts_once_however_many_containers_share_it() -> None:
    both = worker(containers=("app", "sidecar"))
    one = pod("a", spec=both, node="n0", annotations={names.key("effective"): effective("GPU-0")})
    assert used(one)["used"]["requests"]["vram"] == "4Gi"


# Case 35.
def test_whole_cards_count_as_all_that_they_have() -> None:
    amount = Amount(Decimal(100), 80 * GIB, Decimal(100))
    text = to_text(Effective((EffectiveCard("GPU-0", amount, amount),), exclusive=True))
    status = used(pod("a", spec=worker(dedicated=True), node="n0", annotations={names.key("effective"): text}))
    assert status["used"]["requests"] == {"tflops": "100", "vram": "80Gi", "compute": "100"}


# Case 39.
def test_what_is_free_is_nothing_where_more_is_held_than_there_is() -> None:
    pods = [bound(f"a-{at}", "GPU-0") for at in range(11)]  # 110 of 100 TFLOPS
    assert free(seen(pods)) == "700"


# Case 44.
def test_a_recommendation_is_never_above_a_card_or_what_the_quota_leaves() -> None:
    t0 = 1_767_258_000.0
    rows = [Row("u", "GPU-0", t0 + 30 * at, 1.0, 120 * GIB) for at in range(120)]
    memory = learned(blank(Policy()), rows, {"GPU-0": CARDS[0].capacity_mflops}, {"u"}, t0 + 3600)
    config = AutoScalingConfig.model_validate({"autoSetResources": {"enable": True, "maxVRAMResourcesRatio": "100"}})
    spec = worker(qos=QoS.CRITICAL)
    for most in (80, 24):  # the card; what a quota leaves
        ceiling = Ceiling(Side(100, 100), Side(most * GIB, most * GIB))
        assert config.auto_set_resources is not None
        subject = Subject(config, policy_of(config.auto_set_resources), spec, original_of(spec, CARDS[0]), ceiling)
        found = want(subject, memory, 120.0 * GIB, datetime.fromtimestamp(t0 + 3600, UTC)).amounts
        assert found is not None
        assert found.vram == Side(most * GIB, most * GIB)
