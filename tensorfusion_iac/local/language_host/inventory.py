"""Run by path with the Python of a program: prints its installed distributions as JSON, with their pulumi-plugin.json.

Each entry is `{"name", "version", "required", "plugin"}`; `required` tells whether another distribution requires it.
Only the standard library, for that Python need not have this package.
"""

import json
import re
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any


def main() -> None:
    """Print the list to standard output."""
    found = {_normalised(d.metadata["Name"]): d for d in distributions() if d.metadata["Name"]}
    required = {
        _normalised(match[0])
        for distribution in found.values()
        for requirement in distribution.requires or []
        if "extra ==" not in requirement and (match := re.match(r"[A-Za-z0-9._-]+", requirement))
    }
    entries = [
        {"name": name, "version": d.version, "required": name in required, "plugin": _plugin(d)}
        for name, d in sorted(found.items())
    ]
    json.dump(entries, sys.stdout)


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _plugin(distribution: Distribution) -> Any:
    """The content of the distribution's pulumi-plugin.json; None where it has none that can be read."""
    for line in (distribution.read_text("RECORD") or "").splitlines():
        path = line.split(",")[0]
        if path.endswith("/pulumi-plugin.json"):
            try:
                return json.loads(Path(str(distribution.locate_file(path))).read_text())
            except (OSError, ValueError):
                return None
    return None


if __name__ == "__main__":
    main()
