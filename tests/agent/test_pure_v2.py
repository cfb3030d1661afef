"""Nodes whose only hierarchy is cgroup v2, mounted at /sys/fs/cgroup itself: how they are known, and that all is held there too.

The freezer is the real one of v2. On a hybrid machine its hierarchy is mounted one folder deeper, so the agent is given that
folder, or our part of it, as its mount: it looks there exactly as a machine of v2 alone looks at its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cgroup_node import GIB, REAL, Node, container_id, pod_uid, soft_pod
from fake_nvml import Fake

from tensorfusion_iac.agent.capabilities import card_capabilities, describe_cgroups
from tensorfusion_iac.agent.cgroup_path import DUTY
from tensorfusion_iac.agent.cgroups import Cgroups, Version
from tensorfusion_iac.agent.enforcer import Enforcer
from tensorfusion_iac.agent.freezer import DutyGroup, members
from tensorfusion_iac.agent.memory_limits import MemoryLimits
from tensorfusion_iac.agent.nvml import Nvml
from tensorfusion_iac.agent.processes import ProcessTable
from tensorfusion_iac.agent.pulser import Pulser

Load = Callable[[Fake], Nvml]
SLEEPER = ["/bin/sh", "-c", "echo ready; exec sleep 600"]
V2, HYBRID, V1 = "cgroup.controllers", "unified/cgroup.controllers", "freezer/cgroup.procs"


@pytest.mark.parametrize(
    ("files", "layout", "versions"),
    [
        ([V2], "v2", [Version.V2]),
        ([V2, HYBRID, V1], "v2", [Version.V2]),  # folders of these names would be cgroups below it
        ([HYBRID, V1], "hybrid", [Version.V2, Version.V1]),
        ([HYBRID], "hybrid", [Version.V2]),
        ([V1], "v1", [Version.V1]),
        ([], "none", []),
    ],
)
def test_the_layout_is_known_by_what_is_mounted(tmp_path: Path, files: list[str], layout: str, versions: list[Version]) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    cgroups = Cgroups(tmp_path)
    assert describe_cgroups(cgroups) == layout
    assert [hierarchy.version for hierarchy in cgroups.hierarchies] == versions
    assert (cgroups.unified is not None) == (Version.V2 in versions)


@pytest.mark.parametrize(("files", "means"), [([V2], "driver"), ([HYBRID, V1], "driver"), ([V1], "watch"), ([], "watch")])
def test_the_driver_holds_memory_where_there_is_v2(
    fake: Fake, loaded: Load, tmp_path: Path, files: list[str], means: str
) -> None:
    fake.add_card()
    for name in files:
        (tmp_path / "mount" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mount" / name).touch()
    driver, cgroups = loaded(fake), Cgroups(tmp_path / "mount")
    found = card_capabilities(driver, driver.cards()[0], cgroups, has_mps=False)
    assert found.vram_limit == means
    assert found.compute_limit == ("freezer" if files else "none")


def test_a_process_is_found_by_its_path_as_it_stands(node: Node) -> None:
    container = node.container(pod_uid(1), container_id(1))
    job = node.run(container, SLEEPER)
    root = REAL if (REAL / "cgroup.controllers").exists() else REAL / "unified"
    process = ProcessTable(Cgroups(root)).look_up(job.pid)
    assert process is not None
    assert (process.parent, process.hierarchy.version) == (container, Version.V2)


@pytest.mark.parametrize("tail", ["", "/init"])
def test_a_process_in_systemds_scopes_is_found_and_frozen(node: Node, tmp_path: Path, tail: str) -> None:
    """The layout of most machines of v2 alone: slices and scopes; a container may have cgroups of its own inside."""
    uid, identifier = pod_uid(7), container_id(7)
    slices = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid.replace("-", "_") + ".slice"
    container = node.pure_mount / slices / f"cri-containerd-{identifier}.scope"
    own = Path(f"{container}{tail}")
    own.mkdir(parents=True)
    job = node.run(own, SLEEPER)
    cgroups = Cgroups(node.pure_mount)
    process = ProcessTable(cgroups).look_up(job.pid)
    assert process is not None
    assert (process.place.pod_uid, process.place.container_id, process.parent) == (uid, identifier, own)
    group = DutyGroup.open(process.parent, process.hierarchy.version)
    group.add(job.pid)
    group.freeze()
    assert is_frozen(own / DUTY)
    assert list(cgroups.duty_directories()) == [(own / DUTY, Version.V2)]
    group.dissolve()
    assert list(members(own)) == [job.pid]


def test_a_hungry_pod_is_held_and_let_go(fake: Fake, node: Node, loaded: Load) -> None:
    fake.add_card()
    pod = soft_pod(1, fake.cards[0].uuid.decode(), 0.1, 0.1)
    container = node.container(pod.uid, container_id(1))
    job = node.run(container, SLEEPER)
    fake.add_process(fake.cards[0], job.pid, GIB)
    pulser, now_s = Pulser(), 1000.0
    enforcer = Enforcer(loaded(fake), ProcessTable(Cgroups(node.pure_mount)), pulser, clock=lambda: now_s)
    enforcer.pods = {pod.uid: pod}
    pulser.start()
    try:
        sampled_us = time.time_ns() // 1000
        for _ in range(6):
            sampled_us += 166_667
            fake.add_sample(fake.cards[0], job.pid, 100, sampled_us)
            enforcer.sample()
            enforcer.look()
            now_s += 0.166667
            enforcer.control()
        assert list(members(container / DUTY)) == [job.pid]
        assert is_frozen(container / DUTY)
        enforcer.release_all()
        assert not (container / DUTY).exists()
        assert list(members(container)) == [job.pid]
    finally:
        pulser.end()


def test_memory_limits_are_set_on_slice_and_leaf(fake: Fake, node: Node, loaded: Load, tmp_path: Path) -> None:
    fake.add_card()
    pod = soft_pod(1, fake.cards[0].uuid.decode(), 0.3, 0.3, vram_bytes=4 * GIB)
    container = node.container(pod.uid, container_id(1))
    limits = MemoryLimits(loaded(fake), Cgroups(node.pure_mount), tmp_path / "limits.json")
    limits.keep({pod.uid: pod})
    assert set(fake.limits(fake.cards[0])) == {str(container.parent), str(container)}
    limits.keep({})
    assert fake.limits(fake.cards[0]) == {}


def test_the_watchdog_thaws_what_a_dead_agent_left(node: Node, tmp_path: Path) -> None:
    container = node.container(pod_uid(1), container_id(1))
    job = node.run(container, SLEEPER)
    group = DutyGroup.open(container, Version.V2)
    group.add(job.pid)
    group.freeze()
    assert is_frozen(container / DUTY)
    command = [sys.executable, "-m", "tensorfusion_iac.agent.watchdog", "--lifeline", str(tmp_path / "none")]
    with subprocess.Popen([*command, "--cgroups", str(node.pure_mount)], stdout=subprocess.PIPE) as watchdog:
        deadline = time.monotonic() + 10
        while is_frozen(container / DUTY, within_s=0) and time.monotonic() < deadline:
            time.sleep(0.01)
        watchdog.terminate()
    assert not is_frozen(container / DUTY, within_s=0)


def is_frozen(duty: Path, within_s: float = 3.0) -> bool:
    """Whether it is, or becomes so within that time: a freeze is asked for, and comes when all threads have stopped."""
    deadline = time.monotonic() + within_s
    while True:
        if "frozen 1" in (duty / "cgroup.events").read_text():
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.005)
