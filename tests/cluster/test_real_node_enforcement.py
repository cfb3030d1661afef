"""Enforcement on a real node: pods made by `pulumi up`, mutated, placed, started and held to their amounts by the real parts.

The agent is a pod of the DaemonSet, with the real pynvml over simulated cards; jobs are processes of pods, in real cgroups.
`REAL_NODE_PROBE_S=300` gives the exec probe five minutes beside a held job instead of twenty seconds.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import NOT_SUPPORTED, Card
from pulumi_project import Project, new_project
from real_node import JOB_IMAGE, POOL, RealNodePlane
from waiting import eventually

from tensorfusion_iac.api.effective import Effective, from_text, to_text
from tensorfusion_iac.api.names import AGENT_NAMESPACE, SYSTEM_NAMESPACE, key

pytestmark = pytest.mark.cluster

PROBE_S = float(os.environ.get("REAL_NODE_PROBE_S", "20"))
GIB = 2**30
log = logging.getLogger(__name__)
NAMESPACE = "held"
PROGRAM = f"""
import pulumi
import pulumi_kubernetes as k8s
import tensorfusion_iac as tfi

held = k8s.core.v1.Namespace("{NAMESPACE}", metadata={{"name": "{NAMESPACE}"}})
PROBE = {{"exec": {{"command": ["python3", "-S", "-c", ""]}}, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 3}}

def job(name, percent, card, limit=None, vram="4Gi", qos="medium", **more):
    vgpu = tfi.VGPU(compute_percent_request=percent, compute_percent_limit=limit or percent, vram_request=vram, vram_limit=vram,
        gpu_indices=[card], qos=qos)
    tfi.AnnotatedDeployment(name, namespace=held.metadata["name"], gpupool="{POOL}", vgpu=vgpu, timeout_s=180,
        containers=[{{"name": "main", "image": "{JOB_IMAGE}", **more}}])

job("thirty", 30, 0, livenessProbe=PROBE)
job("seventy", 70, 0)
job("greedy", 50, 1, vram="2Gi")
"""
BY_QOS = """
job("critical", 30, 1, limit=100, qos="critical")
job("middling", 20, 1, limit=50)
job("humble", 10, 1, limit=40, qos="low")
"""


@pytest.fixture(scope="module")
def held(real_node: RealNodePlane, real_platform: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Two jobs on card 0 that want all of it, and one on card 1."""
    project = new_project(real_node, tmp_path_factory.mktemp("held"), "held")
    project.write(PROGRAM)
    try:
        project.up()
        yield project
    finally:
        for call in ("nvmlDeviceGetMemoryLimits_v1", "nvmlDeviceSetMemoryLimits_v1"):
            real_node.cards.answer(call, 0)
        real_node.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def pod(project: Project, name: str) -> dict[str, Any]:
    (found,) = (item for item in project.objects("pods", NAMESPACE) if item["metadata"]["name"].startswith(f"{name}-"))
    return found


def effective(item: Mapping[str, Any]) -> Effective:
    return from_text(item["metadata"]["annotations"][key("effective")])


def cgroups_of(plane: RealNodePlane, item: Mapping[str, Any]) -> list[Path]:
    """The cgroups of a pod's containers in the hierarchy in which the agent freezes, as this machine sees them."""
    listed = (plane.node.folder / "cgroups").read_text().splitlines()
    (unified,) = (Path(line) for line in listed if (Path(line) / "cgroup.freeze").exists())
    (folder,) = unified.glob(f"kubepods/**/pod{item['metadata']['uid']}")
    return [each for each in folder.iterdir() if each.is_dir()]


def process_of(card: Card, plane: RealNodePlane, item: Mapping[str, Any]) -> int:
    """The number, in the node, of the job of a pod: the one on the card that is frozen with the pod's container."""
    return next(
        slot.pid
        for slot in card.processes
        if slot.pid and str(item["metadata"]["uid"]) in Path(f"/proc/{first_pid(plane)}/root/proc/{slot.pid}/cgroup").read_text()
    )


