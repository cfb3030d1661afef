"""Asks the agents what their pods used: over TLS that is pinned in each agent's Lease (docs/decisions/0010-agent-endpoint.md).

The token is one of the controller's own account for the agents alone. An agent that does not answer is asked again next time: it
keeps two hours of history.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
import orjson

from tensorfusion_iac.api.names import AGENT_AUDIENCE, CONTROLLER_ACCOUNT, PREFIX
from tensorfusion_iac.controller.bounded_body import bounded_body
from tensorfusion_iac.controller.scaling import Row, read_rows
from tensorfusion_iac.kube.client import Client, Object
from tensorfusion_iac.kube.resource import SERVICE_ACCOUNTS

log = logging.getLogger(__name__)

ENDPOINT, CERTIFICATE = f"{PREFIX}agent-endpoint", f"{PREFIX}agent-certificate"
TIMEOUT_S, MOST_BYTES = 10.0, 32 * 2**20
HISTORY_S, OVERLAP_S = 7200.0, 120.0
"""What the agents keep, and how much of what was told already is asked for again: the newest row was not complete."""
_TOKEN_S, _CONCURRENT = 3600, 32


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent, as its Lease names it."""

    node: str
    url: str
    certificate: str


def agent_of(lease: Object) -> Agent | None:
    """The agent of a Lease; None if it serves no history."""
    metadata = lease["metadata"]
    annotations = metadata.get("annotations") or {}
    url, encoded = annotations.get(ENDPOINT), annotations.get(CERTIFICATE)
    if not url or not encoded or not url.startswith("https://"):
        return None
    try:
        certificate = base64.b64decode(encoded, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        log.warning("lease %s: %s is no certificate", metadata["name"], CERTIFICATE)
        return None
    return Agent(str((lease.get("spec") or {}).get("holderIdentity")), url, certificate)


class Usage:
    """Asks all agents."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._token, self._token_until_s = "", float("-inf")
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._heard_s: dict[str, float] = {}

    def forget(self) -> None:
        """Ask for all that the agents know, the next time."""
        self._heard_s = {}

    async def ask(self, agents: Mapping[str, Agent], now_s: float) -> list[Row]:
        """What is new at each agent that answers, and a little more. KubeError without a token."""
        self._heard_s = {name: at for name, at in self._heard_s.items() if name in agents}
        if not agents:
            return []
        token, turns = await self._own_token(), asyncio.Semaphore(_CONCURRENT)
        current = {agent.certificate for agent in agents.values()}
        self._contexts = {pem: context for pem, context in self._contexts.items() if pem in current}
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session:

            async def one(name: str, agent: Agent) -> list[Row]:
                since_s = max(self._heard_s.get(name, 0.0) - OVERLAP_S, now_s - HISTORY_S)
                async with turns:
                    rows = await self._ask(session, agent, token, since_s)
                if rows is not None:
                    self._heard_s[name] = now_s
                return rows or []

            answers = await asyncio.gather(*(one(name, agent) for name, agent in agents.items()))
        return [row for rows in answers for row in rows]

    async def _ask(self, session: aiohttp.ClientSession, agent: Agent, token: str, since_s: float) -> list[Row] | None:
        """The rows of one agent, None if it does not answer."""
        try:
            request = session.get(
                agent.url, params={"since": str(since_s)}, headers={"Authorization": f"Bearer {token}"},
                ssl=self._context(agent.certificate), allow_redirects=False,
            )  # fmt: skip
            async with request as response:
                if response.status != 200:
                    log.warning("agent of node %s: %d", agent.node, response.status)
                    return None
                return read_rows(orjson.loads(await bounded_body(response, MOST_BYTES)))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            log.warning("agent of node %s: %s", agent.node, error or type(error).__name__)
            return None

    def _context(self, pem: str) -> ssl.SSLContext:
        context = self._contexts.get(pem)
        if context is None:
            context = self._contexts[pem] = ssl.create_default_context(cadata=pem)
        return context

    async def _own_token(self) -> str:
        if time.monotonic() >= self._token_until_s:
            spec = {"audiences": [AGENT_AUDIENCE], "expirationSeconds": _TOKEN_S}
            body: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            made = await self._client.create(
                SERVICE_ACCOUNTS, body, self._namespace, name=CONTROLLER_ACCOUNT, subresource="token"
            )
            self._token, self._token_until_s = made["status"]["token"], time.monotonic() + _TOKEN_S / 2
        return self._token
