"""Changes the specification of a container about to be made, as NVIDIA's runtime does: `inject.py SPEC LIBRARY STATE LIBRARIES`.

A container that is to see cards (NVIDIA_VISIBLE_DEVICES) gets the simulated NVIDIA library and the cards' state. The seccomp
filter goes, since our runc is built without libseccomp. It is run for every container: it imports nothing of us.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

STATE_INSIDE = "/run/virtual-gpus/state"
_NONE = ("", "void", "none")


def changed(spec: dict[str, Any], library: str, state: str, libraries: str) -> dict[str, Any]:
    """The specification as it is to be (OCI runtime specification; it is changed in place)."""
    spec.get("linux", {}).pop("seccomp", None)
    environment = dict(entry.partition("=")[::2] for entry in spec.get("process", {}).get("env", ()))
    if environment.get("NVIDIA_VISIBLE_DEVICES", "") not in _NONE:
        spec.setdefault("mounts", []).extend(
            [
                _file(library, f"{libraries}/libnvidia-ml.so.1", "ro"),
                _file(state, STATE_INSIDE, "rw"),
            ]
        )
    return spec


def _file(source: str, destination: str, mode: str) -> dict[str, Any]:
    return {"destination": destination, "type": "bind", "source": source, "options": ["rbind", "nosuid", "nodev", mode]}


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(json.dumps(changed(json.loads(path.read_text()), *sys.argv[2:])))
