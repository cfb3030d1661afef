"""A program from a Debian package, unpacked into the cache and not installed: for `nft`, which is no Go module.

apt chooses and downloads the package with what this machine lacks of its dependencies, as its own sources say. Where PATH has the
program, that one is taken.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from tensorfusion_iac.local.toolchain.errors import ToolError
from tensorfusion_iac.local.toolchain.lookup import Places
from tensorfusion_iac.local.toolchain.progress import Progress, to_stderr

_WRAPPER = """\
#!/bin/sh
LD_LIBRARY_PATH=$(echo {root}/usr/lib/*-linux-gnu*) exec {program} "$@"
"""


def provide(name: str, package: str, progress: Progress = to_stderr, *, places: Places | None = None) -> Path:
    """The path of the program `name`, which lies in usr/sbin or usr/bin of `package`. ToolError where it can't be had."""
    places = places or Places.of(os.environ)
    if found := shutil.which(name, path=places.path):
        return Path(found)
    folder = places.cache.root / f"debian-{package}"
    if not (folder / name).is_file():
        with places.cache.locked(progress, f"fetching {package}"), places.cache.placing(folder) as unfinished:
            progress(f"{name}: unpacking the Debian package {package} into {folder}")
            _unpack(package, unfinished)
            inside = next((path for path in ("usr/sbin", "usr/bin") if (unfinished / "root" / path / name).is_file()), None)
            if inside is None:
                raise ToolError(f"the Debian package {package} holds no {name}")
            root = folder / "root"
            text = _WRAPPER.format(root=shlex.quote(str(root)), program=shlex.quote(str(root / inside / name)))
            (unfinished / name).write_text(text)
            (unfinished / name).chmod(0o755)
    return folder / name


def _unpack(package: str, folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise ToolError(f"{package} is not installed, and there is no apt to fetch it with: install it")
    archives = folder / "archives"
    (archives / "partial").mkdir(parents=True)
    options = ["--yes", "--quiet", "--download-only", "--no-install-recommends", "-o", f"Dir::Cache::archives={archives}"]
    run = _apt("install", *options, package)
    if run.returncode != 0:
        _apt("update", "--quiet")  # a fresh machine has no lists of packages
        run = _apt("install", *options, package)
    if run.returncode != 0:
        raise ToolError(f"apt-get can't fetch {package}; install it by hand:\n{run.stderr.strip()[-1000:]}")
    for archive in sorted(archives.glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", archive, folder / "root"], check=True, capture_output=True)
    shutil.rmtree(archives)


def _apt(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(
        ["apt-get", *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
