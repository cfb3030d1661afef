"""Memory limits that the driver holds: slice and leaf, read back, changed live, and gone with their pod."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cgroup_node import GIB, Node, container_id, soft_pod
from fake_nvml import Fake

from tensorfusion_iac.agent import memory_limits
from tensorfusion_iac.agent.cgroups import Cgroups
from tensorfusion_iac.agent.memory_limits import MemoryLimits
from tensorfusion_iac.agent.nvml import Nvml
from tensorfusion_iac.agent.pods import NodePod
from tensorfusion_iac.api.levels import Isolation

Load = Callable[[Fake], Nvml]


class Bench:
    def __init__(self, fake: Fake, node: Node, load: Load, folder: Path) -> None:
        fake.add_card()
        self.fake, self.node, self.record = fake, node, folder / "run" / "limits.json"
        self.nvml = load(fake)
        self.limits = self.again()

    def again(self) -> MemoryLimits:
        return MemoryLimits(self.nvml, Cgroups(self.node.mount), self.record)

    def card(self) -> str:
        return str(self.fake.cards[0].uuid.decode())

    def pod(self, number: int = 1, vram_bytes: int = 8 * GIB) -> NodePod:
        return soft_pod(number, self.card(), 0.3, 0.3, vram_bytes=vram_bytes)

    def in_force(self) -> dict[str, tuple[int, int]]:
        return {Path(path).name: limit for path, limit in self.fake.limits(self.fake.cards[0]).items()}


@pytest.fixture
def bench(fake: Fake, node: Node, loaded: Load, tmp_path: Path) -> Bench:
    return Bench(fake, node, loaded, tmp_path)


def test_the_pods_slice_is_limited_before_its_first_container(bench: Bench) -> None:
    pod = bench.pod()
    bench.limits.keep({pod.uid: pod})
    assert bench.in_force() == {}  # there is no cgroup yet
    assert bench.limits.applied == {}
    bench.node.container(pod.uid, "sandbox-without-a-name")
    bench.limits.keep({pod.uid: pod})
    assert bench.in_force() == {f"pod{pod.uid}": (8 * GIB, 8 * GIB)}
    bench.node.container(pod.uid, container_id(1))
    bench.limits.keep({pod.uid: pod})
    assert bench.in_force() == {f"pod{pod.uid}": (8 * GIB, 8 * GIB), container_id(1): (8 * GIB, 8 * GIB)}
    assert bench.limits.applied == {(pod.uid, bench.card()): 8 * GIB}


def test_a_request_below_the_limit_is_the_soft_limit(bench: Bench) -> None:
    pod = bench.pod()
    pod = replace(pod, cards={bench.card(): replace(pod.cards[bench.card()], vram_request_bytes=2 * GIB)})
    bench.node.container(pod.uid, container_id(1))
    bench.limits.keep({pod.uid: pod})
    assert set(bench.in_force().values()) == {(2 * GIB, 8 * GIB)}


def test_every_card_of_a_pod_is_limited_by_its_uuid(bench: Bench) -> None:
    second = bench.fake.add_card()
    bench.nvml.restart()
    pod = bench.pod()
    pod = replace(pod, cards={**pod.cards, second.uuid.decode(): pod.cards[bench.card()]})
    bench.node.container(pod.uid, container_id(1))
    bench.limits.keep({pod.uid: pod})
    assert [len(bench.fake.limits(card)) for card in bench.fake.cards] == [2, 2]
    assert set(bench.limits.applied) == {(pod.uid, card) for card in pod.cards}


def test_new_amounts_are_set_and_unchanged_ones_are_not_set_again(bench: Bench) -> None:
    pod = bench.pod()
    bench.node.container(pod.uid, container_id(1))
    bench.limits.keep({pod.uid: pod})
    smaller = bench.pod(vram_bytes=4 * GIB)
    bench.limits.keep({pod.uid: smaller})
    assert set(bench.in_force().values()) == {(4 * GIB, 4 * GIB)}
    bench.fake.answer("nvmlDeviceSetMemoryLimits_v1", 999)
    bench.limits.keep({pod.uid: smaller})
    assert bench.limits.applied == {(pod.uid, bench.card()): 4 * GIB}


def test_the_limits_go_with_the_pod_also_if_its_cgroup_went_first(bench: Bench) -> None:
    pod = bench.pod()
    container = bench.node.container(pod.uid, container_id(1))
    bench.limits.keep({pod.uid: pod})
    container.rmdir()
    container.parent.rmdir()
    bench.limits.keep({})
    assert bench.in_force() == {}


def test_a_container_that_comes_back_under_a_new_id_is_limited_at_once(bench: Bench) -> None:
    pod = bench.pod()
    bench.node.container(pod.uid, container_id(1))
    bench.limits.keep({pod.uid: pod})
    bench.node.container(pod.uid, container_id(2))
    bench.limits.keep({pod.uid: replace(pod, containers={container_id(2): "main"})})
    assert set(bench.in_force()) == {f"pod{pod.uid}", container_id(2)}


def test_the_limit_of_a_container_that_ended_goes_before_its_pod(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = bench.pod()
    container = bench.node.container(pod.uid, container_id(1))
    bench.limits.keep({pod.uid: pod})
    container.rmdir()
    monkeypatch.setattr(memory_limits, "SETTLED_S", 0.0)
    bench.limits.keep({pod.uid: pod})
    assert set(bench.in_force()) == {f"pod{pod.uid}"}


def test_a_limit_that_is_refused_is_not_told_as_applied_and_tried_again(bench: Bench) -> None:
    pod = bench.pod()
    bench.node.container(pod.uid, container_id(1))
    bench.fake.answer("nvmlDeviceSetMemoryLimits_v1", 999)
    bench.limits.keep({pod.uid: pod})
    assert bench.limits.applied == {}
    bench.fake.answer("nvmlDeviceSetMemoryLimits_v1", 0)
    bench.limits.keep({pod.uid: pod})
    assert bench.limits.applied == {(pod.uid, bench.card()): 8 * GIB}


def test_while_a_lower_limit_is_refused_the_old_one_is_told(bench: Bench) -> None:
    pod = bench.pod()
    bench.node.container(pod.uid, container_id(1))
    bench.limits.keep({pod.uid: pod})
    smaller = bench.pod(vram_bytes=4 * GIB)
    bench.fake.answer("nvmlDeviceSetMemoryLimits_v1", 999)
    bench.limits.keep({pod.uid: smaller})
    assert bench.limits.applied == {(pod.uid, bench.card()): 8 * GIB}
    bench.fake.answer("nvmlDeviceSetMemoryLimits_v1", 0)
    bench.limits.keep({pod.uid: smaller})
    assert bench.limits.applied == {(pod.uid, bench.card()): 4 * GIB}


def test_a_limit_that_reads_back_otherwise_is_not_told_as_applied(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = bench.pod()
    bench.node.container(pod.uid, container_id(1))
    monkeypatch.setattr(bench.nvml, "memory_limit", lambda card, path: (0, 2**64 - 1))
    bench.limits.keep({pod.uid: pod})
    assert bench.limits.applied == {}


def test_a_restarted_agent_removes_the_limits_of_pods_that_went_meanwhile(bench: Bench) -> None:
    gone, stays = bench.pod(1), bench.pod(2)
    for number, pod in ((1, gone), (2, stays)):
        bench.node.container(pod.uid, container_id(number))
    bench.limits.keep({gone.uid: gone, stays.uid: stays})
    bench.again().keep({stays.uid: stays})
    assert set(bench.in_force()) == {f"pod{stays.uid}", container_id(2)}


@pytest.mark.parametrize("text", ["", "nonsense", "[[1]]", "{}"])
def test_a_record_that_cannot_be_read_is_none(bench: Bench, text: str) -> None:
    bench.record.parent.mkdir()
    bench.record.write_text(text)
    pod = bench.pod()
    bench.node.container(pod.uid, container_id(1))
    limits = bench.again()
    limits.keep({pod.uid: pod})
    assert limits.applied


@pytest.mark.parametrize(
    "change", [{"holds_memory": False}, {"isolation": Isolation.SHARED}, {"isolation": Isolation.PARTITIONED}]
)
def test_memory_that_is_not_to_be_held_is_not_limited(bench: Bench, change: dict[str, object]) -> None:
    pod = replace(bench.pod(), **change)  # type: ignore[arg-type]
    bench.node.container(pod.uid, container_id(1))
    bench.limits.keep({pod.uid: pod})
    assert bench.in_force() == {}


def test_at_the_end_no_limit_is_left(bench: Bench) -> None:
    pod = bench.pod()
    bench.node.container(pod.uid, container_id(1))
    bench.limits.keep({pod.uid: pod})
    bench.limits.clear_all()
    assert bench.in_force() == {}
