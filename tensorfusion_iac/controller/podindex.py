"""The GPU pods of the cluster, found by workload, by namespace and by owner, with what each of them holds.

Kept by the watch's changes, so that a look at one workload never costs a look at all pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tensorfusion_iac.controller.owners import MIDDLE, OwnerRef, controller_of, top_owner
from tensorfusion_iac.controller.pods import Member, is_ready, member_of, reservation, worker_of
from tensorfusion_iac.kube.client import Object
from tensorfusion_iac.kube.informer import Change, ChangeType, Informer, Key
from tensorfusion_iac.planning.shares import Reservation

Listener = Callable[[Object, Key | None], None]
"""Called with a pod that has changed, and the key of its workload (namespace and name), None if it has none."""


class PodIndex:
    """GPU pods. `middle` are the caches of ReplicaSets and Jobs, by kind."""

    def __init__(self, pods: Informer, middle: Mapping[str, Informer]) -> None:
        self._pods, self._middle = pods, middle
        self._workload_of: dict[Key, Key] = {}
        self._members: dict[Key, set[Key]] = {}
        self._namespaces: dict[str, set[Key]] = {}
        self._profiles: dict[Key, set[Key]] = {}
        self._profile_of: dict[Key, Key] = {}
        self._running: dict[tuple[str, str, str], set[Key]] = {}
        self._running_of: dict[Key, tuple[str, str, str]] = {}
        self._children: dict[str, set[Key]] = {}
        self._parent_of: dict[Key, str] = {}
        self._reservations: dict[Key, Reservation] = {}
        self._listeners: list[Listener] = []
        pods.on_change(self._take)
        for informer in middle.values():
            informer.on_change(self._owner_changed)

    def on_pod(self, listener: Listener) -> None:
        """Call when a pod was added, changed or deleted, or its owner came to be known."""
        self._listeners.append(listener)

    def workloads(self) -> Iterator[Key]:
        """The keys of all workloads that have pods."""
        return iter(list(self._members))

    def running(self) -> frozenset[tuple[str, str, str]]:
        """Namespace, workload and pool of each workload with a worker that is ready."""
        return frozenset(self._running)

    def of_profile(self, profile: Key) -> set[Key]:
        """The keys of the workloads that have pods which were resolved with a profile."""
        return {self._workload_of[key] for key in self._profiles.get(profile, ())}

    def members(self, workload: Key) -> tuple[Member, ...]:
        """The pods of a workload whose owners are known."""
        found = (self.member(key) for key in self._members.get(workload, ()))
        return tuple(member for member in found if member is not None)

    def member(self, key: Key) -> Member | None:
        """One pod, by namespace and name."""
        pod = self._pods.get(key[1], key[0])
        return None if pod is None else member_of(pod, self._middle_owner)

    def reservations(self, namespace: str | None = None) -> Iterator[Reservation]:
        """What the pods hold; of one namespace, or of all."""
        if namespace is None:
            return iter(self._reservations.values())
        keys = self._namespaces.get(namespace, ())
        return (self._reservations[key] for key in keys if key in self._reservations)

    def reservation(self, key: Key) -> Reservation | None:
        """What one pod holds."""
        return self._reservations.get(key)

    def has_live_pods(self, namespace: str, owner_uid: str) -> bool:
        """Whether a top owner has a pod that counts, in any workload."""
        for key in self._namespaces.get(namespace, ()):
            pod = self._pods.get(key[1], key[0])
            owner = None if pod is None else top_owner(pod, self._middle_owner)
            if pod is not None and owner is not None and owner.uid == owner_uid:
                member = self.member(key)
                if member is not None and member.live:
                    return True
        return False

    def _middle_owner(self, kind: str, namespace: str, name: str) -> Object | None:
        return self._middle[kind].get(name, namespace)

    def _owner_changed(self, change: Change) -> None:
        for key in list(self._children.get(change.object["metadata"]["uid"], ())):
            pod = self._pods.get(key[1], key[0])
            if pod is not None:
                self._tell(pod, self._workload_of.get(key))

    def _take(self, change: Change) -> None:
        key = change.key
        before = self._workload_of.get(key)
        self._drop(key)
        if change.type is not ChangeType.DELETED:
            self._put(key, change.object)
        after = self._workload_of.get(key)
        if before is not None and before != after:
            self._tell(change.object, before)
        self._tell(change.object, after)

    def _put(self, key: Key, pod: Object) -> None:
        worker = worker_of(pod)
        if worker is None:
            return
        self._workload_of[key] = workload = (key[0], worker.workload)
        self._members.setdefault(workload, set()).add(key)
        self._namespaces.setdefault(key[0], set()).add(key)
        if worker.profile is not None:
            self._profile_of[key] = profile = (key[0], worker.profile.name)
            self._profiles.setdefault(profile, set()).add(key)
        parent: OwnerRef | None = controller_of(pod)
        if parent is not None and parent.kind in MIDDLE:
            self._parent_of[key] = parent.uid
            self._children.setdefault(parent.uid, set()).add(key)
        if worker.pool is not None and is_ready(pod):
            self._running_of[key] = running = (*workload, worker.pool)
            self._running.setdefault(running, set()).add(key)
        if (held := reservation(pod)) is not None:
            self._reservations[key] = held

    def _drop(self, key: Key) -> None:
        workload = self._workload_of.pop(key, None)
        if workload is None:
            return
        _remove(self._members, workload, key)
        _remove(self._namespaces, key[0], key)
        if (profile := self._profile_of.pop(key, None)) is not None:
            _remove(self._profiles, profile, key)
        if (running := self._running_of.pop(key, None)) is not None:
            _remove(self._running, running, key)
        if (parent := self._parent_of.pop(key, None)) is not None:
            _remove(self._children, parent, key)
        self._reservations.pop(key, None)

    def _tell(self, pod: Object, workload: Key | None) -> None:
        for listener in self._listeners:
            listener(pod, workload)


def _remove(index: dict[Any, set[Key]], name: Any, key: Key) -> None:
    found = index.get(name)
    if found is not None:
        found.discard(key)
        if not found:
            del index[name]
