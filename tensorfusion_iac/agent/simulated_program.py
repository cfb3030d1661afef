"""The agents of all simulated nodes of a cluster, in one process: `tensorfusion serve simulated-agents`.

The cards are those of `GPU` objects with the label `tensor-fusion.ai/simulated`; whoever made them keeps their facts. Here are
written only what an agent finds out about pods: rows of pods, partitions, capabilities. Two watches serve any number of nodes.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from tensorfusion_iac.agent import objects, server, simulation
from tensorfusion_iac.agent.capabilities import CardCapabilities
from tensorfusion_iac.agent.driver import Card
from tensorfusion_iac.agent.enforcer import Seen
from tensorfusion_iac.agent.health import Health
from tensorfusion_iac.agent.history import UsageHistory
from tensorfusion_iac.agent.metrics import AgentMetrics, Snapshot
from tensorfusion_iac.agent.objects import Held
from tensorfusion_iac.agent.partitions import Partitioned, wanted_of
from tensorfusion_iac.agent.pods import NodePod, node_pod
from tensorfusion_iac.agent.reporting import Reporter
from tensorfusion_iac.api.names import PREFIX
from tensorfusion_iac.api.quantity import parse_quantity
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.informer import Change, ChangeType, Informer
from tensorfusion_iac.kube.resource import GPUS, PODS

SIMULATED = f"{PREFIX}simulated"
ROUND_S = 2.0
_OWN_FIELDS = ("capabilities", "pods", "partitions")


@dataclass(frozen=True, slots=True)
class _SimulatedCard:
    """A card, its node, and its object's wish for partitions."""

    card: Card
    node: str
    partitioned: Partitioned


class SimulatedAgents:
    """All of them. `run` goes on until it is cancelled."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.time) -> None:
        self.history, self.metrics, self.reporter = UsageHistory(), AgentMetrics(), Reporter(client)
        self._client, self._clock = client, clock
        self._cards: dict[str, _SimulatedCard] = {}
        self._pods: dict[tuple[str, str], tuple[str, NodePod]] = {}
        self._changed = asyncio.Event()

    async def run(self, address: str = "127.0.0.1", port: int = 0, on_ready: Callable[[int], None] = lambda port: None) -> None:
        """Serve metrics, and keep the objects, until cancelled."""
        gpus = Informer(self._client, GPUS, label_selector=f"{SIMULATED}=true")
        gpus.on_change(self.gpu_changed)
        pods = Informer(self._client, PODS, field_selector="spec.nodeName!=")
        pods.on_change(self.pod_changed)
        async with AsyncExitStack() as stack:
            on_ready(await stack.enter_async_context(server.served(server.metrics_app(self.metrics), address, port)))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(gpus.run())
                tasks.create_task(pods.run())
                tasks.create_task(self.reporter.run())
                tasks.create_task(self._rounds())

    def gpu_changed(self, change: Change) -> None:
        """A simulated card's object was added, changed or deleted."""
        name = change.key[1]
        found = None if change.type is ChangeType.DELETED else _card(change.object)
        if found is None:
            self._cards.pop(name, None)
            self.reporter.forget(GPUS, name)
        elif self._cards.get(name) != found:
            self._cards[name] = found
            self._changed.set()

    def pod_changed(self, change: Change) -> None:
        """A bound pod was added, changed or deleted."""
        pod = None if change.type is ChangeType.DELETED else node_pod(change.object)
        entry = None if pod is None else (change.object["spec"].get("nodeName", ""), pod)
        if self._pods.get(change.key) == entry:
            return
        if entry is None:
            del self._pods[change.key]
        else:
            self._pods[change.key] = entry
        self._changed.set()

    def step(self) -> None:
        """One round: simulate every node, and say what is to be written."""
        by_node: defaultdict[str, dict[str, NodePod]] = defaultdict(dict)
        for node, pod in self._pods.values():
            by_node[node][pod.uid] = pod
        nodes = {entry.node for entry in self._cards.values()}
        pods = {uid: pod for node in nodes for uid, pod in by_node[node].items()}
        seen = _together([simulation.simulate(by_node[node].values(), self._clock()) for node in sorted(nodes)])
        self.history.forget(set(pods))
        self.history.add(seen.containers, self._clock())
        enforced: dict[tuple[str, str], str] = {}
        for name, entry in self._cards.items():
            status = _status(entry, by_node[entry.node])
            enforced |= {(row["uid"], entry.card.uuid): row["enforcedBy"] for row in status["pods"]}
            self.reporter.want(GPUS, {"name": name}, status)
        used: defaultdict[str, int] = defaultdict(int)
        for use in seen.containers:
            used[use.card] += use.vram_bytes
        cards = tuple(entry.card for entry in self._cards.values())
        self.metrics.snapshot = Snapshot(cards, {}, {card.uuid: used[card.uuid] for card in cards}, pods, enforced, seen)

    async def _rounds(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._changed.wait(), ROUND_S)
            except TimeoutError:
                pass
            else:
                await asyncio.sleep(0.1)  # what belongs together comes together
            self._changed.clear()
            self.step()


def _card(gpu: Mapping[str, Any]) -> _SimulatedCard | None:
    """A card from its object; None while it does not say what it is."""
    status = gpu.get("status") or {}
    uuid, node, vram = status.get("uuid"), status.get("nodeName"), (status.get("capacity") or {}).get("vram")
    if not uuid or not node or vram is None:
        return None
    card = Card(status.get("index", 0), uuid, status.get("model", ""), int(parse_quantity(str(vram))), status.get("numaNode"))
    known = objects.known_model(card)
    card = replace(card, can_partition=known is not None and known.mig is not None)
    return _SimulatedCard(card, node, simulation.partitioned(uuid, wanted_of(gpu)) if card.can_partition else Partitioned())


def _status(entry: _SimulatedCard, pods: Mapping[str, NodePod]) -> dict[str, Any]:
    capabilities = CardCapabilities("simulated", "driver", "freezer", mps=True, mig=entry.card.can_partition)
    memory = {(pod.uid, card): limits.vram_limit_bytes for pod in pods.values() for card, limits in pod.cards.items()}
    status = objects.gpu_status(
        entry.card, entry.node, health=Health(), used_by="tensor-fusion", capabilities=capabilities,
        partitioned=entry.partitioned, pods=pods, held=Held(memory, mps=frozenset(pods)),
    )  # fmt: skip
    return {field: status[field] for field in _OWN_FIELDS}


def _together(seen: list[Seen]) -> Seen:
    """What all nodes see, as one."""
    return Seen(
        tuple(use for each in seen for use in each.containers),
        {card: percent for each in seen for card, percent in each.busy.items()},
        ran={uid: ran for each in seen for uid, ran in each.ran.items()},
        targets={place: target for each in seen for place, target in each.targets.items()},
    )
