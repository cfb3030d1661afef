"""MPS for isolation hard, with a control program that logs what it is told and answers as the real one does."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cgroup_node import soft_pod
from fake_nvml import KIND_MPS, Fake

from tensorfusion_iac.agent.mps import Mps, clients
from tensorfusion_iac.agent.nvml import Nvml
from tensorfusion_iac.agent.pods import NodePod
from tensorfusion_iac.api.levels import Isolation

Load = Callable[[Fake], Nvml]
CONTROL = """#!/bin/sh
echo "devices $CUDA_VISIBLE_DEVICES args $*" >> "$CUDA_MPS_PIPE_DIRECTORY/log"
if [ "$1" = -d ]; then
    test -e "$CUDA_MPS_PIPE_DIRECTORY/control" && { echo "An instance of this daemon is already running" >&2; exit 1; }
    touch "$CUDA_MPS_PIPE_DIRECTORY/control"; exit 0
fi
test -e "$CUDA_MPS_PIPE_DIRECTORY/control" || { echo "Cannot find MPS control daemon process" >&2; exit 1; }
read command
echo "told $command" >> "$CUDA_MPS_PIPE_DIRECTORY/log"
case "$command" in
    get_default_active_thread_percentage) cat "$CUDA_MPS_PIPE_DIRECTORY/percent" 2>/dev/null || echo 100.0 ;;
    quit) rm "$CUDA_MPS_PIPE_DIRECTORY/control" ;;
esac
"""


class Bench:
    def __init__(self, fake: Fake, load: Load, folder: Path) -> None:
        for _ in range(3):
            fake.add_card()
        self.fake, self.nvml, self.root = fake, load(fake), folder / "mps"
        self.control = folder / "nvidia-cuda-mps-control"
        self.control.write_text(CONTROL)
        self.control.chmod(0o755)
        self.mps = Mps(self.nvml, self.root, str(self.control))

    def card(self, index: int) -> str:
        return str(self.fake.cards[index].uuid.decode())

    def pod(self, number: int, *indices: int) -> NodePod:
        pod = soft_pod(number, self.card(0), 0.5, 0.5)
        limits = pod.cards[self.card(0)]
        return replace(pod, isolation=Isolation.HARD, cards={self.card(index): limits for index in indices})

    def keep(self, *pods: NodePod) -> None:
        self.mps.keep({pod.uid: pod for pod in pods})

    def folder(self, index: int) -> Path:
        return self.root.with_name("mps-cards") / self.card(index).lower()


@pytest.fixture
def bench(fake: Fake, loaded: Load, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(fake, loaded, tmp_path)
    yield made
    made.keep()
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    left = [mount for mount in mounts if mount.startswith(str(tmp_path))]
    for mount in left:
        subprocess.run(["umount", mount], check=False)
    assert left == []


def test_pods_of_one_card_share_its_daemon_and_the_card_is_exclusive(bench: Bench) -> None:
    first, second = bench.pod(1, 0), bench.pod(2, 0)
    bench.keep(first, second)
    assert bench.mps.served == {first.uid, second.uid}
    assert bench.nvml.exclusive(bench.card(0))
    assert not bench.nvml.exclusive(bench.card(1))
    for pod in (first, second):
        assert (bench.root / pod.uid / "control").exists()
    log = (bench.folder(0) / "log").read_text()
    assert log.count("args -d") == 1
    assert f"devices {bench.card(0)} " in log  # no context on any other card


def test_the_daemon_goes_with_the_last_pod_and_the_card_is_given_back(bench: Bench) -> None:
    first, second = bench.pod(1, 0), bench.pod(2, 0)
    bench.keep(first, second)
    bench.keep(second)
    assert not (bench.root / first.uid).exists()
    assert bench.nvml.exclusive(bench.card(0))
    bench.keep()
    assert not bench.nvml.exclusive(bench.card(0))
    assert "told quit" in (bench.folder(0) / "log").read_text()


def test_a_pod_whose_cards_overlap_another_daemon_is_told_so(bench: Bench) -> None:
    one, both = bench.pod(1, 0), bench.pod(2, 0, 1)
    bench.keep(one, both)
    assert bench.mps.served == {one.uid}
    assert bench.card(0) in bench.mps.faults[both.uid]


def test_a_daemon_of_an_earlier_agent_is_taken_over(bench: Bench) -> None:
    pod = bench.pod(1, 0)
    bench.keep(pod)
    again = Mps(bench.nvml, bench.root, str(bench.control))
    again.keep({pod.uid: pod})
    assert again.served == {pod.uid}
    assert (bench.folder(0) / "log").read_text().count("args -d") == 1


def test_what_an_earlier_agent_linked_for_a_pod_that_went_is_removed(bench: Bench) -> None:
    pod = bench.pod(1, 0)
    bench.keep(pod)
    Mps(bench.nvml, bench.root, str(bench.control)).keep({})
    assert list(bench.root.iterdir()) == []


def test_a_limit_that_reads_back_otherwise_serves_nobody(bench: Bench) -> None:
    bench.folder(0).mkdir(parents=True)
    (bench.folder(0) / "percent").write_text("25.0\n")
    pod = bench.pod(1, 0)
    bench.keep(pod)
    assert bench.mps.served == frozenset()
    assert "25.0" in bench.mps.faults[pod.uid]


def test_a_card_that_does_not_become_exclusive_serves_nobody(bench: Bench) -> None:
    bench.fake.answer("nvmlDeviceSetComputeMode", 4)
    pod = bench.pod(1, 0)
    bench.keep(pod)
    assert bench.mps.served == frozenset()
    assert pod.uid in bench.mps.faults


def test_a_node_without_mps_says_so(bench: Bench) -> None:
    mps = Mps(bench.nvml, bench.root, "no-such-control-program")
    pod = bench.pod(1, 0)
    mps.keep({pod.uid: pod})
    assert not mps.available
    assert "not on this node" in mps.faults[pod.uid]


def test_soft_pods_get_no_daemon(bench: Bench) -> None:
    bench.keep(replace(bench.pod(1, 0), isolation=Isolation.SOFT))
    assert not bench.folder(0).exists()


def test_clients_are_who_the_driver_says(bench: Bench) -> None:
    bench.fake.add_process(bench.fake.cards[0], 7, 1, KIND_MPS)
    bench.fake.add_process(bench.fake.cards[0], 8, 1)
    assert clients(bench.nvml, bench.card(0)) == [7]
