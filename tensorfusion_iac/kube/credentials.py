"""How to reach an API server and who we are there: read from a kubeconfig, or from a pod's service account.

Certificates and tokens are read here in a few lines, because importing a whole generated client for that costs every
program 70 MB; only a kubeconfig whose user is an `exec` plugin (EKS, GKE) is left to kubernetes-asyncio.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tensorfusion_iac.kube.errors import CredentialsError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_REREAD_S = 60.0  # bound tokens are rotated on disk well before they expire


@dataclass(frozen=True, slots=True)
class Credentials:
    """A server's URL, the TLS settings for it, and a function that gives the bearer token of the moment, or None.

    `namespace` is the one that the kubeconfig's context or the pod's service account names.
    """

    server: str
    tls: ssl.SSLContext
    bearer: Callable[[], str | None]
    namespace: str = "default"


async def from_kubeconfig(path: Path, context: str | None = None) -> Credentials:
    """Read a kubeconfig's context (default: its current one). Raises CredentialsError."""
    config = _read(path)
    chosen = context or config.get("current-context") or ""
    settings = _named(config, "contexts", "context", chosen, path)
    cluster = _named(config, "clusters", "cluster", str(settings.get("cluster", "")), path)
    user = _named(config, "users", "user", str(settings.get("user", "")), path)
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise CredentialsError(f'{path}: cluster "{settings.get("cluster")}": server "{server}" is not an http(s) URL')
    namespace = str(settings.get("namespace") or "default")
    if "exec" in user or "auth-provider" in user:
        token = await _plugin_token(path, chosen)
        return Credentials(server, _tls(path, cluster, {}), lambda: token, namespace)
    return Credentials(server, _tls(path, cluster, user), _bearer(path, user), namespace)


def in_cluster(root: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] = os.environ) -> Credentials:
    """The service account of the pod that this process runs in. Raises CredentialsError outside a pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = root / "token"
    if not host or not token.is_file():
        raise CredentialsError("not inside a cluster: KUBERNETES_SERVICE_HOST or the service account's token is missing")
    tls = ssl.create_default_context(cafile=str(root / "ca.crt"))
    namespace_file = root / "namespace"
    namespace = namespace_file.read_text().strip() if namespace_file.is_file() else "default"
    address = f"[{host}]" if ":" in host else host
    return Credentials(f"https://{address}:{port}", tls, TokenFile(token), namespace)


class TokenFile:
    """A token on disk that something else rotates: read again once a minute."""

    def __init__(self, path: Path) -> None:
        self._path, self._token, self._read_at = path, "", float("-inf")

    def __call__(self) -> str:
        """The token of the moment."""
        if time.monotonic() - self._read_at > _TOKEN_REREAD_S:
            self._token, self._read_at = self._path.read_text().strip(), time.monotonic()
        return self._token


def _read(path: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CredentialsError(f"{path}: cannot be read as a kubeconfig: {error}") from None
    if not isinstance(config, dict):
        raise CredentialsError(f"{path}: is not a kubeconfig (a mapping with clusters, contexts and users)")
    return config


def _named(config: Mapping[str, Any], section: str, member: str, name: str, path: Path) -> Mapping[str, Any]:
    entries = [entry for entry in config.get(section) or [] if isinstance(entry, dict)]
    for entry in entries:
        if entry.get("name") == name and isinstance(entry.get(member), dict):
            return dict(entry[member])
    known = ", ".join(str(entry.get("name")) for entry in entries) or "none"
    raise CredentialsError(f'{path}: no {member} "{name}" in {section}; there are: {known}')


def _tls(path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    try:
        if cluster.get("insecure-skip-tls-verify"):
            tls = ssl._create_unverified_context()  # noqa: S323 - the user's kubeconfig asks for it
        else:
            authority = _material(path, cluster, "certificate-authority")
            tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
        certificate, key = _material(path, user, "client-certificate"), _material(path, user, "client-key")
        if certificate and key:
            _load_client_certificate(tls, certificate, key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise CredentialsError(f"{path}: a certificate or key in it cannot be used: {error}") from None
    return tls


def _load_client_certificate(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # OpenSSL's loader takes files only; the file is private to us and lives for this call.
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(certificate + b"\n" + key)
        pair.flush()
        tls.load_cert_chain(pair.name)


def _material(path: Path, entry: Mapping[str, Any], field: str) -> bytes | None:
    """A PEM that is either embedded (`<field>-data`) or in a file beside the kubeconfig (`<field>`)."""
    if data := entry.get(f"{field}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, TypeError) as error:
            raise CredentialsError(f"{path}: {field}-data is not base64: {error}") from None
    if file := entry.get(field):
        return (path.parent / str(file)).read_bytes()
    return None


def _bearer(path: Path, user: Mapping[str, Any]) -> Callable[[], str | None]:
    if file := user.get("tokenFile"):
        return TokenFile(path.parent / str(file))
    token = user.get("token")
    return lambda: str(token) if token else None


async def _plugin_token(path: Path, context: str) -> str:
    from kubernetes_asyncio.client import Configuration  # heavy, and needed for plugins only
    from kubernetes_asyncio.config import ConfigException, load_kube_config

    configuration = Configuration()
    try:
        await load_kube_config(str(path), context=context, client_configuration=configuration)
    except (ConfigException, OSError) as error:
        raise CredentialsError(f'{path}: the credential plugin of context "{context}" failed: {error}') from None
    return str(configuration.api_key.get("BearerToken", "")).removeprefix("Bearer ")
