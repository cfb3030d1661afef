"""The cluster as the scheduler sees it: watch events in, inventory and books out, changed by deltas (SPEC §7).

The truth is on the API server: facts on GPU, GPUNode, Node, GPUPool and quota objects and on the agents' leases, reservations
on the annotations of living pods. Everything here is synchronous, so that a decision never sees half of a change.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from tensorfusion_iac.api.resources import GPUPool, GPUResourceQuota
from tensorfusion_iac.kube.client import Object
from tensorfusion_iac.kube.informer import Change, ChangeType
from tensorfusion_iac.planning.allocate import Allocator
from tensorfusion_iac.planning.cards import NodeFacts, read_card
from tensorfusion_iac.planning.charge import holding, quota_of
from tensorfusion_iac.planning.inventory import Inventory
from tensorfusion_iac.planning.ledger import Entry, Ledger, State
from tensorfusion_iac.planning.membership import NodeLabels, facts_of, pool_of, why_no_nodes
from tensorfusion_iac.scheduling.liveness import Liveness
from tensorfusion_iac.scheduling.pods import GpuPod, NotOurPodError, read_pod

log = logging.getLogger(__name__)

GONE_KEPT_S = 120.0
"""How long the UIDs of pods that are gone are remembered: kube-scheduler may still ask about one."""
UNSHOWN_S = 30.0
"""How much longer a commitment stands that the watch has not shown yet."""

Listener = Callable[[], None]


class ClusterState:
    """Inventory, books, pods and pools. `changed` listeners hear of freed room, or of facts that may let a pod fit."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.inventory = Inventory(nodes=64, cards=8)
        self.ledger = Ledger(self.inventory)
        self.allocator = Allocator(self.inventory)
        self.liveness = Liveness(clock)
        self.pods: dict[str, GpuPod] = {}
        """Pods for our scheduler by UID, those that are finished excepted."""
        self.pools: dict[str, GPUPool] = {}
        self.gpus: dict[str, Object] = {}
        """GPU objects by card UUID."""
        self.gone: dict[str, float] = {}
        """UIDs of pods that are deleted or finished, and when that was seen."""
        self.unsettled: set[str] = set()
        """Pods with an in-flight write of their amounts: until it is answered the books go before the watch."""
        self.shunned: set[str] = set()
        """Nodes with a taint `PreferNoSchedule`."""
        self._card_of_object: dict[str, str] = {}
        self._node_labels: dict[str, Mapping[str, str]] = {}
        self._gpu_nodes: dict[str, Object] = {}
        self._why_no_nodes: dict[str, str] = {}
        """Of pools that were asked about, until a pool or a node changes: looking at every node's labels takes a while."""
        self._quotas: dict[str, dict[str, Object]] = {}
        self._on_room: list[Listener] = []
        self._on_card: list[Callable[[str], None]] = []
        self._on_pod: list[Callable[[GpuPod], None]] = []
        self.liveness.on_change(self._node_changed)

    def on_room(self, listener: Listener) -> None:
        """Call when room was freed, or a fact changed that may let something fit."""
        self._on_room.append(listener)

    def on_card(self, listener: Callable[[str], None]) -> None:
        """Call with a card's UUID when what is held of it has changed, or the card itself."""
        self._on_card.append(listener)

    def on_pod(self, listener: Callable[[GpuPod], None]) -> None:
        """Call with every pod that was added or changed."""
        self._on_pod.append(listener)

    def tell_room(self) -> None:
        """There may be room where there was none."""
        for listener in self._on_room:
            listener()

    def tell_cards(self, entry_uid: str) -> None:
        """What a pod holds has changed."""
        entry = self.ledger.get(entry_uid)
        if entry is not None:
            self._tell(share.uuid for share in entry.reservation.shares)

    def release(self, uid: str) -> None:
        """Give back what a pod holds, and tell."""
        released = self.ledger.release(uid)
        if released is not None:
            self._tell(share.uuid for share in released.shares)
            self.tell_room()

    def _tell(self, cards: Any) -> None:
        for uuid in cards:
            for listener in self._on_card:
                listener(uuid)

    # Pods.

    def pod_changed(self, change: Change) -> None:
        """A pod of ours was added, changed or deleted."""
        uid = change.object["metadata"]["uid"]
        if change.type is ChangeType.DELETED:
            self._forget(uid)
        else:
            self.take_pod(change.object)

    def take_pod(self, raw: Object) -> None:
        """A pod as the server has it now; an older state than the one known is passed over."""
        try:
            pod = read_pod(raw)
        except NotOurPodError as error:
            log.warning("pod %s/%s: %s", raw["metadata"].get("namespace"), raw["metadata"]["name"], error)
            return
        known = self.pods.get(pod.uid)
        if known is not None and pod.version < known.version:
            return
        if pod.finished:
            self._forget(pod.uid)
            return
        self.pods[pod.uid] = pod
        if pod.node and pod.uid not in self.unsettled:
            self._adopt(pod)
        for listener in self._on_pod:
            listener(pod)

    def _forget(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.gone[uid] = self.clock()
        self.release(uid)

    def _adopt(self, pod: GpuPod) -> None:
        try:
            found = pod.reservation()
        except ValueError as error:
            log.error("pod %s/%s is bound, but what it holds cannot be read: %s", pod.namespace, pod.name, error)
            return
        if found is None:
            self.release(pod.uid)  # bound past us: it holds nothing here
            return
        entry = self.ledger.get(pod.uid)
        if entry is not None and entry.state is State.CONFIRMED and entry.reservation == found:
            return
        before = {share.uuid for share in entry.reservation.shares} if entry else set()
        self.ledger.adopt(found)
        self._tell(before | {share.uuid for share in found.shares})
        if entry is not None and entry.reservation != found:
            self.tell_room()

    def expire(self, watch_is_fresh: bool) -> None:
        """End what is overdue. A commitment ends only if the watch, being fresh, shows that the pod is not bound."""
        now = self.clock()
        while self.gone and now - next(iter(self.gone.values())) > GONE_KEPT_S:
            del self.gone[next(iter(self.gone))]
        for entry in self.ledger.overdue(now):
            uid = entry.reservation.uid
            if entry.state is State.HELD:
                self.release(uid)
            elif watch_is_fresh:
                pod = self.pods.get(uid)
                if pod is None or not pod.node:
                    log.warning("pod %s/%s was not bound after all", entry.reservation.namespace, entry.reservation.name)
                    self.release(uid)
            else:
                self.ledger.extend(uid, now + UNSHOWN_S)

    def drop_holds(self) -> None:
        """Forget holds: those of an earlier term of office mean nothing."""
        held: list[Entry] = [entry for entry in self.ledger if entry.state is State.HELD]
        for entry in held:
            self.release(entry.reservation.uid)

    # Facts.

    def gpu_changed(self, change: Change) -> None:
        """A GPU object was added, changed or deleted."""
        name = change.key[1]
        card = None if change.type is ChangeType.DELETED else read_card(change.object)
        before = self._card_of_object.pop(name, None)
        if before is not None and (card is None or card.uuid != before):
            self.inventory.drop_card(before)
            self.gpus.pop(before, None)
        if card is not None:
            self._card_of_object[name] = card.uuid
            self.gpus[card.uuid] = change.object
            if self.inventory.card(card.uuid) != card:
                self._ensure_node(card.node)
                self.inventory.set_card(card)
                self.tell_room()
            self._tell((card.uuid,))  # even if only the mirror differs: its last write may have been overtaken

    def gpu_node_changed(self, change: Change) -> None:
        """A GPUNode was added, changed or deleted."""
        self._put(self._gpu_nodes, change)
        self._node_changed(change.key[1])

    def node_changed(self, change: Change) -> None:
        """A Node was added, changed or deleted."""
        node, labels = change.key[1], change.object["metadata"].get("labels") or {}
        deleted = change.type is ChangeType.DELETED
        self.shunned.discard(node)
        if not deleted and _is_shunned(change.object):
            self.shunned.add(node)
        if deleted:
            self._node_labels.pop(node, None)
        elif self._node_labels.get(node) == labels:
            return  # most events of nodes are heartbeats
        else:
            self._node_labels[node] = labels
        self._why_no_nodes.clear()
        self._node_changed(node)

    def pool_changed(self, change: Change) -> None:
        """A GPUPool was added, changed or deleted: which nodes it has may have changed too."""
        name = change.key[1]
        if change.type is ChangeType.DELETED:
            self.pools.pop(name, None)
        else:
            try:
                pool = GPUPool.model_validate(change.object)
            except ValidationError as error:
                log.error("GPUPool %s cannot be read: %s", name, error)
                return
            before = self.pools.get(name)
            if before is not None and before.spec == pool.spec and before.is_default == pool.is_default:
                return
            self.pools[name] = pool
        self._why_no_nodes.clear()
        pool_now = self.pools.get(name)
        self.inventory.set_pool(name, None if pool_now is None else facts_of(pool_now))
        for node in {*self._node_labels, *self._gpu_nodes}:
            self._node_changed(node)

    def quota_changed(self, change: Change) -> None:
        """A GPUResourceQuota was added, changed or deleted: the namespace's oldest holds."""
        namespace, name = change.key
        of_namespace = self._quotas.setdefault(namespace, {})
        if change.type is ChangeType.DELETED:
            of_namespace.pop(name, None)
        else:
            of_namespace[name] = change.object
        oldest = holding(of_namespace)
        try:
            resource = None if oldest is None else GPUResourceQuota.model_validate(of_namespace[oldest])
        except ValidationError as error:
            log.error("GPUResourceQuota %s/%s cannot be read, and what it said before stands: %s", namespace, oldest, error)
            return
        self.ledger.set_quota(namespace, None if resource is None else quota_of(resource))
        self.tell_room()

    def why_no_nodes(self, pool: str) -> str:
        """In words, why a pool has no nodes with GPUs; empty if it has some."""
        inventory = self.inventory
        if bool((inventory.pool == inventory.pools.known(pool)).any()):
            return ""
        if pool not in self._why_no_nodes:
            nodes = (
                NodeLabels(name, self._node_labels.get(name, {}), (gpu_node.get("spec") or {}).get("poolName"))
                for name, gpu_node in self._gpu_nodes.items()
            )
            self._why_no_nodes[pool] = why_no_nodes(pool, self.pools, nodes)
        return self._why_no_nodes[pool]

    def lease_changed(self, change: Change) -> None:
        """An agent's heartbeat."""
        self.liveness.take(change)

    @staticmethod
    def _put(objects: dict[str, Object], change: Change) -> None:
        if change.type is ChangeType.DELETED:
            objects.pop(change.key[1], None)
        else:
            objects[change.key[1]] = change.object

    def _ensure_node(self, node: str) -> None:
        if node not in self._node_labels and node not in self._gpu_nodes:
            self.inventory.set_node(node, NodeFacts(None, injection=False, live=False))

    def _node_changed(self, node: str) -> None:
        labels, gpu_node = self._node_labels.get(node), self._gpu_nodes.get(node)
        if labels is None and gpu_node is None:
            self._why_no_nodes.clear()
            self.inventory.drop_node(node)
            return
        spec, status = (gpu_node or {}).get("spec") or {}, (gpu_node or {}).get("status") or {}
        facts = NodeFacts(
            pool=pool_of(node, labels or {}, spec.get("poolName"), self.pools),
            injection=status.get("injectionTier") not in (None, "", "none"),
            live=self.liveness.is_live(node),
        )
        if gpu_node is None and node not in self.inventory.row_of:
            return  # a node without GPUs needs no row
        if self.inventory.node_facts(node) != facts or node not in self.inventory.row_of:
            self._why_no_nodes.clear()
            self.inventory.set_node(node, facts)
            self.tell_room()


def _is_shunned(node: Object) -> bool:
    taints = (node.get("spec") or {}).get("taints") or ()
    return any(taint.get("effect") == "PreferNoSchedule" for taint in taints)
