"""A pod template in manifest form: the few facts that decide about it, and the label and annotations put on it (SPEC §1, §2).

Pure on trees of mappings and lists whose leaves may be Outputs. Nothing that the system writes is ever sent (SPEC §2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pulumi_kubernetes.core.v1 import PodTemplateSpecArgs

from tensorfusion_iac.api.names import ENABLED_LABEL, PREFIX, is_system_key
from tensorfusion_iac.components.camel import camel
from tensorfusion_iac.components.inputs import is_deferred, replace_deferred

Template = Mapping[str, Any]

_DECIDING = ("name", "resources", "restartPolicy")
"""Fields of a container that decide about its GPUs."""


def is_readable(template: Any) -> bool:
    """Whether label and annotations can be merged now: the template, its metadata and their two maps are known as maps."""
    if is_deferred(template):
        return False
    metadata = template.get("metadata") or {}
    return not (is_deferred(metadata) or is_deferred(metadata.get("labels")) or is_deferred(metadata.get("annotations")))


def facts_of(template: Template) -> dict[str, Any]:
    """What decides about the template: our annotations, containers by name, role and native GPUs, the priority class."""
    metadata = template.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    spec = template.get("spec") or {}
    facts: dict[str, Any] = {
        "metadata": {"annotations": {key: value for key, value in annotations.items() if str(key).startswith(PREFIX)}}
    }
    if is_deferred(spec):
        return {**facts, "spec": spec}
    facts["spec"] = {key: _containers(spec[key]) for key in ("initContainers", "containers") if spec.get(key) is not None}
    if spec.get("priorityClassName") is not None:
        facts["spec"]["priorityClassName"] = spec["priorityClassName"]
    return facts


def _containers(containers: Any) -> Any:
    if not isinstance(containers, list):
        return containers
    return [{key: item[key] for key in _DECIDING if key in item} if isinstance(item, Mapping) else item for item in containers]


def with_late_facts(template: Template, replace: Callable[[Any], Any]) -> dict[str, Any]:
    """The template with `replace(leaf)` in place of every deciding part that is known later; the rest is left as it is."""
    metadata = dict(template.get("metadata") or {})
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {
        key: replace_deferred(value, replace) if str(key).startswith(PREFIX) else value for key, value in annotations.items()
    }
    spec = template.get("spec") or {}
    if is_deferred(spec):
        return {**template, "metadata": metadata, "spec": replace(spec)}
    spec = dict(spec)
    for key in ("initContainers", "containers"):
        items = spec.get(key)
        if is_deferred(items):
            spec[key] = replace(items)
        elif isinstance(items, list):
            spec[key] = [_late_container(item, replace) for item in items]
    if is_deferred(spec.get("priorityClassName")):
        spec["priorityClassName"] = replace(spec["priorityClassName"])
    return {**template, "metadata": metadata, "spec": spec}


def _late_container(item: Any, replace: Callable[[Any], Any]) -> Any:
    if not isinstance(item, Mapping):
        return replace(item) if is_deferred(item) else item
    return {key: replace_deferred(value, replace) if key in _DECIDING else value for key, value in item.items()}


def marked(template: Template, annotations: Mapping[str, Any]) -> dict[str, Any]:
    """The template with our label, `annotations` (full keys) over its own, and without what only the system writes."""
    metadata = dict(template.get("metadata") or {})
    own = {key: value for key, value in (metadata.get("annotations") or {}).items() if not is_system_key(str(key))}
    metadata["labels"] = {**(metadata.get("labels") or {}), ENABLED_LABEL: "true"}
    together = {**own, **annotations}
    if together or metadata.get("annotations") is not None:
        metadata["annotations"] = together
    return {**template, "metadata": metadata}


def plain(template: Template) -> dict[str, Any]:
    """The template without anything of ours: no label, no annotations."""
    metadata = dict(template.get("metadata") or {})
    for part in ("labels", "annotations"):
        given = metadata.pop(part, None) or {}
        left = {key: value for key, value in given.items() if not str(key).startswith(PREFIX)}
        if left:
            metadata[part] = left
    rest = {key: value for key, value in template.items() if key != "metadata"}
    return {**rest, "metadata": metadata} if metadata else rest


def with_metadata(template: Template, labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> dict[str, Any]:
    """The template with labels and annotations put over its own."""
    if not labels and not annotations:
        return dict(template)
    metadata = dict(template.get("metadata") or {})
    for part, given in (("labels", labels), ("annotations", annotations)):
        if given:
            metadata[part] = {**(metadata.get(part) or {}), **given}
    return {**template, "metadata": metadata}


def camel_template(template: Any) -> Any:
    """A template of any spelling in manifest form."""
    return camel(template, PodTemplateSpecArgs)


def own_keys(template: Any) -> list[str]:
    """The short keys of the format that the template itself annotates, as far as it is readable."""
    if not isinstance(template, Mapping) or not is_readable(template):
        return []
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return [str(key)[len(PREFIX) :] for key in annotations if str(key).startswith(PREFIX)]


SELECTOR_LABEL = "app"
"""The label by which a workload without a selector of its own finds its pods."""


def labelled(template: Template, name: str) -> dict[str, Any]:
    """The template with the label that selectors use, unless it has it."""
    labels = (template.get("metadata") or {}).get("labels") or {}
    return dict(template) if SELECTOR_LABEL in labels else with_metadata(template, {SELECTOR_LABEL: name}, {})


def selected_by(template: Template) -> dict[str, Any]:
    """A label selector for the template's pods."""
    return {"matchLabels": {SELECTOR_LABEL: template["metadata"]["labels"][SELECTOR_LABEL]}}


def with_restart_policy(template: Template, policy: str) -> dict[str, Any]:
    """The template with a restart policy, unless it says one."""
    spec = template.get("spec")
    if not isinstance(spec, Mapping) or spec.get("restartPolicy") is not None:
        return dict(template)
    return {**template, "spec": {**spec, "restartPolicy": policy}}
