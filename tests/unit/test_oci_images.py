"""Images made on this machine: the OCI layout that runtimes read, the layers, and what our programs' image holds."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tensorfusion_iac.local.images import python_root
from tensorfusion_iac.local.images.oci import Image, Layer, write_archive, write_layer


def members(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as archive:
        listed = archive.getmembers()
    assert len({member.name for member in listed}) == len(listed)
    return {member.name: member for member in listed}


def content(path: Path, name: str) -> bytes:
    with tarfile.open(path) as archive:
        file = archive.extractfile(name)
        assert file is not None
        return file.read()


@pytest.fixture
def layer(tmp_path: Path) -> Layer:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o700)
    return write_layer(
        tmp_path / "layer.tar",
        [("usr/bin/program", program), ("/usr/bin/other", "program"), ("etc/passwd", b"root"), ("run.sh", b"#!/bin/sh\n"),
         ("etc/passwd", b"taken once")],
    )  # fmt: skip


def test_a_layer_can_be_read_and_run_by_every_user(layer: Layer) -> None:
    found = members(layer.path)
    assert {name: (member.mode, member.uid, member.isdir()) for name, member in found.items()} == {
        "usr": (0o755, 0, True),
        "usr/bin": (0o755, 0, True),
        "usr/bin/program": (0o755, 0, False),
        "usr/bin/other": (0o777, 0, False),
        "etc": (0o755, 0, True),
        "etc/passwd": (0o644, 0, False),
        "run.sh": (0o755, 0, False),
    }
    assert found["usr/bin/other"].linkname == "program"
    assert content(layer.path, "etc/passwd") == b"root"


def test_the_digest_of_a_layer_is_that_of_its_file(layer: Layer) -> None:
    assert layer.digest == f"sha256:{hashlib.sha256(layer.path.read_bytes()).hexdigest()}"


def test_an_archive_holds_all_that_its_index_names_and_a_shared_layer_once(layer: Layer, tmp_path: Path) -> None:
    images = [
        Image("docker.io/library/a:1", (layer,), ("a",), ("x",), user="65532:65532"),
        Image("example.org/team/b:2.0", (layer,), ("/b",)),
    ]
    path = tmp_path / "images.tar"
    write_archive(images, path)
    names = members(path)
    assert json.loads(content(path, "oci-layout")) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads(content(path, "index.json"))

    def blob(descriptor: dict[str, Any]) -> bytes:
        found = content(path, f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}")
        assert f"sha256:{hashlib.sha256(found).hexdigest()}" == descriptor["digest"]
        assert len(found) == descriptor["size"]
        return found

    for image, descriptor in zip(images, index["manifests"], strict=True):
        assert descriptor["annotations"]["io.containerd.image.name"] == image.name
        manifest = json.loads(blob(descriptor))
        config = json.loads(blob(manifest["config"]))
        assert config["rootfs"]["diff_ids"] == [layer.digest]
        assert config["config"]["Entrypoint"] == list(image.entrypoint)
        assert config["config"]["User"] == image.user
        assert "members" not in config
        assert members_of(blob(manifest["layers"][0])) == set(members(layer.path))
    assert len([name for name in names if name.startswith("blobs/")]) == 1 + 2 * len(images)


def members_of(layer: bytes) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        return set(archive.getnames())


def test_the_image_has_what_the_programs_need_and_nothing_of_the_components() -> None:
    names = {found.metadata["Name"].lower().replace("_", "-") for found in python_root.needed_distributions()}
    assert {"aiohttp", "kubernetes-asyncio", "nvidia-ml-py", "numpy", "pydantic", "typer", "pyyaml"} <= names
    assert not {"pulumi", "pulumi-kubernetes", "grpcio", "pytest", "mypy"} & names


def test_our_package_comes_with_its_command_and_its_c_sources() -> None:
    entries = dict(python_root.own_package())
    assert b"from tensorfusion_iac.cli import main" in entries["usr/local/bin/tensorfusion"]  # type: ignore[operator]
    assert f"{python_root.PACKAGES}/tensorfusion_iac/cli/__main__.py" in entries
    assert f"{python_root.PACKAGES}/tensorfusion_iac/local/virtual_gpus/job.c" in entries


def test_the_libraries_of_a_program_come_with_the_loader(tmp_path: Path) -> None:
    entries = dict(python_root.with_libraries({"bin/sh": Path("/bin/sh")}))
    names = {Path(name).name for name in entries}
    assert any(name.startswith("libc.so") for name in names)
    assert any(name.startswith("ld-") for name in names)
