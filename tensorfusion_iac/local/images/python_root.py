"""What of this machine makes a root file system with Python and our programs: the interpreter, the packages, their libraries.

Nothing is downloaded. The interpreter goes to /usr/local, where it finds its standard library by its own place; shared libraries
go where the dynamic loader looks without a cache. Of the packages, those that the programs need (pyproject.toml's extras).
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tensorfusion_iac.local.errors import LocalError

PROJECT = "tensorfusion-iac"
EXTRAS = ("agent", "controller")
"""Of the programs that run in a cluster."""

NOT_FOR_PROGRAMS = frozenset({"pulumi", "pulumi-kubernetes"})
"""Needed by the components alone: the programs never import them (pyproject.toml, import-linter)."""

Entry = tuple[str, Path | bytes | str]
"""A path in the image, and a file, content, or the target of a link: as `oci.write_layer` takes them."""

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
HOME = f"usr/local/lib/python{VERSION}"
PACKAGES = f"{HOME}/site-packages"

_LEFT_OUT = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data"}
)
_LEFT_OUT_OF_PACKAGES = frozenset({"tests", "test", "testing"})
_OWN_CACHE = f".cpython-{sys.version_info.major}{sys.version_info.minor}.pyc"
_LIBRARY = re.compile(r"^\s*(?:(?P<name>\S+) => )?(?P<path>/\S+) \(0x", re.MULTILINE)


def programs_root() -> Iterator[Entry]:
    """Everything but our own package: it changes seldom, and is large."""
    standard = Path(sysconfig.get_path("stdlib"))
    interpreter = Path(sys.executable).resolve()
    native = [interpreter]
    yield f"usr/local/bin/python{VERSION}", interpreter
    yield "usr/local/bin/python3", f"python{VERSION}"
    yield "usr/local/bin/python", "python3"
    for name, path in _tree(standard, HOME, _LEFT_OUT):
        native += [path] if path.suffix == ".so" else []
        yield name, path
    for found in needed_distributions():
        for name, path in _files(found):
            native += [path] if ".so" in path.suffixes else []
            yield name, path
    yield from _libraries(native)
    yield "etc/passwd", b"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
    yield "etc/group", b"root:x:0:\nnonroot:x:65532:\n"


def own_package() -> Iterator[Entry]:
    """Our package as it is now, and the command `tensorfusion`."""
    package = Path(__file__).resolve().parents[2]
    yield from _tree(package, f"{PACKAGES}/{package.name}", frozenset())
    found = distribution(PROJECT)
    metadata = f"{PACKAGES}/{PROJECT.replace('-', '_')}-{found.version}.dist-info"
    yield f"{metadata}/METADATA", (found.read_text("METADATA") or "").encode()
    yield f"{metadata}/entry_points.txt", (found.read_text("entry_points.txt") or "").encode()
    script = f"#!/usr/local/bin/python{VERSION}\nimport sys\nfrom tensorfusion_iac.cli import main\nsys.exit(main())\n"
    yield "usr/local/bin/tensorfusion", script.encode()


def with_libraries(programs: Mapping[str, Path]) -> Iterator[Entry]:
    """Programs (their paths in the image, and here) with the shared libraries that they load."""
    yield from programs.items()
    yield from _libraries(list(programs.values()))


def needed_distributions() -> list[Distribution]:
    """The installed packages that the programs need, sorted by name; LocalError names those that are not installed."""
    found: dict[str, Distribution] = {}
    missing: list[str] = []
    waiting = [
        requirement for requirement in _requirements(distribution(PROJECT), EXTRAS) if requirement.name not in NOT_FOR_PROGRAMS
    ]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            missing.append(requirement.name)
            continue
        waiting += _requirements(found[name], requirement.extras)
    if missing:
        raise LocalError(
            f"the image of our programs needs packages that are not installed: {', '.join(sorted(missing))}; "
            f"install {PROJECT}[{','.join(EXTRAS)}]"
        )
    return [found[name] for name in sorted(found)]


def _requirements(found: Distribution, extras: Iterable[str]) -> list[Requirement]:
    all_of_them = [Requirement(text) for text in found.requires or ()]
    environments = [{"extra": extra} for extra in ("", *extras)]
    return [
        requirement
        for requirement in all_of_them
        if requirement.marker is None or any(requirement.marker.evaluate(environment) for environment in environments)
    ]


def _files(found: Distribution) -> Iterator[tuple[str, Path]]:
    """The files of an installed package below site-packages; what it put elsewhere (scripts, data) is not needed."""
    for file in found.files or ():
        parts = file.parts
        if ".." in parts or file.is_absolute() or _LEFT_OUT_OF_PACKAGES & set(parts[:-1]):
            continue
        path = Path(str(file.locate()))
        if path.is_file() and (path.suffix != ".pyc" or path.name.endswith(_OWN_CACHE)):
            yield f"{PACKAGES}/{file}", path
        if path.suffix == ".py" and (cached := path.parent / "__pycache__" / f"{path.stem}{_OWN_CACHE}").is_file():
            yield f"{PACKAGES}/{Path(*parts[:-1])}/__pycache__/{cached.name}", cached


def _tree(folder: Path, name: str, left_out: frozenset[str]) -> Iterator[tuple[str, Path]]:
    """The files of a folder; those of `left_out` folders are not. Compiled modules only of this version of Python."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if left_out & set(inside.parts) or inside.parts[0].startswith("config-") or not path.is_file():
            continue
        if path.suffix == ".pyc" and not path.name.endswith(_OWN_CACHE):
            continue
        yield f"{name}/{inside}", path


def _libraries(native: Sequence[Path]) -> Iterator[Entry]:
    """The shared libraries that programs and modules load, and the dynamic loader itself."""
    run = subprocess.run(["ldd", *map(str, native)], capture_output=True, text=True, check=False)  # 1: one is static
    found = {Path(match["path"]) for match in _LIBRARY.finditer(run.stdout)}
    system = next((path.parent for path in sorted(found) if path.name.startswith("libc.so")), Path("/lib"))
    taken: set[str] = set()
    for path in sorted(found):
        if path.name.startswith("ld-linux"):
            yield str(path), path
        elif path.name not in taken and not any(part.endswith((".libs", "site-packages")) for part in path.parts):
            taken.add(path.name)
            yield f"{system}/{path.name}", path  # the loader looks there without being told


def root_key() -> str:
    """What decides `programs_root`, as text: a cached layer made for the same is still right."""
    packages = [f"{found.metadata['Name']}=={found.version}" for found in needed_distributions()]
    return "\n".join([sys.version, str(Path(sys.executable).resolve()), *packages])
