"""What `tensorfusion explain` asks of the running scheduler: a pod by name, or the pods of a workload, and why they are so."""

from __future__ import annotations

from typing import Any

from tensorfusion_iac.api import names
from tensorfusion_iac.planning.ledger import State
from tensorfusion_iac.scheduling.decide import Decider
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
        explanation = self._decider.explain(pod)
        node = self._decider.nominations.get(pod.uid)
        text = explanation.text() if node is None else f"pods are being evicted from {node} for it; {explanation.text()}"
        return found | {
            "state": "gated" if pod.gates else "pending",
            "nodes": explanation.nodes,
            "fitting": explanation.fitting,
            "reasons": [
                {"reason": finding.reason.name.lower(), "nodes": finding.nodes, "text": finding.words}
                for finding in explanation.findings
            ],
            "text": text,
        }


def _is_meant(pod: GpuPod, kind: str, name: str) -> bool:
    if kind == "pod":
        return pod.name == name
    return pod.worker.workload == name or pod.labels.get(names.WORKLOAD_LABEL) == name
