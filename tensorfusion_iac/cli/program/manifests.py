"""Kubernetes manifests from the notes of a program's run: what a `pulumi up` would send, as plain objects.

Pulumi's own annotations are left out, values that are secret or known only at deployment are replaced by a word in angle
brackets and reported. The order is that in which objects need each other, then by name, so that it is the same every time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.cli.program.kinds import CLUSTER_WIDE
from tensorfusion_iac.cli.program.notes import Resource

# Pulumi's marks in properties; its SDK keeps them in a module that would have to be imported with all of pulumi.
_UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_MARK, _SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"

UNKNOWN_WORD = "<known only at deployment>"
SECRET_WORD = "<secret>"  # noqa: S105
_PULUMI_ANNOTATION = "pulumi.com/"
_FIRST = ("apiVersion", "kind", "metadata", "spec", "name", "namespace")
_ORDER = (
    "CustomResourceDefinition", "Namespace", "PriorityClass", "RuntimeClass", "ServiceAccount", "Secret", "ConfigMap", "GPUPool",
    "GPUResourceQuota", "WorkloadProfile", "TensorFusionWorkload",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compiled:
    """The manifests, notes about what they can't say, and what pulumi would refuse."""

    manifests: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]


def compiled(resources: Iterable[Resource], *, show_secrets: bool = False) -> Compiled:
    """The manifests of all Kubernetes objects among the resources."""
    listed = list(resources)
    namespaces = {item.urn: item.properties.get("namespace") for item in listed if item.type == "pulumi:providers:kubernetes"}
    manifests: list[dict[str, Any]] = []
    notes: list[str] = []
    problems: list[str] = []
    seen: set[str] = set()
    for item in listed:
        if item.urn in seen and not item.read:
            problems.append(f"{_label(item)}: a second resource of this type and name; give it a name of its own")
        seen.add(item.urn)
        if item.read or not item.type.startswith("kubernetes:"):
            continue
        if not item.custom:
            if item.remote:
                notes.append(f"{_label(item)}: it is rendered by the provider, so its objects are not in this output")
            continue
        if not (isinstance(item.properties.get("apiVersion"), str) and isinstance(item.properties.get("kind"), str)):
            notes.append(f"{_label(item)}: it is no object with a manifest, so it is not in this output")
            continue
        reader = _Reader(show_secrets)
        manifest = reader.read(item.properties, ())
        namespace = namespaces.get(item.provider.rpartition("::")[0])
        manifests.append(_finished(manifest, item.name, namespace if isinstance(namespace, str) else None))
        for word, paths in ((UNKNOWN_WORD, reader.unknown), (SECRET_WORD, reader.secret)):
            if paths:
                notes.append(f"{_label(item)}: {word} stands for {', '.join(paths)}")
    return Compiled(tuple(sorted(manifests, key=_rank)), tuple(notes), tuple(problems))


class _Reader:
    """Plain values from properties; the paths of what was replaced."""

    def __init__(self, show_secrets: bool) -> None:
        self.show_secrets = show_secrets
        self.unknown: list[str] = []
        self.secret: list[str] = []

    def read(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, Mapping):
            if value.get(_MARK) == _SECRET:
                if self.show_secrets:
                    return self.read(value.get("value"), path)
                self.secret.append(".".join(path))
                return SECRET_WORD
            keys = sorted(value, key=lambda key: (_FIRST.index(key) if key in _FIRST else len(_FIRST), key))
            return {key: self.read(value[key], (*path, key)) for key in keys if value[key] is not None}
        if isinstance(value, list):
            return [self.read(item, (*path, str(index))) for index, item in enumerate(value)]
        if value == _UNKNOWN:
            self.unknown.append(".".join(path))
            return UNKNOWN_WORD
        return int(value) if isinstance(value, float) and value.is_integer() else value


def _finished(manifest: dict[str, Any], name: str, provider_namespace: str | None) -> dict[str, Any]:
    """With a name, the provider's namespace if it has none of its own, and without pulumi's annotations."""
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict | None):
        return manifest
    metadata = dict(metadata or {})
    if "name" not in metadata and "generateName" not in metadata:
        metadata = {"name": name, **metadata}
    if provider_namespace and "namespace" not in metadata and manifest["kind"] not in CLUSTER_WIDE:
        metadata["namespace"] = provider_namespace
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        kept = {key: value for key, value in annotations.items() if not key.startswith(_PULUMI_ANNOTATION)}
        metadata = {key: kept if key == "annotations" else value for key, value in metadata.items()}
        if not kept:
            del metadata["annotations"]
    head = {key: manifest[key] for key in ("apiVersion", "kind")}
    return {**head, "metadata": metadata, **{key: value for key, value in manifest.items() if key not in (*head, "metadata")}}


def _rank(manifest: Mapping[str, Any]) -> tuple[int, str, str, str]:
    metadata = manifest.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    kind = manifest["kind"]
    position = _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
    return position, kind, str(metadata.get("namespace", "")), str(metadata.get("name", metadata.get("generateName", "")))


def _label(item: Resource) -> str:
    return f'{item.type.rpartition(":")[2]} "{item.name}"'
