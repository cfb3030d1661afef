"""What a pod on GPUs needs for the schedulers: scheduler name, priority class, gang gate, affinity, and what the pool gives
to its pods: runtime class and tolerations (SPEC §2 `qos`, §2a, §9; ARCHITECTURE, "Scheduling").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorfusion_iac.admission.draft import Draft
from tensorfusion_iac.api import SCHEDULER_NAME, GPUPool, Problem, WorkerSpec, WorkloadProfile
from tensorfusion_iac.api.names import GANG_GATE
from tensorfusion_iac.api.problem import quote
from tensorfusion_iac.api.resources.gpupool import ClientComponent

_DEFAULT_SCHEDULERS = (None, "", "default-scheduler")  # the API server fills in the last one before a webhook is asked


def without_global_default(pod: Mapping[str, Any], global_default: str | None) -> Mapping[str, Any]:
    """The pod as the user wrote it: a priority class that is the cluster's global default was filled in, not chosen."""
    spec = pod.get("spec")
    if global_default is None or not isinstance(spec, Mapping) or spec.get("priorityClassName") != global_default:
        return pod
    return {**pod, "spec": {key: value for key, value in spec.items() if key != "priorityClassName"}}


def set_priority(draft: Draft, worker: WorkerSpec) -> None:
    """Set the priority class. The number and the policy that the API server derived from the old one have to go, or it
    refuses the pod when it derives them again.
    """
    if draft.spec.get("priorityClassName") == worker.priority_class:
        return
    draft.spec["priorityClassName"] = worker.priority_class
    draft.spec.pop("priority", None)
    draft.spec.pop("preemptionPolicy", None)


def refuse_node(draft: Draft) -> None:
    """No enabled pod names its node, on GPUs or not: the policy `tensor-fusion-mutated` would deny it."""
    if draft.spec.get("nodeName"):
        message = "{found} passes by the scheduler, which chooses the GPUs; leave it out, or give {accepted}"
        draft.problems.append(Problem("spec.nodeName", quote(draft.spec["nodeName"]), "a nodeSelector", message))


def place(draft: Draft, worker: WorkerSpec, pool: GPUPool | None, profile: WorkloadProfile | None) -> None:
    """For pods that hold GPUs: our scheduler, the gang's gate, the profile's affinity, the pool's settings."""
    scheduler = draft.spec.get("schedulerName")
    if scheduler not in (*_DEFAULT_SCHEDULERS, SCHEDULER_NAME):
        message = "{found} does not know GPUs; {accepted} takes its place"
        draft.warnings.append(Problem("spec.schedulerName", quote(scheduler), SCHEDULER_NAME, message))
    draft.spec["schedulerName"] = SCHEDULER_NAME
    if worker.gang is not None:
        _gate(draft)
    if profile is not None and profile.spec.node_affinity:
        _prefer_nodes(draft, profile)
    components = pool.spec.component_config if pool is not None else None
    client = (components.client if components else None) or ClientComponent()
    if client.runtime_class_name and not draft.spec.get("runtimeClassName"):
        draft.spec["runtimeClassName"] = client.runtime_class_name
    _tolerate(draft, client)


def _gate(draft: Draft) -> None:
    gates = draft.spec.get("schedulingGates") or []
    if not any(gate.get("name") == GANG_GATE for gate in gates):
        draft.spec["schedulingGates"] = [*gates, {"name": GANG_GATE}]


def _prefer_nodes(draft: Draft, profile: WorkloadProfile) -> None:
    """The profile's node affinity holds where the pod has none of its own: two cannot be told apart once merged."""
    affinity = draft.spec.get("affinity") or {}
    own = affinity.get("nodeAffinity")
    if not own:
        draft.spec["affinity"] = {**affinity, "nodeAffinity": profile.spec.node_affinity}
    elif own != profile.spec.node_affinity:
        accepted = f"that of WorkloadProfile {profile.metadata.name}"
        message = "{found} holds instead of {accepted}"
        draft.warnings.append(Problem("spec.affinity.nodeAffinity", "the pod's own", accepted, message))


def _tolerate(draft: Draft, client: ClientComponent) -> None:
    if not client.tolerations:
        return
    present = draft.spec.get("tolerations") or []
    known = [_normal(toleration) for toleration in present]
    wanted = [item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in client.tolerations]
    missing = [toleration for toleration in wanted if _normal(toleration) not in known]
    if missing:
        draft.spec["tolerations"] = [*present, *missing]


def _normal(toleration: Mapping[str, Any]) -> tuple[Any, ...]:
    """A toleration with its defaults, so that equal ones compare equal."""
    fields = (("key", ""), ("operator", "Equal"), ("value", ""), ("effect", ""), ("tolerationSeconds", None))
    return tuple(toleration.get(field) or default for field, default in fields)
