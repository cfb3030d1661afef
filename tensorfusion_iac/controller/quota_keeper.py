"""Keeps the status of quotas, by namespace, and tells when one is nearly used up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import ValidationError

from tensorfusion_iac.api.resources import GPUResourceQuota
from tensorfusion_iac.controller.conditions import turned_true
from tensorfusion_iac.controller.podindex import PodIndex
from tensorfusion_iac.controller.queue import WorkQueue
from tensorfusion_iac.controller.quotas import EXCEEDED, NEARLY_USED, status_changes, used_of
from tensorfusion_iac.controller.writing import Writer
from tensorfusion_iac.kube.client import Object
from tensorfusion_iac.kube.informer import Change, ChangeType, Informer, Key
from tensorfusion_iac.kube.resource import GPU_RESOURCE_QUOTAS
from tensorfusion_iac.planning.charge import Charge, Quota, holding, quota_of

log = logging.getLogger(__name__)


@dataclass(slots=True)
class QuotaKeeper:
    """Keeps the quotas of all namespaces."""

    writer: Writer
    pods: PodIndex
    stored: Informer
    now: Callable[[], str]
    queue: WorkQueue[str] = field(default_factory=WorkQueue)
    _quotas: dict[str, dict[str, Object]] = field(default_factory=dict)

    def quota(self, namespace: str) -> Quota | None:
        """The quota that holds in a namespace; None if there is none that can be read."""
        quotas = self._quotas.get(namespace, {})
        name = holding(quotas)
        try:
            return None if name is None else quota_of(GPUResourceQuota.model_validate(quotas[name]))
        except ValidationError:
            return None

    def used(self, namespace: str) -> Charge:
        """What a namespace's pods use."""
        return used_of(self.pods.reservations(namespace))

    def attach(self) -> None:
        """Begin to listen."""
        self.stored.on_change(self._changed)
        self.pods.on_pod(self._pod_changed)

    def mark_all(self) -> None:
        """Look at everything."""
        for namespace in self._quotas:
            self.queue.add(namespace)

    async def run(self) -> None:
        """Keep them, until cancelled."""
        self.mark_all()
        await self.queue.run(self._look)

    async def _look(self, namespace: str) -> None:
        quotas = dict(self._quotas.get(namespace, {}))
        used, holder = used_of(self.pods.reservations(namespace)), holding(quotas)
        for name, item in quotas.items():
            try:
                quota = GPUResourceQuota.model_validate(item)
            except ValidationError as error:
                log.error("GPUResourceQuota %s/%s cannot be read: %s", namespace, name, error)
                continue
            stored = item.get("status") or {}
            difference = status_changes(quota, stored, used, holder, self.now())
            if not difference:
                continue
            await self.writer.merge(GPU_RESOURCE_QUOTAS, item, {"status": difference}, "status")
            for one in turned_true(stored.get("conditions") or (), difference.get("conditions") or ()):
                if one["type"] in (NEARLY_USED, EXCEEDED):
                    kind = GPU_RESOURCE_QUOTAS
                    self.writer.tell(item, kind.kind, kind.api_version, one["reason"], one["message"])

    def _changed(self, change: Change) -> None:
        namespace, name = change.key
        of_namespace = self._quotas.setdefault(namespace, {})
        if change.type is ChangeType.DELETED:
            of_namespace.pop(name, None)
        else:
            of_namespace[name] = change.object
        if not of_namespace:
            del self._quotas[namespace]
        self.queue.add(namespace)

    def _pod_changed(self, pod: Object, workload: Key | None) -> None:
        namespace = pod["metadata"]["namespace"]
        if namespace in self._quotas:
            self.queue.add(namespace)
