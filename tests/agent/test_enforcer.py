"""The enforcer on simulated cards and real processes: who is on which card, who is held to what, and what is told of it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cgroup_node import GIB, Node, container_id, soft_pod
from fake_nvml import GPU_IS_LOST, Fake

from tensorfusion_iac.agent import enforcer as enforcers
from tensorfusion_iac.agent import overuse
from tensorfusion_iac.agent.cgroup_path import DUTY
from tensorfusion_iac.agent.cgroups import Cgroups
from tensorfusion_iac.agent.enforcer import Enforcer, EnforcerThread, Notice
from tensorfusion_iac.agent.freezer import members
from tensorfusion_iac.agent.nvml import Nvml
from tensorfusion_iac.agent.pods import NodePod
from tensorfusion_iac.agent.processes import ProcessTable
from tensorfusion_iac.agent.pulser import Pulser
from tensorfusion_iac.api.levels import Isolation, QoS

Load = Callable[[Fake], Nvml]
SLEEPER = ["/bin/sh", "-c", "echo ready; exec sleep 600"]


class Bench:
    """An enforcer on a node, with a clock of its own; rounds are made by hand."""

    def __init__(self, fake: Fake, node: Node, load: Load) -> None:
        self.fake, self.node, self.now_s = fake, node, 1000.0
        self.sampled_us = time.time_ns() // 1000
        self.notices: list[Notice] = []
        self.pulser = Pulser()
        self.enforcer = Enforcer(
            load(fake), ProcessTable(Cgroups(node.mount)), self.pulser, notice=self.notices.append, clock=lambda: self.now_s
        )

    def card(self, index: int = 0) -> str:
        return str(self.fake.cards[index].uuid.decode())

    def process(self, pod: NodePod, used_bytes: int = GIB, index: int = 0) -> int:
        """A process of a pod's container, on a card."""
        container = self.node.container(pod.uid, next(iter(pod.containers)))
        pid = self.node.run(container, SLEEPER).pid
        self.fake.add_process(self.fake.cards[index], pid, used_bytes)
        return pid

    def serve(self, *pods: NodePod) -> None:
        self.enforcer.pods = {pod.uid: pod for pod in pods}

    def round(self, seconds: float = 0.5, use: dict[int, int] | None = None, index: int = 0) -> None:
        """One round of each kind, after `seconds` in which the processes used so many percent."""
        for _ in range(3):
            self.sampled_us += 166_667
            for pid, percent in (use or {}).items():
                self.fake.add_sample(self.fake.cards[index], pid, percent, self.sampled_us)
            self.enforcer.sample()
        self.enforcer.sample()
        self.enforcer.look()
        self.now_s += seconds
        self.enforcer.control()


@pytest.fixture
def bench(fake: Fake, node: Node, loaded: Load) -> Bench:
    fake.add_card()
    fake.add_card()
    return Bench(fake, node, loaded)


def duty_of(bench: Bench, pod: NodePod) -> Path:
    return bench.node.container(pod.uid, next(iter(pod.containers))) / DUTY


def test_only_the_processes_on_the_card_are_moved_into_the_child(bench: Bench) -> None:
    pod = soft_pod(1, bench.card(), 0.3, 0.3)
    pid = bench.process(pod)
    other = bench.node.run(bench.node.container(pod.uid, container_id(1)), SLEEPER).pid
    bench.serve(pod)
    bench.round()
    assert list(members(duty_of(bench, pod))) == [pid]
    assert list(members(duty_of(bench, pod).parent)) == [other]


@pytest.mark.parametrize(
    "pod",
    [
        replace(soft_pod(1, "", 0.3, 0.3), isolation=Isolation.SHARED),
        replace(soft_pod(1, "", 0.3, 0.3), isolation=Isolation.HARD),
        replace(soft_pod(1, "", 0.3, 0.3), isolation=Isolation.PARTITIONED),
        replace(soft_pod(1, "", 0.3, 0.3), holds_compute=False),
    ],
    ids=["shared", "hard", "partitioned", "gpu-limiter disabled"],
)
def test_a_pod_that_is_not_to_be_paced_is_never_touched(bench: Bench, pod: NodePod) -> None:
    pod = replace(pod, cards={bench.card(): pod.cards[""]})
    pid = bench.process(pod)
    bench.serve(pod)
    for _ in range(5):
        bench.round(use={pid: 100})
    assert not duty_of(bench, pod).exists()
    assert bench.enforcer.seen.containers[0].compute > 0.9


def test_a_pod_that_is_not_in_the_list_is_never_touched(bench: Bench) -> None:
    pod = soft_pod(1, bench.card(), 0.3, 0.3)
    pid = bench.process(pod)
    bench.round(use={pid: 100})
    assert not duty_of(bench, pod).exists()
    assert bench.enforcer.seen.foreign == {bench.card()}


