"""Events about pods: what the agent tells a pod's owner, through the API server, and never waits for (SPEC §9).

During an outage the first notices are kept and later ones dropped: they would say the same.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from tensorfusion_iac.agent.enforcer import Notice
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import KubeError
from tensorfusion_iac.kube.resource import EVENTS

log = logging.getLogger(__name__)

_WAITING = 256


class Notices:
    """Takes notices from any thread once `run` has begun, and sends them in turn."""

    def __init__(self, client: Client, node: str) -> None:
        self._client, self._node = client, node
        self._queue: asyncio.Queue[Notice] = asyncio.Queue(_WAITING)
        self._loop: asyncio.AbstractEventLoop | None = None

    def take(self, notice: Notice) -> None:
        """Send a notice, some time."""
        log.warning("%s/%s: %s: %s", notice.pod.namespace, notice.pod.name, notice.reason, notice.message)
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._put, notice)

    async def run(self) -> None:
        """Send, for ever."""
        self._loop = asyncio.get_running_loop()
        while True:
            notice = await self._queue.get()
            try:
                await self._client.create(EVENTS, event(notice, self._node), notice.pod.namespace)
            except KubeError as error:
                log.warning("event for %s/%s: %s", notice.pod.namespace, notice.pod.name, error)

    def _put(self, notice: Notice) -> None:
        with suppress(asyncio.QueueFull):
            self._queue.put_nowait(notice)


def event(notice: Notice, node: str) -> dict[str, Any]:
    """A Warning about a pod, as `kubectl describe` shows it."""
    now, pod = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), notice.pod
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{pod.name[:200]}.", "namespace": pod.namespace},
        "type": "Warning",
        "reason": notice.reason,
        "message": notice.message[:1024],
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "source": {"component": "tensor-fusion-agent", "host": node},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
