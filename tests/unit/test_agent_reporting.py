"""Reports: what the objects say, written when they change, at most once a second, and in the end whatever happens."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tensorfusion_iac.agent import objects, reporting
from tensorfusion_iac.agent.capabilities import CardCapabilities, Injection, injection
from tensorfusion_iac.agent.driver import Card, Instance
from tensorfusion_iac.agent.enforcer import ContainerUse
from tensorfusion_iac.agent.health import Health, State
from tensorfusion_iac.agent.history import BUCKET_S, KEPT, UsageHistory
from tensorfusion_iac.agent.objects import Held
from tensorfusion_iac.agent.partitions import Partitioned
from tensorfusion_iac.agent.pods import CardLimits, NodePod
from tensorfusion_iac.agent.reporting import Reporter
from tensorfusion_iac.api.levels import Isolation, QoS
from tensorfusion_iac.api.resources.gpu import GPU, GPUNode
from tensorfusion_iac.kube.errors import ApiError, ApiUnreachable
from tensorfusion_iac.kube.resource import GPUS
from tensorfusion_iac.planning.cards import read_card

GIB = 2**30
CARD = Card(3, "GPU-AB", "NVIDIA A100-SXM4-80GB", 79 * GIB, 1, (("GPU-CD", 12),), can_partition=True)
ABLE = CardCapabilities("615.71", "driver", "freezer", mps=True, mig=True)
LIMITS = CardLimits(0.1, 0.5, GIB, 2 * GIB, Decimal("156"))
POD = NodePod("u", "ns", "p", QoS.MEDIUM, Isolation.SOFT, {CARD.uuid: LIMITS}, {"aa": "main"}, cards_of={"main": (CARD.uuid,)})
PLACE = (POD.uid, CARD.uuid)


def status(pod: NodePod = POD, held: Held | None = None, card: Card = CARD, **changes: Any) -> dict[str, Any]:
    members: dict[str, Any] = {
        "health": Health(), "used_by": "tensor-fusion", "capabilities": ABLE, "partitioned": Partitioned(),
    } | changes  # fmt: skip
    return objects.gpu_status(card, "node", pods={pod.uid: pod}, held=held or Held({PLACE: 2 * GIB}), **members)


def test_the_objects_are_ones_that_our_models_and_our_scheduler_read() -> None:
    gpu = {"metadata": objects.gpu_metadata(CARD, "node", "n-uid"), "status": status()}
    model = GPU.model_validate({"apiVersion": "tensor-fusion.ai/v1", "kind": "GPU", **gpu})
    assert model.metadata.name == "gpu-ab"
    assert model.status is not None
    assert model.status.pods is not None
    facts = read_card(gpu)
    assert facts is not None
    assert (facts.uuid, facts.node, facts.model, facts.capacity_vram_bytes) == ("GPU-AB", "node", "A100_SXM_80G", 79 * GIB)
    assert facts.vram_seen
    node_status = objects.gpu_node_status([CARD], {CARD.uuid: "tensor-fusion"}, Injection("env"), "1.0")
    node = GPUNode.model_validate({"metadata": objects.gpu_node_metadata("node", "n-uid"), "status": node_status})
    assert node.status is not None
    assert (node.status.total_gpus, node.status.managed_gpus, node.status.injection_tier) == (1, 1, "env")


@pytest.mark.parametrize(
    ("pod", "held", "capabilities", "enforced_by"),
    [
        (POD, Held({PLACE: 2 * GIB}), ABLE, "vram=driver,compute=freezer"),
        (POD, Held({}), ABLE, "vram=none,compute=freezer"),
        (POD, Held({}), replace(ABLE, vram_limit="watch"), "vram=watch,compute=freezer"),
        (replace(POD, isolation=Isolation.SHARED), Held({}), ABLE, "vram=none,compute=none"),
        (replace(POD, isolation=Isolation.HARD), Held({PLACE: GIB}, mps=frozenset({"u"})), ABLE, "vram=driver,compute=mps"),
        (replace(POD, isolation=Isolation.HARD), Held({PLACE: GIB}), ABLE, "vram=driver,compute=none"),
        (replace(POD, isolation=Isolation.PARTITIONED), Held({}), ABLE, "vram=mig,compute=mig"),
        (replace(POD, holds_compute=False), Held({PLACE: GIB}), ABLE, "vram=driver,compute=none"),
        (replace(POD, holds_memory=False), Held({}), ABLE, "vram=none,compute=freezer"),
    ],
)
def test_a_pod_is_told_what_really_holds_it(pod: NodePod, held: Held, capabilities: CardCapabilities, enforced_by: str) -> None:
    (row,) = status(pod, held, capabilities=capabilities)["pods"]
    assert row["enforcedBy"] == enforced_by


def test_only_a_confirmed_limit_is_told_as_applied() -> None:
    assert status(held=Held({PLACE: 2 * GIB}))["pods"][0]["applied"] == {"tflops": "156", "vram": "2Gi"}
    assert status(held=Held({}))["pods"][0]["applied"] == {"tflops": "156"}


def test_a_limit_that_cannot_be_kept_is_said_to_be_unreachable() -> None:
    assert status()["pods"][0]["computeLimit"] == "Held"
    assert status(held=Held({}, frozenset({PLACE})))["pods"][0]["computeLimit"] == "Unreachable"


def test_health_partitions_and_an_unknown_model_are_told() -> None:
    told = status(
        health=Health(State.UNHEALTHY, "XID 79"), card=replace(CARD, product="NVIDIA X9000"),
        partitioned=Partitioned(((Instance("1g.10gb", 0, 1, "MIG-1"), "u"),), "2g.20gb at 2 is not made: no room"),
    )  # fmt: skip
    assert (told["health"], told["model"], told["capacity"]["tflops"]) == ("Unhealthy", "NVIDIA X9000", "0")
    assert all(part in told["message"] for part in ("XID 79", "not made", "catalogue"))
    assert told["partitions"] == [{"template": "1g.10gb", "start": 0, "size": 1, "uuid": "MIG-1", "podUID": "u"}]


@pytest.mark.parametrize(
    ("config", "allocatable", "tier", "word"),
    [
        ("", {}, "env", ""),
        ('[nvidia-container-runtime]\nmode = "auto"', {}, "env", ""),
        (None, {}, "none", "install"),
        ("accept-nvidia-visible-devices-envvar-when-unprivileged = false", {}, "none", "set it to true"),
        ('[nvidia-container-runtime]\nmode = "cdi"', {}, "none", "cdi"),
        ("= nonsense", {}, "none", "cannot be read"),
        ("", {"nvidia.com/gpu": "8"}, "none", "device plugin"),
        ("", {"nvidia.com/gpu": "0"}, "env", ""),
    ],
)
def test_the_injection_tier_comes_with_what_to_do(config: str | None, allocatable: dict[str, str], tier: str, word: str) -> None:
    found = injection(config, {"status": {"allocatable": allocatable}})
    assert found.tier == tier
    assert word in found.advice
    assert bool(found.advice) == (tier == "none")


class Server:
    """Takes applies; fails as it is told to."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.statuses: list[Any] = []

    async def apply(self, resource: Any, body: dict[str, Any], manager: str, *, subresource: str | None = None) -> None:
        if self.failures:
            raise self.failures.pop(0)
        if subresource == "status":
            self.statuses.append(body["status"]["n"])


