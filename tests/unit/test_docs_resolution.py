"""docs/concepts/resolution.md: what the page shows is what comes out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from tensorfusion_iac.api import GPUPool, Namespace, Owner, Resolution, WorkloadProfile, annotation_naming, render, resolve

PAGE = Path(__file__).parents[2] / "docs/concepts/resolution.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
PROFILE, POOL, POD, BROKEN = (yaml.safe_load(text) for kind, text in BLOCKS if kind == "yaml")


def shown(kind: str) -> str:
    (text,) = (text for found, text in BLOCKS if found == kind)
    return text


def decide(pod: Any) -> Resolution:
    return resolve(
        pod,
        owner=Owner("Deployment", "chat"),
        namespace=Namespace("ml", {}),
        profile=WorkloadProfile.model_validate(PROFILE),
        pools={"default-pool": GPUPool.model_validate(POOL)},
    )


def test_the_example_comes_to_what_is_shown() -> None:
    assert json.loads(decide(POD).resolved()) == json.loads(shown("json"))


def test_the_broken_example_is_answered_as_shown() -> None:
    resolution = decide(BROKEN)
    assert render("Pod chat", resolution.problems, annotation_naming) == shown("text").strip()
    assert [warning.field for warning in resolution.warnings] == ["tensor-fusion.ai/gpu-modell"]


def test_the_program_on_the_page_runs() -> None:
    given = {
        "pod": POD, "labels": {}, "profile": WorkloadProfile.model_validate(PROFILE), "pool": GPUPool.model_validate(POOL),
    }  # fmt: skip
    exec(compile(shown("python"), str(PAGE), "exec"), given)
    assert given["resolution"] == decide(POD)
