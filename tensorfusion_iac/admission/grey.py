"""The grey release at work: claims in a ConfigMap per owner, changed by compare-and-swap, so that any number of replicas of
the webhook agree (SPEC §5). It is the webhook's only side effect, and a dry run has none.

The live pods are listed when a slot is wanted, not cached: a list is consistent, and holds few pods (the enabled ones of
one owner). Requests that arrive together share one round.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tensorfusion_iac.admission.claims import Claims, Wish, grant, read, settle, write
from tensorfusion_iac.admission.cluster import controller_of
from tensorfusion_iac.admission.mutation import GREY, RESOLVED
from tensorfusion_iac.api import ENABLED_LABEL, Owner
from tensorfusion_iac.api.names import COMPONENT_LABEL, SYSTEM_NAMESPACE
from tensorfusion_iac.kube.client import Client, Object, PatchType
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import CONFIG_MAPS, PODS

log = logging.getLogger(__name__)

CLAIMS_KEY = "claims"
CLAIMS_LABEL = {COMPONENT_LABEL: "grey-claims"}
OWNER_ANNOTATION = "tensor-fusion.ai/grey-owner"
FIELD_MANAGER = "tensor-fusion-webhook"
DEADLINE_S = 2.0  # the API server waits for 3 s
_RETRY_S = 0.02
_SWEEP_S = 3600.0
_SHARED_LABELS = ("pod-template-hash", "batch.kubernetes.io/controller-uid")  # the same for all pods of such an owner
_UID = re.compile(r"[0-9a-z](?:[0-9a-z-]{0,62}[0-9a-z])?")  # what may end an object's name
_FINISHED = ("Succeeded", "Failed")


class GreyUnsettledError(Exception):
    """No verdict in time: the claims could not be read or written. The pod has to be refused, and will be tried again."""


@dataclass(frozen=True, slots=True)
class GreyRequest:
    """One pod of a grey release: the owner that created it, its labels, and what it wishes."""

    namespace: str
    owner: Owner
    labels: Mapping[str, Any]
    wish: Wish
    dry_run: bool = False


@dataclass(slots=True)
class _Round:
    """Requests of one owner that are answered together."""

    requests: list[GreyRequest] = field(default_factory=list)
    answers: list[asyncio.Future[str | None]] = field(default_factory=list)


class GreyRelease:
    """Hands out the slots of grey releases."""

    def __init__(self, client: Client, namespace: str = SYSTEM_NAMESPACE, clock: Callable[[], float] = time.time) -> None:
        self._client, self._namespace, self._clock = client, namespace, clock
        self._next: dict[str, _Round] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.conflicts = 0
        """How often another replica was faster."""

    async def claim(self, request: GreyRequest) -> str | None:
        """The name of the claim that the pod may bear, None if it runs as written. Raises GreyUnsettledError."""
        uid = request.owner.uid
        waiting = self._next.get(uid)
        if waiting is None:
            waiting = self._next[uid] = _Round()
            task = asyncio.create_task(self._answer(uid))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        waiting.requests.append(request)
        waiting.answers.append(answer)
        return await answer

    async def keep(self) -> None:
        """Remove the claims of owners that have made none for an hour; for ever. For the holder of the lease only."""
        while True:
            try:
                await self.sweep()
            except KubeError as error:
                log.warning("claims of grey releases: %s", error)
            await asyncio.sleep(_SWEEP_S)

    async def sweep(self) -> None:
        """One such look. A ConfigMap that changes meanwhile stays."""
        selector = ",".join(f"{key}={value}" for key, value in CLAIMS_LABEL.items())
        for item in (await self._client.list(CONFIG_MAPS, self._namespace, label_selector=selector)).items:
            claims = read((item.get("data") or {}).get(CLAIMS_KEY))
            if all(self._clock() - claim.made_at > _SWEEP_S for claim in claims.values()):
                metadata = item["metadata"]
                with suppress(ApiError):
                    await self._client.delete(
                        CONFIG_MAPS, metadata["name"], self._namespace, resource_version=metadata["resourceVersion"]
                    )

    async def _answer(self, uid: str) -> None:
        """One round: those that wait when the round before has ended."""
        lock = self._locks.setdefault(uid, asyncio.Lock())
        async with lock:
            waiting = self._next.pop(uid)
            try:
                async with asyncio.timeout(DEADLINE_S):
                    granted = await self._settle(waiting.requests)
            except Exception as error:  # noqa: BLE001 - whatever it was, each of those who wait has to hear of it
                failure = GreyUnsettledError(str(error) or type(error).__name__)
                for answer in waiting.answers:
                    if not answer.done():
                        answer.set_exception(failure)
            else:
                for answer, name in zip(waiting.answers, granted, strict=True):
                    if not answer.done():
                        answer.set_result(name)
        if uid not in self._next:
            self._locks.pop(uid, None)

    async def _settle(self, requests: list[GreyRequest]) -> list[str | None]:
        first = requests[0]
        while True:
            stored = await self._read(first.owner)
            live = await self._live(first)
            now = self._clock()
            before = read((stored or {}).get("data", {}).get(CLAIMS_KEY))
            claims = settle(before, live, now)
            after, granted = grant(claims, live, [request.wish for request in requests if not request.dry_run], now)
            answers = iter(granted)
            # A dry run takes nothing, from other dry runs neither.
            result = [grant(after, live, [one.wish], now)[1][0] if one.dry_run else next(answers) for one in requests]
            if after == before or (not granted and stored is None):
                return result
            if await self._write(first, stored, after):
                return result
            self.conflicts += 1
            await asyncio.sleep(_RETRY_S * random.random())  # noqa: S311 - spreads the replicas, hides nothing

    async def _live(self, request: GreyRequest) -> set[str]:
        """What the owner's live enabled pods hold: their claims, or their own UIDs where they bear none of their own."""
        selector = [f"{ENABLED_LABEL}=true", COMPONENT_LABEL]
        selector += [f"{key}={request.labels[key]}" for key in _SHARED_LABELS if isinstance(request.labels.get(key), str)]
        listing = await self._client.list(PODS, request.namespace, label_selector=",".join(selector))
        held: set[str] = set()
        for pod in listing.items:
            if _is_live(pod, request.owner):
                claim, uid = pod["metadata"]["annotations"].get(GREY), pod["metadata"]["uid"]
                held.add(claim if claim and claim not in held else uid)
        return held

    async def _read(self, owner: Owner) -> Object | None:
        try:
            return await self._client.get(CONFIG_MAPS, _name(owner), self._namespace)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def _write(self, request: GreyRequest, stored: Object | None, claims: Claims) -> bool:
        """Store the claims if nobody did since they were read; whether that was so."""
        owner = request.owner
        metadata: Object = {"name": _name(owner), "labels": CLAIMS_LABEL}
        metadata["annotations"] = {OWNER_ANNOTATION: f"{owner.kind} {request.namespace}/{owner.name}"}
        body: Object = {"metadata": metadata, "data": {CLAIMS_KEY: write(claims)}}
        try:
            if stored is None:
                await self._client.create(CONFIG_MAPS, body, self._namespace, field_manager=FIELD_MANAGER)
            else:
                metadata["resourceVersion"] = stored["metadata"]["resourceVersion"]
                await self._client.patch(
                    CONFIG_MAPS, _name(owner), body, PatchType.MERGE, self._namespace, query={"fieldManager": FIELD_MANAGER}
                )
        except ApiError as error:
            if error.conflict or error.already_exists or error.not_found:
                return False
            raise
        return True


def _name(owner: Owner) -> str:
    """The ConfigMap's name. Nobody has checked the owner's UID yet: it is whatever the pod says."""
    uid = owner.uid.lower()
    if not _UID.fullmatch(uid):
        uid = hashlib.sha256(owner.uid.encode(errors="surrogatepass")).hexdigest()
    return f"tensor-fusion-grey-{uid}"


def _is_live(pod: Object, owner: Owner) -> bool:
    """Whether a pod counts: of this owner, enabled, neither terminating nor finished."""
    metadata = pod["metadata"]
    direct = controller_of(pod)
    return (
        direct is not None
        and direct.uid == owner.uid
        and "deletionTimestamp" not in metadata
        and (pod.get("status") or {}).get("phase") not in _FINISHED
        and RESOLVED in (metadata.get("annotations") or {})
    )