def reported(scenario: Any, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(reporting, "LEAST_PAUSE_S", 0.2)
    monkeypatch.setattr(reporting, "RETRY_S", 0.05)

    async def run() -> Server:
        server = Server()
        reporter = Reporter(server)  # type: ignore[arg-type]
        task = asyncio.create_task(reporter.run())
        await asyncio.wait_for(scenario(server, reporter), 20)
        task.cancel()
        return server

    return asyncio.run(run())


def want(reporter: Reporter, number: int) -> None:
    reporter.want(GPUS, {"name": "a"}, {"n": number})


async def until(server: Server, last: int) -> None:
    while not server.statuses or server.statuses[-1] != last:
        await asyncio.sleep(0.01)


def test_what_changes_fast_is_written_seldom_and_the_last_word_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(server: Server, reporter: Reporter) -> None:
        for number in range(40):
            want(reporter, number)
            await asyncio.sleep(0.005)
        await until(server, 39)

    assert len(reported(scenario, monkeypatch).statuses) <= 5


def test_what_does_not_change_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(server: Server, reporter: Reporter) -> None:
        for _ in range(30):
            want(reporter, 1)
            await asyncio.sleep(0.01)
        await until(server, 1)

    assert reported(scenario, monkeypatch).statuses == [1]


@pytest.mark.parametrize(
    "failure", [ApiUnreachable("server", OSError("refused")), ApiError(404, "NotFound", "no such kind"), ApiError(500, "x", "y")]
)
def test_after_an_outage_the_newest_is_written(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    async def scenario(server: Server, reporter: Reporter) -> None:
        server.failures = [failure] * 3
        want(reporter, 1)
        await asyncio.sleep(0.02)
        want(reporter, 2)
        await until(server, 2)

    assert reported(scenario, monkeypatch).statuses[-1] == 2


def test_an_object_that_somebody_deleted_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(server: Server, reporter: Reporter) -> None:
        want(reporter, 1)
        await until(server, 1)
        server.statuses.clear()
        reporter.lost(GPUS, "a")
        await until(server, 1)

    assert reported(scenario, monkeypatch).statuses == [1]


def use(compute: float, vram_bytes: int, container: str = "main") -> ContainerUse:
    return ContainerUse("u", container, "card", compute, vram_bytes, 0.1)


def test_the_history_has_means_and_peaks_of_half_minutes_of_all_containers_together() -> None:
    history = UsageHistory()
    for second, compute in ((0, 0.2), (10, 0.4), (20, 0.6), (31, 0.1)):
        history.add([use(compute, 100), use(0.1, 50, "sidecar")], 1200 + second)
    assert history.since(0) == [{"podUID": "u", "gpu": "card", "rows": [[1200, 0.5, 0.7, 150], [1230, 0.2, 0.2, 150]]}]
    assert history.since(1230)[0]["rows"] == [[1230, 0.2, 0.2, 150]]
    assert history.since(1231) == []


def test_the_history_is_bounded_and_forgets_pods_that_went() -> None:
    history = UsageHistory()
    for number in range(KEPT + 50):
        history.add([use(0.5, 1)], number * BUCKET_S)
    assert len(history.since(0)[0]["rows"]) == KEPT
    history.forget(set())
    assert history.since(0) == []
