"""P9, P10, R6: what the agent costs, how exactly it holds real processes to their share, and what a killed agent leaves.

Real processes in real cgroups (root), simulated cards under the real pynvml. P9 runs the whole agent in a process of its own,
against a loop that only reads NVML, in turn. P10 lets virtual GPU jobs run under it: single limits, pairs, three tenants by QoS,
run-ahead depths. `QUICK=1` takes shorter spans, few of the groups, and few kills; `PART=P9` (P10, R6) runs that part alone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent / "tests"
sys.path.insert(0, str(TESTS / "agent"))
sys.path.insert(0, str(TESTS / "fakes" / "nvml"))

import cgroup_node as nodes
from fake_nvml import Fake, build
from measure import Row, quick, report

from tensorfusion_iac.agent.cgroups import Cgroups
from tensorfusion_iac.agent.enforcer import SAMPLE_S, Enforcer, EnforcerThread
from tensorfusion_iac.agent.nvml import Nvml
from tensorfusion_iac.agent.pods import CardLimits, NodePod
from tensorfusion_iac.agent.processes import ProcessTable
from tensorfusion_iac.agent.pulser import Pulser
from tensorfusion_iac.api.levels import Isolation, QoS

WARM_S = 4 if quick() else 6
MEASURED_S = 8 if quick() else 30
KILLS = 5 if quick() else 200
COST_S, SETTLE_S, COST_REPEATS = (1.5, 1.0, 5) if quick() else (20.0, 3.0, 5)
CARDS, PROCESSES, THROTTLED = 8, 64, 16


@dataclass(frozen=True)
class Tenant:
    """One pod with one job. `work`: options of Fake.job_command."""

    request: float
    limit: float
    qos: QoS = QoS.MEDIUM
    work: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """What one tenant got: mean, and the 5 s window that is farthest from the mean; fractions of the card."""

    mean: float
    lowest: float
    highest: float
    target: float
    unreachable: bool


def pods_of(tenants: Sequence[Tenant], card: str, first: int) -> list[NodePod]:
    """The tenants as the agent reads them."""
    found = []
    for number, tenant in enumerate(tenants, first):
        limits = CardLimits(tenant.request, tenant.limit, nodes.GIB, nodes.GIB, Decimal(100))
        uid, containers = nodes.pod_uid(number), {nodes.container_id(number): "main"}
        found.append(NodePod(uid, "bench", f"pod-{number}", tenant.qos, Isolation.SOFT, {card: limits}, containers))
    return found


@contextmanager
def enforced(node: nodes.Node, pods: Sequence[NodePod]) -> Iterator[Enforcer]:
    """The agent's threads, for the length of the block."""
    pulser, driver = Pulser(), Nvml()
    enforcer = Enforcer(driver, ProcessTable(Cgroups(node.mount)), pulser)
    enforcer.pods = {pod.uid: pod for pod in pods}
    thread = EnforcerThread(enforcer)
    pulser.start()
    thread.start()
    try:
        yield enforcer
    finally:
        thread.end()
        pulser.end()
        driver.close()


def hold(folder: Path, built: Path, groups: Sequence[Sequence[Tenant]]) -> list[list[Held]]:
    """Let each group run together on a card of its own under the agent, and measure what the cards gave to each tenant."""
    fake = Fake(built, folder / "cards")
    os.environ["FAKE_NVML_STATE"] = str(fake.path)
    pods: list[list[NodePod]] = []
    for tenants in groups:
        fake.add_card()
        first = 1 + sum(len(each) for each in pods)
        pods.append(pods_of(tenants, fake.cards[-1].uuid.decode(), first))
    flat = [pod for each in pods for pod in each]
    with nodes.made(Path(tempfile.mkdtemp(dir=folder))) as node, fake.working(), enforced(node, flat) as enforcer:
        jobs: dict[str, int] = {}
        for index, tenants in enumerate(groups):
            for pod, tenant in zip(pods[index], tenants, strict=True):
                container = node.container(pod.uid, next(iter(pod.containers)))
                jobs[pod.uid] = node.run(container, fake.job_command(card=index, **tenant.work)).pid
        time.sleep(WARM_S)
        use: dict[str, list[float]] = {uid: [] for uid in jobs}
        for _ in range(MEASURED_S):
            begin_s, before = time.monotonic(), {uid: fake.job_seconds(pid) for uid, pid in jobs.items()}
            time.sleep(1)
            passed_s = time.monotonic() - begin_s
            for uid, pid in jobs.items():
                use[uid].append((fake.job_seconds(pid) - before[uid]) / passed_s)
        return [[_held(use[pod.uid], pod, enforcer) for pod in each] for each in pods]


