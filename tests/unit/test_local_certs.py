"""The certificates of a control plane: who issues what, for whom, for how long, and what is kept."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tensorfusion_iac.local import certs

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def pki(tmp_path: Path) -> certs.Pki:
    return certs.ensure(tmp_path, NOW)


def load(pki: certs.Pki, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pki.pair(name).certificate.read_bytes())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_are_private(pki: certs.Pki) -> None:
    assert {path.stat().st_mode & 0o777 for path in pki.folder.iterdir()} == {0o600}


@pytest.mark.parametrize("leaf", certs.LEAVES, ids=lambda leaf: leaf.name)
def test_each_leaf_is_issued_by_its_authority_alone(pki: certs.Pki, leaf: certs.Leaf) -> None:
    certificate = load(pki, leaf.name)
    certificate.verify_directly_issued_by(load(pki, leaf.authority))
    other = certs.ETCD if leaf.authority == certs.CLUSTER else certs.CLUSTER
    with pytest.raises((ValueError, InvalidSignature)):
        certificate.verify_directly_issued_by(load(pki, other))


def test_the_administrator_is_of_the_masters_and_no_server(pki: certs.Pki) -> None:
    admin = load(pki, "admin")
    (organization,) = admin.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    usages = admin.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert organization.value == "system:masters"
    assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_the_api_server_answers_to_loopback_and_to_its_service(pki: certs.Pki) -> None:
    names = load(pki, "apiserver").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.IPAddress)) == {
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address(certs.SERVICE_ADDRESS),
    }
    assert {"localhost", "kubernetes.default.svc"} <= set(names.get_values_for_type(x509.DNSName))


def test_a_second_look_changes_nothing(pki: certs.Pki) -> None:
    before = contents(pki.folder)
    certs.ensure(pki.folder, NOW + timedelta(days=300))
    assert contents(pki.folder) == before


def test_leaves_near_their_end_are_issued_again_by_the_same_authority(pki: certs.Pki) -> None:
    before = contents(pki.folder)
    certs.ensure(pki.folder, NOW + timedelta(days=340))
    after = contents(pki.folder)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {f"{leaf.name}.{part}" for leaf in certs.LEAVES for part in ("crt", "key")}


def test_an_old_authority_is_replaced_with_all_that_it_issued(pki: certs.Pki) -> None:
    certs.ensure(pki.folder, NOW + timedelta(days=3640))
    load(pki, "admin").verify_directly_issued_by(load(pki, certs.CLUSTER))


@pytest.mark.parametrize("name", ["admin.crt", "admin.key", "cluster-ca.key", "etcd-ca.crt"])
def test_what_is_damaged_is_made_again(pki: certs.Pki, name: str) -> None:
    (pki.folder / name).write_bytes(b"-----BEGIN half")
    certs.ensure(pki.folder, NOW)
    for leaf in certs.LEAVES:
        load(pki, leaf.name).verify_directly_issued_by(load(pki, leaf.authority))


def test_a_key_of_another_certificate_is_noticed(pki: certs.Pki) -> None:
    pki.pair("admin").key.write_bytes(pki.pair("kwok").key.read_bytes())
    certs.ensure(pki.folder, NOW)
    assert pki.pair("admin").key.read_bytes() != pki.pair("kwok").key.read_bytes()


def test_a_server_certificate_for_other_hosts_is_issued_again(pki: certs.Pki) -> None:
    moved = tuple(
        certs.Leaf(leaf.name, leaf.authority, leaf.common_name, leaf.organization, (*leaf.hosts, "10.0.0.7"))
        if leaf.name == "apiserver"
        else leaf
        for leaf in certs.LEAVES
    )
    certs.ensure(pki.folder, NOW, moved)
    names = load(pki, "apiserver").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert ipaddress.ip_address("10.0.0.7") in names.get_values_for_type(x509.IPAddress)


def test_tokens_stay_valid_when_certificates_are_issued_again(pki: certs.Pki) -> None:
    before = pki.pair(certs.SERVICE_ACCOUNTS).key.read_bytes()
    certs.ensure(pki.folder, NOW + timedelta(days=3640))
    assert pki.pair(certs.SERVICE_ACCOUNTS).key.read_bytes() == before
