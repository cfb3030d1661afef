"""The agents of all simulated nodes of a cluster, in one process: `tensorfusion serve simulated-agents`.

A node is simulated if its Node object says which cards it has (`simulated_cards`). All that a real agent keeps is kept for it:
`GPUNode`, a `GPU` for each card, the Lease with the address of the usage history, and the history itself. A few watches serve any
number of nodes.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from tensorfusion_iac.agent import objects, server, simulation
from tensorfusion_iac.agent.capabilities import CardCapabilities, Injection
from tensorfusion_iac.agent.driver import Card
from tensorfusion_iac.agent.enforcer import Seen
from tensorfusion_iac.agent.health import Health
from tensorfusion_iac.agent.history import BUCKET_S, UsageHistory
from tensorfusion_iac.agent.metrics import AgentMetrics, Snapshot
from tensorfusion_iac.agent.objects import Held, Object
from tensorfusion_iac.agent.partitions import Partitioned, Wanted, wanted_of
from tensorfusion_iac.agent.pods import NodePod, node_pod
from tensorfusion_iac.agent.reporting import CONCURRENT, Reporter
from tensorfusion_iac.agent.simulated_cards import SELECTOR, SIMULATED_LABEL, cards_of
from tensorfusion_iac.agent.simulated_load import LOAD_ANNOTATION, Load, load_of, with_annotation
from tensorfusion_iac.api.names import key
from tensorfusion_iac.api.worker import from_json
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import KubeError
from tensorfusion_iac.kube.informer import Change, ChangeType, Informer
from tensorfusion_iac.kube.resource import CRDS, GPU_NODES, GPUS, LEASES, NODES, PODS

log = logging.getLogger(__name__)

ROUND_S = 2.0
VERSION = "simulated"
_TOGETHER_S, _SERVED_AFTER_S = 0.1, 1.0
_KINDS = frozenset(f"{resource.plural}.{resource.group}" for resource in (GPUS, GPU_NODES))


@dataclass(frozen=True, slots=True)
class Settings:
    """Where it serves (port 0: a free one), and how much time one row of the history is of."""

    address: str = "127.0.0.1"
    port: int = 0
    history_port: int = 0
    bucket_s: int = BUCKET_S


@dataclass(slots=True)
class _Node:
    """A simulated node. `beaten_s`: when its Lease was renewed, by our own clock."""

    uid: str
    cards: tuple[Card, ...]
    history: UsageHistory
    beaten_s: float = float("-inf")


@dataclass(frozen=True, slots=True)
class _Pod:
    node: str
    pod: NodePod
    load: Load


@dataclass(slots=True)
class _Told:
    """What the last look at a node said of it, for the metrics."""

    pods: dict[str, NodePod] = field(default_factory=dict)
    enforced: dict[tuple[str, str], str] = field(default_factory=dict)


class SimulatedAgents:
    """All of them. `run` goes on until it is cancelled."""

    def __init__(self, client: Client, settings: Settings | None = None, clock: Callable[[], float] = time.time) -> None:
        self.settings, self.metrics, self.reporter = settings or Settings(), AgentMetrics(), Reporter(client)
        self._client, self._clock = client, clock
        self._nodes: dict[str, _Node] = {}
        self._pods: dict[tuple[str, str], _Pod] = {}
        self._wanted: dict[str, tuple[Wanted, ...]] = {}
        self._told: defaultdict[str, _Told] = defaultdict(_Told)
        self._stale: set[str] = set()
        """Nodes of which something has to be told."""
        self._kinds: set[str] = set()
        self._served, self._changed = asyncio.Event(), asyncio.Event()
        self._marks: dict[str, str] = {}
        self._endpoint = ""

    async def run(self, on_ready: Callable[[int], None] = lambda port: None) -> None:
        """Serve metrics and histories, and keep the objects, until cancelled. OSError if a port is taken."""
        nodes = Informer(self._client, NODES, label_selector=SELECTOR)
        nodes.on_change(self.node_changed)
        pods = Informer(self._client, PODS, field_selector="spec.nodeName!=")
        pods.on_change(self.pod_changed)
        kinds = Informer(self._client, CRDS, keep=_status_alone)
        kinds.on_change(self._kind_changed)
        async with AsyncExitStack() as stack:
            on_ready(await self._serve(stack))
            async with asyncio.TaskGroup() as tasks:
                for informer in (nodes, pods, kinds):
                    tasks.create_task(informer.run())
                for work in (self._watch_own(), self.reporter.run(), self._rounds(), self._beat()):
                    tasks.create_task(work)

    async def _serve(self, stack: AsyncExitStack) -> int:
        from tensorfusion_iac.agent.certificate import server_context  # heavy, and needed once

        settings = self.settings
        tls, pem = server_context("simulated-agents", settings.address)
        app = server.history_app(self._history, server.Gatekeeper(self._client))
        port = await stack.enter_async_context(server.served(app, settings.address, settings.history_port, tls))
        host = f"[{settings.address}]" if ":" in settings.address else settings.address
        self._endpoint = f"https://{host}:{port}{server.HISTORY_PATH}?node="
        self._marks = {objects.CERTIFICATE: base64.b64encode(pem.encode()).decode()}
        return await stack.enter_async_context(
            server.served(server.metrics_app(self.metrics), settings.address, settings.port)
        )  # fmt: skip

    async def _watch_own(self) -> None:
        """Watch the objects that are kept here, as soon as their kinds are installed."""
        await self._served.wait()
        await asyncio.sleep(_SERVED_AFTER_S)  # they are served a moment after it is said so
        gpus, gpu_nodes = (Informer(self._client, kind, label_selector=SELECTOR) for kind in (GPUS, GPU_NODES))
        gpus.on_change(self.gpu_changed)
        gpu_nodes.on_change(self._gpu_node_changed)
        self._stale |= self._nodes.keys()
        self._changed.set()
        await asyncio.gather(gpus.run(), gpu_nodes.run())

    def _history(self, node: str) -> UsageHistory | None:
        found = self._nodes.get(node)
        return None if found is None else found.history

    # What changes.

    def node_changed(self, change: Change) -> None:
        """A simulated Node was added, changed or deleted."""
        name, before = change.key[1], self._nodes.get(change.key[1])
        cards = () if change.type is ChangeType.DELETED else cards_of(change.object)
        for card in before.cards if before else ():
            if card not in cards:
                self.reporter.forget(GPUS, objects.gpu_name(card.uuid))
        if not cards:
            self._nodes.pop(name, None)
            self._told.pop(name, None)
            self.reporter.forget(GPU_NODES, name)
            return
        uid = str(change.object["metadata"]["uid"])
        if before is None or (before.uid, before.cards) != (uid, cards):
            history = before.history if before is not None else UsageHistory(self.settings.bucket_s)
            self._nodes[name] = _Node(uid, cards, history)
            self._look_at(name)

    def pod_changed(self, change: Change) -> None:
        """A bound pod was added, changed or deleted."""
        pod = None if change.type is ChangeType.DELETED else node_pod(change.object)
        before = self._pods.get(change.key)
        now = None if pod is None else _Pod(change.object["spec"].get("nodeName", ""), pod, _load(change.object, pod))
        if before == now:
            return
        if now is None:
            del self._pods[change.key]
        else:
            self._pods[change.key] = now
        for one in (before, now):
            if one is not None:
                self._look_at(one.node)

    def gpu_changed(self, change: Change) -> None:
        """The object of a card was added, changed or deleted."""
        name, node = change.key[1], (change.object.get("status") or {}).get("nodeName")
        if change.type is ChangeType.DELETED:
            self._wanted.pop(name, None)
            self.reporter.lost(GPUS, name)
            return
        wanted = wanted_of(change.object)
        if self._wanted.get(name, ()) != wanted:
            self._wanted[name] = wanted
            self._look_at(str(node))

    def _gpu_node_changed(self, change: Change) -> None:
        if change.type is ChangeType.DELETED:
            self.reporter.lost(GPU_NODES, change.key[1])

    def _kind_changed(self, change: Change) -> None:
        if change.type is not ChangeType.DELETED and _is_established(change.object):
            self._kinds.add(change.key[1])
        if self._kinds >= _KINDS:
            self._served.set()

    def _look_at(self, node: str) -> None:
        self._stale.add(node)
        self._changed.set()

    # What is told.

    async def _rounds(self) -> None:
        while True:
            try:
                async with asyncio.timeout(ROUND_S):  # wait_for may lose a cancel before Python 3.12
                    await self._changed.wait()
            except TimeoutError:
                pass
            else:
                await asyncio.sleep(_TOGETHER_S)  # what belongs together comes together
            self._changed.clear()
            self.step()

    def step(self) -> None:
        """One round: simulate every node that has pods, and tell of those where something has changed."""
        now_s = self._clock()
        by_node: defaultdict[str, list[_Pod]] = defaultdict(list)
        for one in self._pods.values():
            by_node[one.node].append(one)
        seen = []
        for name, node in self._nodes.items():
            pods = {one.pod.uid: one.pod for one in by_node[name]}
            if pods:
                loads = {one.pod.uid: one.load for one in by_node[name]}
                found = simulation.simulate(pods.values(), loads, now_s)
                node.history.add(found.containers, now_s)
                seen.append(found)
            if name in self._stale and self._served.is_set():
                node.history.forget(set(pods))
                self._stale.discard(name)
                self._tell(name, node, pods)
        self._measure(_together(seen))

    def _tell(self, name: str, node: _Node, pods: Mapping[str, NodePod]) -> None:
        told = self._told[name] = _Told(dict(pods))
        label = {SIMULATED_LABEL: "true"}
        for card in node.cards:
            wanted = self._wanted.get(objects.gpu_name(card.uuid), ())
            partitioned = simulation.partitioned(card.uuid, wanted) if card.can_partition else Partitioned()
            status = _status(card, name, pods, partitioned)
            told.enforced |= {(row["uid"], card.uuid): row["enforcedBy"] for row in status["pods"]}
            metadata = objects.gpu_metadata(card, name, node.uid)
            self.reporter.want(GPUS, metadata | {"labels": metadata["labels"] | label}, status)
        used_by = dict.fromkeys((card.uuid for card in node.cards), "tensor-fusion")
        status = objects.gpu_node_status(node.cards, used_by, Injection("env"), VERSION)
        self.reporter.want(GPU_NODES, objects.gpu_node_metadata(name, node.uid) | {"labels": label}, status)

    def _measure(self, seen: Seen) -> None:
        used: defaultdict[str, int] = defaultdict(int)
        for use in seen.containers:
            used[use.card] += use.vram_bytes
        cards = tuple(card for node in self._nodes.values() for card in node.cards)
        self.metrics.snapshot = Snapshot(
            cards,
            nodes={card.uuid: name for name, node in self._nodes.items() for card in node.cards},
            used_bytes={card.uuid: used[card.uuid] for card in cards},
            pods={uid: pod for told in self._told.values() for uid, pod in told.pods.items()},
            enforced_by={place: text for told in self._told.values() for place, text in told.enforced.items()},
            seen=seen,
        )

    async def _beat(self) -> None:
        """Renew the Leases: of new nodes soon, of each every half minute."""
        turns = asyncio.Semaphore(CONCURRENT)
        while True:
            now_s = time.monotonic()
            due = [(name, node) for name, node in self._nodes.items() if now_s - node.beaten_s >= objects.HEARTBEAT_S]
            await asyncio.gather(*(self._renew(turns, name, node) for name, node in due))
            await asyncio.sleep(1.0)

    async def _renew(self, turns: asyncio.Semaphore, name: str, node: _Node) -> None:
        marks = self._marks | {objects.ENDPOINT: self._endpoint + quote(name, safe="")}
        lease = objects.lease(name, node.uid, datetime.now(UTC), marks)
        lease["metadata"]["labels"][SIMULATED_LABEL] = "true"
        async with turns:
            try:
                await self._client.apply(LEASES, lease, objects.MANAGER)
                node.beaten_s = time.monotonic()
            except KubeError as error:
                log.warning("heartbeat of %s: %s", name, error)


def _load(pod: Mapping[str, Any], found: NodePod) -> Load:
    """What a pod would use; its memory is measured by what it was given at first, so that a resize does not change it."""
    annotations = pod["metadata"].get("annotations") or {}
    worker = from_json(annotations[key("resolved")])
    given = max((limits.vram_limit_bytes for limits in found.cards.values()), default=0)
    load = load_of(found.workload, worker.vram_limit_bytes or worker.vram_request_bytes or given)
    try:
        return with_annotation(load, annotations[LOAD_ANNOTATION]) if LOAD_ANNOTATION in annotations else load
    except ValueError as error:
        log.warning("pod %s/%s: %s", found.namespace, found.name, error)
        return load


def _status(card: Card, node: str, pods: Mapping[str, NodePod], partitioned: Partitioned) -> Object:
    capabilities = CardCapabilities("simulated", "driver", "freezer", mps=True, mig=card.can_partition)
    memory = {(pod.uid, uuid): limits.vram_limit_bytes for pod in pods.values() for uuid, limits in pod.cards.items()}
    return objects.gpu_status(
        card, node, health=Health(), used_by="tensor-fusion", capabilities=capabilities, partitioned=partitioned, pods=pods,
        held=Held(memory, mps=frozenset(pods)),
    )  # fmt: skip


def _together(seen: list[Seen]) -> Seen:
    """What all nodes see, as one."""
    return Seen(
        tuple(use for each in seen for use in each.containers),
        {card: percent for each in seen for card, percent in each.busy.items()},
        ran={uid: ran for each in seen for uid, ran in each.ran.items()},
        targets={place: target for each in seen for place, target in each.targets.items()},
    )


def _status_alone(crd: Object) -> Object:
    """What is read of a CRD: their schemas are large."""
    metadata = {name: crd["metadata"][name] for name in ("name", "uid", "resourceVersion")}
    return {"metadata": metadata, "status": {"conditions": (crd.get("status") or {}).get("conditions") or []}}


def _is_established(crd: Object) -> bool:
    return any(one["type"] == "Established" and one["status"] == "True" for one in crd["status"]["conditions"])