def _held(use: Sequence[float], pod: NodePod, enforcer: Enforcer) -> Held:
    windows = [sum(use[begin : begin + 5]) / 5 for begin in range(len(use) - 4)]
    place = (pod.uid, next(iter(pod.cards)))
    target = enforcer.seen.targets.get(place, 1.0)
    return Held(sum(use) / len(use), min(windows), max(windows), target, place in enforcer.seen.unreachable)


def _shown(tenants: Sequence[Tenant], found: list[Held]) -> list[Held]:
    """The same, after a line for each tenant."""
    for tenant, held in zip(tenants, found, strict=True):
        work = "a sync each 20 ms" if not tenant.work else f"never syncs, {tenant.work['depth']} ms ahead"
        told = "  UNREACHABLE" if held.unreachable else ""
        print(
            f"     {len(tenants)} on a card, {work}: {tenant.qos.value:<8} request {tenant.request:.0%} limit {tenant.limit:.0%}"
            f"  may use {held.target:.1%}  used {held.mean:.1%}  5 s windows {held.lowest:.1%} to {held.highest:.1%}{told}",
            flush=True,
        )
    return found


SINGLES = {limit: (Tenant(limit, limit),) for limit in (0.1, 0.3, 0.5, 0.7)}
PAIRS = {(low, high): (Tenant(low, low), Tenant(high, high)) for low, high in ((0.3, 0.7), (0.1, 0.9))}
BY_QOS = (Tenant(0.3, 1.0, QoS.CRITICAL), Tenant(0.2, 0.5), Tenant(0.2, 0.4, QoS.LOW))
AHEAD = {
    (qos, depth): (Tenant(0.3, 0.3, qos, {"sync_kernels": 0, "depth": depth}),)
    for qos, depth in ((QoS.LOW, 50), (QoS.LOW, 100), (QoS.MEDIUM, 50), (QoS.MEDIUM, 200), (QoS.HIGH, 200))
}


def accuracy(folder: Path, built: Path) -> Iterator[Row]:
    """P10, and the table of docs/concepts/enforcement.md: one group after the other; QUICK: few, and all at once."""
    singles, pairs, ahead = (
        ({0.3: SINGLES[0.3]}, {(0.3, 0.7): PAIRS[0.3, 0.7]}, {(QoS.HIGH, 200): AHEAD[QoS.HIGH, 200]})
        if quick()
        else (SINGLES, PAIRS, AHEAD)
    )
    groups: list[tuple[Tenant, ...]] = [*singles.values(), *pairs.values(), BY_QOS, *ahead.values()]
    results = iter(hold(folder, built, groups) if quick() else _one_by_one(folder, built, groups))
    for limit, group in singles.items():
        yield from _of_single(limit, _shown(group, next(results))[0])
    for (low, high), pair in pairs.items():
        one, other = _shown(pair, next(results))
        off = abs(one.mean / other.mean / (low / high) - 1) * 100
        yield Row("P10", f"ratio of a {low:.0%} / {high:.0%} pair", off, "percent off", goal="<= 5", ok=off <= 5)
    critical, medium, lowest = _shown(BY_QOS, next(results))
    kept = critical.mean * 100
    yield Row("P10", "request of the critical one of three, kept", kept, "percent", goal=">= 30", ok=kept >= 30)
    ordered = critical.mean > medium.mean > lowest.mean - 0.02
    yield Row("P10", "QoS order visible (critical, medium, low)", float(ordered), "bool", goal="1", ok=ordered)
    for (qos, depth), group in ahead.items():
        (held,) = _shown(group, next(results))
        told = held.unreachable or abs(held.mean - 0.3) <= 0.05
        what = f"{depth} ms run-ahead, {qos.value}: held within 5 points, or said to be unreachable"
        yield Row("P10", what, held.mean * 100, "percent used", goal="30, or said", ok=told)


def _one_by_one(folder: Path, built: Path, groups: Sequence[Sequence[Tenant]]) -> Iterator[list[Held]]:
    for group in groups:
        yield hold(folder, built, [group])[0]


