"""Groups of pods that start together, as the cluster shows them: their members, and how many are bound (SPEC §2 `gang`).

Read by what lets groups go, and by `explain`, which has nothing but the cluster's objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tensorfusion_iac.api import names
from tensorfusion_iac.planning.ledger import State
from tensorfusion_iac.scheduling.pods import GpuPod
from tensorfusion_iac.scheduling.state import ClusterState


class Group(NamedTuple):
    """What makes pods one group: namespace, workload, and how many of them start together."""

    namespace: str
    workload: str
    needed: int


@dataclass(frozen=True, slots=True)
class Standing:
    """The living members of a group, the oldest first; the UIDs of those that are bound, or are being bound for good."""

    group: Group
    members: tuple[GpuPod, ...]
    bound: frozenset[str]

    @property
    def started(self) -> bool:
        """Whether as many are bound as start together: further members are let go one by one."""
        return len(self.bound) >= self.group.needed

    @property
    def waiting(self) -> Sequence[GpuPod]:
        """Members that are not bound."""
        return [pod for pod in self.members if pod.uid not in self.bound]

    @property
    def missing(self) -> str:
        """In words, if there are too few members."""
        if len(self.members) >= self.group.needed:
            return ""
        return f"{len(self.members)} of {self.group.needed} members exist"


def group_of(pod: GpuPod) -> Group | None:
    """The group of a pod; None if it starts by itself."""
    gang = pod.worker.gang
    return None if gang is None else Group(pod.namespace, pod.worker.workload, gang.min_members)


def is_gated(pod: GpuPod) -> bool:
    """Whether kube-scheduler still leaves the pod alone for its group's sake."""
    return names.GANG_GATE in pod.gates


def standings(state: ClusterState, pods: Iterable[GpuPod]) -> dict[Group, Standing]:
    """Every group that the pods (all pods of the cluster, or those that may be in a group) make."""
    members: dict[Group, list[GpuPod]] = {}
    for pod in pods:
        group = group_of(pod)
        if group is not None and not pod.terminating:
            members.setdefault(group, []).append(pod)
    return {
        group: Standing(
            group,
            tuple(sorted(found, key=lambda pod: (pod.created, pod.name))),
            frozenset(pod.uid for pod in found if _is_bound(state, pod)),
        )
        for group, found in members.items()
    }


def _is_bound(state: ClusterState, pod: GpuPod) -> bool:
    entry = state.ledger.get(pod.uid)
    return bool(pod.node) or (entry is not None and entry.state is not State.HELD)
