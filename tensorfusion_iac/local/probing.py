"""Asks a process whether it does its work: one GET of its probe's URL, answered by 200 or not."""

from __future__ import annotations

import ssl
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from tensorfusion_iac.local.process import Probe

TIMEOUT_S = 2.0


class Prober:
    """Asks probes, each over a connection of its own, from any thread. It reads a probe's certificates only once."""

    def __init__(self) -> None:
        self._tls = cache(_tls)

    def fault(self, probe: Probe) -> str | None:
        """None if all is well, else why not, in a few words. It blocks, for `TIMEOUT_S` a step at the most."""
        try:
            status = self._status(probe)
        except TimeoutError:
            return f"no answer in {TIMEOUT_S:g} s"
        except ConnectionRefusedError:
            return "does not listen"
        except (HTTPException, OSError) as error:  # ssl.SSLError is an OSError
            return str(error) or type(error).__name__
        return None if status == 200 else f"answers {status}"

    def _status(self, probe: Probe) -> int:
        url = urlsplit(probe.url)
        address = url.hostname or "", url.port
        if url.scheme == "https":
            connection: HTTPConnection = HTTPSConnection(*address, timeout=TIMEOUT_S, context=self._tls(probe))
        else:
            connection = HTTPConnection(*address, timeout=TIMEOUT_S)
        try:
            connection.request("GET", url.path)
            return connection.getresponse().status
        finally:
            connection.close()


def _tls(probe: Probe) -> ssl.SSLContext:
    if probe.any_certificate:
        return ssl._create_unverified_context()  # noqa: S323 - only whether it answers is asked, on loopback
    tls = ssl.create_default_context(cafile=str(probe.authority) if probe.authority else None)
    if probe.identity:
        tls.load_cert_chain(probe.identity.certificate, probe.identity.key)
    return tls
