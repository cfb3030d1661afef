"""A control plane of its own whose kube-scheduler asks our extender, and pods as admission would have written them."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import yaml
from running_plane import ControlPlane, tools

from tensorfusion_iac.api import names
from tensorfusion_iac.api.levels import Isolation, Mode, QoS
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.worker import Compute, Unit, WorkerSpec, canonical, to_json
from tensorfusion_iac.components import platform
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import GPUS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from tensorfusion_iac.local import control_plane as door
from tensorfusion_iac.local import scheduler_config
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.state import NodeGroup

T = TypeVar("T")
GIB = 2**30
PATIENCE_S = 60.0
PREFIX = names.PREFIX


@dataclass
class Extender:
    """A running `tensorfusion serve scheduler`."""

    kubeconfig: Path
    port: int
    options: tuple[str, ...] = ()
    process: subprocess.Popen[str] | None = None
    log: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.process = subprocess.Popen(
            [Path(sys.executable).with_name("tensorfusion"), "serve", "scheduler", "--port", str(self.port),
             "--kubeconfig", str(self.kubeconfig), *self.options],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=30)

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(timeout=30)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with process.stderr:
            self.log.extend(process.stderr)


@dataclass(frozen=True)
class GpuPlane(ControlPlane):
    """A control plane with GPUs that are scheduled."""

    extender: Extender

    def until(self, what: str, look: Callable[[Client], Awaitable[T | None]], patience_s: float = PATIENCE_S) -> T:
        """What `look` finds, as soon as it finds something."""

        async def wait(client: Client) -> T:
            deadline = time.monotonic() + patience_s
            while time.monotonic() < deadline:
                found = await look(client)
                if found:
                    return found
                await asyncio.sleep(0.1)
            raise AssertionError(f"{what}: not within {patience_s} s\n{''.join(self.extender.log[-40:])}")

        return self.ask(wait)

    def create(self, *pods: Mapping[str, Any]) -> None:
        async def make(client: Client) -> None:
            await asyncio.gather(*(client.create(PODS, dict(pod), pod["metadata"]["namespace"]) for pod in pods))

        self.ask(make)

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        return self.ask(lambda client: client.list(PODS, namespace)).items

    def bound(self, namespace: str, count: int, patience_s: float = PATIENCE_S) -> list[dict[str, Any]]:
        """The bound pods of a namespace, once there are `count` of them."""

        async def look(client: Client) -> list[dict[str, Any]] | None:
            items = (await client.list(PODS, namespace)).items
            there = [item for item in items if item["spec"].get("nodeName")]
            return there if len(there) >= count else None

        return self.until(f"{count} bound pods in {namespace}", look, patience_s)

    def refused(self, namespace: str, name: str) -> str:
        """The message of the pod's condition, once it has one that says why it has no GPUs."""

        async def look(client: Client) -> str | None:
            pod = await client.get(PODS, name, namespace)
            for condition in pod.get("status", {}).get("conditions") or []:
                if condition["type"] == f"{PREFIX}GPUsAllocated" and condition["status"] == "False":
                    return str(condition["message"])
            return None

        return self.until(f"a reason why {namespace}/{name} is pending", look)

    def delete(self, namespace: str, *pods: str) -> None:
        async def remove(client: Client) -> None:
            for name in pods:
                await client.delete(PODS, name, namespace)

        self.ask(remove)

    def apply(self, *items: Mapping[str, Any]) -> None:
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump_all([dict(i) for i in items]))

    def namespace(self, name: str) -> str:
        async def make(client: Client) -> None:
            try:
                await client.create(NAMESPACES, {"metadata": {"name": name}})
            except ApiError as error:
                if not error.already_exists:
                    raise
            while not (await client.list(SERVICE_ACCOUNTS, name)).items:
                await asyncio.sleep(0.05)

        self.ask(make)
        return name


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def gpu_plane(folder: Path, groups: Sequence[NodeGroup], owner_pid: int | None = None) -> Iterator[GpuPlane]:
    """A control plane with simulated cards, our CRDs, a default pool, kube-scheduler with our profile, and our extender."""
    layout, port = Layout.at(folder), free_port()
    render = scheduler_config.render

    def with_extender(kubeconfig: Path, ours: int) -> str:  # not the one that is supervised, which nobody may kill
        return render(kubeconfig, port)

    with patch.object(scheduler_config, "render", with_extender):
        door.up(layout, door.Wish(groups=tuple(groups)), tools, lambda line: None, owner_pid=owner_pid)
    plane = GpuPlane(layout, Extender(layout.kubeconfig, port))
    try:
        plane.install_crds()
        plane.apply(*platform.priority_classes(), pool("p"))
        cards = sum(group.gpus_per_node * group.nodes for group in groups)
        plane.extender.start()

        async def cards_there(client: Client) -> bool:
            return len((await client.list(GPUS)).items) == cards

        plane.until("the cards", cards_there)
        wait_ready(plane)
        yield plane
    finally:
        if plane.extender.process is not None and plane.extender.process.poll() is None:
            plane.extender.stop()
        door.purge(layout, lambda line: None)


