"""Real processes in real cgroups: what is frozen and what never is, in v2 and v1."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from cgroup_node import Node, container_id, pod_uid

from tensorfusion_iac.agent.cgroup_path import DUTY
from tensorfusion_iac.agent.cgroups import Cgroups, Version
from tensorfusion_iac.agent.freezer import DutyGroup, dissolve, members
from tensorfusion_iac.agent.processes import Process, ProcessTable
from tensorfusion_iac.agent.pulser import Pulser
from tensorfusion_iac.planning.duty import FREE, Pulse

VERSIONS = [Version.V2, Version.V1]
COUNTER = 'echo ready; n=0; while :; do n=$((n+1)); echo $n > "$0"; sleep 0.01; done'


@pytest.fixture(params=VERSIONS, ids=["v2", "v1"])
def version(request: pytest.FixtureRequest, node: Node) -> Version:
    """Both freezers, where the machine has them; a v2-only machine has no v1 to test."""
    if request.param is Version.V1 and not (node.mount / "freezer").exists():
        pytest.skip("this machine has no cgroup v1 freezer")
    return Version(request.param)


class Counter:
    """A process in a container that counts, so that one sees whether it runs."""

    def __init__(self, node: Node, folder: Path, version: Version, number: int = 1) -> None:
        self.container = node.container(pod_uid(number), container_id(number), version)
        self._file = folder / f"count-{number}"
        self.process = node.run(self.container, ["/bin/sh", "-c", COUNTER, str(self._file)])
        self.pid = self.process.pid

    def runs(self, within_s: float = 3.0) -> bool:
        """Whether it counts on within that time."""
        before, deadline = self._read(), time.monotonic() + within_s
        while time.monotonic() < deadline:
            if self._read() != before:
                return True
            time.sleep(0.01)
        return False

    def _read(self) -> str:
        return self._file.read_text() if self._file.exists() else ""


def found(node: Node, counter: Counter) -> Process:
    process = ProcessTable(Cgroups(node.mount)).look_up(counter.pid)
    assert process is not None
    return process


def group_of(node: Node, counter: Counter) -> DutyGroup:
    process = found(node, counter)
    group = DutyGroup.open(process.parent, process.hierarchy.version)
    group.add(counter.pid)
    return group


def test_a_process_is_found_with_its_pod_and_container(node: Node, tmp_path: Path, version: Version) -> None:
    process = found(node, Counter(node, tmp_path, version))
    assert (process.place.pod_uid, process.place.container_id) == (pod_uid(1), container_id(1))
    assert process.hierarchy.version is version


def test_a_process_of_no_pod_is_none(node: Node) -> None:
    table = ProcessTable(Cgroups(node.mount))
    assert table.look_up(1) is None
    assert table.look_up(2**22 + 7) is None


def test_a_frozen_process_stops_and_goes_on(node: Node, tmp_path: Path, version: Version) -> None:
    counter = Counter(node, tmp_path, version)
    group = group_of(node, counter)
    assert counter.runs()
    group.freeze()
    time.sleep(0.1)
    assert not counter.runs(0.3)
    group.thaw()
    assert counter.runs()


def test_an_exec_probe_into_the_container_works_while_its_job_is_frozen(node: Node, tmp_path: Path, version: Version) -> None:
    counter = Counter(node, tmp_path, version)
    group_of(node, counter).freeze()
    time.sleep(0.1)
    probe = ["/bin/sh", "-c", f'echo $$ > "{counter.container}/cgroup.procs" && echo alive']
    assert subprocess.run(probe, capture_output=True, timeout=10, check=True).stdout == b"alive\n"
    assert not counter.runs(0.2)


def test_dissolving_thaws_and_gives_the_processes_back(node: Node, tmp_path: Path, version: Version) -> None:
    counter = Counter(node, tmp_path, version)
    group = group_of(node, counter)
    group.freeze()
    group.dissolve()
    assert counter.runs()
    assert counter.pid in members(counter.container)
    assert not (counter.container / DUTY).exists()


def test_a_frozen_job_of_v2_dies_by_sigkill(node: Node, tmp_path: Path) -> None:
    counter = Counter(node, tmp_path, Version.V2)
    group_of(node, counter).freeze()
    counter.process.kill()
    assert counter.process.wait(timeout=10) == -9


def test_a_container_that_ends_in_mid_cycle_harms_nothing(node: Node, tmp_path: Path, version: Version) -> None:
    counters = [Counter(node, tmp_path, version, number) for number in (1, 2)]
    pulser = Pulser()
    pulser.start()
    try:
        for counter in counters:
            pulser.hold(str(counter.pid), Pulse(0.02, 0.03), [group_of(node, counter)])
            pulser.tell()
        counters[0].process.kill()
        counters[0].process.wait(timeout=10)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and (counters[0].container / DUTY).exists():
            try:
                (counters[0].container / DUTY).rmdir()  # as the runtime does
            except OSError:
                time.sleep(0.01)
        assert not (counters[0].container / DUTY).exists()
        pulser.tell()
        assert counters[1].runs()
        assert pulser.is_alive()
    finally:
        pulser.end()
    assert counters[1].runs()


def test_a_pulser_runs_for_the_part_of_the_time_that_it_says(node: Node, tmp_path: Path) -> None:
    counter, pulser = Counter(node, tmp_path, Version.V2), Pulser()
    pulser.start()
    try:
        pulser.hold("pod", Pulse(0.06, 0.14), [group_of(node, counter)])
        pulser.ran("pod")
        for _ in range(5):
            time.sleep(0.4)
            pulser.tell()
        assert 0.15 < pulser.ran("pod") < 0.6  # of a machine that may be busy
        pulser.hold("pod", FREE, [])
        time.sleep(0.2)
        pulser.ran("pod")
        time.sleep(0.3)
        assert pulser.ran("pod") == pytest.approx(1.0, abs=0.01)
        assert counter.runs()
    finally:
        pulser.end()


def test_a_controller_that_says_nothing_lets_everything_run(node: Node, tmp_path: Path) -> None:
    counter, pulser = Counter(node, tmp_path, Version.V2), Pulser()
    pulser.start()
    try:
        pulser.hold("pod", Pulse(0.01, 0.5), [group_of(node, counter)])
        time.sleep(2.5)  # SILENCE_MOST_S, and a round
        before = pulser.ran("pod")
        time.sleep(0.5)
        assert pulser.ran("pod") == pytest.approx(1.0, abs=0.05), before
    finally:
        pulser.end()


def test_a_sign_of_life_that_cannot_be_given_freezes_nothing(node: Node, tmp_path: Path) -> None:
    def no_space() -> None:
        raise OSError(28, "No space left on device")

    counter, pulser = Counter(node, tmp_path, Version.V2), Pulser(no_space)
    pulser.start()
    try:
        pulser.hold("pod", Pulse(0.01, 0.5), [group_of(node, counter)])
        pulser.tell()
        time.sleep(0.3)
        pulser.ran("pod")
        time.sleep(0.3)
        assert pulser.ran("pod") == pytest.approx(1.0, abs=0.05)
    finally:
        pulser.end()


def test_what_an_earlier_agent_left_is_found_and_dissolved(node: Node, tmp_path: Path, version: Version) -> None:
    counter = Counter(node, tmp_path, version)
    group_of(node, counter).freeze()
    left = list(Cgroups(node.mount).duty_directories())
    assert [(path.name, found_version) for path, found_version in left] == [(DUTY, version)]
    dissolve(*left[0])
    assert counter.runs()
    assert list(Cgroups(node.mount).duty_directories()) == []


def test_the_wrong_process_of_a_number_is_never_ended(node: Node, tmp_path: Path) -> None:
    counter = Counter(node, tmp_path, Version.V2)
    table, process = ProcessTable(Cgroups(node.mount)), found(node, counter)
    stale = Process(process.pid, process.start_time - 1, process.place, process.hierarchy)
    assert not table.end(stale)
    assert counter.runs()
    assert table.end(process)
    assert counter.process.wait(timeout=10) == -9
    assert not table.end(process)


def test_a_pid_that_comes_back_is_looked_up_anew(tmp_path: Path, node: Node) -> None:
    proc = tmp_path / "proc"
    (proc / "77").mkdir(parents=True)

    def appears(start_time: int, number: int) -> None:
        node.container(pod_uid(number), container_id(number))
        (proc / "77" / "stat").write_text(f"77 (a) b) c) S {' '.join(['0'] * 18)} {start_time} 0 0\n")
        (proc / "77" / "cgroup").write_text(f"0::/kubepods/burstable/pod{pod_uid(number)}/{container_id(number)}\n")

    table = ProcessTable(Cgroups(node.mount), proc)
    appears(100, 1)
    first = table.look_up(77)
    appears(200, 2)
    second = [table.look_up(77) for _ in range(2)][-1]  # within two looks, a second
    assert first is not None
    assert second is not None
    assert (first.place.pod_uid, second.place.pod_uid) == (pod_uid(1), pod_uid(2))
