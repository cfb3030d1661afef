"""The webhook's certificates at work: every replica loads what the Secret says and reports it; the holder of the lease
renews them and puts the authority into the webhook configurations.

Nothing waits for files in a Secret volume, which may be minutes late: Secret and configurations are watched.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import math
import ssl
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tensorfusion_iac.admission.authority import fingerprint, validity
from tensorfusion_iac.admission.configuration import CONFIGURATION
from tensorfusion_iac.admission.configuration import TLS_SECRET as SECRET
from tensorfusion_iac.admission.rotation import Keys, Lives, advance, from_secret, to_secret
from tensorfusion_iac.api.names import COMPONENT_LABEL, SYSTEM_NAMESPACE
from tensorfusion_iac.kube.client import Client, Object, PatchType
from tensorfusion_iac.kube.errors import ApiError, KubeError
from tensorfusion_iac.kube.informer import Informer
from tensorfusion_iac.kube.resource import LEASES, MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS

log = logging.getLogger(__name__)

LOADED = "tensor-fusion.ai/tls-loaded"
REPORT_LABEL = "webhook-report"
_FIELD_MANAGER = "tensor-fusion-webhook"
_REPORT_S = 10.0
_DEAD_AFTER_S = 40.0
_FORGOTTEN_AFTER_S = 3600.0
_LOOK_S = 10.0
_FILES_S = 2.0


@dataclass(frozen=True, slots=True)
class Place:
    """Whose certificates these are: the namespace of the Secret, what the server is reached by, and this replica's name."""

    hosts: tuple[str, ...]
    identity: str
    namespace: str = SYSTEM_NAMESPACE
    lives: Lives = field(default_factory=Lives)


