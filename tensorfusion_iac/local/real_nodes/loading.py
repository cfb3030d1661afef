"""Puts image archives into the containerd of a real node, through ctr: from inside at its start, from outside at any time."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tensorfusion_iac.local.errors import LocalError


def load_images(archive: Path, address: Path, tools: Mapping[str, Path]) -> None:
    """Put the images of an archive into a containerd. LocalError with ctr's message where that fails."""
    command = [tools["ctr"], "--address", address, "--namespace", "k8s.io", "images", "import", archive]
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise LocalError(f"the images in {archive} cannot be loaded: {run.stderr.strip()}")
