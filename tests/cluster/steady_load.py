"""Enabled pods that are created at a steady rate, as dry runs, while a test does something else to the webhook."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp
from running_plane import ControlPlane
from running_webhook import pod

from tensorfusion_iac.kube.client import Client

CONNECTIONS = 32
NAMES_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"  # the API server has less to write, we to read


@dataclass
class Load:
    """What became of the requests so far."""

    sent: int = 0
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    failures: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.sent / (self.ended - self.began)


@contextmanager
def under_load(plane: ControlPlane, namespace: str, rate: float) -> Iterator[Load]:
    """`rate` requests a second for the length of the block; fewer if the cluster cannot answer so many at a time."""
    load, stop = Load(), threading.Event()
    body = json.dumps(pod({"vram-request": "1Gi"}, namespace=namespace)).encode()
    headers = {"Content-Type": "application/json", "Accept": NAMES_ONLY}

    async def run() -> None:
        client = await Client.from_kubeconfig(plane.kubeconfig)
        url = f"{client.credentials.server}/api/v1/namespaces/{namespace}/pods?dryRun=All"
        connector = aiohttp.TCPConnector(ssl=client.credentials.tls, limit=CONNECTIONS)
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session, asyncio.TaskGroup() as under_way:
            free = asyncio.Semaphore(CONNECTIONS)

            async def one() -> None:
                try:
                    async with session.post(url, data=body) as answer:
                        said = await answer.read()
                        if answer.status != 201:
                            load.failures.append(said.decode())
                except aiohttp.ClientError as error:
                    load.failures.append(repr(error))
                finally:
                    free.release()

            while not stop.is_set():
                await asyncio.sleep(max(0.0, load.began + load.sent / rate - time.monotonic()))
                await free.acquire()
                under_way.create_task(one())
                load.sent += 1
        load.ended = time.monotonic()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        yield load
    finally:
        stop.set()
        thread.join(60)