def test_a_process_of_no_pod_makes_the_card_foreign_and_an_mps_server_does_not(bench: Bench, tmp_path: Path) -> None:
    program = tmp_path / "nvidia-cuda-mps-server"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    with subprocess.Popen([str(program), "60"]) as server, subprocess.Popen(["/bin/sleep", "60"]) as stranger:
        try:
            time.sleep(0.2)  # until both have become what they are
            bench.fake.add_process(bench.fake.cards[0], server.pid)
            bench.fake.add_process(bench.fake.cards[1], stranger.pid)
            bench.round()
            assert bench.enforcer.seen.foreign == {bench.card(1)}
        finally:
            server.kill()
            stranger.kill()


def test_a_hungry_pod_is_held_and_a_critical_one_never(bench: Bench) -> None:
    held, critical = soft_pod(1, bench.card(), 0.3, 0.3), soft_pod(2, bench.card(), 0.3, 0.3, QoS.CRITICAL)
    pids = [bench.process(held), bench.process(critical)]
    bench.serve(held, critical)
    for _ in range(12):
        bench.round(use=dict.fromkeys(pids, 50))
    seen = bench.enforcer.seen
    assert bench.enforcer.seen.targets[held.uid, bench.card()] == pytest.approx(0.3)
    assert (critical.uid, bench.card()) in seen.unreachable
    pulses = {uid: bench.pulser._pulsed[uid].pulse for uid in (held.uid, critical.uid)}
    assert pulses[held.uid].frozen_s > 0
    assert pulses[critical.uid].frozen_s == 0


def test_the_use_of_a_pod_is_the_sum_of_its_processes_and_not_its_neighbours(bench: Bench) -> None:
    first, second = soft_pod(1, bench.card(), 0.5, 1.0), soft_pod(2, bench.card(), 0.5, 1.0)
    pids = [bench.process(first), bench.process(first, 2 * GIB), bench.process(second)]
    bench.serve(first, second)
    bench.round()
    bench.round(use={pids[0]: 20, pids[1]: 30, pids[2]: 10})
    uses = {use.pod_uid: use for use in bench.enforcer.seen.containers}
    assert uses[first.uid].compute / uses[second.uid].compute == pytest.approx(5, rel=0.1)
    assert (uses[first.uid].vram_bytes, uses[second.uid].vram_bytes) == (3 * GIB, GIB)
    assert uses[first.uid].container == "main"
    assert uses[first.uid].sample_age_s is not None


def test_a_pod_of_two_cards_is_held_on_both_by_the_stricter(bench: Bench) -> None:
    pod = soft_pod(1, bench.card(0), 0.9, 0.9)
    pod = replace(pod, cards={bench.card(0): pod.cards[bench.card(0)], bench.card(1): soft_pod(1, "", 0.2, 0.2).cards[""]})
    pid = bench.process(pod)
    bench.fake.add_process(bench.fake.cards[1], pid)
    bench.serve(pod)
    for _ in range(10):
        bench.round(use={pid: 40}, index=1)
    pulse = bench.pulser._pulsed[pod.uid].pulse
    assert pulse.duty < 0.5
    assert bench.enforcer.seen.targets[pod.uid, bench.card(1)] == pytest.approx(0.2)


def test_new_limits_are_used_by_the_next_round(bench: Bench) -> None:
    pod = soft_pod(1, bench.card(), 0.3, 0.3)
    pid = bench.process(pod)
    bench.serve(pod)
    for _ in range(6):
        bench.round(use={pid: 90})
    bench.serve(soft_pod(1, bench.card(), 0.6, 0.6))
    bench.round(use={pid: 90})
    assert bench.enforcer.seen.targets[pod.uid, bench.card()] == pytest.approx(0.6)
    bench.serve(soft_pod(1, bench.card(), 1.0, 1.0))
    bench.round(use={pid: 90})
    assert bench.pulser._pulsed[pod.uid].pulse.frozen_s == 0


def test_a_pod_that_goes_gives_its_processes_back(bench: Bench) -> None:
    pod = soft_pod(1, bench.card(), 0.3, 0.3)
    pid = bench.process(pod)
    bench.serve(pod)
    bench.round(use={pid: 90})
    bench.serve()
    bench.round()
    assert not duty_of(bench, pod).exists()
    bench.serve(pod)
    bench.round(use={pid: 90})
    assert list(members(duty_of(bench, pod))) == [pid]


def test_a_lost_card_hides_no_other(bench: Bench) -> None:
    pod = soft_pod(1, bench.card(1), 0.3, 0.3)
    pid = bench.process(pod, index=1)
    bench.serve(pod)
    bench.fake.cards[0].error = GPU_IS_LOST
    bench.round(use={pid: 90}, index=1)
    assert bench.enforcer.lost == {bench.card(0)}
    assert [use.pod_uid for use in bench.enforcer.seen.containers] == [pod.uid]


