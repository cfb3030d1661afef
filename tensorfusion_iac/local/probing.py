"""Asks a process whether it does its work: one GET of its probe's URL, answered by 200 or not."""

from __future__ import annotations

import ssl
from functools import lru_cache
from types import TracebackType
from typing import Self

import aiohttp

from tensorfusion_iac.local.process import Probe

TIMEOUT_S = 2.0


class Prober:
    """Asks probes; an async context manager. What is wrong with an answer is returned, not raised."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._session is not None:
            await self._session.close()

    async def fault(self, probe: Probe) -> str | None:
        """None if all is well, else why not, in a few words."""
        if self._session is None:
            raise RuntimeError("Prober is used outside `async with`")
        try:
            async with self._session.get(probe.url, ssl=_tls(probe)) as response:
                return None if response.status == 200 else f"answers {response.status}"
        except TimeoutError:
            return f"no answer in {TIMEOUT_S:g} s"
        except aiohttp.ClientConnectorError:
            return "does not listen"
        except (aiohttp.ClientError, OSError) as error:
            return str(error) or type(error).__name__


@lru_cache(maxsize=32)
def _tls(probe: Probe) -> ssl.SSLContext | bool:
    if probe.any_certificate:
        return False
    if probe.authority is None:
        return True
    tls = ssl.create_default_context(cafile=str(probe.authority))
    if probe.identity:
        tls.load_cert_chain(probe.identity.certificate, probe.identity.key)
    return tls
