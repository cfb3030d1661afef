"""Container images without a registry: an OCI image layout as one tar archive, from layers that are tar files already.

Written for `ctr images import`, `docker load` or any tool that reads the layout (OCI image specification 1.1). Layers are not
compressed: they travel no further than to a container runtime on the same machine.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

_CONFIG = "application/vnd.oci.image.config.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_CHUNK_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Layer:
    """A tar file that is one layer; `digest` is `sha256:...` of the file."""

    path: Path
    digest: str

    @classmethod
    def of(cls, path: Path) -> Layer:
        """The layer in a tar file, which is read once."""
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
        return cls(path, f"sha256:{digest.hexdigest()}")


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its full name (`docker.io/owner/name:tag`, as runtimes store it), its layers from below, how it is run."""

    name: str
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...] = ()
    user: str = ""
    env: Mapping[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    )


def write_archive(images: Sequence[Image], path: Path) -> None:
    """Write images as one archive; a layer that several share is in it once."""
    with path.open("wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        there: set[str] = set()
        manifests = [_add_image(archive, image, there) for image in images]
        index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": manifests}
        _add_bytes(archive, "index.json", _encoded(index))
        _add_bytes(archive, "oci-layout", _encoded({"imageLayoutVersion": "1.0.0"}))


def _add_image(archive: tarfile.TarFile, image: Image, there: set[str]) -> dict[str, Any]:
    for layer in image.layers:
        if layer.digest not in there:
            there.add(layer.digest)
            with layer.path.open("rb") as content:
                _add(archive, _blob(layer.digest), content, layer.path.stat().st_size)
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "User": image.user,
            "Env": [f"{name}={value}" for name, value in image.env.items()],
            "Entrypoint": list(image.entrypoint),
            "Cmd": list(image.command),
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in image.layers]},
    }
    layers = [_descriptor(_LAYER, layer.digest, layer.path.stat().st_size) for layer in image.layers]
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _add_blob(archive, _CONFIG, config, there),
        "layers": layers,
    }
    tag = image.name.rpartition(":")[2]
    names = {"io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": tag}
    return {**_add_blob(archive, _MANIFEST, manifest, there), "annotations": names}


def _add_blob(archive: tarfile.TarFile, media_type: str, value: object, there: set[str]) -> dict[str, Any]:
    content = _encoded(value)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if digest not in there:
        there.add(digest)
        _add_bytes(archive, _blob(digest), content)
    return _descriptor(media_type, digest, len(content))


def _descriptor(media_type: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest, "size": size}


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _encoded(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    _add(archive, name, io.BytesIO(content), len(content))


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    archive.addfile(entry, content)


def write_layer(path: Path, entries: Iterable[tuple[str, Path | bytes | str]]) -> Layer:
    """Write a layer: pairs of a path in the image and a file to copy, content (bytes), or the target of a link (str).

    Files keep their time and whether they are executable; owner is root, and everybody may read: images run as any user.
    A path given twice is taken once. Folders above a path are made.
    """
    folders: set[str] = set()
    files: set[str] = set()
    with path.open("wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, source in entries:
            name = name.strip("/")
            if name in files:
                continue
            files.add(name)
            _add_folders(archive, name, folders)
            _add_entry(archive, name, source)
    return Layer.of(path)


def _add_folders(archive: tarfile.TarFile, name: str, there: set[str]) -> None:
    parts = name.split("/")[:-1]
    for end in range(1, len(parts) + 1):
        folder = "/".join(parts[:end])
        if folder not in there:
            there.add(folder)
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)


def _add_entry(archive: tarfile.TarFile, name: str, source: Path | bytes | str) -> None:
    entry = tarfile.TarInfo(name)
    if isinstance(source, str):
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, source, 0o777
        archive.addfile(entry)
    elif isinstance(source, bytes):
        entry.size, entry.mode = len(source), 0o755 if source.startswith(b"#!") else 0o644
        archive.addfile(entry, io.BytesIO(source))
    else:
        found = source.stat()
        entry.size, entry.mtime = found.st_size, int(found.st_mtime)
        entry.mode = 0o755 if found.st_mode & 0o100 else 0o644
        with source.open("rb") as content:
            archive.addfile(entry, content)
