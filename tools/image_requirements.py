"""What the image's programs need, from pyproject.toml; `make lock` has uv resolve it into requirements-image.lock.

Pulumi is for the components alone, which no program imports (import-linter sees to it), and would double the image.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorfusion_iac.local.images.python_root import EXTRAS, NOT_FOR_PROGRAMS


def requirements(project: Mapping[str, Any]) -> list[str]:
    """The lines, sorted, each once."""
    wanted = {line for line in project["dependencies"] if not line.startswith(tuple(NOT_FOR_PROGRAMS))}
    return sorted(wanted.union(*(project["optional-dependencies"][extra] for extra in EXTRAS)))


if __name__ == "__main__":
    loaded = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    sys.stdout.write("\n".join(requirements(loaded["project"])) + "\n")
