"""P3 and P4: how fast waiting pods are bound by the real kube-scheduler with our extender, against the same pods without GPUs.

etcd, kube-apiserver, kube-controller-manager and KWOK nodes run on this machine. Pods are created while no scheduler runs;
then it is started, and the drain is timed from the first binding to the last. The arms take turns: pods with GPUs, plain
pods, and pods with GPUs whose nodes' agents report each at once. In the other two the simulated agents stand still during the
drain: in a cluster they run on their nodes, not on the control plane's cores. Writes are counted by the API server's metrics.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from measure import Row, quick

from tensorfusion_iac.api import names
from tensorfusion_iac.api.crd import crd_yaml
from tensorfusion_iac.api.levels import Isolation, Mode, QoS
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.worker import Compute, Unit, WorkerSpec, canonical, to_json
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.informer import Change, Informer
from tensorfusion_iac.kube.resource import CRDS, GPU_NODES, GPU_POOLS, GPUS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from tensorfusion_iac.local import commands, scheduler_config
from tensorfusion_iac.local import control_plane as door
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.state import NodeGroup, load_runtime
from tensorfusion_iac.local.toolchain import locate

NAMESPACE, PLAIN, LEASE = "drain", "plain-scheduler", "bench-scheduler"
GIB = 2**30
SETUP_S, DRAIN_S = 900.0, 900.0
SHAPES = ((10, 4), (20, 8), (30, 20), (50, 40))


class Arm(Enum):
    """What is drained."""

    GPUS = "gpu"
    PLAIN = "plain"
    REPORTED = "reported"


def drain(nodes: int, pods: int) -> list[Row]:
    """Rows of P3 and P4."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder), nodes, pods))


async def _measure(folder: Path, nodes: int, pods: int) -> list[Row]:
    layout, port = Layout.at(folder / "plane"), _free_port()
    render = scheduler_config.render

    def nobody(kubeconfig: Path, extender_port: int) -> str:
        """The embedded scheduler stays out of it."""
        config = yaml.safe_load(render(kubeconfig, extender_port))
        config["profiles"] = [{"schedulerName": "nobody"}]
        del config["extenders"]
        return yaml.safe_dump(config)

    with patch.object(scheduler_config, "render", nobody):
        wish = door.Wish(groups=(NodeGroup(model="A100_SXM_80G", gpus_per_node=8, nodes=nodes),))
        await asyncio.to_thread(door.up, layout, wish, _tools, lambda line: None, timeout_s=SETUP_S, owner_pid=os.getpid())
    try:
        async with await Client.from_kubeconfig(layout.kubeconfig) as client:
            await _prepare(client, nodes)
            config = folder / "scheduler.yaml"
            config.write_text(_config(layout, port))
            rates: dict[Arm, list[float]] = {arm: [] for arm in Arm}
            writes: list[tuple[float, float]] = []
            with _extender(layout, port):
                for turn in range(2 if quick() else 5):
                    for arm in list(Arm)[:: 1 if turn % 2 == 0 else -1]:
                        before = await _writes(client)
                        made = [_pod(f"{turn}-{at}-{arm.value}", at, arm is not Arm.PLAIN) for at in range(pods)]
                        rates[arm].append(await _drain(client, layout, config, made, arm))
                        after = await _writes(client)
                        if arm is Arm.REPORTED:
                            writes.append(((after[0] - before[0]) / pods, (after[1] - before[1]) / pods))
    finally:
        await asyncio.to_thread(door.purge, layout, lambda line: None)
    bare = statistics.median(rates[Arm.PLAIN])
    what = f"waiting -> bound, {nodes} nodes x 8, {pods} pods"
    ratio, reported = (
        statistics.median(one / plain for one, plain in zip(rates[arm], rates[Arm.PLAIN], strict=True))
        for arm in (Arm.GPUS, Arm.REPORTED)
    )
    return [
        Row("P3", what, statistics.median(rates[Arm.GPUS]), "pods/s", bare, ratio, ">= 0.6 x", ratio >= 0.6),
        Row("P3", f"{what}, agents report each", statistics.median(rates[Arm.REPORTED]), "pods/s", bare, reported),
        Row("P4", "bindings and pod patches per bound pod", statistics.median(one for one, _ in writes), "writes", None, None,
            "1", all(one <= 1.01 for one, _ in writes)),
        Row("P4", "GPU status writes of the scheduler per bound and removed pod", statistics.median(two for _, two in writes),
            "writes"),
    ]  # fmt: skip


