"""Groups that start together: all or none, the pause after a failed attempt, Bindings that wait for each other (SPEC §2)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from test_scheduling_state import Cluster, pod, spec

from tensorfusion_iac.api import names
from tensorfusion_iac.api.worker import Gang
from tensorfusion_iac.kube.informer import ChangeType
from tensorfusion_iac.scheduling import gangs as module
from tensorfusion_iac.scheduling.explaining import Explaining
from tensorfusion_iac.scheduling.gangs import Gangs
from tensorfusion_iac.scheduling.metrics import Metrics
from tensorfusion_iac.scheduling.pods import GANG_READY, read_pod


class Server:
    """Keeps the pods as an API server would, and merges what is patched."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.pods: dict[str, dict[str, Any]] = {}
        self.woken: list[str] = []

    def create(self, name: str, *, gib: int = 80, needed: int = 2, timeout_s: float | None = None, gated: bool = True) -> None:
        timeout = None if timeout_s is None else timedelta(seconds=timeout_s)
        item = pod(name, spec(gib, gang=Gang(needed, timeout), workload="group"))
        if gated:
            item["spec"]["schedulingGates"] = [{"name": names.GANG_GATE}]
        self.pods[name] = item
        self.cluster.see(item, ChangeType.ADDED)

    async def patch(self, resource: Any, name: str, body: dict[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
        item = self.pods[name]
        version = str(int(item["metadata"]["resourceVersion"]) + 1)
        if names.key("wake") in body["metadata"].get("annotations", {}):
            self.woken.append(name)
        item = self.pods[name] = item | {
            "metadata": item["metadata"] | {"resourceVersion": version},
            "spec": item["spec"] | body.get("spec", {}),
            "status": item["status"] | body.get("status", {}),
        }
        self.cluster.see(item)
        return item


class Group:
    """A cluster of one node with groups on it."""

    def __init__(self, cards: int = 2) -> None:
        self.cluster = Cluster(cards=cards)
        self.server = Server(self.cluster)
        client: Any = self.server
        self.gangs = Gangs(client, self.cluster.state, self.cluster.decider, Metrics(), lambda: True)
        self.gangs.attach()

    def look(self, after_s: float = 0.0) -> None:
        self.cluster.clock.now += after_s
        self.cluster.state.expire(watch_is_fresh=True)
        asyncio.run(self.gangs.look())

    def is_let_go(self, name: str) -> bool:
        return not self.server.pods[name]["spec"].get("schedulingGates")

    def told(self, name: str) -> tuple[str, str]:
        """Reason and message of the condition."""
        conditions = self.server.pods[name]["status"].get("conditions") or []
        return next(((one["reason"], one["message"]) for one in conditions if one["type"] == GANG_READY), ("", ""))

    def fits(self, gib: int = 80) -> bool:
        return self.cluster.fits(spec(gib))

    def filter(self, name: str) -> dict[str, str]:
        """kube-scheduler asks for the pod; why not, by node."""
        verdict = self.cluster.decider.filter(read_pod(self.server.pods[name]), ["n0"])
        return {} if verdict.nodes else verdict.failed


def test_a_group_is_let_go_when_all_of_it_fits_and_its_cards_are_held_then() -> None:
    group = Group(cards=2)
    group.server.create("a")
    group.look()
    assert group.told("a") == ("Waiting", "1 of 2 members exist")
    group.server.create("b")
    group.look()
    assert group.is_let_go("a")
    assert group.is_let_go("b")
    assert not group.fits(1)
    assert group.filter("a") == group.filter("b") == {}


def test_a_group_of_which_a_part_fits_holds_nothing() -> None:
    group = Group(cards=1)
    for name in ("a", "b"):
        group.server.create(name)
    group.look()
    assert not group.is_let_go("a")
    assert group.told("a")[1].startswith("1 of 2 members can be placed; the next: 1 node: VRAM 80Gi asked")
    assert group.fits()


def test_a_group_that_timed_out_is_tried_again_after_a_pause_that_grows() -> None:
    group = Group(cards=2)
    busy = group.cluster.run("busy", spec(80))
    for name in ("a", "b"):
        group.server.create(name, timeout_s=30)
    group.look()
    group.look(after_s=31)
    reason, message = group.told("a")
    assert reason == "TimedOut"
    assert message.startswith("gave up after 31 s: 1 of 2 members can be placed")
    assert message.endswith("tried again after 10 s")
    group.cluster.see(busy, ChangeType.DELETED)  # there would be room now
    group.look(after_s=9)
    assert not group.is_let_go("a")
    group.look(after_s=2)
    assert group.is_let_go("a")


def test_the_second_pause_is_twice_the_first() -> None:
    group = Group(cards=1)
    for name in ("a", "b"):
        group.server.create(name, timeout_s=30)
    group.look()
    for pause_s in (10, 20, 40):
        group.look(after_s=31)
        assert group.told("a")[1].endswith(f"tried again after {pause_s} s")
        group.look(after_s=pause_s)  # another attempt begins
        assert group.told("a")[0] == "Waiting"


def test_a_new_member_ends_the_pause() -> None:
    group = Group(cards=2)
    group.server.create("a", timeout_s=30)
    group.look()
    group.look(after_s=31)
    assert group.told("a")[0] == "TimedOut"
    group.server.create("b", timeout_s=30)
    group.look()
    assert group.is_let_go("a")


def test_a_group_without_a_timeout_waits_for_ever() -> None:
    group = Group(cards=2)
    group.server.create("a")
    group.look()
    group.look(after_s=10_000)
    assert group.told("a") == ("Waiting", "1 of 2 members exist")


def test_a_let_go_group_that_finds_no_cpu_gives_its_cards_back_and_is_tried_again() -> None:
    group = Group(cards=2)
    for name in ("a", "b"):
        group.server.create(name, timeout_s=30)
    group.look()
    assert not group.fits()  # and kube-scheduler never comes, for no node has CPU for them
    group.look(after_s=31)
    assert group.fits()
    assert group.told("a") == (
        "TimedOut", "gave up after 31 s: 0 of 2 members found a node with room; tried again after 10 s",
    )  # fmt: skip
    assert group.filter("a") == {"n0": group.told("a")[1]}
    group.look(after_s=11)
    assert not group.fits()  # held again
    assert group.server.woken == ["a"]  # the one that was refused meanwhile
    assert group.filter("a") == {}


def test_members_of_a_started_group_that_come_later_are_let_go_one_by_one() -> None:
    group = Group(cards=4)
    for name in ("a", "b"):
        group.server.create(name)
    group.look()
    for name in ("a", "b"):
        group.cluster.see(group.cluster.merged(group.server.pods[name], group.cluster.bind(group.server.pods[name]), version=9))
    group.server.create("c")
    group.look()
    assert group.is_let_go("c")
    assert group.filter("c") == {}


def test_a_member_that_is_made_anew_starts_though_another_has_finished() -> None:
    group = Group(cards=4)
    shown = {}
    for name in ("a", "b", "c"):
        group.server.create(name, needed=3)
    group.look()
    for name in ("a", "b", "c"):
        shown[name] = group.cluster.merged(group.server.pods[name], group.cluster.bind(group.server.pods[name]), version=9)
        group.cluster.see(shown[name])
    group.look()
    group.cluster.see(shown["a"] | {"status": {"phase": "Succeeded"}})
    group.cluster.see(shown["b"], ChangeType.DELETED)
    group.server.create("b2", needed=3)
    group.look()
    assert group.is_let_go("b2")
    group.cluster.see(shown["c"], ChangeType.DELETED)  # with the last that ran a new start begins
    group.server.create("c2", needed=3)
    group.look()
    assert not group.is_let_go("c2")


def test_bindings_of_a_group_wait_for_each_other() -> None:
    group = Group(cards=2)
    for name in ("a", "b"):
        group.server.create(name)
    group.look()

    async def bind() -> tuple[bool, list[str]]:
        first = asyncio.ensure_future(group.gangs.meet(read_pod(group.server.pods["a"])))
        await asyncio.sleep(0.05)
        waited = not first.done()
        return waited, [await group.gangs.meet(read_pod(group.server.pods["b"])), await first]

    assert asyncio.run(bind()) == (True, ["", ""])


def test_a_binding_whose_group_does_not_come_is_refused_and_all_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEET_S", 0.05)
    group = Group(cards=3)
    for name in ("a", "b", "c"):
        group.server.create(name, needed=3)
    group.look()

    async def bind() -> list[str]:
        return await asyncio.gather(*(group.gangs.meet(read_pod(group.server.pods[name])) for name in ("a", "b")))

    why = asyncio.run(bind())
    assert why == ["gave up after 0 s: 2 of 3 members found a node with room; tried again after 10 s"] * 2
    assert group.cluster.free_gib() == [80, 80, 80]
    assert asyncio.run(group.gangs.meet(read_pod(group.server.pods["c"]))) == why[0]  # too late


def test_a_restart_between_the_gates_and_the_bindings_changes_nothing() -> None:
    group = Group(cards=2)
    for name in ("a", "b"):
        group.server.create(name, gated=False)
    assert group.filter("a") == {}
    assert group.cluster.free_gib() == [0, 0]  # the other's card is held too


def test_explain_says_how_the_group_stands() -> None:
    group = Group(cards=1)
    for name in ("a", "b"):
        group.server.create(name)
    group.look()
    found = Explaining(group.cluster.state, group.cluster.decider).explain("pod", "ns", "a")
    assert found is not None
    (told,) = found["pods"]  # type: ignore[misc]
    assert told["gang"] == {"minMembers": 2, "members": 2, "bound": 0, "message": group.told("a")[1]}
    assert told["text"] == (
        f"2 of group group start together, 2 members exist, 0 bound: {group.told('a')[1]}; by itself it fits 1 of 1 nodes now"
    )
    assert told["state"] == "gated"
