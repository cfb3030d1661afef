"""What earlier versions put into clusters is still taken (R8); `tests/upgrade` has it frozen, by version (tools/freeze.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tensorfusion_iac._version import __version__
from tensorfusion_iac.api.check import check_resource
from tensorfusion_iac.api.crd import crds
from tensorfusion_iac.api.resources import KINDS

UPGRADE = Path(__file__).parents[1] / "upgrade"
VERSIONS = sorted(path.name for path in UPGRADE.iterdir())


def frozen(version: str, name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((UPGRADE / version / name).read_text()))


def fields(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Path and type of every field of a schema."""
    yield path, str(schema.get("type", "any"))
    for name, below in schema.get("properties", {}).items():
        yield from fields(below, f"{path}.{name}")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")


def schemas(definition: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The schemas of a CRD's served versions."""
    return {item["name"]: item["schema"]["openAPIV3Schema"] for item in definition["spec"]["versions"] if item["served"]}


def test_this_version_is_frozen_with_an_object_of_every_kind() -> None:
    assert __version__ in VERSIONS, "run `make freeze`"
    kinds = {item["kind"] for item in frozen(__version__, "objects.yaml")}
    assert kinds == {model.KIND.kind for model in KINDS}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_of_an_earlier_version_is_still_valid(version: str) -> None:
    for item in frozen(version, "objects.yaml"):
        problems, _ = check_resource(item)
        assert problems == [], item


@pytest.mark.parametrize("version", VERSIONS)
def test_every_field_of_an_earlier_version_is_still_there_and_of_its_type(version: str) -> None:
    now = {definition["metadata"]["name"]: schemas(definition) for definition in crds()}
    for definition in frozen(version, "crds.yaml"):
        for served, schema in schemas(definition).items():
            name = definition["metadata"]["name"]
            lost = set(fields(schema)) - set(fields(now[name][served]))
            assert not lost, name