def processes_of(card: Card, plane: RealNodePlane, items: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """Those of several pods; None while one isn't on the card yet."""
    try:
        return [process_of(card, plane, item) for item in items]
    except (StopIteration, OSError):
        return None


def first_pid(plane: RealNodePlane) -> int:
    return int((plane.node.folder / "pid").read_text())


def shares(plane: RealNodePlane, card: int, pids: Sequence[int], seconds: float = 6.0) -> list[float]:
    """The parts of a card that jobs get over some seconds."""
    slots = [next(slot for slot in plane.cards.cards[card].processes if slot.pid == pid) for pid in pids]
    begin_s, given_ns = time.monotonic(), [slot.drained_ns for slot in slots]
    time.sleep(seconds)
    lasted_ns = (time.monotonic() - begin_s) * 1e9
    return [(slot.drained_ns - given) / lasted_ns for slot, given in zip(slots, given_ns, strict=True)]


def share(plane: RealNodePlane, card: int, pid: int, seconds: float = 2.0) -> float:
    """The part of one."""
    return shares(plane, card, [pid], seconds)[0]


def test_a_container_sees_its_own_card_alone(held: Project, real_node: RealNodePlane) -> None:
    cards = {index: real_node.node.card_uuid(index) for index in range(2)}
    for name, index in (("thirty", 0), ("seventy", 0), ("greedy", 1)):
        item = pod(held, name)
        script = "import os; print(os.environ['NVIDIA_VISIBLE_DEVICES'])"
        seen = real_node.kubectl("exec", "-n", NAMESPACE, item["metadata"]["name"], "--", "python3", "-c", script)
        assert seen.strip() == cards[index]
        assert [card.id for card in effective(item).cards] == [cards[index]]


def test_the_limits_of_memory_are_set_on_pod_and_container(held: Project, real_node: RealNodePlane) -> None:
    item = pod(held, "thirty")

    def limits() -> dict[str, tuple[int, int]]:
        found = real_node.cards.limits(real_node.cards.cards[0])
        return {path: amounts for path, amounts in found.items() if item["metadata"]["uid"] in path}

    eventually(lambda: len(limits()) == 2, "two limits")
    assert set(limits().values()) == {(4 * GIB, 4 * GIB)}


def test_two_that_want_all_get_what_they_may(held: Project, real_node: RealNodePlane) -> None:
    card = real_node.cards.cards[0]
    thirty, seventy = (process_of(card, real_node, pod(held, name)) for name in ("thirty", "seventy"))
    eventually(lambda: 0.2 < share(real_node, 0, thirty) < 0.4, "the smaller one is held")
    less, more = shares(real_node, 0, [thirty, seventy])
    assert 0.2 < less < 0.4
    assert more > 1.5 * less


def test_the_means_are_told_per_pod(held: Project) -> None:
    for name in ("thirty", "seventy", "greedy"):
        annotations = eventually(
            lambda name=name: (a := pod(held, name)["metadata"]["annotations"]).get(key("enforced-by")) and a, "enforced-by"
        )
        assert annotations[key("enforced-by")] == "vram=driver,compute=freezer"


def test_changed_amounts_are_in_force_without_a_restart(held: Project, real_node: RealNodePlane) -> None:
    item, card = pod(held, "greedy"), real_node.cards.cards[1]
    pid = process_of(card, real_node, item)
    eventually(lambda: 0.4 < share(real_node, 1, pid) < 0.6, "it is held to a half")
    changed = json.loads(item["metadata"]["annotations"][key("effective")])
    for amounts in (changed["cards"][0]["requests"], changed["cards"][0]["limits"]):
        amounts.update(percent="10", tflops="31.2", vram=1 * GIB)
    scheduler = f"system:serviceaccount:{SYSTEM_NAMESPACE}:tensor-fusion-scheduler"
    begin_s = time.monotonic()
    real_node.kubectl(
        "annotate", "pod", "-n", NAMESPACE, item["metadata"]["name"], "--overwrite", f"--as={scheduler}",
        f"{key('effective')}={to_text(from_text(json.dumps(changed)))}",
    )  # fmt: skip
    eventually(
        lambda: (
            {1 * GIB} == {hard for path, (_, hard) in real_node.cards.limits(card).items() if item["metadata"]["uid"] in path}
        ),
        "memory",
    )
    log.info("a changed limit of memory in force after %.2f s", time.monotonic() - begin_s)
    eventually(lambda: share(real_node, 1, pid) < 0.15, "compute")
    assert pod(held, "greedy")["status"]["containerStatuses"][0]["restartCount"] == 0


def test_what_is_left_over_goes_by_qos_to_nobody_above_its_limit(held: Project, real_node: RealNodePlane) -> None:
    """Three that want all of card 1, on which `greedy` is down to 10 %: the rule gives them 50, 25 and 12.5 %."""
    held.write(PROGRAM + BY_QOS)
    held.up()
    card, names = real_node.cards.cards[1], ("critical", "middling", "humble", "greedy")
    pids = eventually(lambda: processes_of(card, real_node, [pod(held, name) for name in names]), "all four are on the card")

    def ordered() -> list[float] | None:
        found = shares(real_node, 1, pids, 4.0)
        return found if found[0] > found[1] > found[2] and found[0] > 0.3 else None

    found = eventually(
        ordered, "the critical one has its request and most of the rest, the middling one more than the humble one"
    )
    log.info("critical, middling, humble, greedy got %s", found)
    for got, limit in zip(found[1:], (0.5, 0.4, 0.1), strict=True):
        assert got < limit + 0.05


def test_an_exec_probe_beside_a_held_job_does_not_fail(held: Project, real_node: RealNodePlane) -> None:
    eventually(
        lambda: any((each / "tf-duty").is_dir() for each in cgroups_of(real_node, pod(held, "thirty"))),
        "the job is frozen at times",
    )
    (status,) = pod(held, "thirty")["status"]["containerStatuses"]
    started = datetime.fromisoformat(status["state"]["running"]["startedAt"])
    time.sleep(max(0.0, PROBE_S - (datetime.now(UTC) - started).total_seconds()))
    (status,) = pod(held, "thirty")["status"]["containerStatuses"]
    assert status["restartCount"] == 0
    events = real_node.kubectl("get", "events", "-n", NAMESPACE, "--field-selector=reason=Unhealthy", "-o", "name")
    assert events == ""


def test_killing_the_agents_container_leaves_nothing_frozen(held: Project, real_node: RealNodePlane) -> None:
    """The watchdog has a container of its own. The agent that comes back finds an older driver: the next test's."""
    duties = [each / "tf-duty" for name in ("thirty", "greedy") for each in cgroups_of(real_node, pod(held, name))]
    duties = [each for each in duties if each.is_dir()]
    assert len(duties) == 2
    agent = agent_pid(real_node)
    older_driver(real_node)
    eventually(lambda: any(frozen(each) for each in duties), "one is frozen")
    os.kill(agent, signal.SIGKILL)
    begin_s = time.monotonic()
    eventually(lambda: not any(frozen(each) for each in duties), "all run", 10.0)
    log.info("everything runs %.2f s after the end of the agent", time.monotonic() - begin_s)
    time.sleep(1)
    assert not any(frozen(each) for each in duties) or agent_restarts(held)
    eventually(lambda: agent_restarts(held) == 1 and agent_is_ready(held), "the agent is back")


def test_a_process_over_its_memory_limit_is_ended_with_an_event(held: Project, real_node: RealNodePlane) -> None:
    """Under a driver without limits, which an agent finds out at its start."""
    if vram_means(real_node) != {"watch"}:
        older_driver(real_node)
        os.kill(agent_pid(real_node), signal.SIGKILL)
    eventually(lambda: vram_means(real_node) == {"watch"}, "an agent that watches")
    item = pod(held, "greedy")
    card = real_node.cards.cards[1]
    pid = process_of(card, real_node, item)
    slot = next(slot for slot in card.processes if slot.pid == pid)
    slot.used_bytes = 3 * GIB
    eventually(lambda: pod(held, "greedy")["status"]["containerStatuses"][0]["restartCount"] == 1, "the process was ended")
    eventually(lambda: reasons(real_node, item) >= {"VRAMLimitExceeded", "VRAMLimitEnforced"}, "the events")


def older_driver(plane: RealNodePlane) -> None:
    """From now on the driver has no memory limits. Nobody is told: agents ask at their start."""
    for call in ("nvmlDeviceGetMemoryLimits_v1", "nvmlDeviceSetMemoryLimits_v1"):
        plane.cards.answer(call, NOT_SUPPORTED)


def vram_means(plane: RealNodePlane) -> set[str]:
    listed = json.loads(plane.kubectl("get", "gpus", "-o", "json"))["items"]
    return {item["status"]["capabilities"]["vramLimit"] for item in listed}


def reasons(plane: RealNodePlane, item: Mapping[str, Any]) -> set[str]:
    selector = f"--field-selector=involvedObject.name={item['metadata']['name']}"
    listed = json.loads(plane.kubectl("get", "events", "-n", NAMESPACE, selector, "-o", "json"))["items"]
    return {event["reason"] for event in listed}


def frozen(duty: Path) -> bool:
    try:
        return (duty / "cgroup.freeze").read_text().strip() == "1"
    except OSError:
        return False  # removed: what was in it runs


def agent_status(project: Project) -> dict[str, Any]:
    (item,) = project.objects("pods", AGENT_NAMESPACE)
    return next(each for each in item["status"]["containerStatuses"] if each["name"] == "agent")


def agent_restarts(project: Project) -> int:
    return int(agent_status(project)["restartCount"])


def agent_is_ready(project: Project) -> bool:
    return bool(agent_status(project)["ready"])


def agent_pid(plane: RealNodePlane) -> int:
    """The agent's process, by its number on this machine."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"agent" in words and b"serve" in words and plane_of(folder) == plane_of(Path("/proc", str(first_pid(plane)))):
                return int(folder.name)
        except OSError:
            continue
    raise AssertionError("no agent runs on the node")


def plane_of(process: Path) -> str:
    """The node of a process: its PID namespace, which the agent shares with the node's first process."""
    return str((process / "ns" / "pid").readlink())
