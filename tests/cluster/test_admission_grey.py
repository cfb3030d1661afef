"""The grey release with two replicas of the webhook, a real API server, and our controller: exactly N, at rest (R4)."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from balancer import balanced
from running_controller import Controller, access, controlled
from running_plane import ControlPlane
from running_webhook import account_kubeconfig, apply, pod, point_at, replica, resolved, tried, url_of

from tensorfusion_iac.admission.configuration import CONFIGURATION
from tensorfusion_iac.api import ENABLED_LABEL, key
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import PODS

pytestmark = pytest.mark.cluster

SPACE = "grey-tests"
WANTED = 20
QUIET_S = 2.0
"""What the controller waits before it evicts; 30 s by default."""
REST_S = 150.0


@pytest.fixture(scope="module")
def plane(admission: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Two replicas behind a balancer, instead of the session's one."""
    before = url_of(admission)
    kubeconfig = account_kubeconfig(admission, tmp_path_factory.mktemp("grey"), CONFIGURATION)
    apply(admission, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    with replica(kubeconfig, "one") as one, replica(kubeconfig, "two") as two, balanced((one.port, two.port)) as port:
        point_at(admission, f"https://127.0.0.1:{port}")
        yield admission
        point_at(admission, before)
        for running in (one, two):
            assert not [line for line in running.log if "Traceback" in line], "".join(running.log)
    admission.kubectl("delete", "namespace", SPACE, "--wait=false")


@pytest.fixture(scope="module")
def controller(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """Our controller, which corrects what the webhook alone can't."""
    with controlled(access(plane, tmp_path_factory.mktemp("access")), "grey", "--grey-quiet", str(QUIET_S)) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_left(plane: ControlPlane) -> Iterator[None]:
    yield
    plane.kubectl("delete", "deployment", "grey", "-n", SPACE, "--ignore-not-found", "--cascade=foreground")


def deployment(replicas: int, wanted: int = WANTED, image: str = "app:1") -> dict[str, Any]:
    marks = {ENABLED_LABEL: "true", "app": "grey"}
    annotations = {key("vram-request"): "1Gi", key("enabled-replicas"): str(wanted)}
    template = {
        "metadata": {"labels": marks, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": image}], "terminationGracePeriodSeconds": 0},
    }
    spec: dict[str, Any] = {"replicas": replicas, "selector": {"matchLabels": {"app": "grey"}}, "template": template}
    # A rollout waits for nothing: whether the enabled pods find GPUs and become ready is not the matter here.
    spec["strategy"] = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "grey", "namespace": SPACE}, "spec": spec}


def live_pods(plane: ControlPlane) -> list[dict[str, Any]]:
    async def of_space(client: Client) -> list[dict[str, Any]]:
        return (await client.list(PODS, SPACE, label_selector="app=grey")).items

    found = plane.ask(of_space)
    return [item for item in found if "deletionTimestamp" not in item["metadata"]]


def enabled(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in pods if key("resolved") in item["metadata"]["annotations"]]


def others(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in pods if item["metadata"]["annotations"].get(key("grey")) == "off"]


def at_rest(plane: ControlPlane, replicas: int, wanted: int = WANTED) -> float:
    """Wait for the rest: all pods there, and N of them enabled, for a while. Returns how long it took.

    More than N are a failure at any time.
    """
    begin, seen, since = time.monotonic(), set[str](), time.monotonic()
    expected = min(wanted, replicas)
    while time.monotonic() - begin < REST_S:
        pods = live_pods(plane)
        on = enabled(pods)
        by_owner: dict[str, int] = {}
        for item in on:
            owner = item["metadata"]["ownerReferences"][0]["uid"]
            by_owner[owner] = by_owner.get(owner, 0) + 1
        assert all(count <= wanted for count in by_owner.values()), by_owner
        now = {item["metadata"]["uid"] for item in pods}
        if now != seen:
            seen, since = now, time.monotonic()
        quiet = time.monotonic() - since > 1.0
        if quiet and len(pods) == replicas and len(by_owner) <= 1 and len(on) == expected:
            assert len(others(pods)) == replicas - expected
            return time.monotonic() - begin
        time.sleep(0.3)
    pods = live_pods(plane)
    pytest.fail(f"not at rest after {REST_S} s: {len(pods)} pods, {len(enabled(pods))} enabled")


@contextmanager
def dry_runs(plane: ControlPlane) -> Iterator[list[str]]:
    """Dry-run creates of pods of the same owner, all the while. Yields what they failed of, if not of a ResourceQuota."""
    failures: list[str] = []
    stop = threading.Event()

    def run() -> None:
        async def all_the_while(client: Client) -> None:
            while not stop.is_set():
                owners = json.loads(plane.kubectl("get", "rs", "-n", SPACE, "-l", "app=grey", "-o", "json"))["items"]
                for owner in owners[:1]:
                    item = pod({"vram-request": "1Gi", "enabled-replicas": str(WANTED)}, namespace=SPACE)
                    item["metadata"]["ownerReferences"] = [
                        {
                            "apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True,
                            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
                        }
                    ]  # fmt: skip
                    found = await tried(client, item)
                    if isinstance(found, ApiError) and "exceeded quota" not in found.message:
                        failures.append(found.message)
                await asyncio.sleep(0.2)

        plane.ask(all_the_while)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield failures
    finally:
        stop.set()
        thread.join(30)


def test_exactly_as_many_as_wanted_are_enabled_whatever_happens(
    plane: ControlPlane, controller: Controller, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = []

    def step(what: str, act: Callable[[], object], replicas: int) -> None:
        before = controller.writes().get("Eviction", 0)
        act()
        took_s = at_rest(plane, replicas)
        evicted = controller.writes().get("Eviction", 0) - before
        figures.append(f"R4  {what}: {min(WANTED, replicas)} of {replicas} enabled, {evicted:g} evicted, {took_s:.1f} s")

    def scale(replicas: int) -> Callable[[], object]:
        return lambda: plane.kubectl("scale", "deployment/grey", "-n", SPACE, f"--replicas={replicas}")

    def delete_some() -> None:
        pods = live_pods(plane)
        chosen = [item["metadata"]["name"] for item in (*enabled(pods)[:5], *others(pods)[:5])]
        plane.kubectl("delete", "pod", "-n", SPACE, "--wait=false", *chosen)

    def without_room() -> None:
        """A ResourceQuota lets half of the pods of a scale-up be rejected for some seconds."""
        hard = {"pods": "30"}
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "room", "namespace": SPACE},
            "spec": {"hard": hard},
        }
        plane.kubectl("scale", "deployment/grey", "-n", SPACE, "--replicas=5")
        at_rest(plane, 5)
        apply(plane, quota)
        plane.kubectl("scale", "deployment/grey", "-n", SPACE, "--replicas=50")
        time.sleep(3)
        plane.kubectl("delete", "resourcequota", "room", "-n", SPACE)

    with dry_runs(plane) as failures:
        step("50 at once", lambda: apply(plane, deployment(50)), 50)
        step("ten deleted", delete_some, 50)
        step("down to 10", scale(10), 10)
        step("up to 50", scale(50), 50)
        step("half rejected by a quota", without_room, 50)
        step("rollout", lambda: apply(plane, deployment(50, image="app:2")), 50)
        step("rollout undone", lambda: plane.kubectl("rollout", "undo", "deployment/grey", "-n", SPACE), 50)
    with capsys.disabled():
        print("\n" + "\n".join(figures))  # noqa: T201 - TARGETS asks for the figures
    assert failures == []


