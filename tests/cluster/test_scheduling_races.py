"""What must hold when programs die, answers are lost and the lease changes hands (TARGETS R1, R10), on the real cluster.

TENSORFUSION_PODS sets how many pods live through the kills (`make test`: 60; long mode: 500).
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from gpu_plane import GIB, GpuPlane, annotation, cards_of, gpu_plane, pod, promised, vram, wait_ready, worker
from running_controller import Controller
from waiting import eventually

from tensorfusion_iac.api import names
from tensorfusion_iac.api.quantity import format_bytes
from tensorfusion_iac.kube.client import Client, PatchType
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import GPUS, NODES, PODS
from tensorfusion_iac.local import leftovers
from tensorfusion_iac.local.state import NodeGroup
from tensorfusion_iac.scheduling.snapshot import collect, state_of

pytestmark = pytest.mark.cluster
GROUPS = (NodeGroup(model="A100_SXM_80G", gpus_per_node=8, nodes=4),)
PODS_WANTED = int(os.environ.get("TENSORFUSION_PODS", "60"))
KILLS = min(max(PODS_WANTED // 15, 4), 16)
TWO_MIRROR_PERIODS_S = 2.5


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuPlane]:
    with gpu_plane(tmp_path_factory.mktemp("races") / "plane", GROUPS, os.getpid()) as made:
        yield made


@pytest.fixture
def ns(plane: GpuPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    name = plane.namespace(request.node.name.replace("_", "-")[5:60].strip("-"))
    yield name
    plane.delete(name, *(item["metadata"]["name"] for item in plane.pods(name)))


def mirror_shows_what_the_annotations_say(plane: GpuPlane, namespace: str) -> None:
    """Wait until every card's free memory is what the annotations of living pods leave of it."""
    wrong: dict[str, tuple[str, str]] = {}

    async def same(client: Client) -> bool:
        gpus = (await client.list(GPUS)).items
        used = promised((await client.list(PODS, namespace)).items)
        wrong.clear()
        for gpu in gpus:
            status, uuid = gpu["status"], gpu["status"]["uuid"]
            left = format_bytes(80 * GIB - used.get(uuid, 0))
            shown = (status.get("available") or {}).get("vram", "nothing")
            if shown != left:
                wrong[uuid] = shown, left
        return not wrong

    try:
        plane.until("the mirror shows what the annotations say", same, patience_s=40)
    except AssertionError:
        raise AssertionError(f"shown and left, by card: {wrong}") from None


def test_after_a_kill_the_books_are_read_back_from_the_pods(plane: GpuPlane, ns: str) -> None:
    plane.create(*(pod(ns, f"big-{at}", vram(60)) for at in range(32)))
    before = {item["metadata"]["name"]: cards_of(item) for item in plane.bound(ns, 32)}
    plane.extender.kill()
    plane.delete(ns, "big-7", "big-8")  # while nobody is looking
    plane.extender.start()
    wait_ready(plane)
    plane.create(*(pod(ns, f"new-{at}", vram(60)) for at in range(3)))
    after = {item["metadata"]["name"]: cards_of(item) for item in plane.bound(ns, 32)}
    freed = {*before["big-7"], *before["big-8"]}
    assert {card for name, cards in after.items() if name.startswith("new") for card in cards} == freed
    assert max(promised(plane.pods(ns)).values()) <= 80 * GIB


def test_a_restart_writes_nothing_where_all_is_right(plane: GpuPlane, ns: str) -> None:
    plane.create(*(pod(ns, f"steady-{at}", vram(10 * (at + 1), gpu_count=2)) for at in range(3)))
    plane.bound(ns, 3)
    mirror_shows_what_the_annotations_say(plane, ns)

    def written() -> list[tuple[str, object]]:
        gpus = plane.ask(lambda client: client.list(GPUS)).items
        metadata = [item["metadata"] for item in (*gpus, *plane.pods(ns))]
        return [
            (one["name"], one["resourceVersion"] if "namespace" not in one else "", one.get("annotations")) for one in metadata
        ]

    def unchanged() -> list[tuple[str, object]] | None:
        before = written()
        time.sleep(TWO_MIRROR_PERIODS_S)
        return before if written() == before else None

    before = eventually(unchanged, "an end of all writes, the agents' too, who report the pods")
    plane.extender.kill()
    plane.extender.start()
    wait_ready(plane)
    time.sleep(TWO_MIRROR_PERIODS_S)
    assert written() == before


