"""Partitions, gangs and resizes under the real kube-scheduler, with agents that do what is asked of them (SPEC §6, §8, §9)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from gpu_plane import GIB, GpuPlane, annotation, cards_of, gpu_plane, percent, pod, vram, wait_ready, worker

from tensorfusion_iac.api import desired, names
from tensorfusion_iac.api.desired import Desired
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.worker import Compute, Gang, Unit, WorkerSpec
from tensorfusion_iac.kube.client import Client, PatchType
from tensorfusion_iac.kube.resource import GPUS, PODS
from tensorfusion_iac.local.state import NodeGroup

pytestmark = pytest.mark.cluster
GROUPS = (NodeGroup(model="A100_SXM_80G", gpus_per_node=2, nodes=2),)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuPlane]:
    with gpu_plane(tmp_path_factory.mktemp("life") / "plane", GROUPS, os.getpid()) as made:
        yield made


@pytest.fixture
def ns(plane: GpuPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    name = plane.namespace(request.node.name.replace("_", "-")[5:60].strip("-"))
    yield name
    plane.delete(name, *(item["metadata"]["name"] for item in plane.pods(name)))


def part(template: str | None = None, **more: Any) -> WorkerSpec:
    return worker(isolation=Isolation.PARTITIONED, partition_template=template, **more)


def ask(plane: GpuPlane, namespace: str, name: str, wanted: Desired) -> None:
    body = {"metadata": {"annotations": {names.key("desired"): desired.to_text(wanted)}}}
    plane.ask(lambda client: client.patch(PODS, name, body, PatchType.MERGE, namespace))


def effective(plane: GpuPlane, namespace: str, name: str) -> dict[str, Any]:
    item = plane.ask(lambda client: client.get(PODS, name, namespace))
    found: dict[str, Any] = json.loads(annotation(item, "effective"))["cards"][0]
    return found


# Hardware partitions.


def test_a_partition_is_made_before_the_pod_is_bound_and_taken_apart_after_it(plane: GpuPlane, ns: str) -> None:
    plane.create(*(pod(ns, f"part-{at}", part("1g.10gb")) for at in range(7)))
    bound = plane.bound(ns, 7)
    assert len({card for item in bound for card in cards_of(item)}) == 1
    instances = {annotation(item, "partition-ids") for item in bound}
    assert len(instances) == 7
    assert all(annotation(item, "visible-devices.app") == annotation(item, "partition-ids") for item in bound)
    plane.delete(ns, *(item["metadata"]["name"] for item in bound))

    async def empty(client: Client) -> bool:
        return not any((gpu.get("spec") or {}).get("partitions") for gpu in (await client.list(GPUS)).items)

    plane.until("no partition is wanted any more", empty)


def test_a_living_partition_is_kept_when_its_neighbours_change(plane: GpuPlane, ns: str) -> None:
    plane.create(pod(ns, "stays", part("3g.40gb")))
    (stays,) = plane.bound(ns, 1)
    for at in range(3):
        plane.create(pod(ns, f"brief-{at}", part("1g.10gb")))
        plane.bound(ns, 2)
        plane.delete(ns, f"brief-{at}")

    async def there(client: Client) -> bool:
        gpu = await client.get(GPUS, cards_of(stays)[0].lower())
        return [one["uuid"] for one in gpu["status"].get("partitions") or ()] == [annotation(stays, "partition-ids")]

    plane.until("only the living instance, the same as before", there)


def test_where_the_agent_makes_no_partition_the_bind_is_rolled_back(plane: GpuPlane, ns: str) -> None:
    with plane.agents_paused():
        plane.create(pod(ns, "never", part("7g.80gb")))

        async def failed(client: Client) -> bool:
            return any("did not make the hardware partition in time" in line for line in plane.extender.log)

        plane.until("the bind that failed", failed)
        plane.delete(ns, "never")
    plane.create(*(pod(ns, f"whole-{at}", worker(dedicated=True, gpu_model="A100")) for at in range(4)))
    assert len(plane.bound(ns, 4)) == 4


# Gangs.


def member(namespace: str, name: str, spec: WorkerSpec) -> dict[str, Any]:
    return pod(namespace, name, spec, schedulingGates=[{"name": names.GANG_GATE}])


def test_a_gang_starts_when_all_of_it_can_be_placed_and_not_before(plane: GpuPlane, ns: str) -> None:
    spec = percent(100, workload="gang", gang=Gang(3, None))
    plane.create(*(pod(ns, f"busy-{at}", percent(100)) for at in range(2)))
    plane.bound(ns, 2)
    plane.create(*(member(ns, f"member-{at}", spec) for at in range(3)))

    async def told(client: Client) -> bool:
        item = await client.get(PODS, "member-0", ns)
        return any("2 of 3 members can be placed" in one.get("message", "") for one in item["status"].get("conditions") or [])

    plane.until("why the group waits", told)
    assert len([item for item in plane.pods(ns) if item["spec"].get("nodeName")]) == 2
    plane.delete(ns, "busy-0")
    assert len(plane.bound(ns, 4)) == 4


def test_a_gang_waits_for_its_members_to_exist(plane: GpuPlane, ns: str) -> None:
    spec = vram(1, workload="slow", gang=Gang(2, None))
    plane.create(member(ns, "first", spec))

    async def told(client: Client) -> bool:
        item = await client.get(PODS, "first", ns)
        return any("1 of 2 members exist" in one.get("message", "") for one in item["status"].get("conditions") or [])

    plane.until("why the first waits", told)
    plane.create(member(ns, "second", spec))
    plane.bound(ns, 2)
    plane.create(member(ns, "third", spec))  # one more than is needed
    plane.bound(ns, 3)


def test_a_gang_that_timed_out_is_told_so_and_is_tried_again(plane: GpuPlane, ns: str) -> None:
    plane.create(pod(ns, "busy", percent(100)))
    plane.bound(ns, 1)
    spec = percent(100, gpu_count=2, workload="late", gang=Gang(2, timedelta(seconds=1)))
    plane.create(*(member(ns, f"m-{at}", spec) for at in range(2)))

    async def told(client: Client) -> bool:
        item = await client.get(PODS, "m-0", ns)
        return any(one.get("reason") == "TimedOut" for one in item["status"].get("conditions") or [])

    plane.until("the timeout", told)
    assert [item["metadata"]["name"] for item in plane.pods(ns) if item["spec"].get("nodeName")] == ["busy"]
    plane.delete(ns, "busy")
    assert len(plane.bound(ns, 2)) == 2


def test_a_gang_that_lacks_cpu_starts_nothing_and_lets_others_go_on(plane: GpuPlane, ns: str) -> None:
    spec = percent(100, gpu_count=2, workload="wide", gang=Gang(2, timedelta(seconds=5)))
    greedy = member(ns, "greedy", spec)
    greedy["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "100000"}
    plane.create(member(ns, "modest", spec), greedy)

    async def held(client: Client) -> bool:
        return not any(item["spec"].get("schedulingGates") for item in (await client.list(PODS, ns)).items)

    plane.until("cards for all of the gang", held)
    plane.create(pod(ns, "other", percent(100, gpu_count=2)))
    plane.refused(ns, "other")
    assert [item["metadata"]["name"] for item in plane.bound(ns, 1)] == ["other"]


# Resizes.


def test_a_grow_is_reserved_and_then_in_force(plane: GpuPlane, ns: str) -> None:
    plane.create(pod(ns, "grows", vram(10)))
    (found,) = plane.bound(ns, 1)
    ask(plane, ns, "grows", Desired(vram_request_bytes=60 * GIB, vram_limit_bytes=70 * GIB))

    async def in_force(client: Client) -> bool:
        item = await client.get(PODS, "grows", ns)
        return bool(json.loads(annotation(item, "effective"))["cards"][0]["limits"]["vram"] == 70 * GIB)

    plane.until("the larger limit", in_force)
    chosen = {"nodeSelector": {"kubernetes.io/hostname": found["spec"]["nodeName"]}}
    plane.create(*(pod(ns, f"beside-{at}", vram(30), **chosen) for at in range(3)))
    assert len(plane.bound(ns, 3)) == 3  # two on the other card; beside 60Gi there is no room for the third
    assert "most free is 20Gi" in plane.refused(ns, _pending(plane, ns))


def test_a_grow_without_room_waits_with_its_reason_and_comes_when_there_is(plane: GpuPlane, ns: str) -> None:
    plane.create(pod(ns, "wants", vram(10)))
    (found,) = plane.bound(ns, 1)
    chosen = {"nodeSelector": {"kubernetes.io/hostname": found["spec"]["nodeName"]}}
    plane.create(*(pod(ns, f"full-{at}", vram(70), **chosen) for at in range(2)))
    plane.bound(ns, 3)
    ask(plane, ns, "wants", Desired(vram_request_bytes=20 * GIB, vram_limit_bytes=20 * GIB))

    async def waits(client: Client) -> bool:
        item = await client.get(PODS, "wants", ns)
        return any(
            one["type"] == names.key("ResizePending") and one["status"] == "True"
            for one in item["status"].get("conditions") or []
        )

    plane.until("the condition", waits)
    assert effective(plane, ns, "wants")["requests"]["vram"] == 10 * GIB
    on_it = {item["metadata"]["name"]: cards_of(item) for item in plane.pods(ns)}
    neighbour = next(name for name, cards in on_it.items() if name != "wants" and cards == on_it["wants"])
    plane.delete(ns, neighbour)

    async def grown(client: Client) -> bool:
        item = await client.get(PODS, "wants", ns)
        return bool(json.loads(annotation(item, "effective"))["cards"][0]["requests"]["vram"] == 20 * GIB)

    plane.until("the grow", grown)


def test_a_shrink_frees_room_only_when_the_agent_has_applied_it_even_after_a_restart(plane: GpuPlane, ns: str) -> None:
    plane.create(*(pod(ns, f"big-{at}", vram(80)) for at in range(4)))
    plane.bound(ns, 4)

    async def applied(client: Client) -> bool:
        return all((gpu.get("status") or {}).get("pods") for gpu in (await client.list(GPUS)).items)

    plane.until("the agents hold all four", applied)
    with plane.agents_paused():
        ask(plane, ns, "big-0", Desired(vram_request_bytes=10 * GIB, vram_limit_bytes=10 * GIB))

        async def lower(client: Client) -> bool:
            item = await client.get(PODS, "big-0", ns)
            return bool(json.loads(annotation(item, "effective"))["cards"][0]["limits"]["vram"] == 10 * GIB)

        plane.until("the lower limit in force", lower)
        plane.extender.kill()
        plane.extender.start()
        wait_ready(plane)
        plane.create(pod(ns, "next", vram(60)))
        plane.refused(ns, "next")
        time.sleep(2.0)
        assert not plane.ask(lambda client: client.get(PODS, "next", ns))["spec"].get("nodeName")
    assert len(plane.bound(ns, 5)) == 5
    assert "held" not in effective(plane, ns, "big-0")


def test_amounts_of_a_whole_card_are_fixed(plane: GpuPlane, ns: str) -> None:
    plane.create(pod(ns, "whole", worker(dedicated=True, gpu_model="A100")))
    plane.bound(ns, 1)
    before = effective(plane, ns, "whole")
    ask(plane, ns, "whole", Desired(tflops_request=Decimal(1)))

    async def told(client: Client) -> bool:
        item = await client.get(PODS, "whole", ns)
        return any("fixed until the pod restarts" in one.get("message", "") for one in item["status"].get("conditions") or [])

    plane.until("the reason", told)
    assert effective(plane, ns, "whole") == before


def test_a_limit_in_tflops_can_grow_above_the_request(plane: GpuPlane, ns: str) -> None:
    plane.create(pod(ns, "burst", worker(compute_request=Compute(Unit.TFLOPS, Decimal(10)), vram_request_bytes=GIB)))
    plane.bound(ns, 1)
    ask(plane, ns, "burst", Desired(tflops_limit=Decimal(50)))

    async def in_force(client: Client) -> bool:
        item = await client.get(PODS, "burst", ns)
        return bool(json.loads(annotation(item, "effective"))["cards"][0]["limits"]["tflops"] == "50")

    plane.until("the limit", in_force)


def _pending(plane: GpuPlane, namespace: str) -> str:
    return next(str(item["metadata"]["name"]) for item in plane.pods(namespace) if not item["spec"].get("nodeName"))
