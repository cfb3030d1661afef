"""P11: how long a restarted controller takes until all is reconciled with 2,000 workloads, and how much memory it has then.

etcd and kube-apiserver run on this machine; the pods wait for a scheduler that does not come, one workload each. The baseline is
the time to list the same objects. The first start, which makes all the workloads, is reported too.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import yaml
from measure import Row, quick, report
from scheduling_drain import _free_port, _tools

from tensorfusion_iac.api import names
from tensorfusion_iac.api.crd import crd_yaml
from tensorfusion_iac.api.levels import Isolation, Mode, QoS
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.worker import Compute, Unit, WorkerSpec, canonical, to_json
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import CRDS, GPU_POOLS, NAMESPACES, PODS, SERVICE_ACCOUNTS, TENSOR_FUSION_WORKLOADS
from tensorfusion_iac.local import control_plane as door
from tensorfusion_iac.local.layout import Layout

NAMESPACE = "many"
PATIENCE_S = 300.0
MIB = 2**20


async def measure(folder: Path, workloads: int) -> list[Row]:
    """Rows of P11."""
    layout = Layout.at(folder / "plane")
    await asyncio.to_thread(door.up, layout, door.Wish(), _tools, lambda line: None, timeout_s=PATIENCE_S, owner_pid=os.getpid())
    try:
        async with await Client.from_kubeconfig(layout.kubeconfig) as client:
            await _prepare(client, workloads)
            first, _ = await _start(layout, client, workloads)
            restarts: list[float] = []
            lists: list[float] = []
            memory: list[int] = []
            for _ in range(5):
                lists.append(await _listed(client))
                took_s, rss = await _start(layout, client, workloads)
                restarts.append(took_s)
                memory.append(rss)
    finally:
        await asyncio.to_thread(door.purge, layout, lambda line: None)
    restart, listed, mib = statistics.median(restarts), statistics.median(lists), max(memory) / MIB
    what = f"restart to all reconciled, {workloads} workloads"
    return [
        Row("P11", what, restart, "s", listed, restart / listed, "<= 20 s", restart <= 20),
        Row("P11", "memory then", mib, "MiB", None, None, "<= 250 MiB", mib <= 250),
        Row("P11", "first start, which makes them all", first, "s"),
    ]


async def _start(layout: Layout, client: Client, workloads: int) -> tuple[float, int]:
    """Start a controller, wait until all is reconciled, end it: seconds, and bytes of memory."""
    port, began = _free_port(), time.perf_counter()
    process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
        [Path(sys.executable).with_name("tensorfusion"), "serve", "controller", "--port", str(port), "--address", "127.0.0.1",
         "--kubeconfig", str(layout.kubeconfig), "--namespace", "default", "--identity", "bench"],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not await asyncio.to_thread(_reconciled, port, workloads):
            if time.perf_counter() - began > PATIENCE_S:
                raise TimeoutError("not all is reconciled")
            await asyncio.sleep(0.2)
        if len((await client.list(TENSOR_FUSION_WORKLOADS, NAMESPACE)).items) != workloads:
            raise RuntimeError("not every pod has its workload")
        return time.perf_counter() - began, psutil.Process(process.pid).memory_info().rss
    finally:
        process.terminate()
        process.wait(timeout=30)


def _reconciled(port: int, workloads: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except (urllib.error.URLError, OSError):
        return False
    found = dict(re.findall(r"^tensor_fusion_controller_(leader|pods|waiting) ([0-9.e+]+)$", text, re.MULTILINE))
    return found.get("leader") == "1.0" and float(found["pods"]) >= workloads and found["waiting"] == "0.0"


async def _listed(client: Client) -> float:
    began = time.perf_counter()
    for kind in (PODS, TENSOR_FUSION_WORKLOADS):
        await client.list(kind)
    return time.perf_counter() - began


async def _prepare(client: Client, workloads: int) -> None:
    for definition in yaml.safe_load_all(crd_yaml()):
        if definition:
            await client.apply(CRDS, definition, "bench")
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            await client.list(TENSOR_FUSION_WORKLOADS)
            await client.apply(GPU_POOLS, {"metadata": {"name": "p"}, "spec": {}}, "bench")
            break
        except ApiError:
            await asyncio.sleep(0.5)
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    while not (await client.list(SERVICE_ACCOUNTS, NAMESPACE)).items:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    gate = asyncio.Semaphore(16)

    async def one(at: int) -> None:
        async with gate:
            await client.create(PODS, _pod(at), NAMESPACE)

    await asyncio.gather(*(one(at) for at in range(workloads)))


def _pod(at: int) -> dict[str, Any]:
    amount = Compute(Unit.TFLOPS, Decimal(10))
    worker = WorkerSpec(
        Mode.LOCAL, "p", f"w-{at}", QoS.MEDIUM, "", Isolation.SOFT, Vendor.NVIDIA, 1, ("app",), amount, amount, 2**30, 2**30
    )
    marks = {names.key("resolved"): canonical(to_json(worker, {}))}
    metadata = {"name": f"w-{at}", "annotations": marks, "labels": {names.ENABLED_LABEL: "true"}}
    return {"metadata": metadata, "spec": {"schedulerName": "nobody", "containers": [{"name": "app", "image": "app"}]}}


if __name__ == "__main__":
    print(f"cores: {os.cpu_count()}, load: {statistics.fmean(os.getloadavg()):.1f}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as made:
        sys.exit(report(asyncio.run(measure(Path(made), 300 if quick() else 2000))))
