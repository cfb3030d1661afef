"""The client against a real API server: objects, paging, watches, patches, and what goes wrong."""

from __future__ import annotations

import asyncio
import gc
import socket
from contextlib import aclosing
from pathlib import Path

import pytest
from running_plane import ControlPlane

from tensorfusion_iac.kube.client import Client, Event, Object, PatchType
from tensorfusion_iac.kube.errors import ApiError, ApiUnreachable
from tensorfusion_iac.kube.resource import CONFIG_MAPS, CRDS, GPUS, NAMESPACES, NODES, Resource

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def namespace(control_plane: ControlPlane) -> str:
    name = "kube-client"
    control_plane.ask(lambda client: client.apply(NAMESPACES, {"metadata": {"name": name}}, "test"))
    return name


def config_map(name: str, **data: str) -> Object:
    return {"metadata": {"name": name}, "data": data}


def test_an_object_is_created_read_changed_and_deleted(control_plane: ControlPlane, namespace: str) -> None:
    async def use(client: Client) -> None:
        made = await client.create(CONFIG_MAPS, config_map("one", a="1"), namespace)
        assert await client.get(CONFIG_MAPS, "one", namespace) == made
        merged = await client.merge(CONFIG_MAPS, "one", {"data": {"a": None, "b": "2"}}, namespace)
        assert merged["data"] == {"b": "2"}
        steps = [{"op": "test", "path": "/data/b", "value": "2"}, {"op": "add", "path": "/data/c", "value": "3"}]
        patched = await client.patch(CONFIG_MAPS, "one", steps, PatchType.JSON, namespace)
        assert patched["data"] == {"b": "2", "c": "3"}
        await client.delete(CONFIG_MAPS, "one", namespace)
        await client.delete(CONFIG_MAPS, "one", namespace)
        with pytest.raises(ApiError) as error:
            await client.get(CONFIG_MAPS, "one", namespace)
        assert error.value.not_found
        assert 'configmaps "one" not found' in str(error.value)

    control_plane.ask(use)


def test_apply_creates_then_changes_nothing_then_removes_what_it_no_longer_says(
    control_plane: ControlPlane, namespace: str
) -> None:
    async def use(client: Client) -> None:
        body = config_map("applied", a="1", b="2")
        body["metadata"]["namespace"] = namespace
        first = await client.apply(CONFIG_MAPS, body, "me")
        again = await client.apply(CONFIG_MAPS, body, "me")
        assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        await client.merge(CONFIG_MAPS, "applied", {"data": {"theirs": "x"}}, namespace, field_manager="other")
        last = await client.apply(CONFIG_MAPS, body | {"data": {"a": "1"}}, "me")
        assert last["data"] == {"a": "1", "theirs": "x"}

    control_plane.ask(use)


def test_a_list_is_read_page_by_page(control_plane: ControlPlane, namespace: str) -> None:
    async def use(client: Client) -> None:
        labels = {"test": "pages"}
        for number in range(5):
            body = config_map(f"page-{number}")
            body["metadata"]["labels"] = labels
            await client.create(CONFIG_MAPS, body, namespace)
        listing = await client.list(CONFIG_MAPS, namespace, label_selector="test=pages", page_size=2)
        assert [item["metadata"]["name"] for item in listing.items] == [f"page-{number}" for number in range(5)]
        assert listing.resource_version
        one = await client.list(CONFIG_MAPS, namespace, field_selector="metadata.name=page-3")
        assert len(one.items) == 1

    control_plane.ask(use)