def _of_single(limit: float, held: Held) -> Iterator[Row]:
    error, window = abs(held.mean - limit) * 100, max(held.highest - limit, limit - held.lowest) * 100
    yield Row("P10", f"error of the mean, limit {limit:.0%}", error, "points", goal="<= 2", ok=error <= 2)
    yield Row("P10", f"worst 5 s window, limit {limit:.0%}", window, "points", goal="<= 5", ok=window <= 5)


PART = """
import sys
sys.path.insert(0, {bench!r})
import enforcement
enforcement.work({kind!r}, {mount!r}, {seconds!r})
"""


def work(kind: str, mount: str, seconds: float) -> None:
    """The measured process: the whole agent, or a loop that only reads NVML. Prints its CPU share and peak memory."""
    if kind == "agent":
        share = asyncio.run(_agent_work(Path(mount), seconds))
    else:
        driver = Nvml()
        for phase_s in (SETTLE_S, seconds):
            begin_s, before_s = time.monotonic(), time.process_time()
            while time.monotonic() - begin_s < phase_s:
                for card in driver.cards():
                    driver.busy_percent(card.uuid)
                    driver.samples(card.uuid, 0)
                    driver.processes(card.uuid)
                time.sleep(SAMPLE_S)
            share = (time.process_time() - before_s) / (time.monotonic() - begin_s)
    print(json.dumps([share * 100, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6]))


async def _agent_work(mount: Path, seconds: float) -> float:
    """The agent's program with its pods given, and no API server, which it tries to reach all the time."""
    from tensorfusion_iac.agent.program import Agent, Settings
    from tensorfusion_iac.kube.client import Client
    from tensorfusion_iac.kube.credentials import Credentials

    logging.disable()
    folder = Path(tempfile.mkdtemp(dir=mount))
    settings = Settings(
        "bench", cgroups=mount, lifeline=folder / "lifeline", record=folder / "limits", mps=folder / "mps",
        metrics_port=0, history_port=0,
    )  # fmt: skip
    async with Client(Credentials("http://127.0.0.1:1", ssl.create_default_context(), lambda: None)) as client:
        agent, ready = Agent(client, Nvml(), settings), asyncio.Event()
        task = asyncio.create_task(agent.run(lambda metrics, history: ready.set()))
        await ready.wait()
        agent.view.pods = {pod.uid: pod for pod in map(nodes_pod, range(THROTTLED))}
        agent.view.on_pods(agent.view.pods)
        await asyncio.sleep(SETTLE_S)
        begin_s, before_s = time.monotonic(), time.process_time()
        await asyncio.sleep(seconds)
        share = (time.process_time() - before_s) / (time.monotonic() - begin_s)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return share


def nodes_pod(number: int) -> NodePod:
    """A throttled pod of the cost benchmark, on its card."""
    card = "GPU-%08x-0000-4000-8000-000000000000" % (0xAB00 + number % CARDS)
    limits = CardLimits(0.2, 0.3, nodes.GIB, nodes.GIB, Decimal(100))
    uid, container = nodes.pod_uid(number), nodes.container_id(number)
    return NodePod(uid, "bench", f"pod-{number}", QoS.MEDIUM, Isolation.SOFT, {card: limits}, {container: "main"})


