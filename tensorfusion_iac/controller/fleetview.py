"""Nodes and cards as the controller sees them: watch caches of Nodes, GPUNodes, GPUs, pools and the agents' leases.

It turns raw objects into the values that the pure functions take; a pool that cannot be read counts as absent, and is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from tensorfusion_iac.api.names import AGENT_LEASE_NAMESPACE, COMPONENT_LABEL
from tensorfusion_iac.api.problem import Fault
from tensorfusion_iac.api.quantity import parse_quantity
from tensorfusion_iac.api.resources import GPUPool
from tensorfusion_iac.controller.heartbeats import Heartbeats
from tensorfusion_iac.controller.pools import NodeView
from tensorfusion_iac.controller.usage import Agent, agent_of
from tensorfusion_iac.controller.vanished import Listed
from tensorfusion_iac.kube.client import Client, Object
from tensorfusion_iac.kube.informer import Change, ChangeType, Informer
from tensorfusion_iac.kube.resource import GPU_NODES, GPU_POOLS, GPUS, LEASES, NODES
from tensorfusion_iac.planning.cards import CardFacts, read_card

log = logging.getLogger(__name__)

_LEASE_SELECTOR = f"{COMPONENT_LABEL}=agent"


class FleetView:
    """The cluster's GPUs. `informers` have to run."""

    def __init__(self, client: Client) -> None:
        self.nodes = Informer(client, NODES, keep=_node)
        self.gpu_nodes = Informer(client, GPU_NODES)
        self.gpus = Informer(client, GPUS)
        self.pool_objects = Informer(client, GPU_POOLS)
        leases = Informer(client, LEASES, namespace=AGENT_LEASE_NAMESPACE, label_selector=_LEASE_SELECTOR)
        self.informers = (self.nodes, self.gpu_nodes, self.gpus, self.pool_objects, leases)
        self.heartbeats = Heartbeats()
        self.pools: dict[str, GPUPool] = {}
        self.cards: dict[str, CardFacts] = {}
        """Cards by the name of their GPU object."""
        self.agents: dict[str, Agent] = {}
        """Agents that serve a history of use, by the name of their lease."""
        leases.on_change(self._lease_changed)
        self.pool_objects.on_change(self._pool_changed)
        self.gpus.on_change(self._gpu_changed)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call when anything but a heartbeat has changed."""
        for informer in (self.nodes, self.gpu_nodes, self.gpus, self.pool_objects):
            informer.on_change(lambda change: listener())

    def gpu(self, uuid: str) -> Object | None:
        """The GPU object of a card."""
        return self.gpus.get(uuid.lower())

    def views(self) -> list[NodeView]:
        """All nodes, as pools see them."""
        with_gpus = {card.node for card in self.cards.values()}
        return [self._view(item, with_gpus) for item in self.nodes]

    def node_names(self) -> frozenset[str]:
        """The names of all nodes."""
        return frozenset(item["metadata"]["name"] for item in self.nodes)

    def listed(self) -> Mapping[str, Listed]:
        """What live agents say of their cards."""
        found = {}
        for item in self.gpu_nodes:
            name, uuids = item["metadata"]["name"], (item.get("status") or {}).get("managedGPUDeviceIDs")
            if uuids is not None and self.heartbeats.is_live(name):
                found[name] = Listed(frozenset(uuids))
        return found

    def _view(self, item: Object, with_gpus: set[str]) -> NodeView:
        name, node_spec, status = item["metadata"]["name"], item["spec"], item["status"]
        gpu_node = self.gpu_nodes.get(name) or {}
        said = gpu_node.get("status") or {}
        able = said.get("injectionTier") not in (None, "", "none") and self.heartbeats.is_live(name)
        return NodeView(
            name=name,
            labels=item["metadata"]["labels"],
            has_gpus=name in with_gpus or bool(gpu_node),
            takes_pods=able and status["ready"] and not node_spec["unschedulable"],
            named=(gpu_node.get("spec") or {}).get("poolName") or None,
            agent=said.get("agentVersion") or "",
            memory_bytes=status["memory"],
            disk_bytes=status["disk"],
        )

    def _lease_changed(self, change: Change) -> None:
        self.heartbeats.take(change)
        agent = None if change.type is ChangeType.DELETED else agent_of(change.object)
        if agent is None:
            self.agents.pop(change.key[1], None)
        else:
            self.agents[change.key[1]] = agent

    def _pool_changed(self, change: Change) -> None:
        name = change.key[1]
        self.pools.pop(name, None)
        if change.type is not ChangeType.DELETED:
            try:
                self.pools[name] = GPUPool.model_validate(change.object)
            except ValidationError as error:
                log.error("GPUPool %s cannot be read: %s", name, error)

    def _gpu_changed(self, change: Change) -> None:
        card = None if change.type is ChangeType.DELETED else read_card(change.object)
        if card is None:
            self.cards.pop(change.key[1], None)
        else:
            self.cards[change.key[1]] = card


def _node(item: Object) -> Object:
    """What of a Node is kept: few of its bytes are read, and it changes with every heartbeat of its kubelet."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    capacity = status.get("capacity") or {}
    conditions = status.get("conditions") or ()
    return {
        "metadata": {key: metadata[key] for key in ("name", "uid", "resourceVersion")} | {"labels": metadata.get("labels") or {}},
        "spec": {"unschedulable": bool(spec.get("unschedulable"))},
        "status": {
            "ready": any(one["type"] == "Ready" and one["status"] == "True" for one in conditions),
            "memory": _bytes(capacity.get("memory")),
            "disk": _bytes(capacity.get("ephemeral-storage")),
        },
    }


def _bytes(amount: Any) -> int:
    try:
        return int(parse_quantity(str(amount))) if amount is not None else 0
    except Fault:
        return 0
