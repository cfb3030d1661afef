"""Decisions that are remembered: the same as if they were made again, and forgotten when the cluster changes."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from typing import Any

from admission_objects import container, pod, pods
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfusion_iac.admission import Decision, apply
from tensorfusion_iac.admission.cluster import Cluster
from tensorfusion_iac.admission.grey import GreyRelease
from tensorfusion_iac.admission.review import Request
from tensorfusion_iac.admission.webhook import Webhook
from tensorfusion_iac.api import key
from tensorfusion_iac.kube.client import Event, Listing
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.informer import running
from tensorfusion_iac.kube.resource import Resource


def pool(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "default", "uid": "1", "resourceVersion": "1", "annotations": {key("is-default-pool"): "true"}},
        "spec": {"defaultUsingLocalGPU": True, **spec},
    }


class ScriptedClient:
    """A cluster with one pool, which changes when the test says so."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> Listing:
        return Listing([pool()] if resource.plural == "gpupools" else [], "1")

    async def watch(self, resource: Resource, namespace: str | None = None, **options: Any) -> AsyncIterator[Event]:
        while True:
            if resource.plural != "gpupools":
                await asyncio.Event().wait()
            yield Event("MODIFIED", await self.changes.get())

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        raise ApiError(404, "NotFound", "none")


def with_token(item: dict[str, Any], suffix: str) -> dict[str, Any]:
    """The pod as an API server sends it: with the volume of the service account's token."""
    name = f"kube-api-access-{suffix}"
    item = copy.deepcopy(item)
    item["spec"].setdefault("volumes", []).append({"name": name, "projected": {}})
    for one in item["spec"]["containers"]:
        one.setdefault("volumeMounts", []).append({"name": name, "mountPath": "/var/run/secrets"})
    return item


def request(item: dict[str, Any], uid: str = "u") -> Request:
    return Request(uid, "CREATE", "", "Pod", "ml", item, None, True)


async def decide(webhook: Webhook, *items: dict[str, Any]) -> list[Decision]:
    return [await webhook.mutate(request(item)) for item in items]


@given(st.lists(pods(), min_size=1, max_size=4), st.lists(st.sampled_from(["abcde", "x7k2p", "99999"]), min_size=2, max_size=3))
@settings(max_examples=150, deadline=None)
def test_a_decision_that_is_remembered_is_the_one_that_would_be_made(items: list[dict[str, Any]], suffixes: list[str]) -> None:
    async def compare() -> None:
        client: Any = ScriptedClient()
        cluster = Cluster(client)
        async with running(*cluster.informers):
            remembering = Webhook(cluster, GreyRelease(client))
            for suffix in suffixes:
                for item in items:
                    sent = with_token(item, suffix)
                    sent["metadata"]["annotations"].pop(key("enabled-replicas"), None)  # its claims need a cluster
                    (found,) = await decide(remembering, sent)
                    (fresh,) = await decide(Webhook(cluster, GreyRelease(client)), sent)
                    assert found == fresh
                    if found.allowed:
                        apply(sent, found.patch)

    asyncio.run(compare())


def test_replicas_are_decided_once_and_again_when_the_pool_changes() -> None:
    async def look() -> tuple[list[Decision], list[Decision]]:
        client: Any = ScriptedClient()
        cluster = Cluster(client)
        webhook = Webhook(cluster, GreyRelease(client))
        async with running(*cluster.informers):
            before = await decide(webhook, with_token(pod(), "abcde"), with_token(pod(), "fghij"))
            version = cluster.version
            changed = pool(qosConfig={"defaultQoS": "critical"})
            changed["metadata"]["resourceVersion"] = "2"
            client.changes.put_nowait(changed)
            while cluster.version == version:
                await asyncio.sleep(0)
            return before, await decide(webhook, with_token(pod(), "abcde"))

    (first, second), (third,) = asyncio.run(look())
    assert second is first
    assert third.worker is not None
    assert third.worker.qos == "critical"


def test_a_status_that_changes_is_no_reason_to_forget() -> None:
    async def look() -> list[Decision]:
        client: Any = ScriptedClient()
        cluster = Cluster(client)
        webhook = Webhook(cluster, GreyRelease(client))
        async with running(*cluster.informers):
            (first,) = await decide(webhook, pod())
            changed = pool() | {"status": {"totalNodes": 3}}
            changed["metadata"]["resourceVersion"] = "2"
            client.changes.put_nowait(changed)
            while not client.changes.empty():
                await asyncio.sleep(0)
            await asyncio.sleep(0.01)
            return [first, *(await decide(webhook, pod()))]

    first, second = asyncio.run(look())
    assert second is first


def test_a_decision_that_repeats_the_volumes_name_is_made_anew() -> None:
    def named(suffix: str) -> dict[str, Any]:
        return pod(None, container(f"kube-api-access-{suffix}"))

    async def look() -> list[Decision]:
        client: Any = ScriptedClient()
        cluster = Cluster(client)
        async with running(*cluster.informers):
            return await decide(Webhook(cluster, GreyRelease(client)), named("abcde"), named("fghij"))

    first, second = asyncio.run(look())
    assert first.worker is not None
    assert second.worker is not None
    assert (first.worker.containers, second.worker.containers) == (("kube-api-access-abcde",), ("kube-api-access-fghij",))
    assert "fghij" in json.dumps(second.patch)