def cost(folder: Path, built: Path) -> Iterator[Row]:
    """P9: 8 cards, 64 processes, 16 of them throttled; the agent and the reader in turn."""
    fake = Fake(built, folder / "many-cards")
    for _ in range(CARDS):
        fake.add_card()
    with nodes.made(Path(tempfile.mkdtemp(dir=folder))) as node, fake.working():
        for number in range(PROCESSES):
            throttled = number < THROTTLED
            container = node.container(nodes.pod_uid(number), nodes.container_id(number))
            # The others are lightly used, as most are; the throttled ones are hungry.
            work_us = {} if throttled else {"submit_us": 200_000, "sync_kernels": 1}
            node.run(container, fake.job_command(card=number % CARDS, **work_us))
        figures: dict[str, list[tuple[float, float]]] = {"agent": [], "reader": []}
        for repeat in range(COST_REPEATS):
            order = ("agent", "reader") if repeat % 2 == 0 else ("reader", "agent")
            for kind in order:
                program = PART.format(bench=str(HERE), kind=kind, mount=str(node.mount), seconds=COST_S)
                run = subprocess.run(
                    [sys.executable, "-c", program],
                    env=fake.environment,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=120,
                )
                if run.returncode != 0:
                    raise RuntimeError(run.stderr)
                share, megabytes = json.loads(run.stdout.splitlines()[-1])
                figures[kind].append((share, megabytes))
    cpu = {kind: sorted(each[0] for each in found)[len(found) // 2] for kind, found in figures.items()}
    memory = {kind: max(each[1] for each in found) for kind, found in figures.items()}
    spread = max(each[0] for each in figures["agent"]) - min(each[0] for each in figures["agent"])
    print(f"     agent's CPU over {COST_REPEATS} repeats: median {cpu['agent']:.2f} %, range {spread:.2f} points")
    yield Row(
        "P9", "CPU of the agent", cpu["agent"], "% of a core", cpu["reader"], cpu["agent"] / cpu["reader"], "<= 2",
        cpu["agent"] <= 2,
    )  # fmt: skip
    yield Row(
        "P9", "memory of the agent", memory["agent"], "MB", memory["reader"], memory["agent"] / memory["reader"],
        "<= 80", memory["agent"] <= 80,
    )  # fmt: skip


HOLDER = """
import sys, time
from pathlib import Path
from tensorfusion_iac.agent.cgroups import Version
from tensorfusion_iac.agent.freezer import DutyGroup
from tensorfusion_iac.agent.lifeline import Lifeline
from tensorfusion_iac.agent.pulser import Pulser
from tensorfusion_iac.planning.duty import Pulse
line, container, pid = Lifeline(Path(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3])
group = DutyGroup.open(container, Version.V2)
group.add(pid)
pulser = Pulser(line.beat)
pulser.start()
pulser.hold("pod", Pulse(0.05, 0.45), [group])
print("ready", flush=True)
while True:
    pulser.tell()
    time.sleep(0.2)
"""


def kills(folder: Path) -> Iterator[Row]:
    """R6: kill -9 of an agent at random moments, with the watchdog beside it."""
    import random

    lifeline, longest_s, frozen_at_kill = folder / "lifeline", 0.0, 0
    with nodes.made(Path(tempfile.mkdtemp(dir=folder))) as node:
        container = node.container(nodes.pod_uid(1), nodes.container_id(1))
        job = node.run(container, ["/bin/sh", "-c", "echo ready; exec sleep 3600"])
        command = [
            sys.executable,
            "-m",
            "tensorfusion_iac.agent.watchdog",
            "--lifeline",
            str(lifeline),
            "--cgroups",
            str(node.mount),
        ]
        watchdog = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            for _ in range(KILLS):
                holder = [sys.executable, "-c", HOLDER, str(lifeline), str(container), str(job.pid)]
                with subprocess.Popen(holder, stdout=subprocess.PIPE) as agent:
                    assert agent.stdout is not None
                    agent.stdout.readline()
                    time.sleep(random.uniform(0.0, 0.6))
                    agent.kill()
                begin_s, events = time.monotonic(), container / "tf-duty" / "cgroup.events"
                frozen_at_kill += "frozen 1" in events.read_text()
                while "frozen 1" in events.read_text() and time.monotonic() - begin_s < 5:
                    time.sleep(0.002)
                longest_s = max(longest_s, time.monotonic() - begin_s)
        finally:
            watchdog.terminate()
            watchdog.communicate()
    print(f"     {KILLS} kills, {frozen_at_kill} of them in a freeze")
    yield Row(
        "R6", "longest freeze after kill -9 of the agent", longest_s, "s", goal="<= 1", ok=longest_s <= 1 and frozen_at_kill > 0
    )


def main() -> int:
    """Everything, in turn."""
    if os.geteuid() != 0:
        print("this benchmark freezes real processes in real cgroups: run it as root", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = build(folder / "built")
        _use(built)
        parts: dict[str, Callable[[], Iterator[Row]]] = {
            "P10": lambda: accuracy(folder, built),
            "P9": lambda: cost(folder, built),
            "R6": lambda: kills(folder),
        }
        wanted = os.environ.get("PART", "")
        if wanted and wanted not in parts:
            print(f"PART={wanted}: there are {', '.join(parts)}", file=sys.stderr)
            return 2
        rows = [row for name, part in parts.items() if wanted in ("", name) for row in part()]
    return report(rows)


def _use(built: Path) -> None:
    """Put the fake library under this process's pynvml."""
    import ctypes

    import pynvml

    library: Any = ctypes.CDLL(str(built / "new" / "libnvidia-ml.so.1"))
    pynvml.nvmlLib = library


if __name__ == "__main__":
    sys.exit(main())
