"""The webhook's certificate by cert-manager instead of our own: issuers, certificates, and who puts the authority into the
webhook configurations (Part 6; docs/concepts/admission.md). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensorfusion_iac.admission.certificates import hosts_of_service
from tensorfusion_iac.admission.configuration import CONFIGURATION, TLS_SECRET
from tensorfusion_iac.api.names import SYSTEM_NAMESPACE
from tensorfusion_iac.components.platform.foundation import LABELS, Manifest

API_VERSION = "cert-manager.io/v1"
INJECT = "cert-manager.io/inject-ca-from"
_KEY = {"algorithm": "ECDSA", "size": 256}


def certificate() -> Iterator[Manifest]:
    """An authority of our own in cert-manager's hands, and the certificate that it gives.

    Not a certificate that signs itself: the API server would trust the new one a minute before the webhook has it. For the same
    reason the authority keeps its key when it is renewed: then the new one vouches for the webhook's old certificate too.
    """
    authority = f"{CONFIGURATION}-authority"
    yield _issuer(f"{CONFIGURATION}-root", {"selfSigned": {}})
    yield _certificate(
        authority, f"{CONFIGURATION}-root",
        {
            "isCA": True, "commonName": authority, "duration": "43800h", "usages": ["cert sign", "digital signature"],
            "privateKey": {**_KEY, "rotationPolicy": "Never"},
        },
    )  # fmt: skip
    yield _issuer(CONFIGURATION, {"ca": {"secretName": authority}})
    yield _certificate(
        CONFIGURATION, CONFIGURATION,
        {
            "secretName": TLS_SECRET, "dnsNames": list(hosts_of_service(CONFIGURATION, SYSTEM_NAMESPACE)),
            "usages": ["server auth", "digital signature"],
        },
    )  # fmt: skip


def injected(configuration: Mapping[str, Any]) -> Manifest:
    """A webhook configuration into which cert-manager puts the authority."""
    metadata = configuration["metadata"]
    annotations = {**metadata.get("annotations", {}), INJECT: f"{SYSTEM_NAMESPACE}/{CONFIGURATION}"}
    return {**configuration, "metadata": {**metadata, "annotations": annotations}}


def _issuer(name: str, spec: Manifest) -> Manifest:
    return {"apiVersion": API_VERSION, "kind": "Issuer", "metadata": _metadata(name), "spec": spec}


def _certificate(name: str, issuer: str, spec: Manifest) -> Manifest:
    spec = {
        "secretName": name,
        "issuerRef": {"group": "cert-manager.io", "kind": "Issuer", "name": issuer},
        "privateKey": {**_KEY, "rotationPolicy": "Always"},
    } | spec
    return {"apiVersion": API_VERSION, "kind": "Certificate", "metadata": _metadata(name), "spec": spec}


def _metadata(name: str) -> Manifest:
    return {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": LABELS}
