"""Runs of the command line inside the test's own process, and the ways to look at what came out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from tensorfusion_iac.cli import app

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
FIXTURES = ROOT / "tests" / "fixtures"


def run(*words: str | Path, stdin: str | bytes | None = None) -> Result:
    """One command. An exception that is no ordinary end of the command fails the test."""
    result = CliRunner().invoke(app, [str(word) for word in words], input=stdin, prog_name="tensorfusion")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.output
    return result


def validated(*words: str | Path, stdin: str | bytes | None = None) -> tuple[int, dict[str, Any]]:
    """The exit code of `validate`, and its JSON."""
    result = run("validate", *words, "--output", "json", stdin=stdin)
    return result.exit_code, json.loads(result.stdout)


def fields(report: dict[str, Any], what: str = "problems") -> dict[str, list[str]]:
    """By the object's name, the fields of its problems (or warnings)."""
    return {item["name"]: [finding["field"] for finding in item[what]] for item in report["objects"]}


def findings(report: dict[str, Any], what: str = "problems") -> Iterator[dict[str, Any]]:
    """All problems (or warnings) of all objects."""
    for item in report["objects"]:
        yield from item[what]


def pod_with(annotations: dict[str, Any], *, enabled: Any = "true", **spec: Any) -> str:
    """A pod with one container and these annotations, as JSON."""
    labels = {} if enabled is None else {"tensor-fusion.ai/enabled": enabled}
    containers = [{"name": "main", "image": "registry.example/app:1"}]
    metadata = {"name": "pod", "labels": labels, "annotations": annotations}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}})
