"""The metadata of a component's object: a stable name, the namespace, labels and annotations (API.md, "Names are stable")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulumi_kubernetes.meta.v1 import ObjectMetaArgs

from tensorfusion_iac.api.annotations import annotation_naming
from tensorfusion_iac.api.metadata import metadata_problems
from tensorfusion_iac.api.names import PREFIX
from tensorfusion_iac.api.problem import Problem, quote
from tensorfusion_iac.components.camel import camel, spelled_twice
from tensorfusion_iac.components.inputs import is_deferred, when_known, without_deferred
from tensorfusion_iac.components.vgpu import is_user_key

_OF_THE_SERVER = (
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion",
    "selfLink", "uid",
)  # fmt: skip
_ANNOTATIONS_OF_OTHERS = ("deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration")

Metadata = dict[str, Any]


def object_metadata(
    arguments: Mapping[str, Any], default_name: str | None, extra_annotations: Mapping[str, Any], problems: list[Problem]
) -> Any:
    """Metadata in manifest form, from the arguments `metadata`, `namespace`, `labels`, `annotations`.

    `default_name` None leaves the name to pulumi's autonaming. An Output where one of the maps is not known yet.
    """
    problems += spelled_twice(arguments.get("metadata"), ObjectMetaArgs, "metadata")
    given = {
        "metadata": camel(arguments.get("metadata"), ObjectMetaArgs) or {},
        "namespace": arguments.get("namespace"),
        "labels": arguments.get("labels") or {},
        "annotations": arguments.get("annotations") or {},
        "extra": dict(extra_annotations),
    }
    if not _maps_known(given):
        # What the maps hold is checked when it is known, by the server: only their merging has to wait.
        return when_known(given, lambda late: _merge(late, default_name))
    merged = _merge(given, default_name)
    problems += _problems(given, merged)
    return merged


def _maps_known(given: Mapping[str, Any]) -> bool:
    metadata = given["metadata"]
    if any(is_deferred(given[part]) for part in ("metadata", "labels", "annotations")):
        return False
    return not any(is_deferred(metadata.get(part)) for part in ("labels", "annotations"))


def _merge(given: Mapping[str, Any], default_name: str | None) -> Metadata:
    merged: Metadata = {key: value for key, value in given["metadata"].items() if key not in _OF_THE_SERVER}
    if "name" not in merged and "generateName" not in merged and default_name is not None:
        merged["name"] = default_name
    if given["namespace"] is not None:
        merged["namespace"] = given["namespace"]
    for part in ("labels", "annotations"):
        together = {**(merged.pop(part, None) or {}), **given[part]}
        if part == "annotations":
            together = {**{key: value for key, value in together.items() if key not in _ANNOTATIONS_OF_OTHERS}, **given["extra"]}
        if together:
            merged[part] = together
    return merged


def _problems(given: Mapping[str, Any], merged: Metadata) -> list[Problem]:
    known, missing = without_deferred(merged)
    if not {("name",), ("generateName",)} & missing:
        known.setdefault("name", "made-by-pulumi")
    later = {".".join(("metadata", *path)) for path in missing}
    found = [problem for problem in metadata_problems(known) if problem.field not in later]
    own = given["metadata"].get("namespace")
    if own is not None and given["namespace"] is not None and not is_deferred(own) and own != given["namespace"]:
        message = "{found} stands beside metadata.namespace " + quote(own) + "; give {accepted}"
        found.append(Problem("namespace", quote(given["namespace"]), "one of the two", message))
    return found


def misplaced(annotations: Any) -> list[Problem]:
    """Warnings for annotations on an object whose pods they were meant for."""
    if not isinstance(annotations, Mapping):
        return []
    message = "{found} says nothing on this object, only on its pods; give {accepted}"
    return [
        Problem("annotations", quote(annotation_naming(key)), f"vgpu.{key[len(PREFIX) :].replace('-', '_')}", message)
        for key in annotations
        if is_user_key(str(key))
    ]
