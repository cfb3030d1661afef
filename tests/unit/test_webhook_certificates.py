"""The webhook's certificates: what is issued works over TLS, and is renewed in the right order."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tensorfusion_iac.admission.authority import belong_together, names_of, new_authority, new_serving, validity
from tensorfusion_iac.admission.certificates import CertificateFiles, load_pair
from tensorfusion_iac.admission.rotation import Keys, Lives, advance, from_secret, to_secret

HOSTS = ("webhook.example.svc", "127.0.0.1")
NOW = datetime.now(UTC)
LIVES = Lives()


def begin() -> Keys:
    keys = advance(None, HOSTS, NOW, LIVES, trusted_everywhere=False)
    assert keys is not None
    return keys


def step(keys: Keys, after: timedelta, *, trusted: bool = False, hosts: tuple[str, ...] = HOSTS) -> Keys | None:
    return advance(keys, hosts, NOW + after, LIVES, trusted_everywhere=trusted)


def handshake(keys: Keys, bundle: str, name: str) -> None:
    """A client that trusts `bundle` connects to a server with the serving certificate. Raises ssl.SSLError."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_pair(server, keys.serving.certificate, keys.serving.key)
    connect(server, bundle, name)


def connect(server: ssl.SSLContext, bundle: str, name: str) -> str:
    """The certificate (PEM) that a client gets which trusts `bundle`. Raises ssl.SSLError."""
    client = ssl.create_default_context(cadata=bundle)
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with server.wrap_socket(ours, server_side=True) as wrapped:
                wrapped.recv(1)
        except OSError:
            pass
        finally:
            ours.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(theirs, server_hostname=name) as wrapped:
            wrapped.send(b"x")
            return ssl.DER_cert_to_PEM_cert(wrapped.getpeercert(binary_form=True) or b"")
    finally:
        theirs.close()
        thread.join()


@pytest.mark.parametrize("name", HOSTS)
def test_a_client_that_trusts_the_bundle_connects_by_every_name(name: str) -> None:
    keys = begin()
    handshake(keys, keys.bundle, name)


def test_a_client_that_trusts_another_authority_does_not() -> None:
    keys = begin()
    with pytest.raises(ssl.SSLError):
        handshake(keys, new_authority(NOW, LIVES.authority).certificate, HOSTS[0])


def test_an_authority_signs_for_nothing_beyond_its_own_end() -> None:
    authority = new_authority(NOW, timedelta(days=10))
    serving = new_serving(authority, HOSTS, NOW, timedelta(days=90))
    assert validity(serving.certificate)[1] <= validity(authority.certificate)[1]
    assert names_of(serving.certificate) == set(HOSTS)
    assert belong_together(serving)
    assert not belong_together(replace(serving, key=authority.key))


def test_nothing_is_done_while_all_is_fresh() -> None:
    assert step(begin(), timedelta(days=59)) is None


def test_a_serving_certificate_is_renewed_under_the_same_authority() -> None:
    keys = begin()
    renewed = step(keys, timedelta(days=61))
    assert renewed is not None
    assert renewed.bundle == keys.bundle
    assert renewed.serving != keys.serving
    assert renewed.mark != keys.mark


def test_a_serving_certificate_is_renewed_when_it_has_to_be_for_more_names() -> None:
    renewed = step(begin(), timedelta(0), hosts=(*HOSTS, "other.example"))
    assert renewed is not None
    assert "other.example" in names_of(renewed.serving.certificate)


def test_a_new_authority_is_trusted_before_it_is_used_and_the_old_one_for_a_day_after() -> None:
    keys = replace(begin(), wanted=True)
    published = step(keys, timedelta(0))
    assert published is not None
    assert published.serving == keys.serving
    assert keys.authority.certificate in published.bundle
    assert published.following is not None
    handshake(keys, published.bundle, HOSTS[0])
    # Neither before the API servers can have seen the bundle, nor before every replica has.
    assert step(published, LIVES.spread / 2, trusted=True) is None
    assert step(published, LIVES.spread * 2, trusted=False) is None
    switched = step(published, LIVES.spread, trusted=True)
    assert switched is not None
    assert switched.authority == published.following
    assert set(switched.bundle.split("-----BEGIN")) == set(published.bundle.split("-----BEGIN"))
    handshake(switched, published.bundle, HOSTS[0])
    assert step(switched, LIVES.spread + LIVES.farewell / 2) is None
    parted = step(switched, LIVES.spread + LIVES.farewell)
    assert parted is not None
    assert keys.authority.certificate not in parted.bundle
    handshake(parted, parted.bundle, HOSTS[0])