async def _drain(client: Client, layout: Layout, config: Path, pods: list[dict[str, Any]], arm: Arm) -> float:
    """Pods per second of one drain."""
    await _create(client, pods)
    await _quiet(client)  # and until the extender's cache has them too
    log = config.with_suffix(".log").open("ab")
    process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
        [str(_tool("kube-scheduler")), f"--config={config}", "--secure-port=0", "--v=1"], stdout=log, stderr=log
    )
    try:
        with nullcontext() if arm is Arm.REPORTED else _agents_stand_still(layout):
            times = await asyncio.wait_for(_bindings(client, len(pods)), DRAIN_S)
        await _remove_all(client)
        await _quiet(client)  # while there is a leader: what is written late must not be on the next arm's account
    finally:
        process.terminate()
        process.wait(timeout=30)
        log.close()
    return (len(pods) - 1) / (times[-1] - times[0])


async def _bindings(client: Client, pods: int) -> list[float]:
    """When each pod was bound, as the watch shows it."""
    times: dict[str, float] = {}
    done = asyncio.Event()

    def changed(change: Change) -> None:
        uid = change.object["metadata"]["uid"]
        if change.object["spec"].get("nodeName") and uid not in times:
            times[uid] = time.perf_counter()
            if len(times) == pods:
                done.set()

    watch = Informer(client, PODS, namespace=NAMESPACE)
    watch.on_change(changed)
    following = asyncio.create_task(watch.run())
    try:
        await done.wait()
    finally:
        following.cancel()
    return sorted(times.values())


async def _create(client: Client, pods: list[dict[str, Any]]) -> None:
    gate = asyncio.Semaphore(32)

    async def one(pod: dict[str, Any]) -> None:
        async with gate:
            await client.create(PODS, pod, NAMESPACE)

    await asyncio.gather(*(one(pod) for pod in pods))


async def _remove_all(client: Client) -> None:
    gate = asyncio.Semaphore(32)

    async def one(name: str) -> None:
        async with gate:
            await client.delete(PODS, name, NAMESPACE)

    while items := (await client.list(PODS, NAMESPACE)).items:
        await asyncio.gather(*(one(item["metadata"]["name"]) for item in items))
        await asyncio.sleep(0.5)


async def _writes(client: Client) -> tuple[float, float]:
    """So far: writes about pods' binding (Binding, patches of pods), and the scheduler's of GPU status."""
    counted = await _counted(client)
    bindings = counted[("pods", "binding", "POST")] + counted[("pods", "", "PATCH")]
    return bindings, counted[("gpus", "status", "PATCH")]


async def _gpu_writes(client: Client) -> float:
    """So far: all writes of GPU objects, the agents' too, which apply theirs."""
    counted = await _counted(client)
    return sum(count for (resource, _, verb), count in counted.items() if resource == "gpus" and verb in ("PATCH", "APPLY"))


