"""Where the pods of an object are described: the object itself, or a template in it; who their owner is, how many run (SPEC §2).

Any kind with a pod template at `spec.template` counts (Argo's Rollout, ...): the webhook sees their pods too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.api.context import Owner

_PATHS = {"Pod": (), "PodTemplate": ("template",), "CronJob": ("spec", "jobTemplate", "spec", "template")}
_USUAL = ("spec", "template")
_COUNTS = {"Job": ("spec", "parallelism"), "CronJob": ("spec", "jobTemplate", "spec", "parallelism")}
_USUAL_COUNT = ("spec", "replicas")
KINDS_WITH_TEMPLATE = (
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "ReplicationController",
    "Job",
    "CronJob",
    "PodTemplate",
)


@dataclass(frozen=True, slots=True)
class Template:
    """A pod or pod template in an object: its path, its value, and the top owner of the pods (None: they are their own)."""

    path: tuple[str, ...]
    pod: Any
    owner: Owner | None


def template_of(kind: str, name: str, raw: Mapping[str, Any]) -> Template | None:
    """The pods that the object `raw` describes, or None if it describes none."""
    path = _PATHS.get(kind, _USUAL)
    known = kind == "Pod" or kind in KINDS_WITH_TEMPLATE
    value = _at(raw, path)
    if not known and not _is_pod_template(value):
        return None
    return Template(path, value, _owner(kind, name, raw))


def pod_from(kind: str, name: str, namespace: str, value: Any) -> Any:
    """The pod as its owner would create it from the template `value` (plain values): with a kind, a namespace, a name to come."""
    if kind == "Pod" or not isinstance(value, dict):
        return value
    metadata = value.get("metadata")
    if metadata is None or isinstance(metadata, dict):
        place = {"namespace": namespace} if namespace else {}
        metadata = {"generateName": f"{name or kind.lower()}-", **place, **(metadata or {})}
    return {"apiVersion": "v1", "kind": "Pod", **value, "metadata": metadata}


def pods_at_once(kind: str, raw: Mapping[str, Any]) -> int | None:
    """How many pods the object asks to run at once; None if it does not say (Kubernetes then takes one)."""
    value = _at(raw, _COUNTS.get(kind, _USUAL_COUNT))
    if isinstance(value, float) and value.is_integer():  # pulumi has no whole numbers
        value = int(value)
    return value if type(value) is int else None


def _at(raw: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = raw
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _is_pod_template(value: Any) -> bool:
    spec = value.get("spec") if isinstance(value, Mapping) else None
    return isinstance(spec, Mapping) and isinstance(spec.get("containers"), list)


def _owner(kind: str, name: str, raw: Mapping[str, Any]) -> Owner | None:
    """The controller that the object names, else itself; a Pod without one has none."""
    metadata = raw.get("metadata")
    references = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, Mapping) and reference.get("controller") is True:
            kind_of, name_of = reference.get("kind"), reference.get("name")
            if isinstance(kind_of, str) and isinstance(name_of, str) and name_of:
                return Owner(kind_of, name_of)
    return None if kind == "Pod" or not name else Owner(kind, name)
