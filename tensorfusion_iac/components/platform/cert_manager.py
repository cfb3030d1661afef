"""The webhook's certificate by cert-manager instead of our own: issuer, certificate, and who puts the authority into the
webhook configurations (Part 6). Pure.
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


def certificate() -> Iterator[Manifest]:
    """A self-signed issuer in our namespace, and the certificate that it gives."""
    metadata = {"name": CONFIGURATION, "namespace": SYSTEM_NAMESPACE, "labels": LABELS}
    yield {"apiVersion": API_VERSION, "kind": "Issuer", "metadata": metadata, "spec": {"selfSigned": {}}}
    yield {
        "apiVersion": API_VERSION,
        "kind": "Certificate",
        "metadata": metadata,
        "spec": {
            "secretName": TLS_SECRET,
            "dnsNames": list(hosts_of_service(CONFIGURATION, SYSTEM_NAMESPACE)),
            "issuerRef": {"kind": "Issuer", "name": CONFIGURATION},
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            "usages": ["server auth", "digital signature"],
        },
    }


def injected(configuration: Mapping[str, Any]) -> Manifest:
    """A webhook configuration into which cert-manager puts the authority."""
    metadata = configuration["metadata"]
    annotations = {**metadata.get("annotations", {}), INJECT: f"{SYSTEM_NAMESPACE}/{CONFIGURATION}"}
    return {**configuration, "metadata": {**metadata, "annotations": annotations}}
