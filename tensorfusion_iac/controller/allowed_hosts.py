"""Which hosts external scalers may be on: those that the platform lists, and no others, whatever DNS says of them (SPEC §8).

A workload's owner writes the URL, and the controller stands inside the cluster's network: without this, it would fetch for
anybody what only it can reach. A name is never taken to loopback, link-local or metadata addresses; such an address counts only
where it is listed itself.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

FLAG = "--external-scaler-host"
_METADATA = frozenset(map(ipaddress.ip_address, ("168.63.129.16", "100.100.100.200", "fd00:ec2::254")))
"""Of clouds, where the address is not link-local."""

_PORTS = {"http": 80, "https": 443}


class RefusedError(Exception):
    """The URL may not be asked; the text says why."""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The list: `HOST` or `HOST:PORT`, in lower case."""

    hosts: frozenset[str]

    @classmethod
    def of(cls, items: Iterable[str]) -> AllowedHosts:
        """Read the flag's values."""
        return cls(frozenset(item.strip().lower() for item in items if item.strip()))

    def check(self, text: str) -> URL:
        """The URL, if it may be asked. RefusedError otherwise."""
        try:
            url = URL(text)
            port = url.port
        except ValueError as error:
            raise RefusedError(f"its URL cannot be read: {error}") from None
        host = (url.host or "").lower()
        if url.scheme not in _PORTS or not host:
            raise RefusedError("its URL is not of http or https")
        if url.user is not None or url.password is not None:
            raise RefusedError("its URL has a user or password in it; use apiKeySecretRef")
        bracketed = f"[{host}]" if ":" in host else host
        if not self.hosts & {host, bracketed, f"{bracketed}:{port}"}:
            listed = "none is" if not self.hosts else f"listed are {', '.join(sorted(self.hosts))}"
            raise RefusedError(f"host {bracketed}:{port} is not allowed by the controller's {FLAG} ({listed})")
        return url


def is_forbidden(address: str) -> bool:
    """Whether a name must not lead to this address."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found.sixtofour or found
    return (
        found.is_loopback or found.is_link_local or found.is_multicast or found.is_unspecified or found.is_reserved
        or found in _METADATA
    )  # fmt: skip


class CheckedResolver(AbstractResolver):
    """Resolves names for the very connection that is made then; one forbidden address refuses the name."""

    def __init__(self, inner: AbstractResolver | None = None) -> None:
        self._inner = inner or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:  # fmt: skip
        """The addresses of a host. RefusedError if one is forbidden, OSError if there is none."""
        found = await self._inner.resolve(host, port, family)
        wrong = sorted({one["host"] for one in found if is_forbidden(one["host"])})
        if wrong:
            raise RefusedError(f"{host} leads to {', '.join(wrong)}, which is no address of a service")
        return found

    async def close(self) -> None:
        """Close the resolver underneath."""
        await self._inner.close()