@pytest.mark.usefixtures("controller")
def test_enabled_pods_are_given_up_last(plane: ControlPlane) -> None:
    apply(plane, deployment(8, wanted=3))
    at_rest(plane, 8, wanted=3)
    plane.kubectl("scale", "deployment/grey", "-n", SPACE, "--replicas=4")
    at_rest(plane, 4, wanted=3)
    pods = live_pods(plane)
    assert {item["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] for item in enabled(pods)} == {"100"}
    assert len(enabled(pods)) == 3


@pytest.mark.usefixtures("controller")
def test_none_wanted_leaves_all_as_written(plane: ControlPlane) -> None:
    apply(plane, deployment(3, wanted=0))
    at_rest(plane, 3, wanted=0)
    for item in live_pods(plane):
        assert item["spec"]["schedulerName"] == "default-scheduler"
        assert "resources" not in item["spec"]["containers"][0] or item["spec"]["containers"][0]["resources"] == {}


def test_a_pod_of_nobody_is_enabled_from_one_on(plane: ControlPlane) -> None:
    def ask(wanted: int) -> dict[str, Any] | ApiError:
        item = pod({"vram-request": "1Gi", "enabled-replicas": str(wanted)}, namespace=SPACE)
        return plane.ask(lambda client: tried(client, item))

    assert resolved(ask(1))["enabledReplicas"] == 1
    off = ask(0)
    assert not isinstance(off, ApiError)
    assert off["metadata"]["annotations"][key("grey")] == "off"
