"""Compiles the C programs of the simulated cards: the library, the card at work, the virtual job, and a pod's pause."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tensorfusion_iac.local.errors import LocalError

HERE = Path(__file__).resolve().parent


class NoCompilerError(LocalError):
    """There is no C compiler on this machine."""


def build(folder: Path) -> Path:
    """Compile the programs into `folder`: `new/` and `old/` hold the library of drivers with and without memory limits."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoCompilerError("no cc, gcc or clang on PATH: the simulated cards cannot be built")
    library = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"]
    jobs: tuple[tuple[str, str, Sequence[str]], ...] = (
        ("new/libnvidia-ml.so.1", "nvml.c", library),
        ("old/libnvidia-ml.so.1", "nvml.c", [*library, "-DWITHOUT_MEMORY_LIMITS"]),
        ("card", "card.c", []),
        ("job", "job.c", []),
        ("pause", "pause.c", []),
    )
    for target, source, options in jobs:
        path = folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        command = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", *options, "-o", str(path), str(HERE / source)]
        subprocess.run(command, check=True, timeout=120)
    return folder
