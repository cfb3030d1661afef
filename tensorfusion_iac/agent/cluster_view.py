"""What the agent knows of the cluster: its node's pods, its Node object, and what its cards' objects ask for (SPEC §9).

Watches are narrow: pods by node name, GPUs by the agent's own label, one Node. While the API server is away everything stays
as it was last known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensorfusion_iac.agent.objects import NODE_LABEL
from tensorfusion_iac.agent.partitions import Wanted, wanted_of
from tensorfusion_iac.agent.pods import NodePod, node_pod
from tensorfusion_iac.api.names import bounded
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.informer import Change, ChangeType, Informer
from tensorfusion_iac.kube.resource import GPUS, NODES, PODS


class ClusterView:
    """Kept by informers. `pods` by UID; `wanted` placements by GPU object; `reported`: health by UUID that was found there.

    `on_pods` is called at each change of `pods`, `on_change` at any change that a slow round should look at, `on_gone` with
    the name of a GPU object that was deleted.
    """

    def __init__(self, node_name: str) -> None:
        self.pods: Mapping[str, NodePod] = {}
        self.node: Mapping[str, Any] | None = None
        self.wanted: dict[str, tuple[Wanted, ...]] = {}
        self.reported: dict[str, tuple[str, str]] = {}
        self.on_pods: Callable[[Mapping[str, NodePod]], None] = lambda pods: None
        self.on_change: Callable[[], None] = lambda: None
        self.on_gone: Callable[[str], None] = lambda name: None
        self._node_name = node_name
        self._by_key: dict[tuple[str, str], NodePod] = {}

    @property
    def node_uid(self) -> str | None:
        """The UID of the Node object, None while there is none."""
        uid: str | None = ((self.node or {}).get("metadata") or {}).get("uid")
        return uid

    def informers(self, client: Client) -> list[Informer]:
        """The watches; whoever calls this runs them."""
        pods = Informer(client, PODS, field_selector=f"spec.nodeName={self._node_name}")
        pods.on_change(self.pod_changed)
        nodes = Informer(client, NODES, field_selector=f"metadata.name={self._node_name}")
        nodes.on_change(self.node_changed)
        gpus = Informer(client, GPUS, label_selector=f"{NODE_LABEL}={bounded(self._node_name)}")
        gpus.on_change(self.gpu_changed)
        return [pods, nodes, gpus]

    def pod_changed(self, change: Change) -> None:
        """A pod of this node was added, changed or deleted."""
        pod = None if change.type is ChangeType.DELETED else node_pod(change.object)
        if self._by_key.get(change.key) == pod:
            return
        if pod is None:
            del self._by_key[change.key]
        else:
            self._by_key[change.key] = pod
        self.pods = {each.uid: each for each in self._by_key.values()}
        self.on_pods(self.pods)
        self.on_change()

    def node_changed(self, change: Change) -> None:
        """The Node was added, changed or deleted; most changes are heartbeats."""
        was_there = self.node is not None
        self.node = None if change.type is ChangeType.DELETED else change.object
        if not was_there:
            self.on_change()

    def gpu_changed(self, change: Change) -> None:
        """One of our cards' objects was added, changed or deleted."""
        name = change.key[1]
        if change.type is ChangeType.DELETED:
            self.wanted.pop(name, None)
            self.on_gone(name)
            return
        status = change.object.get("status") or {}
        if change.type is ChangeType.ADDED and status.get("uuid"):
            self.reported[status["uuid"]] = (status.get("health") or "", status.get("message") or "")
        wanted = wanted_of(change.object)
        if self.wanted.get(name) != wanted:
            self.wanted[name] = wanted
            self.on_change()
