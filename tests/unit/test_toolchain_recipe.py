"""What tools.toml and the go.mod files say of each program, and what makes it be built again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from toolchain_recipes import TOOLS, recipes_folder

import tensorfusion_iac
from tensorfusion_iac.local.toolchain import ToolError
from tensorfusion_iac.local.toolchain.recipe import load, numbers

REPOSITORY = Path(tensorfusion_iac.__file__).parents[1]


def test_every_tool_of_the_project_has_a_recipe() -> None:
    assert load().selected([]) == [
        "pulumi",
        "pulumi-resource-kubernetes",
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kwok",
    ]


def test_what_only_a_real_node_needs_is_provided_where_it_is_asked_for() -> None:
    node = load().selected(["node"])
    assert {"kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2", "runc", "cni-ptp"} <= set(node)
    assert not set(node) & set(load().selected([]))
    assert load().selected(["kwok", "node"]) == ["kwok", *node]
    with pytest.raises(ToolError, match="'nod' is unknown"):
        load().selected(["nod"])


def test_what_only_other_languages_need_is_provided_where_it_is_asked_for() -> None:
    assert load().selected(["languages"]) == ["pulumi-language-yaml", "tensorfusion-sdk"]
    assert not {"pulumi-language-yaml", "tensorfusion-sdk"} & set(load().selected([]))


@pytest.mark.parametrize("name", list(load().tools))
def test_a_recipe_of_the_project_would_take_its_own_build(name: str) -> None:
    recipe = load().named(name)
    version = numbers(recipe.version)
    assert version is not None
    assert recipe.accepts(version)
    assert (recipe.module / "go.sum").stat().st_size > 0


@pytest.mark.parametrize(
    ("name", "module"),
    [("pulumi", "github.com/pulumi/pulumi/pkg/v3"), ("kubectl", "k8s.io/kubernetes"), ("etcd", "go.etcd.io/etcd/server/v3")],
)
def test_a_version_is_the_one_in_go_mod_and_is_stamped(name: str, module: str) -> None:
    recipe = load().named(name)
    assert f"{module} v{recipe.version}" in (recipe.module / "go.mod").read_text()
    for stamped in re.findall(r"ersion=v(\S+)", recipe.ldflags):
        assert stamped == recipe.version


def test_the_minor_version_is_stamped_beside_the_whole() -> None:
    recipe = load().named("kube-apiserver")
    _, minor, _ = recipe.version.split(".")
    assert f"gitMinor={minor}" in recipe.ldflags.split()[-1]


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("v3.276.0\n", (3, 276, 0)),
        ("Kubernetes v1.37.2\n", (1, 37, 2)),
        ("etcd Version: 3.7.3\nGit SHA: Not provided\nGo Version: go1.26.8\n", (3, 7, 3)),
        ("Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0\n", (1, 32, 4)),
        ("kwok version v0.8.0 go1.26.8 (linux/amd64)\n", (0, 8, 0)),
        ("v3.200.0-alpha.1\n", (3, 200, 0)),
        ("no digits here\n", None),
        ("", None),
    ],
)
def test_the_version_in_what_a_program_prints(printed: str, version: tuple[int, ...] | None) -> None:
    assert numbers(printed) == version


@pytest.mark.parametrize(
    ("version", "accepted"), [((1, 1, 9), False), ((1, 2), True), ((1, 2, 0), True), ((1, 99), True), ((2, 0, 0), False)]
)
def test_the_accepted_versions_are_a_half_open_range(tmp_path: Path, version: tuple[int, ...], accepted: bool) -> None:
    recipe = load(recipes_folder(tmp_path)).named("hello")
    assert recipe.accepts(version) is accepted
    assert recipe.accepted == ">= 1.2, < 2"


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("go/hello/main.go", "hello v", "good day v"),
        ("go/hello/go.mod", "go 1.26.0", "go 1.26.1"),
        ("go/hello/go.sum", "", "example.com/x v1.0.0 h1:abc=\n"),
        ("tools.toml", '"1.4.0"', '"1.4.1"'),
        ("tools.toml", "main.version={version}", "main.version=v{version}"),
    ],
)
def test_whatever_decides_the_program_changes_the_checksum(tmp_path: Path, file: str, old: str, new: str) -> None:
    folder = recipes_folder(tmp_path)
    before = load(folder).named("hello").checksum
    text = (folder / file).read_text()
    (folder / file).write_text(text.replace(old, new) if old else text + new)
    assert load(folder).named("hello").checksum != before


@pytest.mark.parametrize(("old", "new"), [("cpu-minutes = 0.1", "cpu-minutes = 3"), ('from = "1.2"', 'from = "1.3"')])
def test_what_only_messages_and_judgements_use_does_not_build_again(tmp_path: Path, old: str, new: str) -> None:
    folder = recipes_folder(tmp_path)
    before = load(folder).named("hello").checksum
    (folder / "tools.toml").write_text(TOOLS.replace(old, new))
    assert load(folder).named("hello").checksum == before


def test_an_unknown_tool_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ToolError, match=r"tool 'kubeadm' is unknown: accepted are pulumi, .*, kwok, "):
        load().named("kubeadm")


def test_a_version_that_go_mod_does_not_have_is_refused(tmp_path: Path) -> None:
    folder = recipes_folder(tmp_path)
    (folder / "tools.toml").write_text(TOOLS.replace('version = "1.4.0"', 'version-of = "example.com/gone"', 1))
    with pytest.raises(ToolError, match=r"tool hello: version-of names example\.com/gone"):
        load(folder)


def test_an_installed_package_brings_its_recipes(tmp_path: Path) -> None:
    package = tmp_path / "tensorfusion_iac"
    shutil.copytree(REPOSITORY / "tensorfusion_iac" / "local" / "toolchain", package / "local" / "toolchain")
    shutil.copytree(REPOSITORY / "tools", package / "local" / "_recipes")
    for folder in (package, package / "local"):
        (folder / "__init__.py").write_text("")
    program = "from tensorfusion_iac.local.toolchain.recipe import load; print(load().named('etcd').module)"
    run = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(run.stdout.strip()) == package / "local" / "_recipes" / "go" / "kubernetes"
