"""Where the pods of an object are described: the object itself, or a template in it, and who their owner will be (SPEC §2).

Any kind with a pod template at `spec.template` counts (Argo's Rollout, ...): the webhook sees their pods too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.api.context import Owner
from tensorfusion_iac.cli.objects import Object
from tensorfusion_iac.cli.yaml_text import plain

_PATHS = {"Pod": (), "PodTemplate": ("template",), "CronJob": ("spec", "jobTemplate", "spec", "template")}
_USUAL = ("spec", "template")
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


def template_of(item: Object) -> Template | None:
    """The pods that the object describes, or None if it describes none."""
    path = _PATHS.get(item.kind, _USUAL)
    known = item.kind == "Pod" or item.kind in KINDS_WITH_TEMPLATE
    value: Any = item.raw
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    if not known and not _is_pod_template(value):
        return None
    return Template(path, value, _owner(item))


def pod_of(item: Object, template: Template) -> Any:
    """The pod as its owner would create it, as plain values: a template gets a kind, a namespace and a name to come."""
    value = plain(template.pod)
    if item.kind == "Pod" or not isinstance(value, dict):
        return value
    metadata = value.get("metadata")
    if metadata is None or isinstance(metadata, dict):
        place = {"namespace": item.namespace} if item.namespace else {}
        metadata = {"generateName": f"{item.name or item.kind.lower()}-", **place, **(metadata or {})}
    return {"apiVersion": "v1", "kind": "Pod", **value, "metadata": metadata}


def _is_pod_template(value: Any) -> bool:
    spec = value.get("spec") if isinstance(value, Mapping) else None
    return isinstance(spec, Mapping) and isinstance(spec.get("containers"), list)


def _owner(item: Object) -> Owner | None:
    """The controller that the object names, else itself; a Pod without one has none."""
    metadata = item.raw.get("metadata")
    references = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, Mapping) and reference.get("controller") is True:
            kind, name = reference.get("kind"), reference.get("name")
            if isinstance(kind, str) and isinstance(name, str) and name:
                return Owner(kind, name)
    return None if item.kind == "Pod" or not item.name else Owner(item.kind, item.name)
