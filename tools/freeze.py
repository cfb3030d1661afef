"""Freezes what this version has put into clusters, so that every later one is tried against it: `make freeze`, before a tag.

Writes tests/upgrade/VERSION: the CRDs, and objects of every kind: the rows of tests/cases/resources.yaml that a server takes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from tensorfusion_iac._version import __version__
from tensorfusion_iac.api.crd import crd_yaml
from tensorfusion_iac.api.names import API_VERSION

TESTS = Path(__file__).parents[1] / "tests"


def objects() -> list[dict[str, Any]]:
    """The rows that are taken, each with a name of its own, in the form in which they are sent."""
    rows = yaml.safe_load((TESTS / "cases" / "resources.yaml").read_text("utf-8"))
    taken = [row for row in rows if "refused" not in row]
    made = []
    for number, row in enumerate(taken):
        members = row.get("object") or {"spec": row["spec"]}
        metadata = {**members.get("metadata", {}), "name": f"frozen-{number:03d}"}
        made.append({"apiVersion": API_VERSION, "kind": row["kind"], **members, "metadata": metadata})
    return [json.loads(json.dumps(_kept(item)), parse_float=_sent) for item in made]


def _kept(node: Any) -> Any:
    """What a server keeps: no null, and no status that a user wrote."""
    if isinstance(node, dict):
        return {name: _kept(below) for name, below in node.items() if below is not None and name != "status"}
    return [_kept(item) for item in node] if isinstance(node, list) else node


def _sent(text: str) -> int | float:
    """`10.0` in a YAML file is `10` in the JSON that kubectl and Pulumi make of it."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


if __name__ == "__main__":
    folder = TESTS / "upgrade" / __version__
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "crds.yaml").write_text(crd_yaml())
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects(), sort_keys=False, allow_unicode=True))
    sys.stdout.write(f"{folder.relative_to(TESTS.parent)}: {len(objects())} objects\n")