class Certificates:
    """The TLS context of a replica, kept up to date. `informers` have to run beside `report` and, for one replica, `keep`."""

    def __init__(self, client: Client, place: Place, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.loaded = asyncio.Event()
        """Set when the context has a certificate."""
        self.mark = ""
        """What is loaded, as in `Keys.mark`."""
        self.expires_at = 0.0
        """When the certificate that is loaded ends, in seconds since the epoch."""
        self._client, self._place, self._now = client, place, now
        self._secret = Informer(client, SECRETS, namespace=place.namespace, field_selector=f"metadata.name={SECRET}")
        named = f"metadata.name={CONFIGURATION}"
        self._configurations = tuple(
            Informer(client, kind, field_selector=named) for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        )
        self.informers = (self._secret, *self._configurations)
        self._changed, self._to_report = asyncio.Event(), asyncio.Event()
        self._secret.on_change(lambda change: self._load())
        for informer in self.informers:
            informer.on_change(lambda change: self._changed.set())

    @property
    def keys(self) -> Keys | None:
        """What the Secret holds."""
        return from_secret(self._secret.get(SECRET, self._place.namespace))

    def _load(self) -> None:
        """Use the certificate of the Secret for connections from now on; those that are open stay."""
        keys = self.keys
        if keys is None or keys.mark == self.mark:
            return
        load_pair(self.context, keys.serving.certificate, keys.serving.key)
        self.mark = keys.mark
        self.expires_at = keys.expires_at.timestamp()
        self.loaded.set()
        self._to_report.set()
        log.info("serving certificate %s is loaded", self.mark)

    async def report(self) -> None:
        """Tell the others what is loaded, at once and then each 10 s, in a Lease of this replica's own; for ever."""
        name = f"{CONFIGURATION}-{self._place.identity}"
        try:
            while True:
                self._to_report.clear()
                body: Object = {
                    "metadata": {
                        "name": name, "namespace": self._place.namespace, "labels": {COMPONENT_LABEL: REPORT_LABEL},
                        "annotations": {LOADED: self.mark},
                    },
                    "spec": {
                        "holderIdentity": self._place.identity, "leaseDurationSeconds": int(_DEAD_AFTER_S),
                        "renewTime": self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                    },
                }  # fmt: skip
                try:
                    await self._client.apply(LEASES, body, _FIELD_MANAGER)
                except KubeError as error:
                    log.warning("lease %s: %s", name, error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_REPORT_S):  # wait_for may lose a cancel before Python 3.12
                        await self._to_report.wait()
        finally:
            with suppress(KubeError):
                await asyncio.shield(self._client.delete(LEASES, name, self._place.namespace))

    async def keep(self) -> None:
        """Renew what has to be renewed and see that the API server trusts it; for ever. For the holder of the lease only."""
        while True:
            self._changed.clear()
            try:
                await self.keep_once()
            except KubeError as error:
                log.warning("certificates: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._changed.wait()

    async def keep_once(self) -> None:
        """One look: the configurations first, since a new authority must be trusted before it is used."""
        stored = await self._read_secret()
        keys = from_secret(stored)
        trusted = False
        if keys is not None:
            trusted = await self._trust(keys.bundle) and await self._all_loaded(keys.mark)
        following = advance(keys, self._place.hosts, self._now(), self._place.lives, trusted_everywhere=trusted)
        if following is not None and await self._write_secret(stored, following):
            await self._trust(following.bundle)

    async def _trust(self, bundle: str) -> bool:
        """Put the authorities into both webhook configurations; whether they were there already."""
        wanted, complete = base64.b64encode(bundle.encode()).decode(), True
        for informer in self._configurations:
            configuration = informer.get(CONFIGURATION)
            webhooks = (configuration or {}).get("webhooks") or []
            lacking = [hook["name"] for hook in webhooks if hook["clientConfig"].get("caBundle") != wanted]
            if not lacking:
                continue
            complete = False
            body = {"webhooks": [{"name": name, "clientConfig": {"caBundle": wanted}} for name in lacking]}
            await self._client.patch(
                informer.resource, CONFIGURATION, body, PatchType.STRATEGIC, query={"fieldManager": _FIELD_MANAGER}
            )
        return complete

    async def _all_loaded(self, mark: str) -> bool:
        """Whether every replica that reported lately has loaded these keys. Reports of those long dead are removed."""
        listing = await self._client.list(LEASES, self._place.namespace, label_selector=f"{COMPONENT_LABEL}={REPORT_LABEL}")
        ages = [(lease, self._age_s(lease)) for lease in listing.items]
        for lease, age_s in ages:
            if age_s > _FORGOTTEN_AFTER_S:
                with suppress(ApiError):
                    await self._client.delete(LEASES, lease["metadata"]["name"], self._place.namespace)
        return all(_loaded(lease) == mark for lease, age_s in ages if age_s < _DEAD_AFTER_S)

    def _age_s(self, lease: Object) -> float:
        """How long ago a replica reported; clocks may differ."""
        try:
            renewed = datetime.fromisoformat(lease["spec"]["renewTime"])
        except (KeyError, TypeError, ValueError):
            return math.inf
        return abs((self._now() - renewed).total_seconds())

    async def _read_secret(self) -> Object | None:
        try:
            return await self._client.get(SECRETS, SECRET, self._place.namespace)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def _write_secret(self, stored: Object | None, keys: Keys) -> bool:
        """Store the keys if nobody did since the Secret was read; whether that was so."""
        body: dict[str, Any] = to_secret(keys)
        body["metadata"]["name"] = SECRET
        try:
            if stored is None:
                body["data"] = {name: value for name, value in body["data"].items() if value is not None}
                body["metadata"]["annotations"] = {
                    name: value for name, value in body["metadata"]["annotations"].items() if value is not None
                }
                await self._client.create(SECRETS, body | {"type": "Opaque"}, self._place.namespace, field_manager=_FIELD_MANAGER)
            else:
                body["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
                await self._client.patch(
                    SECRETS, SECRET, body, PatchType.MERGE, self._place.namespace, query={"fieldManager": _FIELD_MANAGER}
                )
        except ApiError as error:
            if error.conflict or error.already_exists:
                return False
            raise
        log.info("certificates are renewed: %s", keys.mark)
        return True


class CertificateFiles:
    """A certificate that something else renews (cert-manager): `tls.crt` and `tls.key` of a mounted Secret, read again when
    they change. Raises OSError if they cannot be used at the start.
    """

    def __init__(self, folder: Path) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.expires_at = 0.0
        """As in `Certificates`."""
        self._folder, self._loaded = folder, ("", "")
        self.load()

    def load(self) -> None:
        """Load the files if they changed. Raises OSError, and keeps what is loaded, if they cannot be used."""
        certificate, key = (self._folder.joinpath(name).read_text("ascii", "replace") for name in ("tls.crt", "tls.key"))
        if (certificate, key) == self._loaded:
            return
        try:
            load_pair(self.context, certificate, key)
        except ssl.SSLError as error:
            raise OSError(f"{self._folder}: tls.crt and tls.key are no certificate with its key (PEM): {error}") from None
        self._loaded, self.expires_at = (certificate, key), validity(certificate)[1].timestamp()
        log.info("serving certificate %s is loaded", fingerprint(certificate))

    async def keep(self) -> None:
        """Look at the files each 2 s; for ever. Files of which one is newer than the other are tried again."""
        while True:
            await asyncio.sleep(_FILES_S)
            try:
                self.load()
            except OSError as error:
                log.warning("the certificate stays as it was: %s", error)


def load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Use a certificate and its key (PEM) for the context's next connections. Raises ssl.SSLError, and leaves the context as it
    was, if they do not fit.
    """
    # OpenSSL's loader takes files only; this one is private to us and lives for this call.
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(f"{certificate}\n{key}".encode())
        pair.flush()
        # It takes the certificate before it looks at the key: on a context in use, a wrong key would leave half of each.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(pair.name)
        context.load_cert_chain(pair.name)


def hosts_of_service(name: str, namespace: str, extra: Sequence[str] = ()) -> tuple[str, ...]:
    """What a Service is reached by from an API server, and other names and addresses."""
    return (f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local", *extra)


def _loaded(lease: Object) -> str:
    loaded: str = (lease["metadata"].get("annotations") or {}).get(LOADED, "")
    return loaded
