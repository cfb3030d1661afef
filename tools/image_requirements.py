"""What the image's programs need, from pyproject.toml; `make lock` has uv resolve it into requirements-image.lock.

Pulumi is for the components alone, which no program imports (import-linter sees to it), and would double the image.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

EXTRAS = ("controller", "agent")
COMPONENTS_ONLY = ("pulumi", "pulumi-kubernetes")


def requirements(project: dict[str, object]) -> list[str]:
    """The lines, sorted, each once."""
    dependencies: list[str] = project["dependencies"]  # type: ignore[assignment]
    extras: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    wanted = {line for line in dependencies if not line.startswith(COMPONENTS_ONLY)}
    return sorted(wanted.union(*(extras[extra] for extra in EXTRAS)))


if __name__ == "__main__":
    loaded = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    sys.stdout.write("\n".join(requirements(loaded["project"])) + "\n")
