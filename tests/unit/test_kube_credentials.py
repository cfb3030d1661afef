"""Reading a kubeconfig and a pod's service account: what is taken, and one clear error for what cannot be."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import yaml

from tensorfusion_iac.kube import credentials
from tensorfusion_iac.kube.credentials import Credentials
from tensorfusion_iac.kube.errors import CredentialsError
from tensorfusion_iac.local import certs, kubeconfig


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> certs.Pki:
    return certs.ensure(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def path(pki: certs.Pki, tmp_path: Path) -> Path:
    """A good kubeconfig."""
    admin = pki.pair("admin")
    text = kubeconfig.render(
        "https://127.0.0.1:6443", "admin", pki.pair(certs.CLUSTER).certificate.read_bytes(),
        admin.certificate.read_bytes(), admin.key.read_bytes(),
    )  # fmt: skip
    made = tmp_path / "kubeconfig"
    made.write_text(text)
    return made


def read(path: Path, context: str | None = None) -> Credentials:
    return asyncio.run(credentials.from_kubeconfig(path, context))


def rewrite(path: Path, user: dict[str, object] | None = None, cluster: dict[str, object] | None = None) -> None:
    config = yaml.safe_load(path.read_text())
    if user is not None:
        config["users"][0]["user"] = user
    config["clusters"][0]["cluster"] |= cluster or {}
    path.write_text(yaml.safe_dump(config))


def test_server_and_certificates_are_taken(path: Path) -> None:
    found = read(path)
    assert (found.server, found.namespace, found.bearer()) == ("https://127.0.0.1:6443", "default", None)
    assert found.tls.verify_mode is ssl.CERT_REQUIRED
    assert len(found.tls.get_ca_certs()) == 1


def test_files_beside_the_kubeconfig_are_read_too(path: Path, pki: certs.Pki, tmp_path: Path) -> None:
    (tmp_path / "me.crt").write_bytes(pki.pair("admin").certificate.read_bytes())
    (tmp_path / "me.key").write_bytes(pki.pair("admin").key.read_bytes())
    rewrite(path, {"client-certificate": "me.crt", "client-key": "me.key"})
    assert read(path).server == "https://127.0.0.1:6443"


def test_tokens_are_taken_and_a_token_file_is_read(path: Path, tmp_path: Path) -> None:
    rewrite(path, {"token": "abc"})
    assert read(path).bearer() == "abc"
    (tmp_path / "token").write_text("def\n")
    rewrite(path, {"tokenFile": "token"})
    assert read(path).bearer() == "def"


def test_a_server_that_is_not_to_be_verified_is_not(path: Path) -> None:
    rewrite(path, cluster={"insecure-skip-tls-verify": True})
    assert read(path).tls.verify_mode is ssl.CERT_NONE


def test_a_plugins_token_is_taken(path: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    answer = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"from-plugin"}}'
    plugin.write_text(f"#!/bin/sh\necho '{answer}'\n")
    plugin.chmod(0o755)
    rewrite(path, {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}})
    assert read(path).bearer() == "from-plugin"


def test_a_failing_plugin_is_one_error(path: Path) -> None:
    rewrite(path, {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/plugin"}})
    with pytest.raises(CredentialsError, match='the credential plugin of context "tensorfusion-local" failed'):
        read(path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("a: [", "cannot be read as a kubeconfig"),
        ("[]", "is not a kubeconfig"),
        ("{}", 'no context "" in contexts; there are: none'),
        ("current-context: a\ncontexts: [{name: b, context: {}}]", 'no context "a" in contexts; there are: b'),
        ("current-context: a\ncontexts: [{name: a, context: {cluster: c}}]", 'no cluster "c" in clusters'),
    ],
)
def test_what_is_no_kubeconfig_is_one_error_that_names_the_file(tmp_path: Path, content: str, what: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(CredentialsError) as error:
        read(path)
    assert what in str(error.value)
    assert str(error.value).startswith(f"{path}: ")


def test_a_missing_kubeconfig_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="cannot be read as a kubeconfig"):
        read(tmp_path / "none")


@pytest.mark.parametrize(
    ("user", "cluster", "what"),
    [
        ({"client-certificate-data": "%%%", "client-key-data": "%%%"}, {}, "client-certificate-data is not base64"),
        ({"client-certificate-data": "YQ==", "client-key-data": "YQ=="}, {}, "a certificate or key in it cannot be used"),
        ({"client-certificate": "none.crt", "client-key": "none.key"}, {}, "none.crt"),
        ({}, {"certificate-authority-data": "YQ=="}, "a certificate or key in it cannot be used"),
        ({}, {"server": "ftp://x"}, 'server "ftp://x" is not an http(s) URL'),
    ],
)
def test_what_cannot_be_used_is_named(path: Path, user: dict[str, object], cluster: dict[str, object], what: str) -> None:
    rewrite(path, user, cluster)
    with pytest.raises(CredentialsError) as error:
        read(path)
    assert what in str(error.value)


def test_a_pods_service_account(pki: certs.Pki, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(pki.pair(certs.CLUSTER).certificate.read_bytes())
    (tmp_path / "token").write_text("pod-token\n")
    (tmp_path / "namespace").write_text("tensor-fusion-system")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = credentials.in_cluster(tmp_path, environ)
    assert (found.server, found.namespace, found.bearer()) == ("https://[fd00::1]:443", "tensor-fusion-system", "pod-token")


def test_outside_a_pod_there_is_no_service_account(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="not inside a cluster"):
        credentials.in_cluster(tmp_path, {})
