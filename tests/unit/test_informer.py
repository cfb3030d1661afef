"""The watch cache, against a scripted API: what a program is told, whatever the server's stream left out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scripted_server import Script

from tensorfusion_iac.kube.client import Event
from tensorfusion_iac.kube.errors import ApiError, ApiUnreachable
from tensorfusion_iac.kube.informer import Change, ChangeType, Informer, running
from tensorfusion_iac.kube.resource import PODS


def pod(name: str, version: int, uid: str = "") -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata | {"managedFields": [{"manager": "someone"}]}}


def follow(*answers: list[Any] | Exception) -> tuple[list[Change], Informer, Script]:
    async def run() -> tuple[list[Change], Informer, Script]:
        script, told = Script(*answers), []
        informer = Informer(script, PODS)  # type: ignore[arg-type]
        informer.on_change(told.append)
        async with running(informer):
            await asyncio.wait_for(script.exhausted.wait(), 20)
        return told, informer, script

    return asyncio.run(run())


def brief(told: list[Change]) -> list[tuple[ChangeType, str, str]]:
    return [(change.type, change.key[1], change.object["metadata"]["uid"]) for change in told]


ADDED, MODIFIED, DELETED = ChangeType.ADDED, ChangeType.MODIFIED, ChangeType.DELETED


def test_a_list_and_the_events_after_it_are_told_in_order() -> None:
    told, informer, script = follow(
        [pod("a", 1)],
        [Event("ADDED", pod("b", 101)), Event("MODIFIED", pod("a", 102)), Event("DELETED", pod("b", 103))],
    )
    assert brief(told) == [(ADDED, "a", "uid-a"), (ADDED, "b", "uid-b"), (MODIFIED, "a", "uid-a"), (DELETED, "b", "uid-b")]
    assert [item["metadata"]["name"] for item in informer] == ["a"]
    assert script.watched_from == ["100", "103"]


def test_a_bookmark_moves_the_watch_on_and_tells_nothing() -> None:
    bookmark = Event("BOOKMARK", {"metadata": {"resourceVersion": "500"}})
    told, _, script = follow([pod("a", 1)], [bookmark])
    assert brief(told) == [(ADDED, "a", "uid-a")]
    assert script.watched_from[-1] == "500"


def test_a_deletion_that_the_watch_lost_is_told_at_the_next_list() -> None:
    told, _, _ = follow([pod("a", 1), pod("b", 2)], ApiError(410, "Expired", "too old"), [pod("b", 2)])
    assert brief(told) == [(ADDED, "a", "uid-a"), (ADDED, "b", "uid-b"), (DELETED, "a", "uid-a")]


def test_another_object_of_the_same_name_is_a_deletion_and_an_addition() -> None:
    told, _, _ = follow([pod("a", 1)], ApiError(410, "Expired", "too old"), [pod("a", 9, uid="new")])
    assert brief(told) == [(ADDED, "a", "uid-a"), (DELETED, "a", "uid-a"), (ADDED, "a", "new")]


def test_a_repeated_event_is_told_once() -> None:
    told, _, _ = follow([], [Event("ADDED", pod("a", 101)), Event("ADDED", pod("a", 101))])
    assert brief(told) == [(ADDED, "a", "uid-a")]


@pytest.mark.parametrize("failure", [ApiUnreachable("server", OSError()), ApiError(500, "InternalError", "etcd")])
def test_a_failure_is_followed_by_another_try(failure: Exception) -> None:
    told, _, _ = follow(failure, [pod("a", 1)])
    assert brief(told) == [(ADDED, "a", "uid-a")]


def test_a_handler_that_fails_does_not_end_the_cache() -> None:
    async def run() -> list[str]:
        script, told = Script([pod("a", 1), pod("b", 2)]), []
        informer = Informer(script, PODS)  # type: ignore[arg-type]

        def handler(change: Change) -> None:
            told.append(change.key[1])
            if change.key[1] == "a":
                raise ValueError("strange object")

        informer.on_change(handler)
        async with running(informer):
            return told

    assert asyncio.run(run()) == ["a", "b"]


def test_a_wanted_relist_ends_the_watch_at_once() -> None:
    async def run() -> list[tuple[ChangeType, str, str]]:
        script, told = Script([pod("a", 1)]), []
        informer = Informer(script, PODS)  # type: ignore[arg-type]
        informer.on_change(told.append)
        async with running(informer):
            await asyncio.wait_for(script.exhausted.wait(), 20)
            script.exhausted.clear()
            script.answers.append([pod("b", 5)])
            informer.relist()
            await asyncio.wait_for(script.exhausted.wait(), 20)
        return brief(told)

    assert asyncio.run(run()) == [(ADDED, "a", "uid-a"), (DELETED, "a", "uid-a"), (ADDED, "b", "uid-b")]


def test_what_nobody_reads_is_not_kept() -> None:
    _, informer, _ = follow([pod("a", 1)])
    assert all("managedFields" not in item["metadata"] for item in informer)
