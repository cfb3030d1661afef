"""The image's recipe and its bill of materials: no root, a base by digest, nothing that is not pinned (R9; Part 6)."""

from __future__ import annotations

import importlib.util
import json
import re
import sysconfig
import tomllib
from fnmatch import fnmatch
from importlib.metadata import distribution, version
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tensorfusion_iac.components.platform.pods import USER
from tensorfusion_iac.local.images.python_root import needed_distributions

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements-image.lock").read_text()


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, with lines that go on joined."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def last_stage() -> list[tuple[str, str]]:
    made = instructions()
    return made[max(index for index, (word, _) in enumerate(made) if word == "FROM") :]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def locked() -> dict[str, str]:
    """Name and version of every line of the lock that holds for this interpreter."""
    lines = [line.removesuffix("\\").strip() for line in LOCK.splitlines() if "==" in line]
    found = [Requirement(line) for line in lines]
    return {
        canonicalize_name(item.name): str(item.specifier).removeprefix("==")
        for item in found
        if item.marker is None or item.marker.evaluate()
    }


def test_every_stage_is_from_a_base_by_digest() -> None:
    bases = [rest for word, rest in instructions() if word == "FROM"]
    assert bases
    assert all(re.match(r"\$\{BASE\}@\$\{BASE_DIGEST\}( AS \w+)?$", base) for base in bases)
    assert ("ARG", "BASE_DIGEST") in instructions()  # without a default: it has to be given


def test_the_programs_run_as_the_user_that_the_pods_say() -> None:
    stage = last_stage()
    assert [rest for word, rest in stage if word == "USER"] == [f"{USER}:{USER}"]
    assert [rest for word, rest in stage if word == "ENTRYPOINT"] == ['["tensorfusion"]']
    assert not [rest for word, rest in stage if word in ("RUN", "ADD", "VOLUME", "CMD")]


def test_only_what_is_copied_is_sent_to_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    copied = {source for word, rest in instructions() if word == "COPY" and "--from" not in rest for source in rest.split()[:-1]}
    assert kept == copied
    assert all((ROOT / name).exists() for name in kept)
    assert "*" in lines


def test_every_package_is_pinned_with_hashes() -> None:
    blocks = re.split(r"\n(?=\S)", LOCK.strip())
    assert len(blocks) > 20
    assert all("==" in block and "--hash=sha256:" in block for block in blocks)


def test_the_lock_has_all_that_the_programs_say_they_need_and_no_pulumi() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for line in script("image_requirements").requirements(project):
        wanted = Requirement(line)
        assert wanted.specifier.contains(locked()[canonicalize_name(wanted.name)]), line
    assert not [name for name in locked() if name.startswith("pulumi")]


def test_what_is_tried_on_a_real_node_is_what_the_image_is_made_of() -> None:
    tried = {canonicalize_name(found.name): found.version for found in needed_distributions()}
    tried.pop("tensorfusion-iac", None)
    assert {name: locked().get(name) for name in tried} == tried


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sbom")
    script("sbom").main(sysconfig.get_path("purelib"), str(folder))
    return folder


def test_the_bill_of_materials_names_every_distribution_with_its_version(written: Path) -> None:
    bill = json.loads((written / "sbom.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == "tensorfusion-iac"
    found = {item["name"]: item for item in bill["components"]}
    assert found["aiohttp"]["version"] == version("aiohttp")
    assert found["aiohttp"]["purl"] == f"pkg:pypi/aiohttp@{version('aiohttp')}"
    assert {canonicalize_name(name) for name in found} >= locked().keys()


def test_every_package_of_the_image_states_a_licence(written: Path) -> None:
    told = dict(line.split(": ", 1) for line in (written / "licences.txt").read_text().splitlines())
    stated = {canonicalize_name(name.rpartition(" ")[0]): text for name, text in told.items()}
    for name in locked():
        assert stated[name], name
    strong = [name for name in locked() if fnmatch(stated[name], "*GPL*") and "LGPL" not in stated[name]]
    assert strong == []


def test_a_licence_is_read_from_old_and_new_metadata() -> None:
    licence = script("sbom").licence
    assert licence(distribution("pydantic")) == "MIT"
    assert licence(distribution("cyclonedx-python-lib")) == "Apache Software License"