def test_a_watch_tells_what_happened_after_the_list(control_plane: ControlPlane, namespace: str) -> None:
    large = "x" * 300_000  # far more than one read of a socket gives

    async def use(client: Client) -> list[Event]:
        listing = await client.list(CONFIG_MAPS, namespace)
        await client.create(CONFIG_MAPS, config_map("watched", text=large), namespace)
        await client.merge(CONFIG_MAPS, "watched", {"data": {"text": "small"}}, namespace)
        await client.delete(CONFIG_MAPS, "watched", namespace)
        seen = []
        async with aclosing(
            client.watch(
                CONFIG_MAPS, namespace, resource_version=listing.resource_version, field_selector="metadata.name=watched"
            )
        ) as events:
            async for event in events:
                seen.append(event)
                if event.type == "DELETED":
                    return seen
        raise AssertionError("the watch ended early")

    seen = control_plane.ask(use)
    assert [event.type for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert seen[0].object["data"]["text"] == large


def test_a_watch_that_is_left_early_leaves_no_connection_behind(control_plane: ControlPlane) -> None:
    async def use(client: Client) -> Event:
        async with aclosing(client.watch(NODES)) as events:
            async for event in events:
                return event
        raise AssertionError("the watch ended early")

    assert control_plane.ask(use).type == "ADDED"
    gc.collect()  # what is not closed by now is a ResourceWarning, and so an error


def test_a_watch_ends_by_itself_in_time(control_plane: ControlPlane, namespace: str) -> None:
    async def use(client: Client) -> list[str]:
        return [event.type async for event in client.watch(NODES, timeout_s=1)]

    assert set(control_plane.ask(use)) <= {"ADDED", "MODIFIED", "BOOKMARK"}


def test_a_watch_that_is_refused_says_why(control_plane: ControlPlane) -> None:
    async def use(client: Client) -> None:
        async for _ in client.watch(NODES, field_selector="no-such-field=1"):
            pass

    with pytest.raises(ApiError, match="no-such-field") as error:
        control_plane.ask(use)
    assert error.value.status == 400


def test_creating_twice_and_writing_over_a_newer_version_are_told_apart(control_plane: ControlPlane, namespace: str) -> None:
    async def use(client: Client) -> tuple[ApiError, ApiError]:
        await client.create(CONFIG_MAPS, config_map("twice"), namespace)
        with pytest.raises(ApiError) as second:
            await client.create(CONFIG_MAPS, config_map("twice"), namespace)
        stale = {"metadata": {"resourceVersion": "1"}, "data": {"a": "b"}}
        with pytest.raises(ApiError) as older:
            await client.merge(CONFIG_MAPS, "twice", stale, namespace)
        return second.value, older.value

    second, older = control_plane.ask(use)
    assert (second.already_exists, second.conflict) == (True, False)
    assert (older.already_exists, older.conflict) == (False, True)


def test_a_kind_that_is_not_served_is_not_found(control_plane: ControlPlane) -> None:
    with pytest.raises(ApiError) as error:
        control_plane.ask(lambda client: client.list(Resource("nobody.example.com", "v1", "things", "Thing")))
    assert error.value.not_found


def test_a_refused_object_says_why(control_plane: ControlPlane, namespace: str) -> None:
    with pytest.raises(ApiError, match="a lowercase RFC 1123 subdomain") as error:
        control_plane.ask(lambda client: client.create(CONFIG_MAPS, config_map("No Name"), namespace))
    assert error.value.reason == "Invalid"


def test_plain_text_is_read_too(control_plane: ControlPlane) -> None:
    assert control_plane.ask(lambda client: client.text("/readyz")) == "ok"


def test_a_server_that_is_not_there_is_named(control_plane: ControlPlane, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    text = control_plane.kubeconfig.read_text()
    moved = tmp_path / "kubeconfig"
    moved.write_text(text.replace(text.split("server: ")[1].split("\n")[0], f"https://127.0.0.1:{port}"))

    async def use() -> None:
        async with await Client.from_kubeconfig(moved) as client:
            await client.list(NODES)

    with pytest.raises(ApiUnreachable, match=f"cannot reach the Kubernetes API at https://127.0.0.1:{port}: "):
        asyncio.run(use())


def test_paths_are_those_of_the_api() -> None:
    assert NODES.path() == "/api/v1/nodes"
    assert CONFIG_MAPS.path("ns", "one") == "/api/v1/namespaces/ns/configmaps/one"
    assert GPUS.path(None, "gpu-1", "status") == "/apis/tensor-fusion.ai/v1/gpus/gpu-1/status"
    assert (GPUS.api_version, NODES.api_version, CRDS.kind) == ("tensor-fusion.ai/v1", "v1", "CustomResourceDefinition")