class Churn:
    """Pods of mixed sizes that come and go in a thread, whatever the API server answers, until `PODS_WANTED` were created."""

    def __init__(self, plane: GpuPlane, namespace: str) -> None:
        self._plane, self._namespace, self._rng = plane, namespace, random.Random(7)
        self._thread = threading.Thread(target=lambda: plane.ask(self._run), daemon=True)
        self.created = 0
        self._thread.start()

    def wait_until_created(self, count: int) -> None:
        deadline = time.monotonic() + 120
        while self.created < count:
            assert self._thread.is_alive()
            assert time.monotonic() < deadline, f"{self.created} of {count} pods"
            time.sleep(0.02)

    async def _run(self, client: Client) -> None:
        living: list[str] = []
        while self.created < PODS_WANTED:
            for _ in range(5):
                spec = vram(self._rng.choice([10, 20, 30, 70]), gpu_count=self._rng.choice([1, 1, 2]))
                body = pod(self._namespace, f"p-{self.created}", spec)
                await _insist(lambda body=body: client.create(PODS, body, self._namespace))  # type: ignore[misc]
                living.append(f"p-{self.created}")
                self.created += 1
            for name in self._rng.sample(living, 2 if len(living) < 30 else 5):
                living.remove(name)
                await _insist(lambda name=name: client.delete(PODS, name, self._namespace))  # type: ignore[misc]
            await asyncio.sleep(self._rng.uniform(0.1, 0.9))


async def _insist(call: Callable[[], Awaitable[object]]) -> None:
    """Until the server has done it; an answer that was lost shows as "exists already" or "not there" at the next try."""
    while True:
        try:
            await call()
        except ApiError as error:
            if error.already_exists or error.not_found:
                return
        except KubeError:
            pass
        else:
            return
        await asyncio.sleep(0.2)


def kill_api_server(plane: GpuPlane) -> None:
    """With SIGKILL; its supervisor starts it again."""
    for running in leftovers.find(plane.layout.root, "kube-apiserver"):
        running.process.kill()


def answering(plane: GpuPlane) -> None:
    """Wait until the API server answers again."""
    deadline = time.monotonic() + 90
    while True:
        try:
            plane.ask(lambda client: client.text("/readyz"))
        except KubeError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            return


@pytest.fixture
def controller(plane: GpuPlane) -> Iterator[Controller]:
    made = Controller(plane.kubeconfig, "races")
    made.start()
    yield made
    made.kill()