async def _counted(client: Client) -> Counter[tuple[str, str, str]]:
    """How many requests the API server has answered, by resource, subresource and verb."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for line in (await client.text("/metrics")).splitlines():
        found = re.match(r"apiserver_request_total\{(.*)\} ([0-9.e+]+)", line)
        if found is not None:
            labels = dict(re.findall(r'(\w+)="([^"]*)"', found[1]))
            counted[(labels.get("resource", ""), labels.get("subresource", ""), labels.get("verb", ""))] += round(float(found[2]))
    return counted


@contextmanager
def _agents_stand_still(layout: Layout) -> Iterator[None]:
    """For less than a minute: their leases, of 90 s, must stay good."""
    runtime = load_runtime(layout.runtime)
    pids = [one.pid for one in runtime.processes if one.name == "simulated-agents" and one.pid] if runtime else []
    if not pids:
        raise RuntimeError("the simulated agents do not run")
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


async def _quiet(client: Client) -> None:
    """Until nothing of the GPUs is written any more."""
    deadline, before = time.monotonic() + SETUP_S, await _gpu_writes(client)
    while time.monotonic() < deadline:
        await asyncio.sleep(3.0)
        now = await _gpu_writes(client)
        if now == before:
            return
        before = now
    raise TimeoutError(f"GPUs are still written {SETUP_S} s after a drain")


async def _prepare(client: Client, nodes: int) -> None:
    """CRDs, a pool, a namespace; until every card is there."""
    for definition in yaml.safe_load_all(crd_yaml()):
        if definition:
            await client.apply(CRDS, definition, "bench")
    deadline = time.monotonic() + SETUP_S
    while True:
        try:
            await client.apply(GPU_POOLS, {"metadata": {"name": "p"}, "spec": {}}, "bench")
            cards = len((await client.list(GPUS)).items)
            if cards == nodes * 8 and len((await client.list(GPU_NODES)).items) == nodes:
                break
        except KubeError:
            cards = 0
        if time.monotonic() > deadline:
            raise TimeoutError(f"{cards} of {nodes * 8} simulated cards are there")
        await asyncio.sleep(1.0)
    try:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    except ApiError as error:
        if not error.already_exists:
            raise
    while not (await client.list(SERVICE_ACCOUNTS, NAMESPACE)).items:  # noqa: ASYNC110
        await asyncio.sleep(0.1)


@contextmanager
def _extender(layout: Layout, port: int) -> Iterator[None]:
    process = subprocess.Popen(
        [Path(sys.executable).with_name("tensorfusion"), "serve", "scheduler", "--port", str(port), "--kubeconfig",
         str(layout.kubeconfig), "--lease", f"kube-system/{LEASE}"],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


def _config(layout: Layout, port: int) -> str:
    config = yaml.safe_load(scheduler_config.render(layout.component_kubeconfig("scheduler"), port))
    config["profiles"][0]["schedulerName"] = PLAIN
    config["leaderElection"] |= {"resourceName": LEASE, "resourceNamespace": "kube-system"}
    return yaml.safe_dump(config)


def _pod(name: str, at: int, with_gpus: bool) -> dict[str, Any]:
    """Names are never used again: KWOK may still be busy with the pod that had it."""
    container: dict[str, Any] = {"name": "app", "image": "app", "resources": {"requests": {"cpu": "100m"}}}
    metadata: dict[str, Any] = {"name": f"p-{name}", "namespace": NAMESPACE}
    spec: dict[str, Any] = {"schedulerName": PLAIN, "containers": [container], "terminationGracePeriodSeconds": 0}
    if with_gpus:
        percent, gib = SHAPES[at % len(SHAPES)]
        worker = WorkerSpec(
            Mode.LOCAL, "p", "w", QoS.MEDIUM, "tensor-fusion-medium", Isolation.SOFT, Vendor.NVIDIA, 1, ("app",),
            compute_request=Compute(Unit.PERCENT, Decimal(percent)), vram_request_bytes=gib * GIB, vram_limit_bytes=gib * GIB,
        )  # fmt: skip
        metadata["annotations"] = {names.key("resolved"): canonical(to_json(worker, {}))}
        metadata["labels"] = {names.ENABLED_LABEL: "true"}
        spec["schedulerName"] = names.SCHEDULER_NAME
        container["resources"]["limits"] = {names.RESOURCE: names.RESOURCE_AMOUNT}
    return {"metadata": metadata, "spec": spec}


def _tool(name: str) -> Path:
    found = locate(name)
    if found is None:
        raise FileNotFoundError(f"{name} is missing: run `make tools` first")
    return found.path


def _tools() -> Mapping[str, Path]:
    return {name: _tool(name) for name in commands.TOOLS}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
