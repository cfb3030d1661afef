"""What stands in the cluster before a change and after it: pools, profiles, quotas, namespaces (SPEC §3, §4).

The cluster's own objects, where they are at hand, with the preview's laid over them. An object that is not at hand, or of
which a part is not known yet, is not judged: nothing is concluded from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from tensorfusion_iac.api.at_hand import pool_name, pools_at_hand
from tensorfusion_iac.api.context import UNJUDGED, Namespace, NotJudged
from tensorfusion_iac.api.names import GROUP
from tensorfusion_iac.api.resources import GPUPool, GPUResourceQuota, WorkloadProfile
from tensorfusion_iac.report.preview import Change, Manifest, Raw

Key = tuple[str, str, str]
"""Kind, namespace, name."""

KINDS = ("GPUPool", "WorkloadProfile", "GPUResourceQuota", "Namespace")


@dataclass(frozen=True, slots=True)
class World:
    """One side. `objects` as they are written; `vague`: those with a part that is not known; `whole`: nothing is missing."""

    objects: Mapping[Key, Raw]
    vague: frozenset[Key] = frozenset()
    whole: bool = False
    pools: Mapping[str, GPUPool] = field(default_factory=dict)
    profiles: Mapping[tuple[str, str], WorkloadProfile] = field(default_factory=dict)
    quotas: Mapping[str, GPUResourceQuota] = field(default_factory=dict)

    def profile(self, namespace: str, name: str) -> WorkloadProfile | NotJudged | None:
        """The profile; None only where it surely does not exist."""
        found = self.profiles.get((namespace, name))
        missing = self.whole and ("WorkloadProfile", namespace, name) not in self.objects
        return found if found is not None else None if missing else UNJUDGED

    def pools_for(self, pod: object, profile: WorkloadProfile | NotJudged | None) -> Mapping[str, GPUPool] | NotJudged:
        """The pools, if the one that the pod means is surely among them, or surely does not exist."""
        if self.whole and (profile is not UNJUDGED or pool_name(pod, profile) is not None):
            return self.pools
        return pools_at_hand(pod, profile, self.pools)

    def namespace(self, name: str) -> Namespace:
        """The namespace with its labels; without them where they are not at hand."""
        raw = self.objects.get(("Namespace", "", name))
        if raw is None:
            return Namespace(name)
        labels = _metadata(raw).get("labels")
        given = labels if isinstance(labels, Mapping) else {}
        return Namespace(name, {"kubernetes.io/metadata.name": name, **{str(key): str(text) for key, text in given.items()}})


def worlds(changes: Iterable[Change], cluster: Iterable[Raw] | None) -> tuple[World, World]:
    """The cluster before and after. `cluster`: all its objects of KINDS; None if it is not at hand."""
    before: dict[Key, Raw] = {}
    vague_before: set[Key] = set()
    for raw in cluster or ():
        if raw.get("kind") in KINDS:
            before[_key(raw)] = raw
    told = [change for change in changes if _is_kept(change.manifest)]
    for change in told:
        if change.before is not None and (cluster is None or _key(change.before.raw) not in before):
            _lay(before, vague_before, change.before)
    after, vague_after = dict(before), set(vague_before)
    for change in told:
        if change.before is not None and not change.retained:
            after.pop(_key(change.before.raw), None)
    for change in told:
        if change.after is not None:
            _lay(after, vague_after, change.after)
    whole = cluster is not None
    return _world(before, vague_before, whole), _world(after, vague_after, whole)


def _is_kept(manifest: Manifest) -> bool:
    return manifest.kind in KINDS and manifest.group == ("" if manifest.kind == "Namespace" else GROUP)


def _lay(objects: dict[Key, Raw], vague: set[Key], manifest: Manifest) -> None:
    key = _key(manifest.raw)
    before = objects.get(key)
    objects[key] = manifest.raw if before is None else {**manifest.raw, "metadata": _merged(before, manifest.raw)}
    vague.discard(key)
    if any(path and path[0] == "spec" for path in manifest.unknown):
        vague.add(key)


def _merged(before: Raw, after: Raw) -> dict[str, Any]:
    """The metadata of an object that stays: what the server keeps of it (its age, its UID) is in no program."""
    kept = {key: value for key, value in _metadata(before).items() if key in ("uid", "creationTimestamp", "generation")}
    return {**kept, **_metadata(after)}


def _world(objects: dict[Key, Raw], vague: set[Key], whole: bool) -> World:
    pools: dict[str, GPUPool] = {}
    profiles: dict[tuple[str, str], WorkloadProfile] = {}
    quotas: dict[str, GPUResourceQuota] = {}
    unread = set(vague)
    ordered = sorted(objects, key=lambda key: (str(_metadata(objects[key]).get("creationTimestamp") or "9"), key))
    for key in ordered:  # a namespace's oldest quota holds
        kind, namespace, name = key
        raw = {part: value for part, value in objects[key].items() if part != "status" or kind == "GPUPool"}
        try:
            if key in vague:
                continue
            if kind == "GPUPool":
                pools[name] = GPUPool.model_validate(raw)
            elif kind == "WorkloadProfile":
                profiles[namespace, name] = WorkloadProfile.model_validate(raw)
            elif kind == "GPUResourceQuota":
                quotas.setdefault(namespace, GPUResourceQuota.model_validate(raw))
        except ValidationError:  # the API server refuses it; nothing is concluded from it
            unread.add(key)
    return World(objects, frozenset(unread), whole, pools, profiles, quotas)


def _key(raw: Raw) -> Key:
    metadata = _metadata(raw)
    return str(raw.get("kind")), str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _metadata(raw: Raw) -> Mapping[str, Any]:
    metadata = raw.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}
