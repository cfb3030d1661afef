"""The cluster as admission sees it: watch caches of pools, profiles, quotas, namespaces, owners and priority classes.

Nothing is asked of the API server while a pod waits, except once, for a moment, when the pod names something that the
caches do not have yet: a profile may be created just before the pod that names it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from tensorfusion_iac.admission.resources import Neighbours
from tensorfusion_iac.api import Fault, GPUPool, GPUResourceQuota, Namespace, Owner, WorkloadProfile
from tensorfusion_iac.api.values import parse_name
from tensorfusion_iac.kube.client import Client, Object
from tensorfusion_iac.kube.errors import KubeError
from tensorfusion_iac.kube.informer import Change, ChangeType, Informer, key_of
from tensorfusion_iac.kube.resource import (
    GPU_POOLS,
    GPU_RESOURCE_QUOTAS,
    JOBS,
    NAMESPACES,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    WORKLOAD_PROFILES,
    Resource,
)

log = logging.getLogger(__name__)

LIVE_READ_S = 1.0
_NOTHING: Mapping[str, Any] = {}
_MISS_KEPT_S = 1.0  # a name that was just looked for in vain is not looked for again

K = TypeVar("K", GPUPool, WorkloadProfile, GPUResourceQuota)


class Models(Generic[K]):
    """The objects of an informer as typed models. One that cannot be read is logged, and counts as absent."""

    def __init__(self, informer: Informer, model: type[K]) -> None:
        self._model: type[K] = model
        self._found: dict[str, dict[str, K]] = {}
        informer.on_change(self._take)

    def get(self, name: str, namespace: str = "") -> K | None:
        """A model by name."""
        return self.inside(namespace).get(name)

    def inside(self, namespace: str = "") -> Mapping[str, K]:
        """Those of a namespace (empty: of the cluster), by name."""
        return self._found.get(namespace, _NOTHING)

    def add(self, item: Object) -> K | None:
        """Take an object that was read live; the model, None if it cannot be read."""
        namespace, name = key_of(item)
        self._put(namespace, name, item)
        return self.get(name, namespace)

    def _take(self, change: Change) -> None:
        namespace, name = change.key
        if change.type is ChangeType.DELETED:
            self._drop(namespace, name)
        else:
            self._put(namespace, name, change.object)

    def _put(self, namespace: str, name: str, item: Object) -> None:
        try:
            self._found.setdefault(namespace, {})[name] = self._model.model_validate(item)
        except ValidationError as error:
            self._drop(namespace, name)
            log.warning("%s %s/%s cannot be read: %s", self._model.__name__, namespace, name, error)

    def _drop(self, namespace: str, name: str) -> None:
        found = self._found.get(namespace, {})
        found.pop(name, None)
        if not found:
            self._found.pop(namespace, None)


class Cluster:
    """What admission knows of the cluster. `informers` have to run; it is `ready` when all of them have listed once."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        pools, profiles, quotas = (Informer(client, kind) for kind in (GPU_POOLS, WORKLOAD_PROFILES, GPU_RESOURCE_QUOTAS))
        self._namespaces = Informer(client, NAMESPACES, keep=_labels_only)
        self._owners = {
            kind.kind: Informer(client, kind, keep=_owners_only) for kind in (REPLICA_SETS, JOBS)
        }  # fmt: skip
        self._priority_classes = Informer(client, PRIORITY_CLASSES)
        self._pools, self._profiles = Models(pools, GPUPool), Models(profiles, WorkloadProfile)
        self._quotas = Models(quotas, GPUResourceQuota)
        self._missed: dict[tuple[str, str, str], float] = {}
        self._pools_listed_at = float("-inf")
        self.version = 0
        """Changes whenever something changes here that a decision about a pod may rest on, its owners aside."""
        for informer in (pools, profiles, quotas, self._namespaces, self._priority_classes):
            informer.on_change(self._note)
        self.informers = (pools, profiles, quotas, self._namespaces, *self._owners.values(), self._priority_classes)

    def _note(self, change: Change) -> None:
        if change.old is None or _what_counts(change.object) != _what_counts(change.old):
            self.version += 1

    @property
    def ready(self) -> bool:
        """Whether every cache holds the cluster as it was at some moment since the start."""
        return all(informer.synced.is_set() for informer in self.informers)

    @property
    def pools(self) -> Mapping[str, GPUPool]:
        """All pools by name."""
        return self._pools.inside()

    @property
    def global_default_priority_class(self) -> str | None:
        """The priority class that pods get which name none."""
        return next((item["metadata"]["name"] for item in self._priority_classes if item.get("globalDefault")), None)

    def quota(self, namespace: str) -> GPUResourceQuota | None:
        """The quota of a namespace: the oldest, if there are several (SPEC §4)."""
        found = self._quotas.inside(namespace).values()
        return min(found, key=lambda quota: (quota.metadata.creation_timestamp, quota.metadata.name), default=None)

    def neighbours(self, namespace: str) -> Neighbours:
        """The names that matter to one of our resources in a namespace."""
        pools = self.pools
        return Neighbours(
            tuple(pools),
            tuple(name for name, pool in pools.items() if pool.is_default),
            tuple(self._quotas.inside(namespace)),
        )

    async def namespace(self, name: str) -> Namespace:
        """A namespace with its labels; without them if it cannot be read."""
        found = self._namespaces.get(name) or await self._read(NAMESPACES, name)
        return Namespace(name, (found["metadata"].get("labels") or {}) if found else None)

    async def profile(self, namespace: str, name: str) -> WorkloadProfile | None:
        """A profile, read live if the cache does not have it."""
        found = self._profiles.get(name, namespace)
        if found is None and (item := await self._read(WORKLOAD_PROFILES, name, namespace)) is not None:
            found = self._profiles.add(item)
            self.version += 1
        return found

    async def learn_pools(self) -> bool:
        """List the pools live, at most once a second: one may have been created just before the pod. Whether any is new."""
        now = self._clock()
        if now - self._pools_listed_at < _MISS_KEPT_S:
            return False
        self._pools_listed_at = now
        known = set(self.pools)
        with suppress(KubeError, TimeoutError):
            async with asyncio.timeout(LIVE_READ_S):
                for item in (await self._client.list(GPU_POOLS)).items:
                    self._pools.add(item)
        self.version += 1
        return set(self.pools) != known

    async def top_owner(self, namespace: str, direct: Owner | None) -> Owner | None:
        """The owner of a pod's direct owner, where that is a ReplicaSet or a Job that has one (SPEC §2, `workload`)."""
        if direct is None or direct.kind not in self._owners:
            return direct
        informer = self._owners[direct.kind]
        found = informer.get(direct.name, namespace)
        if found is None or found["metadata"]["uid"] != direct.uid:
            found = await self._read(informer.resource, direct.name, namespace)
        if found is None or found["metadata"].get("uid") != direct.uid:
            return direct
        return controller_of(found) or direct

    async def _read(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """One bounded live read; None if there is no such object, or no answer in time."""
        if not _is_name(name):  # it may come from an annotation, and goes into a URL
            return None
        missed = (resource.plural, namespace, name)
        now = self._clock()
        if now - self._missed.get(missed, float("-inf")) < _MISS_KEPT_S:
            return None
        with suppress(KubeError, TimeoutError):
            async with asyncio.timeout(LIVE_READ_S):
                return await self._client.get(resource, name, namespace or None)
        self._missed = {key: at for key, at in self._missed.items() if now - at < _MISS_KEPT_S} | {missed: now}
        return None


def controller_of(item: Mapping[str, Any]) -> Owner | None:
    """The owner that controls an object (raw JSON of any shape), from its metadata."""
    metadata = item.get("metadata")
    references = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, Mapping) and reference.get("controller") is True:
            kind, name, uid = (reference.get(member) for member in ("kind", "name", "uid"))
            if isinstance(kind, str) and isinstance(name, str) and isinstance(uid, str):
                return Owner(kind, name, uid)
    return None


def _what_counts(item: Object) -> tuple[Any, ...]:
    """The parts of an object on which a decision may rest: all but a status that changes all the time."""
    metadata = item["metadata"]
    vendors = (item.get("status") or {}).get("vendors")
    return item.get("spec"), metadata.get("labels"), metadata.get("annotations"), item.get("globalDefault"), vendors


def _is_name(text: str) -> bool:
    try:
        parse_name(text)
    except Fault:
        return False
    return True


def _labels_only(item: Object) -> Object:
    metadata = item["metadata"]
    return {"metadata": {key: metadata[key] for key in ("name", "uid", "resourceVersion", "labels") if key in metadata}}


def _owners_only(item: Object) -> Object:
    metadata = item["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "ownerReferences")
    return {"metadata": {key: metadata[key] for key in kept if key in metadata}}
