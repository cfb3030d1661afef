"""Where a program is taken from, and which copies are passed over, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from toolchain_recipes import places, printing, program, recipes_folder

from tensorfusion_iac.local.toolchain import Found, Places, link, locate
from tensorfusion_iac.local.toolchain.lookup import search
from tensorfusion_iac.local.toolchain.recipe import Recipes, load


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return load(recipes_folder(tmp_path / "tools"))


@pytest.mark.parametrize(
    ("there", "origin"),
    [
        (["PATH", "KUBEBUILDER_ASSETS", "cache"], "PATH"),
        (["KUBEBUILDER_ASSETS", "cache"], "KUBEBUILDER_ASSETS"),
        (["cache"], "cache"),
        ([], None),
    ],
)
def test_path_comes_before_the_assets_before_the_cache(
    tmp_path: Path, recipes: Recipes, there: list[str], origin: str | None
) -> None:
    where = places(tmp_path / "cache", path=f"/nonexistent:{tmp_path / 'path'}", assets=tmp_path / "assets")
    copies = {
        "PATH": tmp_path / "path" / "hello",
        "KUBEBUILDER_ASSETS": tmp_path / "assets" / "hello",
        "cache": where.cache.executable(recipes.named("hello")),
    }
    for name in there:
        printing(copies[name], "1.4.0")
    expected = Found("hello", copies[origin], "1.4.0", origin) if origin else None
    assert locate("hello", places=where, recipes=recipes) == expected


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo hello v1.1.9", "is 1.1.9, needed is >= 1.2, < 2"),
        ("echo hello v2.0.0", "is 2.0.0, needed is >= 1.2, < 2"),
        ("echo 'hello'", "does not tell its version, needed is >= 1.2, < 2"),
        ("echo hello v1.4.0; exit 1", "does not tell its version, needed is >= 1.2, < 2"),
    ],
)
def test_an_unusable_copy_is_passed_over_for_the_next(tmp_path: Path, recipes: Recipes, script: str, reason: str) -> None:
    unusable = program(tmp_path / "first" / "hello", script)
    usable = printing(tmp_path / "second" / "hello", "1.3.0")
    where = places(tmp_path / "cache", path=f"{unusable.parent}:{usable.parent}")
    outcome = search(recipes.named("hello"), recipes, where)
    assert outcome.found == Found("hello", usable, "1.3.0", "PATH")
    assert outcome.passed_over == (f"{unusable} (PATH) {reason}",)


def test_a_file_for_another_machine_is_passed_over(tmp_path: Path, recipes: Recipes) -> None:
    broken = tmp_path / "hello"
    broken.write_bytes(b"\x7fELF garbage")
    broken.chmod(0o755)
    outcome = search(recipes.named("hello"), recipes, places(tmp_path / "cache", path=str(tmp_path)))
    assert outcome.found is None
    assert "does not tell its version" in outcome.passed_over[0]


def test_a_file_that_may_not_be_run_is_no_program(tmp_path: Path, recipes: Recipes) -> None:
    printing(tmp_path / "hello", "1.4.0").chmod(0o644)
    assert search(recipes.named("hello"), recipes, places(tmp_path / "cache", path=str(tmp_path))).passed_over == ()


def test_a_program_that_has_no_version_flag_is_taken_from_the_cache_only(tmp_path: Path, recipes: Recipes) -> None:
    printing(tmp_path / "bin" / "mute", "1.0.0")
    where = places(tmp_path / "cache", path=str(tmp_path / "bin"))
    assert locate("mute", places=where, recipes=recipes) is None
    cached = printing(where.cache.executable(recipes.named("mute")), "1.0.0")
    assert locate("mute", places=where, recipes=recipes) == Found("mute", cached, "1.0.0", "cache")


def test_a_folder_that_link_filled_is_not_searched(tmp_path: Path, recipes: Recipes) -> None:
    source = printing(tmp_path / "source" / "hello", "1.4.0")
    link(tmp_path / "bin", {"hello": source})
    assert locate("hello", places=places(tmp_path / "cache", path=str(tmp_path / "bin")), recipes=recipes) is None


@pytest.mark.parametrize(
    ("left", "right", "taken"),
    [("1.4.0", "1.4.9", True), ("1.4.0", "1.3.0", False), ("1.4.0", "1.1.0", False), ("1.4.0", None, False)],
)
def test_a_family_is_taken_from_outside_only_whole_and_in_one_minor_version(
    tmp_path: Path, recipes: Recipes, left: str, right: str | None, taken: bool
) -> None:
    printing(tmp_path / "bin" / "left", left)
    if right:
        printing(tmp_path / "bin" / "right", right)
    where = places(tmp_path / "cache", path=str(tmp_path / "bin"))
    outcome = search(recipes.named("left"), recipes, where)
    assert (outcome.found is not None) is taken
    if not taken:
        there = "is 1.3.0" if right == "1.3.0" else "is not there"
        assert outcome.passed_over == (
            f"{tmp_path / 'bin' / 'left'} (PATH) is 1.4.0 and right {there}: "
            "the programs of one pair must have one minor version",
        )


@pytest.mark.parametrize(
    ("environment", "root"),
    [
        ({"HOME": "/home/a"}, "/home/a/.cache/tensorfusion-iac/tools"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "/var/c"}, "/var/c/tensorfusion-iac/tools"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": ""}, "/home/a/.cache/tensorfusion-iac/tools"),
    ],
)
def test_the_cache_follows_the_xdg_rules(environment: dict[str, str], root: str) -> None:
    assert Places.of(environment).cache.root == Path(root)


def test_the_places_follow_the_environment() -> None:
    where = Places.of({"HOME": "/h", "PATH": "/a:/b", "KUBEBUILDER_ASSETS": "/assets"})
    assert (where.path, where.assets) == ("/a:/b", Path("/assets"))
