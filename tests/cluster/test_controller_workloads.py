"""Workload objects under real owners, a real garbage collector and the controller's own rights (SPEC §2a, §4, R7)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from gpu_plane import GpuPlane, gpu_plane, pod, pool, vram
from running_controller import Controller, access, controlled

from tensorfusion_iac.api import names
from tensorfusion_iac.api.worker import Source, WorkerSpec, canonical, to_json
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import NAMESPACES, PODS, TENSOR_FUSION_WORKLOADS
from tensorfusion_iac.local.state import NodeGroup

pytestmark = pytest.mark.cluster
GROUPS = (NodeGroup(model="A100_SXM_80G", gpus_per_node=4, nodes=2),)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuPlane]:
    with gpu_plane(tmp_path_factory.mktemp("workloads") / "plane", GROUPS, os.getpid()) as made:
        yield made


@pytest.fixture(scope="module")
def kubeconfig(plane: GpuPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return access(plane, tmp_path_factory.mktemp("access"))


@pytest.fixture(scope="module")
def controller(kubeconfig: Path) -> Iterator[Controller]:
    with controlled(kubeconfig) as made:
        yield made


@pytest.fixture
def ns(plane: GpuPlane, controller: Controller, request: pytest.FixtureRequest) -> Iterator[str]:
    name = plane.namespace(request.node.name.replace("_", "-")[5:60].strip("-"))
    yield name
    plane.kubectl("delete", "namespace", name, "--wait=false")


def template(spec: WorkerSpec, *, named: bool = False) -> dict[str, Any]:
    """A pod template whose pods are as the webhook would have made them."""
    made = pod("x", "x", spec)
    sources = {"workload": Source.ANNOTATION if named else Source.OWNER}
    marks = {names.key("resolved"): canonical(to_json(spec, sources))}
    labels = {"app": "x", names.ENABLED_LABEL: "true"}
    return {"metadata": {"labels": labels, "annotations": marks}, "spec": {**made["spec"]}}


def owner(kind: str, name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    group = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def replicated(
    kind: str, name: str, namespace: str, replicas: int, spec: WorkerSpec | None = None, *, named: bool = False
) -> dict[str, Any]:
    more = {"serviceName": name} if kind == "StatefulSet" else {}
    return owner(
        kind, name, namespace, replicas=replicas, selector={"matchLabels": {"app": "x"}},
        template=template(spec or vram(1, workload=name), named=named), **more,
    )  # fmt: skip


def workloads(plane: GpuPlane, namespace: str) -> dict[str, dict[str, Any]]:
    found = plane.ask(lambda client: client.list(TENSOR_FUSION_WORKLOADS, namespace)).items
    return {item["metadata"]["name"]: item for item in found}


def until(plane: GpuPlane, namespace: str, name: str, **status: Any) -> dict[str, Any]:
    """A workload, once its status says so."""

    async def look(client: Client) -> dict[str, Any] | None:
        for item in (await client.list(TENSOR_FUSION_WORKLOADS, namespace)).items:
            found = item.get("status") or {}
            if item["metadata"]["name"] == name and all(found.get(key) == value for key, value in status.items()):
                return item
        return None

    return plane.until(f"workload {namespace}/{name} with {status}", look)


def gone(plane: GpuPlane, namespace: str, *names_: str) -> None:
    async def look(client: Client) -> bool:
        there = {item["metadata"]["name"] for item in (await client.list(TENSOR_FUSION_WORKLOADS, namespace)).items}
        return not there & set(names_)

    plane.until(f"{names_} are gone", look)


def reason(item: Mapping[str, Any], name: str = "Ready") -> str:
    return next((str(one["reason"]) for one in item["status"]["conditions"] if one["type"] == name), "")


def test_a_deployment_has_one_workload_through_rollout_scaling_and_deletion(plane: GpuPlane, ns: str) -> None:
    plane.apply(replicated("Deployment", "chat", ns, 2))
    made = until(plane, ns, "chat", phase="Running", readyWorkers=2, workerCount=2)
    (reference,) = made["metadata"]["ownerReferences"]
    assert reference["kind"] == "Deployment"
    before = made["status"]["podTemplateHash"]

    plane.apply(replicated("Deployment", "chat", ns, 2, vram(2, workload="chat")))
    rolled = plane.until(
        "the new template",
        lambda client: _with_vram(client, ns, "chat", "2Gi"),
    )
    rolled = until(plane, ns, "chat", phase="Running", readyWorkers=2, workerCount=2)
    assert rolled["status"]["podTemplateHash"] != before
    assert set(workloads(plane, ns)) == {"chat"}

    plane.kubectl("scale", "deployment", "chat", "-n", ns, "--replicas=0")
    empty = until(plane, ns, "chat", workerCount=0, phase="Pending")
    assert reason(empty) == "ScaledToZero"
    plane.kubectl("delete", "deployment", "chat", "-n", ns)
    gone(plane, ns, "chat")


async def _with_vram(client: Client, namespace: str, name: str, amount: str) -> dict[str, Any] | None:
    item = await client.get(TENSOR_FUSION_WORKLOADS, name, namespace)
    return item if item["spec"]["resources"]["requests"]["vram"] == amount else None


def test_each_kind_of_owner_has_its_workload_and_takes_it_along(plane: GpuPlane, ns: str) -> None:
    jobs = owner("Job", "once", ns, template=_job(template(vram(1, workload="once"))))
    cron = owner(
        "CronJob", "night", ns, schedule="0 0 31 2 *",
        jobTemplate={"spec": {"template": _job(template(vram(1, workload="night")))}},
    )  # fmt: skip
    plane.apply(replicated("StatefulSet", "set", ns, 1), replicated("ReplicaSet", "plain", ns, 1), jobs, cron)
    plane.kubectl("create", "job", "by-hand", "--from=cronjob/night", "-n", ns)
    plane.create(pod(ns, "alone", vram(1, workload="alone")))
    kinds = {"set": "StatefulSet", "plain": "ReplicaSet", "once": "Job", "night": "CronJob", "alone": "Pod"}
    for name, kind in kinds.items():
        made = until(plane, ns, name, workerCount=1)
        assert [entry["kind"] for entry in made["metadata"]["ownerReferences"]] == [kind]
    assert set(workloads(plane, ns)) == set(kinds)
    for name, kind in kinds.items():
        plane.kubectl("delete", kind, name, "-n", ns, "--wait=false")
    gone(plane, ns, *kinds)


def _job(made: dict[str, Any]) -> dict[str, Any]:
    made["spec"]["restartPolicy"] = "Never"
    return made


def test_a_renamed_workload_leaves_no_object_behind(plane: GpuPlane, ns: str) -> None:
    plane.apply(replicated("Deployment", "chat", ns, 1))
    until(plane, ns, "chat", readyWorkers=1)
    plane.apply(replicated("Deployment", "chat", ns, 1, vram(1, workload="talk"), named=True))
    until(plane, ns, "talk", readyWorkers=1)
    gone(plane, ns, "chat")


def test_a_deployment_that_comes_back_has_an_object_of_its_own(plane: GpuPlane, ns: str) -> None:
    plane.apply(replicated("Deployment", "chat", ns, 1))
    first = until(plane, ns, "chat", readyWorkers=1)
    plane.kubectl("delete", "deployment", "chat", "-n", ns, "--wait=false")
    plane.apply(replicated("Deployment", "chat", ns, 1))

    async def another(client: Client) -> bool:
        found = (await client.list(TENSOR_FUSION_WORKLOADS, ns)).items
        owners = [entry["uid"] for item in found for entry in item["metadata"].get("ownerReferences") or ()]
        return bool(owners) and owners != [first["metadata"]["ownerReferences"][0]["uid"]]

    plane.until("a new owner", another)
    until(plane, ns, "chat", readyWorkers=1, workerCount=1)


def test_a_workload_that_somebody_deletes_comes_back_and_the_scale_subresource_is_heard(plane: GpuPlane, ns: str) -> None:
    plane.apply(replicated("Deployment", "chat", ns, 1))
    first = until(plane, ns, "chat", readyWorkers=1)
    plane.kubectl("delete", "tensorfusionworkload", "chat", "-n", ns)
    second = until(plane, ns, "chat", readyWorkers=1)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    plane.kubectl("scale", "tensorfusionworkload", "chat", "-n", ns, "--replicas=5")

    async def ignored(client: Client) -> bool:
        return reason(await client.get(TENSOR_FUSION_WORKLOADS, "chat", ns), "ReplicasIgnored") == "LocalGPUs"

    plane.until("ReplicasIgnored", ignored)
    assert len(plane.pods(ns)) == 1


def test_a_pool_that_is_deleted_stops_nothing_and_its_workloads_say_so(plane: GpuPlane, ns: str) -> None:
    plane.apply(pool("brief") | {"metadata": {"name": "brief"}})
    plane.create(pod(ns, "alone", vram(1, workload="alone")), pod(ns, "brief", vram(1, workload="brief", pool="brief")))
    until(plane, ns, "alone", readyWorkers=1)
    until(plane, ns, "brief", workerCount=1)
    plane.kubectl("delete", "gpupool", "brief")

    async def told(client: Client) -> bool:
        return reason(await client.get(TENSOR_FUSION_WORKLOADS, "brief", ns), "PoolGone") == "PoolDeleted"

    plane.until("PoolGone", told)
    assert len(plane.pods(ns)) == 2
    assert not reason(workloads(plane, ns)["alone"], "PoolGone")


def test_at_rest_and_after_a_restart_nothing_is_written(plane: GpuPlane, controller: Controller, ns: str) -> None:
    quota = {"apiVersion": names.API_VERSION, "kind": "GPUResourceQuota", "metadata": {"name": "q", "namespace": ns}}
    plane.apply(replicated("Deployment", "chat", ns, 3), replicated("StatefulSet", "set", ns, 1), quota | {"spec": {"total": {}}})
    until(plane, ns, "chat", readyWorkers=3, workerCount=3)
    until(plane, ns, "set", readyWorkers=1, workerCount=1)
    plane.until("the pods of earlier tests are gone", lambda client: _only_in(client, ns))
    time.sleep(5.0)  # what is under way ends; looks at pools are 2 s apart
    versions = {name: item["metadata"]["resourceVersion"] for name, item in workloads(plane, ns).items()}
    controller.stop()
    controller.start()
    assert controller.port
    plane.until("it leads", lambda client: _leads(controller))
    time.sleep(3.0)
    assert controller.writes() == {}, "neither workloads, nor pools, nor pods, nor quotas"
    assert {name: item["metadata"]["resourceVersion"] for name, item in workloads(plane, ns).items()} == versions


async def _only_in(client: Client, ns: str) -> bool:
    return {item["metadata"]["namespace"] for item in (await client.list(PODS)).items} == {ns}


async def _leads(controller: Controller) -> bool:
    return any("is the holder of lease" in line for line in controller.log)


def test_a_namespace_with_everything_in_it_goes(plane: GpuPlane, ns: str) -> None:
    plane.apply(replicated("Deployment", "chat", ns, 2))
    plane.create(pod(ns, "alone", vram(1, workload="alone")))
    until(plane, ns, "chat", readyWorkers=2)
    until(plane, ns, "alone", readyWorkers=1)
    plane.kubectl("delete", "namespace", ns, "--timeout=60s")

    async def no_space(client: Client) -> bool:
        try:
            await client.get(NAMESPACES, ns)
        except ApiError as error:
            return error.not_found
        return False

    plane.until("no namespace", no_space)
    plane.kubectl("create", "namespace", ns)  # for the fixture's end
