"""The webhook with a certificate of cert-manager: read from a mounted Secret, never restarted, and `caBundle` left to it."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from running_plane import ControlPlane
from running_webhook import Replica, account_kubeconfig, apply, pod, resolved, served, tried, without_webhook
from secret_volume import Issued, SecretVolume, issue
from steady_load import under_load
from waiting import eventually

from tensorfusion_iac.admission.configuration import CONFIGURATION, Address, webhook_configurations
from tensorfusion_iac.api.metrics import ADMISSION_CERTIFICATE_EXPIRY
from tensorfusion_iac.components import platform

pytestmark = pytest.mark.cluster

SPACE = "cert-manager-tests"
NAME = "by-cert-manager"
KINDS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
HERE = "127.0.0.1"
RATE = 100
"""Requests in a second while the certificate changes (R5)."""


@dataclass(frozen=True)
class Setting:
    """A webhook that serves what a Secret volume holds, and the authority at its start."""

    plane: ControlPlane
    replica: Replica
    volume: SecretVolume
    root: Issued
    intermediate: Issued

    def inject(self, *roots: Issued) -> None:
        """What cert-manager's injector does to a configuration that bears its annotation."""
        bundle = base64.b64encode("".join(root.pem for root in roots).encode()).decode()
        for kind in KINDS:
            hooks = json.loads(self.plane.kubectl("get", kind, NAME, "-o", "json"))["webhooks"]
            change = [
                {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle} for index in range(len(hooks))
            ]
            self.plane.kubectl("patch", kind, NAME, "--type=json", "-p", json.dumps(change))

    def renew(self, serving: Issued, root: Issued) -> None:
        """Put a new certificate into the volume, and wait until new connections get it."""
        self.volume.hold_certificate(serving, root)
        eventually(lambda: ssl.get_server_certificate((HERE, self.replica.port), timeout=10) == serving.pem, "it is served")


@pytest.fixture(scope="module")
def setting(admission: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    folder = tmp_path_factory.mktemp("cert-manager")
    root = issue("root")
    intermediate = issue("intermediate", root)
    volume = SecretVolume(folder / "tls")
    volume.hold_certificate(issue("webhook", intermediate, address=HERE), root)
    kubeconfig = account_kubeconfig(admission, folder, CONFIGURATION)
    apply(admission, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    # Under another name, since the session's webhook has its own authority and puts it into those of the usual name.
    with without_webhook(admission), served(kubeconfig, "files", "--tls", str(volume.folder)) as replica:
        found = Setting(admission, replica, volume, root, intermediate)
        for configuration in map(platform.injected, webhook_configurations(Address(f"https://{HERE}:{replica.port}"))):
            apply(admission, {**configuration, "metadata": {**configuration["metadata"], "name": NAME}})
        try:
            found.inject(root)
            yield found
        finally:
            admission.kubectl("delete", ",".join(KINDS), NAME)
    admission.kubectl("delete", "namespace", SPACE, "--wait=false")


def test_a_pod_is_admitted_over_its_certificate(setting: Setting) -> None:
    item = pod({"vram-request": "1Gi"}, namespace=SPACE)
    assert resolved(eventually(lambda: setting.plane.ask(lambda client: tried(client, item)), "an answer"))


def test_a_renewed_certificate_and_a_new_authority_lose_no_request(setting: Setting, capsys: pytest.CaptureFixture[str]) -> None:
    following = issue("root of another issuer")
    with under_load(setting.plane, SPACE, RATE) as load:
        setting.renew(issue("webhook", setting.intermediate, address=HERE), setting.root)
        setting.inject(setting.root, following)
        time.sleep(1)
        setting.renew(issue("webhook", following, address=HERE), following)
        setting.inject(following)
        time.sleep(2)
    with capsys.disabled():
        print(f"\nR5  cert-manager, under {load.rate:.0f} requests/s: {len(load.failures)} of {load.sent} lost")  # noqa: T201
    assert load.failures == []
    assert setting.replica.process.poll() is None
    assert not [line for line in setting.replica.log if "Traceback" in line or "WARNING" in line]


def test_a_secret_that_is_half_written_changes_nothing(setting: Setting) -> None:
    before = ssl.get_server_certificate((HERE, setting.replica.port), timeout=10)
    other = issue("webhook", setting.root, address=HERE)
    setting.volume.hold(tls_crt=other.chain, tls_key=setting.root.key_pem)
    eventually(lambda: "the certificate stays as it was" in "".join(setting.replica.log), "it says so")
    assert ssl.get_server_certificate((HERE, setting.replica.port), timeout=10) == before
    setting.renew(other, setting.root)


def test_the_webhook_leaves_the_configurations_to_cert_manager(setting: Setting) -> None:
    for kind in KINDS:
        found = json.loads(setting.plane.kubectl("get", kind, NAME, "-o", "json", "--show-managed-fields"))
        managers = {entry["manager"] for entry in found["metadata"]["managedFields"]}
        assert managers.isdisjoint({"tensor-fusion-webhook"})
        assert found["metadata"]["annotations"] == {
            "cert-manager.io/inject-ca-from": "tensor-fusion-system/tensor-fusion-webhook"
        }


def test_the_end_of_the_certificate_is_a_metric(setting: Setting) -> None:
    serving = issue("webhook", setting.intermediate, address=HERE)
    setting.renew(serving, setting.root)
    context = ssl.create_default_context(cadata=setting.root.pem)
    with urllib.request.urlopen(f"https://{HERE}:{setting.replica.port}/metrics", context=context, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    (line,) = [line for line in lines if line.startswith(f"{ADMISSION_CERTIFICATE_EXPIRY.name} ")]
    assert float(line.split()[1]) == serving.certificate.not_valid_after_utc.timestamp()
