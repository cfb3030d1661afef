"""The SDKs that are generated from the plugin's schema: the examples of docs/languages.md compile against them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from make_sdk import make_sdk
from shims.declared import COMPONENTS

from tensorfusion_iac.local.toolchain import Places, to_stderr
from tensorfusion_iac.local.toolchain.golang import provide
from tensorfusion_iac.local.toolchain.recipe import load

pytestmark = pytest.mark.cluster

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs" / "languages.md"
NPM = Path(__file__).parent / "typescript"


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdk")
    make_sdk(folder)
    return folder


def example(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return str(found)


def run(command: list[str | Path], folder: Path, **environment: str) -> None:
    done = subprocess.run(
        ["nice", *command], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
        timeout=540,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_go_sdk_and_its_example_compile(sdk: Path, tmp_path: Path) -> None:
    recipes = load()
    recipe = recipes.named("tensorfusion-sdk")
    shutil.copytree(sdk / "go" / "tensorfusion", tmp_path / "tensorfusion")
    # The generator's own module pins the pulumi SDK, with all that it needs.
    required = (recipe.module / "go.mod").read_text()
    (tmp_path / "go.mod").write_text(re.sub(r"^module .*", "module example.com/pulumi-tensorfusion/sdk/go", required, flags=re.M))
    shutil.copy(recipe.module / "go.sum", tmp_path)
    (tmp_path / "example").mkdir()
    (tmp_path / "example" / "main.go").write_text(example("go"))
    places = Places.of(os.environ)
    with places.cache.locked(to_stderr, "providing Go"):
        go = provide(recipe.go, recipes.go_wheel, places, to_stderr)
    run([go, "build", "-trimpath", "-mod=readonly", "-buildvcs=false", "./..."], tmp_path, GOFLAGS="", GOWORK="off")
    for component in COMPONENTS:
        assert any(f"func New{component.__name__}(" in path.read_text() for path in (tmp_path / "tensorfusion").glob("*.go"))


WRONG = """
import { input } from "./tensorfusion/types";
// @ts-expect-error -- tsc fails where it finds nothing wrong with the next line
export const misspelled: input.VGPUArgs = { vramReqest: "4Gi" };
// @ts-expect-error
export const text: input.VGPUArgs = { gpuCount: "four" };
"""


def test_the_typescript_sdk_and_its_example_compile(sdk: Path, tmp_path: Path) -> None:
    modules = node_modules()
    shutil.copytree(sdk / "nodejs", tmp_path / "tensorfusion")
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "index.ts").write_text(example("typescript"))
    (tmp_path / "wrong.ts").write_text(WRONG)
    options = {"noEmit": True, "skipLibCheck": True}
    settings = {"extends": "./tensorfusion/tsconfig.json", "files": ["index.ts", "wrong.ts"], "compilerOptions": options}
    (tmp_path / "tsconfig.json").write_text(json.dumps(settings))
    run(["node", modules / "typescript" / "bin" / "tsc", "--project", "."], tmp_path)
    index = (tmp_path / "tensorfusion" / "index.ts").read_text()
    assert all(f"export {{ {component.__name__}Args }} from" in index for component in COMPONENTS)


def node_modules() -> Path:
    """TypeScript and Pulumi's types, as the lock file says, installed once into the user's cache."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("THE TYPESCRIPT SDK WAS NOT COMPILED: npm is not on PATH")
    lock = (NPM / "package-lock.json").read_bytes()
    cache = Places.of(os.environ).cache.root.parent / f"npm-{hashlib.sha256(lock).hexdigest()[:12]}"
    if not cache.is_dir():
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".npm-", dir=cache.parent) as folder:
            fresh = Path(folder) / "installed"
            shutil.copytree(NPM, fresh)
            run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], fresh)
            fresh.rename(cache)
    return cache / "node_modules"
