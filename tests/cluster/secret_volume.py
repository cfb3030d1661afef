"""What cert-manager and the kubelet leave in a pod: a Secret of certificates as a volume, replaced by the swap of a link."""

from __future__ import annotations

import ipaddress
import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

LIFE = timedelta(days=90)


@dataclass(frozen=True)
class Issued:
    """A certificate with its key; `chain` is PEM, the certificate first, without the root."""

    certificate: x509.Certificate
    key: rsa.RSAPrivateKey
    chain: str

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        """In PKCS #1, as cert-manager writes it where nothing else is asked for."""
        form = serialization.PrivateFormat.TraditionalOpenSSL
        return self.key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def issue(name: str, issuer: Issued | None = None, *, address: str = "") -> Issued:
    """A certificate for a server at `address`; without one, an authority. Without an issuer, a root."""
    key = rsa.generate_private_key(65537, 2048)
    subject, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), datetime.now(UTC)
    builder = x509.CertificateBuilder(
        subject_name=subject, issuer_name=issuer.certificate.subject if issuer else subject, public_key=key.public_key(),
        serial_number=x509.random_serial_number(), not_valid_before=now - LIFE / 90, not_valid_after=now + LIFE,
    ).add_extension(x509.BasicConstraints(ca=not address, path_length=None), critical=True)  # fmt: skip
    if address:
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        builder = builder.add_extension(names, critical=False)
    made = builder.sign(issuer.key if issuer else key, hashes.SHA256())
    own = made.public_bytes(serialization.Encoding.PEM).decode()
    return Issued(made, key, own + issuer.chain if issuer else "")


@dataclass
class SecretVolume:
    """A mounted Secret: files are links through `..data`, which is replaced in one step."""

    folder: Path
    _versions: itertools.count[int] = field(default_factory=itertools.count)

    def hold(self, **files: str) -> None:
        """What the Secret holds from now on; a file `tls_crt` is `tls.crt`."""
        version = self.folder / f"..2026_{next(self._versions)}"
        version.mkdir(parents=True)
        for name, text in files.items():
            version.joinpath(name.replace("_", ".")).write_text(text)
            link = self.folder / name.replace("_", ".")
            if not link.is_symlink():
                link.symlink_to(Path("..data") / link.name)
        new = self.folder / "..data_tmp"
        new.symlink_to(version.name)
        new.replace(self.folder / "..data")

    def hold_certificate(self, serving: Issued, root: Issued) -> None:
        """As cert-manager fills it."""
        self.hold(tls_crt=serving.chain, tls_key=serving.key_pem, ca_crt=root.pem)
