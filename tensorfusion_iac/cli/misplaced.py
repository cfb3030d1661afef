"""What a manifest says at a place where nobody reads it, or where it is refused: label and annotations gone astray (SPEC §1).

The webhook sees only pods that carry the label, so these mistakes would otherwise pass in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorfusion_iac.api.annotations import parse_annotations
from tensorfusion_iac.api.fields import BY_KEY
from tensorfusion_iac.api.names import AGENT_NAMESPACE, ENABLED_LABEL, PREFIX, SCHEDULER_NAME, SYSTEM_NAMESPACE, is_system_key
from tensorfusion_iac.api.problem import Problem, quote

UNSEEN_NAMESPACES = ("kube-system", "kube-node-lease", SYSTEM_NAMESPACE, AGENT_NAMESPACE)
LABEL = f"label {ENABLED_LABEL}"
_REFUSED = "{found} on a pod that is not enabled is refused; {accepted}"


def off_problems(pod: Any) -> Iterator[Problem]:
    """What a pod that is not enabled may not carry: the cluster's policies refuse it."""
    accepted = f'remove it, or set the label {ENABLED_LABEL}: "true"'
    for key in _member(pod, "annotations"):
        if is_system_key(key):
            yield Problem(key, "a system annotation", accepted, _REFUSED)
    spec = pod.get("spec") if isinstance(pod, Mapping) else None
    if isinstance(spec, Mapping) and spec.get("schedulerName") == SCHEDULER_NAME:
        yield Problem(
            "spec.schedulerName", quote(SCHEDULER_NAME), accepted, "{found} on a pod that is not enabled is refused; {accepted}"
        )


def off_warnings(pod: Any) -> Iterator[Problem]:
    """Annotations of a pod that nothing turns on; a label "false" says that this is meant."""
    annotations = _member(pod, "annotations")
    yield from (warning for warning in parse_annotations(annotations).warnings if warning.field == ENABLED_LABEL)
    ours = [key for key in annotations if _is_user_key(key)]
    if ours and ENABLED_LABEL not in _member(pod, "labels"):
        message = "{found}, so that the pod's annotations say nothing; give {accepted}"
        yield Problem(LABEL, "there is no such label", '"true", or "false" if this is meant', message)


def outer_warnings(raw: Mapping[str, Any], template_path: Sequence[str]) -> Iterator[Problem]:
    """Label and annotations on the object around the pod template (a Deployment, a CronJob and its Job)."""
    place: Any = raw
    inside = ".".join((*template_path, "metadata"))
    for depth, step in enumerate(template_path):
        where = ".".join((*template_path[:depth], "metadata"))
        labels = [ENABLED_LABEL] if ENABLED_LABEL in _member(place, "labels") else []
        for part, keys in (
            ("labels", labels),
            ("annotations", [key for key in _member(place, "annotations") if _is_user_key(key)]),
        ):
            for key in keys:
                yield Problem(f"{where}.{part}", key, f"{inside}.{part}", "{found} says nothing here; it belongs in {accepted}")
        place = place.get(step) if isinstance(place, Mapping) else None


def unseen_warnings(namespace: str) -> Iterator[Problem]:
    """Namespaces whose pods the webhook never sees."""
    if namespace in UNSEEN_NAMESPACES:
        yield Problem(
            "metadata.namespace", quote(namespace), "another namespace", "pods of {found} are never changed; use {accepted}"
        )


def _is_user_key(key: object) -> bool:
    return isinstance(key, str) and key.startswith(PREFIX) and key[len(PREFIX) :] in BY_KEY


def _member(value: Any, name: str) -> Mapping[str, Any]:
    metadata = value.get("metadata") if isinstance(value, Mapping) else None
    found = metadata.get(name) if isinstance(metadata, Mapping) else None
    return found if isinstance(found, Mapping) else {}