def wait_ready(plane: GpuPlane) -> None:
    async def ready(client: Client) -> bool:
        def look() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{plane.extender.port}/readyz", timeout=2) as answer:
                    return bool(answer.status == 200)
            except (urllib.error.URLError, OSError):
                return False

        return await asyncio.to_thread(look)

    plane.until("the extender is ready", ready)


def pool(name: str, **spec: Any) -> dict[str, Any]:
    marks = {f"{PREFIX}is-default-pool": "true"}
    return {"apiVersion": names.API_VERSION, "kind": "GPUPool", "metadata": {"name": name, "annotations": marks}, "spec": spec}


def worker(**more: Any) -> WorkerSpec:
    plain = WorkerSpec(
        Mode.LOCAL, "p", "w", QoS.MEDIUM, "tensor-fusion-medium", Isolation.SOFT, Vendor.NVIDIA, 1, ("app",),
    )  # fmt: skip
    return replace(plain, **more)


def vram(gib: float, **more: Any) -> WorkerSpec:
    return worker(vram_request_bytes=int(gib * GIB), vram_limit_bytes=int(gib * GIB), **more)


def percent(value: int, **more: Any) -> WorkerSpec:
    return worker(compute_request=Compute(Unit.PERCENT, Decimal(value)), **more)


def pod(namespace: str, name: str, spec: WorkerSpec, **more: Any) -> dict[str, Any]:
    """A pod as the webhook would have written it."""
    annotations = {f"{PREFIX}resolved": canonical(to_json(spec, {}))} | more.pop("annotations", {})
    containers = [
        {"name": name, "image": "app", "resources": {"limits": {names.RESOURCE: names.RESOURCE_AMOUNT}} if at == 0 else {}}
        for at, name in enumerate(spec.containers)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "annotations": annotations,
            "labels": {names.ENABLED_LABEL: "true"} | more.pop("labels", {}),
        },
        "spec": {
            "schedulerName": names.SCHEDULER_NAME, "priorityClassName": spec.priority_class, "containers": containers,
            "terminationGracePeriodSeconds": 0, **more,
        },
    }  # fmt: skip


def annotation(item: Mapping[str, Any], name: str) -> str:
    return str(item["metadata"]["annotations"][f"{PREFIX}{name}"])


def cards_of(item: Mapping[str, Any]) -> list[str]:
    return annotation(item, "gpu-ids").split(",")


def promised(items: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Bytes of memory that the annotations of living, bound pods promise of each card."""
    found: dict[str, int] = {}
    for item in items:
        if item["spec"].get("nodeName") and item["status"].get("phase") not in ("Succeeded", "Failed"):
            for card in json.loads(annotation(item, "effective"))["cards"]:
                found[card["id"]] = found.get(card["id"], 0) + card["requests"]["vram"]
    return found
