"""What `tensorfusion explain` asks of the running scheduler: a pod by name, or the pods of a workload, and why they are so."""

from __future__ import annotations

from typing import Any

from tensorfusion_iac.api import names
from tensorfusion_iac.planning.ledger import State
from tensorfusion_iac.scheduling.decide import Decider
from tensorfusion_iac.scheduling.groups import Standing, group_of, standings
from tensorfusion_iac.scheduling.pods import GpuPod
from tensorfusion_iac.scheduling.state import ClusterState


class Explaining:
    """Answers from the state, and changes nothing."""

    def __init__(self, state: ClusterState, decider: Decider) -> None:
        self._state, self._decider = state, decider

    def explain(self, kind: str, namespace: str, name: str) -> dict[str, object] | None:
        """The pods meant, each with its state; None if there are none. Kinds but `pod` are matched by workload name."""
        pods = [pod for pod in self._state.pods.values() if pod.namespace == namespace and _is_meant(pod, kind, name)]
        if not pods:
            return None
        return {"pods": [self._of(pod) for pod in sorted(pods, key=lambda pod: pod.name)]}

    def _of(self, pod: GpuPod) -> dict[str, Any]:
        entry = self._state.ledger.get(pod.uid)
        found: dict[str, Any] = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid, "priority": pod.priority}
        if entry is not None and entry.state is not State.HELD:
            held = entry.reservation
            return found | {
                "state": "bound", "node": held.node, "gpus": [share.uuid for share in held.shares],
                "text": f"bound to {held.node}, GPUs {', '.join(share.uuid for share in held.shares)}",
            }  # fmt: skip
        if pod.bypassed_us:
            text = f"bound to {pod.node} without the extender: it has no GPUs"
            return found | {"state": "bound-without-gpus", "node": pod.node, "text": text}
        explanation = self._decider.explain(pod)
        node = self._decider.nominations.get(pod.uid)
        text = explanation.text() if node is None else f"pods are being evicted from {node} for it; {explanation.text()}"
        if pod.worker.gang is not None:
            text = f"{self._group_text(pod)}; by itself it {text}" if explanation.fitting else f"{self._group_text(pod)}; {text}"
        return (
            found
            | self._group(pod)
            | {
                "state": "gated" if pod.gates else "pending",
                "nodes": explanation.nodes,
                "fitting": explanation.fitting,
                "reasons": [
                    {"reason": finding.reason.name.lower(), "nodes": finding.nodes, "text": finding.words}
                    for finding in explanation.findings
                ],
                "text": text,
            }
        )

    def _group(self, pod: GpuPod) -> dict[str, Any]:
        standing = self._standing(pod)
        if standing is None:
            return {}
        return {"gang": {
            "minMembers": standing.group.needed, "members": len(standing.members), "bound": len(standing.bound),
            "message": standing.missing or pod.gang_waits,
        }}  # fmt: skip

    def _group_text(self, pod: GpuPod) -> str:
        standing = self._standing(pod)
        if standing is None:  # it is terminating
            return "it is no member of its group any more"
        there = standing.missing or f"{len(standing.members)} members exist"
        parts = [f"{standing.group.needed} of group {standing.group.workload} start together", there]
        return ", ".join([*parts, f"{len(standing.bound)} bound"]) + (f": {pod.gang_waits}" if pod.gang_waits else "")

    def _standing(self, pod: GpuPod) -> Standing | None:
        group = group_of(pod)
        return None if group is None else standings(self._state, self._state.pods.values()).get(group)


def _is_meant(pod: GpuPod, kind: str, name: str) -> bool:
    if kind == "pod":
        return pod.name == name
    return pod.worker.workload == name or pod.labels.get(names.WORKLOAD_LABEL) == name
