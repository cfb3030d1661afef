"""Prometheus' own engine for tests: series in its notation, and what queries give of them (tools/go/prometheus)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tensorfusion_iac.local.toolchain import ensure

MINUTE_S = 60.0


@dataclass(frozen=True)
class Answer:
    """A query's error, if it is none; the labels that it selects by, of each metric; the labels it groups by; its samples."""

    error: str
    metrics: Mapping[str, Sequence[str]]
    groups: Sequence[str]
    samples: Sequence[Mapping[str, Any]]


@cache
def engine() -> Path:
    """The program, built at its first use."""
    return ensure(["promql"], lambda line: None)["promql"]


def ask(queries: Sequence[tuple[str, float]], series: Mapping[str, str] | None = None) -> list[Answer]:
    """Evaluate queries, each at a number of minutes. `series`: values a minute apart, `0+60x10` or `1 1 _`, by series."""
    lines = "".join(f"  {name} {values}\n" for name, values in (series or {"up": "1"}).items())
    request = {
        "load": f"load 1m\n{lines}",
        "queries": [{"expr": expr, "ats": minute * MINUTE_S} for expr, minute in queries],
    }
    run = subprocess.run([engine()], input=json.dumps(request), capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    return [
        Answer(found.get("error", ""), found["metrics"] or {}, found["groups"] or (), found["samples"] or ())
        for found in json.loads(run.stdout)
    ]
