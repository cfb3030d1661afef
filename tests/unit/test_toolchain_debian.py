"""A program of a Debian package: taken from PATH, else unpacked into the cache by apt and dpkg, without installing anything."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from toolchain_recipes import places, program

from tensorfusion_iac.local.toolchain import ToolError, debian

APT = """\
echo "$*" >> {folder}/calls
case "$*" in
    install*)
        [ -e {folder}/lists ] || {{ echo "E: Unable to locate package" >&2; exit 100; }}
        for word; do case $word in Dir::Cache::archives=*) touch "${{word#*=}}/nft_1.deb" ;; esac; done ;;
    update*) touch {folder}/lists ;;
esac
"""
DPKG = """\
mkdir -p "$3/usr/sbin" "$3/usr/lib/x86_64-linux-gnu"
printf '#!/bin/sh\\necho "$LD_LIBRARY_PATH $@"\\n' > "$3/usr/sbin/nft"
chmod +x "$3/usr/sbin/nft"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program(tmp_path / "bin" / "apt-get", APT.format(folder=tmp_path))
    program(tmp_path / "bin" / "dpkg-deb", DPKG)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path


def test_it_is_unpacked_with_its_libraries_and_only_once(folder: Path) -> None:
    where = places(folder / "cache", str(folder / "bin"))
    said: list[str] = []
    path = debian.provide("nft", "nftables", said.append, places=where)
    run = subprocess.run([path, "list", "ruleset"], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [f"{path.parent}/root/usr/lib/x86_64-linux-gnu", "list", "ruleset"]
    assert [line.split()[0] for line in (folder / "calls").read_text().splitlines()] == ["install", "update", "install"]
    assert debian.provide("nft", "nftables", said.append, places=where) == path
    assert len(said) == 1
    assert not list(path.parent.glob("archives"))


def test_one_on_path_is_taken(folder: Path) -> None:
    there = program(folder / "bin" / "nft", "true")
    assert debian.provide("nft", "nftables", places=places(folder / "cache", str(folder / "bin"))) == there


def test_a_package_without_it_and_a_machine_without_apt_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = places(folder / "cache", str(folder / "bin"))
    with pytest.raises(ToolError, match="holds no iptables"):
        debian.provide("iptables", "nftables", lambda line: None, places=where)
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(ToolError, match="nftables is not installed"):
        debian.provide("nft", "nftables", lambda line: None, places=where)