def test_a_process_over_the_limit_is_told_of_and_then_ended_where_the_driver_cannot_limit(
    old_fake: Fake, node: Node, loaded: Load
) -> None:
    old_fake.add_card()
    bench = Bench(old_fake, node, loaded)
    pod = soft_pod(1, bench.card(), 0.5, 1.0, vram_bytes=4 * GIB)
    pids = [bench.process(pod, GIB), bench.process(pod, 5 * GIB)]
    bench.serve(pod)
    bench.round()
    assert [notice.reason for notice in bench.notices] == ["VRAMLimitExceeded"]
    bench.round(overuse.GRACE_S + 1)
    bench.round()
    assert [notice.reason for notice in bench.notices] == ["VRAMLimitExceeded", "VRAMLimitEnforced"]
    assert str(pids[1]) in bench.notices[1].message
    assert node._started[1].wait(timeout=10) == -9
    assert node._started[0].poll() is None


def test_a_driver_that_limits_is_left_to_it(bench: Bench) -> None:
    pod = soft_pod(1, bench.card(), 0.5, 1.0, vram_bytes=4 * GIB)
    bench.process(pod, 5 * GIB)
    bench.serve(pod)
    for _ in range(3):
        bench.round(overuse.GRACE_S + 1)
    assert bench.notices == []


@pytest.mark.parametrize("change", [{"holds_memory": False}, {"isolation": Isolation.SHARED}])
def test_memory_that_is_not_to_be_held_is_not(old_fake: Fake, node: Node, loaded: Load, change: dict[str, object]) -> None:
    old_fake.add_card()
    bench = Bench(old_fake, node, loaded)
    pod = replace(soft_pod(1, bench.card(), 0.5, 1.0, vram_bytes=4 * GIB), **change)  # type: ignore[arg-type]
    bench.process(pod, 5 * GIB)
    bench.serve(pod)
    for _ in range(3):
        bench.round(overuse.GRACE_S + 1)
    assert bench.notices == []


def test_two_hungry_jobs_are_held_to_30_and_70_and_a_new_limit_acts_within_a_second(fake: Fake, node: Node, loaded: Load) -> None:
    """The precise figures are bench/enforcement.py's; here the bounds are wide enough for a busy machine."""
    fake.add_card()
    card = fake.cards[0].uuid.decode()
    pods = [soft_pod(1, card, 0.3, 0.3), soft_pod(2, card, 0.7, 0.7)]
    pulser = Pulser()
    enforcer = Enforcer(loaded(fake), ProcessTable(Cgroups(node.mount)), pulser)
    enforcer.pods = {pod.uid: pod for pod in pods}
    thread = EnforcerThread(enforcer)
    with fake.working():
        jobs = [node.run(node.container(pod.uid, next(iter(pod.containers))), fake.job_command()) for pod in pods]
        pulser.start()
        thread.start()
        try:
            time.sleep(4)
            share = shares(fake, [job.pid for job in jobs], 8)
            assert share[0] == pytest.approx(0.3, abs=0.06)
            assert share[0] / sum(share) == pytest.approx(0.3, abs=0.04)
            enforcer.pods = {pods[0].uid: soft_pod(1, card, 0.1, 0.1), pods[1].uid: pods[1]}
            time.sleep(1)
            assert enforcer.seen.targets[pods[0].uid, card] == pytest.approx(0.1)
            assert shares(fake, [jobs[0].pid], 4)[0] < 0.2
        finally:
            thread.end()
            pulser.end()
        assert shares(fake, [jobs[0].pid], 1)[0] > 0.35  # nothing holds them any more


def test_a_round_that_fails_does_not_end_the_rounds(
    fake: Fake, node: Node, loaded: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(enforcers, "SAMPLE_S", 0.01)
    fake.add_card()
    enforcer = Enforcer(loaded(fake), ProcessTable(Cgroups(node.mount)), Pulser())
    rounds: list[int] = []

    def sample() -> None:
        rounds.append(1)
        raise ValueError("a strange answer")

    monkeypatch.setattr(enforcer, "sample", sample)
    thread = EnforcerThread(enforcer)
    thread.start()
    while len(rounds) < 3:
        time.sleep(0.01)
    thread.end()
    assert "a strange answer" in caplog.text


def shares(fake: Fake, pids: list[int], seconds: float) -> list[float]:
    begin_s, before = time.monotonic(), [fake.job_seconds(pid) for pid in pids]
    time.sleep(seconds)
    passed_s = time.monotonic() - begin_s
    return [(fake.job_seconds(pid) - was) / passed_s for pid, was in zip(pids, before, strict=True)]