def test_status_annotations_and_a_recount_agree_after_kills_of_all_programs(
    plane: GpuPlane, controller: Controller, ns: str
) -> None:
    rng, churn = random.Random(), Churn(plane, ns)
    for kill in range(KILLS):
        churn.wait_until_created(PODS_WANTED * kill // KILLS + 5)
        time.sleep(rng.uniform(0.0, 0.5))
        if kill % 2:
            kill_api_server(plane)
            continue
        for program in (plane.extender, controller):
            program.kill()
            program.start()
    churn.wait_until_created(PODS_WANTED)
    answering(plane)
    wait_ready(plane)

    plane.until("no pod waits that has room", lambda client: _no_pod_waits_that_has_room(client, ns))
    assert max(promised(plane.pods(ns)).values()) <= 80 * GIB
    mirror_shows_what_the_annotations_say(plane, ns)
    plane.delete(ns, *(item["metadata"]["name"] for item in plane.pods(ns)))
    plane.create(*(pod(ns, f"whole-{at}", worker(dedicated=True, gpu_model="A100", gpu_count=8)) for at in range(4)))
    assert len(plane.bound(ns, 4)) == 4  # every card is free again


async def _no_pod_waits_that_has_room(client: Client, namespace: str) -> bool:
    """A recount from the cluster's objects alone, by books that are made anew: nobody who waits would fit."""
    state = state_of(await collect(client), agents_live=True)
    waiting = [pod for pod in state.pods.values() if pod.namespace == namespace and not pod.node]
    return not any(state.allocator.fit(pod.claim).nodes.any() for pod in waiting)


def test_while_another_holds_the_lease_nothing_is_bound(plane: GpuPlane, ns: str) -> None:
    plane.extender.stop()
    log = len(plane.extender.log)
    process = subprocess.Popen(
        [Path(sys.executable).with_name("tensorfusion"), "serve", "scheduler", "--port", str(plane.extender.port),
         "--kubeconfig", str(plane.kubeconfig), "--identity-prefix", "somebody-else"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    plane.extender.process = process
    threading.Thread(target=plane.extender._read, args=(process,), daemon=True).start()
    plane.create(pod(ns, "waits", vram(1)))

    async def told(client: Client) -> bool:
        item = await client.get(PODS, "waits", ns)
        conditions = item.get("status", {}).get("conditions") or []
        return any("is held by" in condition.get("message", "") for condition in conditions)

    plane.until("the reason in the pod's own condition", told)
    assert not plane.pods(ns)[0]["spec"].get("nodeName")
    plane.extender.stop()
    plane.extender.start()
    wait_ready(plane)
    assert plane.bound(ns, 1)
    assert len(plane.extender.log) > log


def test_a_pod_deleted_while_it_is_bound_leaves_nothing_behind(plane: GpuPlane, ns: str) -> None:
    async def churn(client: Client) -> None:
        async def one(at: int) -> None:
            body = pod(ns, f"brief-{at}", vram(70))
            await client.create(PODS, body, ns)
            await asyncio.sleep(random.Random(at).uniform(0, 0.6))
            await client.delete(PODS, f"brief-{at}", ns)

        await asyncio.gather(*(one(at) for at in range(60)))

    plane.ask(churn)
    plane.create(*(pod(ns, f"all-{at}", worker(dedicated=True, gpu_model="A100", gpu_count=8)) for at in range(4)))
    assert len(plane.bound(ns, 4)) == 4


def test_a_sick_card_takes_nothing_new_and_is_used_again_when_well(plane: GpuPlane, ns: str) -> None:
    gpu = plane.ask(lambda client: client.list(GPUS)).items[0]
    node, name, uuid = gpu["status"]["nodeName"], gpu["metadata"]["name"], gpu["status"]["uuid"]

    def health(value: str) -> None:
        body = {"status": {"health": value}}
        plane.ask(lambda client: client.patch(GPUS, name, body, PatchType.MERGE, subresource="status"))

    async def reported(client: Client) -> bool:
        return not any(item["status"].get("pods") for item in (await client.list(GPUS)).items)

    plane.until("agents have told that earlier pods are gone", reported)  # else they write the health anew with it
    health("Unhealthy")
    time.sleep(1.0)  # until the watch has told: a pod that is asked about before may still get the card
    chosen = {"nodeSelector": {"kubernetes.io/hostname": node}}
    plane.create(*(pod(ns, f"w-{at}", worker(dedicated=True, gpu_model="A100"), **chosen) for at in range(8)))
    assert uuid not in {card for item in plane.bound(ns, 7) for card in cards_of(item)}
    health("Healthy")
    assert uuid in {card for item in plane.bound(ns, 8) for card in cards_of(item)}


def test_a_bind_that_is_refused_by_the_server_gives_the_card_back(plane: GpuPlane, ns: str) -> None:
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "no-binding"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
            ], "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}}},
            "validations": [{"expression": "object.metadata.name != 'barred'", "message": "not this one"}],
        },
    }  # fmt: skip
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-binding"}, "spec": {"policyName": "no-binding", "validationActions": ["Deny"]},
    }  # fmt: skip
    plane.apply(policy, binding)
    time.sleep(1.0)  # until the API server has compiled it
    try:
        plane.create(pod(ns, "barred", worker(dedicated=True, gpu_model="A100", gpu_count=8)))

        async def tried(client: Client) -> bool:
            return any("not this one" in line for line in plane.extender.log)

        plane.until("a refused bind", tried)
        plane.delete(ns, "barred")
        plane.create(*(pod(ns, f"free-{at}", worker(dedicated=True, gpu_model="A100", gpu_count=8)) for at in range(4)))
        assert len(plane.bound(ns, 4)) == 4
    finally:
        plane.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "no-binding")


def test_a_pod_that_somebody_else_binds_is_told_that_it_has_no_gpus(plane: GpuPlane, ns: str) -> None:
    plane.create(pod(ns, "past", worker(gpu_model="B200")))
    plane.refused(ns, "past")
    node = plane.ask(lambda client: client.list(NODES)).items[0]["metadata"]["name"]
    binding = {"metadata": {"name": "past"}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
    plane.ask(lambda client: client.create(PODS, binding, ns, name="past", subresource="binding"))

    async def told(client: Client) -> str | None:
        conditions = (await client.get(PODS, "past", ns))["status"]["conditions"]
        found = [one for one in conditions if one["type"] == names.ALLOCATED_CONDITION]
        return next((str(one["message"]) for one in found if one["reason"] == "BoundWithoutGPUs"), None)

    message = plane.until("the pod is told that it has no GPUs", told)
    assert message.startswith(f"bound to {node} without tensor-fusion-scheduler's extender, so it has no GPUs")


def test_two_pods_of_one_name_are_two_pods(plane: GpuPlane, ns: str) -> None:
    for _ in range(5):
        plane.create(pod(ns, "again", worker(dedicated=True, gpu_model="A100", gpu_count=8)))
        (found,) = plane.bound(ns, 1)
        assert len(cards_of(found)) == 8
        assert annotation(found, "gpu-ids")
        plane.delete(ns, "again")

        async def gone(client: Client) -> bool:
            try:
                await client.get(PODS, "again", ns)
            except ApiError as error:
                return error.not_found
            return False

        plane.until("the pod is gone", gone)
