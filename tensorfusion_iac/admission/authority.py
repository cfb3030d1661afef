"""The webhook's own certificate authority and its serving certificates. Pure but for the random numbers in the keys."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, in PEM."""

    certificate: str
    key: str


def new_authority(now: datetime, life: timedelta) -> Pair:
    """A new certificate authority, good for `life`."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    name = _name(f"tensor-fusion-webhook-ca {serial & 0xFFFFFFFF:08x}")  # two authorities must not bear one name
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _builder(name, name, key, now, life, serial)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def new_serving(authority: Pair, hosts: Iterable[str], now: datetime, life: timedelta) -> Pair:
    """A certificate for a server that is reached by these names and addresses, good for `life` at most."""
    signer = x509.load_pem_x509_certificate(authority.certificate.encode())
    signer_key = serialization.load_pem_private_key(authority.key.encode(), None)
    if not isinstance(signer_key, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is not an elliptic curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    life = min(life, signer.not_valid_after_utc - now)
    certificate = (
        _builder(_name("tensor-fusion-webhook"), signer.subject, key, now, life, x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()), critical=False)
        .sign(signer_key, hashes.SHA256())
    )
    return _pair(certificate, key)


def validity(certificate: str) -> tuple[datetime, datetime]:
    """When a certificate (PEM) begins and ends. Raises ValueError if it is none."""
    found = x509.load_pem_x509_certificate(certificate.encode())
    return found.not_valid_before_utc, found.not_valid_after_utc


def names_of(certificate: str) -> set[str]:
    """The names and addresses that a certificate (PEM) is for."""
    found = x509.load_pem_x509_certificate(certificate.encode())
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}


def belong_together(pair: Pair) -> bool:
    """Whether the key is that of the certificate. Raises ValueError if one of them cannot be read."""
    certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
    return certificate.public_key() == serialization.load_pem_private_key(pair.key.encode(), None).public_key()


def fingerprint(*texts: str) -> str:
    """A short name of some PEM texts together."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta, serial: int
) -> x509.CertificateBuilder:
    now = now.astimezone(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + life)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode())