def test_an_authority_near_its_end_gets_a_follower_and_serving_goes_on_meanwhile() -> None:
    keys = begin()
    late = LIVES.authority - timedelta(days=300)
    serving = step(keys, late)  # it is long over, so it comes first
    assert serving is not None
    published = step(serving, late)
    assert published is not None
    assert published.following is not None
    renewed = step(published, late + timedelta(days=70), trusted=False)
    assert renewed is not None
    assert renewed.following == published.following
    assert renewed.serving != published.serving


def merged(keys: Keys) -> dict[str, object]:
    """The Secret after a merge patch: null members are gone."""
    secret = to_secret(keys)
    return {
        "metadata": {"annotations": {name: text for name, text in secret["metadata"]["annotations"].items() if text}},
        "data": {name: text for name, text in secret["data"].items() if text},
    }


def test_the_secret_is_read_as_it_was_written() -> None:
    keys = replace(begin(), wanted=True)
    published = step(keys, timedelta(0))
    assert published is not None
    switched = step(published, LIVES.spread, trusted=True)
    assert switched is not None
    for state in (keys, published, switched):
        assert from_secret(merged(state)) == state


@pytest.mark.parametrize("damage", ["ca.crt", "tls.key", "tls.crt"])
def test_a_damaged_secret_counts_as_none(damage: str) -> None:
    secret = merged(begin())
    data = secret["data"]
    assert isinstance(data, dict)
    for broken in ("", "!", "AAAA", data["ca.key"]):
        assert from_secret({**secret, "data": {**data, damage: broken}}) is None
    assert from_secret(None) is None
    assert from_secret({"data": None}) is None


def test_a_pair_that_does_not_fit_leaves_the_context_as_it_was() -> None:
    keys, other = begin(), begin()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_pair(context, keys.serving.certificate, keys.serving.key)
    for certificate, key in (
        (other.serving.certificate, keys.serving.key), (keys.serving.certificate, other.serving.key), ("", ""),
        (other.serving.certificate, ""), (other.serving.certificate, "nonsense"),
    ):  # fmt: skip
        with pytest.raises(ssl.SSLError):
            load_pair(context, certificate, key)
        assert connect(context, keys.bundle, HOSTS[0]) == keys.serving.certificate


def put(folder: Path, certificate: str, key: str) -> None:
    """Fill a folder as the kubelet fills the volume of a Secret: links through `..data`, which is swapped in one step."""
    version = folder / f"..{len(list(folder.iterdir()))}"
    version.mkdir()
    for name, text in (("tls.crt", certificate), ("tls.key", key)):
        (version / name).write_text(text)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)
    (folder / "..new").symlink_to(version.name)
    (folder / "..new").replace(folder / "..data")


def test_the_files_of_a_secret_are_loaded_again_when_it_is_swapped(tmp_path: Path) -> None:
    keys = begin()
    put(tmp_path, keys.serving.certificate, keys.serving.key)
    files = CertificateFiles(tmp_path)
    assert connect(files.context, keys.bundle, HOSTS[0]) == keys.serving.certificate
    assert files.expires_at == keys.expires_at.timestamp()
    renewed = new_serving(keys.authority, HOSTS, NOW, timedelta(days=200))
    put(tmp_path, renewed.certificate, renewed.key)
    files.load()
    assert connect(files.context, keys.bundle, HOSTS[0]) == renewed.certificate
    assert files.expires_at == validity(renewed.certificate)[1].timestamp()


@pytest.mark.parametrize("damage", ["no files", "another key", "no certificate", "bytes"])
def test_files_that_cannot_be_used_are_named_and_what_is_loaded_stays(tmp_path: Path, damage: str) -> None:
    keys = begin()
    put(tmp_path, keys.serving.certificate, keys.serving.key)
    files = CertificateFiles(tmp_path)
    put(tmp_path, "" if damage == "no certificate" else begin().serving.certificate, keys.serving.key)
    if damage == "no files":
        (tmp_path / "tls.crt").unlink()
    elif damage == "bytes":
        (tmp_path / "..data" / "tls.crt").write_bytes(b"\xff\xfe\x00")
    for load in (files.load, lambda: CertificateFiles(tmp_path)):
        with pytest.raises(OSError, match=re.escape(str(tmp_path))):
            load()
    assert connect(files.context, keys.bundle, HOSTS[0]) == keys.serving.certificate


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: it
clusters: [{name: it, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: it, user: {token: a}}]
contexts: [{name: it, context: {cluster: it, user: it}}]
"""


def test_a_folder_without_a_certificate_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    command = [sys.executable, "-m", "tensorfusion_iac.cli", "serve", "webhook", "--kubeconfig", str(tmp_path / "kubeconfig")]
    ended = subprocess.run([*command, "--tls", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert str(tmp_path / "tls.crt") in ended.stderr
    assert "Traceback" not in ended.stderr
