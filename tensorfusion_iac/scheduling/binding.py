"""One Binding with all annotations and the pod's UID; and what is known when no clear answer comes (ARCHITECTURE).

kube-apiserver merges the annotations in the same write as the node. A refusal is clear. A timeout is not: then the pod is
looked at, and what cannot be known stays reserved until the watch tells.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from enum import Enum
from http import HTTPStatus

from tensorfusion_iac.kube.client import Client, Object
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import PODS
from tensorfusion_iac.scheduling.pods import EFFECTIVE

log = logging.getLogger(__name__)

_LOOKS, _LOOK_PAUSE_S = 3, 0.3
_AS_IT_IS = {"fieldValidation": "Ignore"}
"""What we write has no fields to warn of: the API server need not look for any."""


class Outcome(Enum):
    """What became of a Binding."""

    BOUND = "bound"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Binder:
    """Writes Bindings."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def bind(
        self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str], timeout_s: float
    ) -> tuple[Outcome, str]:
        """Bind a pod; what became of it, and why if it is not bound."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "annotations": dict(annotations)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            async with asyncio.timeout(timeout_s):
                await self._client.create(PODS, body, namespace, name=name, subresource="binding", query=_AS_IT_IS)
        except ApiError as error:
            if error.status < HTTPStatus.INTERNAL_SERVER_ERROR and error.status != HTTPStatus.CONFLICT:
                return Outcome.REFUSED, str(error)
            return await self._look(namespace, name, uid, node, annotations, str(error))
        except (KubeError, TimeoutError) as error:
            return await self._look(namespace, name, uid, node, annotations, str(error) or "no answer in time")
        return Outcome.BOUND, ""

    async def _look(
        self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str], why: str
    ) -> tuple[Outcome, str]:
        """See whether the Binding took effect after all."""
        for attempt in range(_LOOKS):
            await asyncio.sleep(_LOOK_PAUSE_S * attempt)
            try:
                async with asyncio.timeout(2.0):
                    pod = await self._client.get(PODS, name, namespace)
            except ApiError as error:
                if error.not_found:
                    return Outcome.REFUSED, why
                continue
            except (KubeError, TimeoutError):
                continue
            if pod["metadata"]["uid"] != uid:
                return Outcome.REFUSED, why
            if _is_as_written(pod, node, annotations):
                log.info("pod %s/%s is bound, though the answer was: %s", namespace, name, why)
                return Outcome.BOUND, ""
            if pod["spec"].get("nodeName"):
                return Outcome.REFUSED, f"the pod is bound to {pod['spec']['nodeName']} already"
            if pod["metadata"].get("deletionTimestamp"):
                return Outcome.REFUSED, why
        return Outcome.UNKNOWN, why


def _is_as_written(pod: Object, node: str, annotations: Mapping[str, str]) -> bool:
    found = pod["metadata"].get("annotations") or {}
    return bool(pod["spec"].get("nodeName") == node and found.get(EFFECTIVE) == annotations[EFFECTIVE])
