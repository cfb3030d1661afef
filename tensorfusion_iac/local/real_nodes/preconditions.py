"""What real nodes need of this machine, asked before anything is started; all that is missing is told at once."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.real_nodes.files import HIDDEN

_PROGRAMS = {"ip": "iproute2", "unshare": "util-linux", "mount": "util-linux", "ldd": "the C library's programs"}
"""Programs, and the packages that usually bring them."""


def missing() -> list[str]:
    """What is missing, a sentence each; empty: real nodes can be had."""
    found = [f"{name} is not on PATH: install {package}" for name, package in _PROGRAMS.items() if shutil.which(name) is None]
    if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        found.append("no C compiler (cc, gcc or clang) is on PATH: install one")
    if os.geteuid() != 0:
        found.append("they need root: cgroups, mounts and links of their own")
    elif shutil.which("unshare") and (why := _no_namespaces()):
        found.append(f"this machine allows no namespaces: {why}")
    return found


def demand(root: Path) -> None:
    """LocalError with all that is missing for the control plane in the folder `root`."""
    hidden = next((folder for folder in HIDDEN if root.is_relative_to(folder)), None)
    wrong = [f"{root} is in {hidden}, of which nodes have their own: give another folder with --dir"] if hidden else []
    if found := missing() + wrong:
        raise LocalError("real nodes cannot be had here: " + "; ".join(found))


def _no_namespaces() -> str:
    run = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--cgroup", "--fork", "true"], capture_output=True, text=True, check=False
    )
    return run.stderr.strip() if run.returncode != 0 else ""
