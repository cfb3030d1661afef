"""Wakes a refused pod: kube-scheduler tries one again at any update of it, so `wake` is touched (ARCHITECTURE)."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from tensorfusion_iac.api import names
from tensorfusion_iac.kube.client import Client, PatchType
from tensorfusion_iac.kube.errors import KubeError
from tensorfusion_iac.kube.resource import PODS
from tensorfusion_iac.scheduling.metrics import Metrics
from tensorfusion_iac.scheduling.pods import GpuPod

log = logging.getLogger(__name__)


async def wake(client: Client, metrics: Metrics, pod: GpuPod) -> None:
    """Touch the pod. One that can't be touched (it is gone, say) is passed over: nothing is lost by it."""
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    body = {"metadata": {"uid": pod.uid, "annotations": {names.key("wake"): stamp}}}
    try:
        await client.patch(PODS, pod.name, body, PatchType.MERGE, pod.namespace)
        metrics.events.labels("woken").inc()
    except KubeError as error:
        log.info("pod %s/%s is not woken: %s", *pod.key, error)
