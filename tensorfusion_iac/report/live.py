"""The pods that run in a cluster now, by the workload of a preview that they belong to.

A workload's pods are found as its controller finds them: by its selector as it is before the change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.api.levels import Mode
from tensorfusion_iac.api.names import COMPONENT_LABEL
from tensorfusion_iac.api.pools import selects
from tensorfusion_iac.api.resources.selectors import LabelSelector
from tensorfusion_iac.report.preview import Raw
from tensorfusion_iac.report.workloads import Workload
from tensorfusion_iac.report.world import World
from tensorfusion_iac.scheduling.pods import GpuPod
from tensorfusion_iac.scheduling.snapshot import state_of
from tensorfusion_iac.scheduling.state import ClusterState

_OF_THE_WORLD = ("GPUPool", "GPUResourceQuota")
_JOB, _OLD_JOB = "batch.kubernetes.io/job-name", "job-name"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster's objects. `agents_live`: whether every node counts as alive, as in a dump, whose leases are old."""

    objects: tuple[Raw, ...]
    agents_live: bool


class Live:
    """The running pods of a cluster, by the workload that they belong to."""

    def __init__(self, cluster: Cluster, world: World) -> None:
        kept = [item for item in cluster.objects if item.get("kind") not in _OF_THE_WORLD]
        laid = [raw for key, raw in world.objects.items() if key[0] in _OF_THE_WORLD and key not in world.vague]
        self.state: ClusterState = state_of([*laid, *kept], agents_live=cluster.agents_live)

    def of(self, workload: Workload) -> list[GpuPod]:
        """The pods of a workload as it is before the change."""
        before = workload.before
        if before is None:
            return []
        pods = [pod for pod in self.state.pods.values() if pod.namespace == workload.namespace]
        worker = before.seen
        if worker is not None and worker.mode is Mode.REMOTE:
            return [pod for pod in pods if pod.labels.get(COMPONENT_LABEL) == "worker" and pod.worker.workload == worker.workload]
        if workload.kind == "Pod":
            return [pod for pod in pods if pod.name == workload.name]
        if workload.kind == "Job":
            return [pod for pod in pods if workload.name in (pod.labels.get(_JOB), pod.labels.get(_OLD_JOB))]
        selector = _selector(before.manifest.raw)
        if selector is None:
            return [pod for pod in pods if worker is not None and pod.worker.workload == worker.workload]
        return [pod for pod in pods if selects(selector, pod.labels)]

    def nodes(self, pool: str | None) -> int:
        """How many nodes a pool has."""
        inventory = self.state.inventory
        return sum(1 for node in inventory.row_of if inventory.node_facts(node).pool == pool)


def _selector(raw: Raw) -> LabelSelector | None:
    spec = raw.get("spec")
    selector: Any = spec.get("selector") if isinstance(spec, Mapping) else None
    if not isinstance(selector, Mapping) or not selector:
        return None
    try:
        return LabelSelector.model_validate(selector)
    except ValueError:
        return None
