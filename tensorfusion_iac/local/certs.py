"""The certificates of one control plane: two authorities, and a leaf for each server and each client.

etcd has an authority of its own, so that no identity of the cluster, not even an administrator's, opens the store
behind the API server's back. `ensure` keeps what is valid and issues what is missing, damaged, for other hosts, or near
its end.
"""

from __future__ import annotations

import ipaddress
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tensorfusion_iac.api.names import CONTROLLER_ACCOUNT, SCHEDULER_ACCOUNT, WEBHOOK_ACCOUNT, account_user
from tensorfusion_iac.local.layout import write_private

AUTHORITY_LIFE = timedelta(days=3650)
LEAF_LIFE = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
_CLOCK_SKEW = timedelta(minutes=5)

CLUSTER, ETCD = "cluster-ca", "etcd-ca"
SERVICE_ACCOUNTS = "service-accounts"
SERVICE_ADDRESS = "10.96.0.1"
"""The cluster address of the API server: the first of the service range."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A certificate to have: who it names, and for a server the names and addresses it answers to."""

    name: str
    authority: str
    common_name: str
    organization: str = ""
    hosts: tuple[str, ...] = ()


_LOOPBACK = ("127.0.0.1", "localhost")
_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")

LEAVES = (
    Leaf("etcd", ETCD, "etcd", hosts=_LOOPBACK),
    Leaf("etcd-client", ETCD, "kube-apiserver"),
    Leaf("apiserver", CLUSTER, "kube-apiserver", hosts=(*_LOOPBACK, SERVICE_ADDRESS, *_SERVICE_NAMES)),
    Leaf("components", CLUSTER, "components", hosts=_LOOPBACK),
    Leaf("admin", CLUSTER, "admin", "system:masters"),
    Leaf("controller-manager", CLUSTER, "system:kube-controller-manager"),
    Leaf("scheduler", CLUSTER, "system:kube-scheduler"),
    Leaf("webhook", CLUSTER, account_user(WEBHOOK_ACCOUNT), "system:serviceaccounts"),  # the rights of its account, no more
    Leaf("extender", CLUSTER, account_user(SCHEDULER_ACCOUNT), "system:serviceaccounts"),
    Leaf("controller", CLUSTER, account_user(CONTROLLER_ACCOUNT), "system:serviceaccounts"),
    Leaf("simulated-agents", CLUSTER, "simulated-agents", "system:masters"),  # the agents of many nodes: no account has that
    Leaf("kwok", CLUSTER, "kwok", "system:masters"),  # it plays every kubelet, and garbage collection of their pods
)


@dataclass(frozen=True, slots=True)
class Pair:
    """The files of a certificate and its key, in PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Pki:
    """Where the certificates are, by the names of LEAVES and of the authorities."""

    folder: Path

    def pair(self, name: str) -> Pair:
        """Certificate and key of a leaf or an authority; of SERVICE_ACCOUNTS, public and private key."""
        return Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")


def for_nodes(gateway: str, more: tuple[Leaf, ...]) -> tuple[Leaf, ...]:
    """The leaves of a control plane with real nodes, which reach the API server at `gateway`, and `more` of theirs."""
    known = (replace(leaf, hosts=(*leaf.hosts, gateway)) if leaf.name == "apiserver" else leaf for leaf in LEAVES)
    return (*known, *more)


def ensure(folder: Path, now: datetime | None = None, leaves: tuple[Leaf, ...] = LEAVES) -> Pki:
    """Make every certificate be there and valid for a month at least; those that are stay as they are."""
    pki, moment = Pki(folder), now or datetime.now(UTC)
    authorities = {name: _authority(pki.pair(name), name, moment) for name in (CLUSTER, ETCD)}
    for leaf in leaves:
        _ensure_leaf(pki.pair(leaf.name), leaf, authorities, moment)
    signing = pki.pair(SERVICE_ACCOUNTS)
    key = _load_key(signing.key)
    if key is None or not signing.certificate.is_file():
        key = key or ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        write_private(signing.key, _pem(key))
        write_private(signing.certificate, public)
    return pki


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def _authority(pair: Pair, name: str, now: datetime) -> _Authority:
    certificate, key = _load(pair)
    if certificate and key and certificate.not_valid_after_utc > now + LEAF_LIFE:  # it must outlive what it issues
        return _Authority(certificate, key)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"tensorfusion-local-{name}")])
    certificate = (
        _builder(subject, subject, key, now, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _store(pair, certificate, key)
    return _Authority(certificate, key)


def _ensure_leaf(pair: Pair, leaf: Leaf, authorities: Mapping[str, _Authority], now: datetime) -> None:
    authority = authorities[leaf.authority]
    certificate, key = _load(pair)
    if certificate and key and _still_good(certificate, leaf, authority, now):
        return
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [_common_name(leaf.common_name)]
    if leaf.organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, leaf.organization))
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]  # etcd's server is also its own peer
    if leaf.hosts:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    issuer = authority.certificate.subject
    builder = (
        _builder(x509.Name(attributes), issuer, key, now, LEAF_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    if leaf.hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(_names(leaf.hosts)), critical=False)
    _store(pair, builder.sign(authority.key, hashes.SHA256()), key)


def _still_good(certificate: x509.Certificate, leaf: Leaf, authority: _Authority, now: datetime) -> bool:
    if certificate.not_valid_after_utc < now + RENEW_BEFORE or certificate.not_valid_before_utc > now:
        return False
    try:
        certificate.verify_directly_issued_by(authority.certificate)
    except (InvalidSignature, ValueError, TypeError):
        return False
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return not leaf.hosts
    return list(names) == _names(leaf.hosts)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + life)
    )


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs, crl_sign=signs, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _names(hosts: tuple[str, ...]) -> list[x509.GeneralName]:
    return [_name(host) for host in hosts]


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _load(pair: Pair) -> tuple[x509.Certificate | None, ec.EllipticCurvePrivateKey | None]:
    """What is on disk; None for what is missing, damaged, or does not belong together."""
    key = _load_key(pair.key)
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    except (OSError, ValueError):
        return None, key
    if key is None or certificate.public_key() != key.public_key():
        return None, None
    return certificate, key


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey | None:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def _store(pair: Pair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    write_private(pair.key, _pem(key))
    write_private(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM))


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _common_name(name: str) -> x509.NameAttribute[str]:
    """A service account's user name may be longer than the 64 characters of X.509; the API server does not mind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return x509.NameAttribute(NameOID.COMMON_NAME, name, _validate=False)
