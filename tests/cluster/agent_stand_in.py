"""What a node's agent does that scheduling waits for, until there is one: MIG instances made as wanted, limits applied."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tensorfusion_iac.api import names
from tensorfusion_iac.kube.client import Client, PatchType
from tensorfusion_iac.kube.errors import KubeError
from tensorfusion_iac.kube.resource import GPUS, PODS

PERIOD_S = 0.2


class StandIn:
    """Acts while `works`; `applies` says whether it holds pods to their amounts."""

    def __init__(self) -> None:
        self.works = True
        self.applies = True


@contextmanager
def agents(kubeconfig: Path) -> Iterator[StandIn]:
    """Agents of all nodes, in a thread, for the length of the block."""
    stand_in, stop = StandIn(), threading.Event()

    async def act() -> None:
        async with await Client.from_kubeconfig(kubeconfig) as client:
            while not stop.is_set():
                if stand_in.works:
                    with suppress(KubeError):
                        await _once(client, stand_in)
                await asyncio.sleep(PERIOD_S)

    thread = threading.Thread(target=lambda: asyncio.run(act()), daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        stop.set()
        thread.join(timeout=30)


async def _once(client: Client, stand_in: StandIn) -> None:
    pods = (await client.list(PODS)).items
    for gpu in (await client.list(GPUS)).items:
        status = gpu["status"]
        changes: dict[str, Any] = {}
        instances = _instances(gpu)
        if instances != (status.get("partitions") or []):
            changes["partitions"] = instances
        if stand_in.applies and (on_card := _applied(pods, status["uuid"])) != (status.get("pods") or []):
            changes["pods"] = on_card
        if changes:
            body = {"status": changes}
            await client.patch(GPUS, gpu["metadata"]["name"], body, PatchType.MERGE, subresource="status")


def _instances(gpu: dict[str, Any]) -> list[dict[str, Any]]:
    there = {(one["template"], one["start"]): one for one in gpu["status"].get("partitions") or ()}
    made = []
    for wanted in (gpu.get("spec") or {}).get("partitions") or ():
        known = there.get((wanted["template"], wanted["start"]))
        same = known is not None and known.get("podUID") == wanted.get("podUID")
        made.append(known if same else wanted | {"uuid": f"MIG-{uuid.uuid4()}"})
    return made  # type: ignore[return-value]


def _applied(pods: list[dict[str, Any]], card: str) -> list[dict[str, Any]]:
    found = []
    for pod in pods:
        text = (pod["metadata"].get("annotations") or {}).get(names.key("effective"))
        for share in json.loads(text)["cards"] if text else ():
            if share["id"] == card:
                limits = {"tflops": share["limits"]["tflops"], "vram": str(share["limits"]["vram"])}
                found.append({"uid": pod["metadata"]["uid"], "container": "app", "applied": limits})
    return found
