"""Asks the external scalers of workloads, each in its own time, and keeps what they said (SPEC §8).

Nothing waits for a scaler: a look at a workload takes the last good answer. The bearer token is in a Secret of the workload's
namespace, which its owner shares with the controller by a RoleBinding; the controller can read no Secret of its own right.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import aiohttp
import orjson
from yarl import URL

from tensorfusion_iac.api.names import CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE
from tensorfusion_iac.api.resources.autoscaling import ExternalScaler, SecretKeyRef
from tensorfusion_iac.api.values import parse_duration
from tensorfusion_iac.controller.allowed_hosts import AllowedHosts, CheckedResolver, RefusedError
from tensorfusion_iac.controller.bounded_body import bounded_body
from tensorfusion_iac.controller.external_answer import Answer, Heard, question, read_answer
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.resource import SECRETS

log = logging.getLogger(__name__)

ATTEMPTS, PAUSE_S = 3, 0.5
_TIMEOUT_S, _INTERVAL_S, _LEAST_INTERVAL_S = 10.0, 30.0, 1.0
_MOST_BYTES = 64 * 2**10
_CONCURRENT = 16
_KEY = "token"
_BUSY = 429


class _AgainError(Exception):
    """Worth another attempt."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One workload that has an external scaler. `current`: amounts in force, as `resources`."""

    uid: str
    namespace: str
    name: str
    created: str
    scaler: ExternalScaler
    current: Mapping[str, Any]


@dataclass(slots=True)
class ExternalScalers:
    """The scalers of all workloads."""

    client: Client
    hosts: AllowedHosts
    timeout_s: float = _TIMEOUT_S
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    _heard: dict[str, Heard] = field(default_factory=dict)
    _not_before_s: dict[str, float] = field(default_factory=dict)
    _under_way: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_CONCURRENT))

    def heard(self, asked: Asked) -> Heard:
        """What is known of a workload's scaler; a question is begun where one is due."""
        uid, scaler = asked.uid, asked.scaler
        due = self.clock() >= self._not_before_s.get(uid, float("-inf")) and self._may_begin(asked)
        if due and uid not in self._under_way:
            self._not_before_s[uid] = self.clock() + max(_seconds(scaler.interval, _INTERVAL_S), _LEAST_INTERVAL_S)
            task = self._under_way[uid] = asyncio.ensure_future(self._take(asked))
            task.add_done_callback(lambda done: self._under_way.pop(uid, None))
        return self._heard.get(uid, Heard())

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget the workloads that are gone, or have no scaler any more."""
        for uid in [uid for uid in self._not_before_s if uid not in uids]:
            del self._not_before_s[uid]
            self._heard.pop(uid, None)
            if (task := self._under_way.pop(uid, None)) is not None:
                task.cancel()

    async def close(self) -> None:
        """End what is under way, and forget all: another controller may be asking now."""
        tasks = list(self._under_way.values())
        self.keep_only(())
        await asyncio.gather(*tasks, return_exceptions=True)

    def _may_begin(self, asked: Asked) -> bool:
        delay_s = _seconds(asked.scaler.initial_delay_period, 0.0)
        return self.wall() >= datetime.fromisoformat(asked.created).timestamp() + delay_s

    async def _take(self, asked: Asked) -> None:
        try:
            async with self._turns:
                answer = await self.ask(asked)
            self._heard[asked.uid] = Heard(answer)
        except (RefusedError, ValueError) as error:
            log.warning("external scaler of %s/%s: %s", asked.namespace, asked.name, error)
            self._heard[asked.uid] = Heard(self._heard.get(asked.uid, Heard()).answer, str(error))

    async def ask(self, asked: Asked) -> Answer:
        """Ask a scaler. RefusedError or ValueError with one line for people if there is no good answer."""
        url = self.hosts.check(asked.scaler.url)
        body = orjson.dumps(question(asked.namespace, asked.name, asked.current))
        headers = {"Content-Type": "application/json"} | await self._authorization(asked)
        connector = aiohttp.TCPConnector(resolver=CheckedResolver(), use_dns_cache=False, force_close=True)
        timeout = aiohttp.ClientTimeout(total=self.timeout_s)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    return await self._attempt(session, url, body, headers)
                except _AgainError as error:
                    if attempt == ATTEMPTS:
                        raise ValueError(f"{error}, {ATTEMPTS} times in a row") from None
                    await asyncio.sleep(PAUSE_S * attempt)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, session: aiohttp.ClientSession, url: URL, body: bytes, headers: Mapping[str, str]) -> Answer:
        try:
            async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
                if response.status >= 500 or response.status == _BUSY:
                    raise _AgainError(f"it answered {response.status}")
                if response.status != 200:
                    what = ", and redirects are not followed" if 300 <= response.status < 400 else ""
                    raise ValueError(f"it answered {response.status}{what}")
                text = await bounded_body(response, _MOST_BYTES)
        except TimeoutError:
            raise _AgainError(f"no answer within {self.timeout_s:g} s") from None
        except RefusedError:
            raise
        except (aiohttp.ClientError, OSError) as error:
            raise _AgainError(f"it cannot be reached: {error or type(error).__name__}") from None
        try:
            return read_answer(orjson.loads(text))
        except orjson.JSONDecodeError as error:
            raise ValueError(f"its answer is no JSON: {error}") from None

    async def _authorization(self, asked: Asked) -> dict[str, str]:
        reference = asked.scaler.api_key_secret_ref
        if reference is None:
            return {}
        return {"Authorization": f"Bearer {await self._token(asked.namespace, reference)}"}

    async def _token(self, namespace: str, reference: SecretKeyRef) -> str:
        """The token in a Secret. ValueError says what the owner has to do."""
        key, place = reference.key or _KEY, f"Secret {namespace}/{reference.name}"
        try:
            secret = await self.client.get(SECRETS, reference.name, namespace)
        except ApiError as error:
            if error.status == 403:
                account = f"{SYSTEM_NAMESPACE}/{CONTROLLER_ACCOUNT}"
                raise ValueError(f"{place} is not shared: a RoleBinding has to let service account {account} get it") from None
            raise ValueError(f"{place} cannot be read: {error.message}") from None
        except KubeError as error:
            raise ValueError(f"{place} cannot be read: {error}") from None
        encoded = (secret.get("data") or {}).get(key)
        if encoded is None:
            raise ValueError(f"{place} has no key {key}")
        return _token_of(encoded, f"{place}, key {key}")


def _token_of(encoded: str, place: str) -> str:
    try:
        token = base64.b64decode(encoded, validate=True).decode("ascii").strip()
    except (binascii.Error, UnicodeDecodeError):
        token = ""
    if not token or not token.isprintable() or " " in token:
        raise ValueError(f"{place} is no token: printable ASCII without spaces is needed")
    return token


def _seconds(text: str | None, default: float) -> float:
    return parse_duration(text).total_seconds() if text else default
