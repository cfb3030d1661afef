"""Where a program is to be had without building it: on PATH, else in KUBEBUILDER_ASSETS, else in the cache.

A copy found outside the cache is judged by the version that it prints (tools.toml says which do). The three programs of
the control plane are taken from outside only together and in one minor version: a scheduler or controller manager newer
than its API server waits for APIs that are not served (Kubernetes' version skew policy).
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tensorfusion_iac.local.toolchain.cache import Cache
from tensorfusion_iac.local.toolchain.recipe import Numbers, Recipe, Recipes, numbers

MIRROR_MARK = ".tensorfusion-tools"
"""Marks a folder that `link` filled: it only mirrors what was found elsewhere, maybe long ago, so it isn't searched."""

VERSION_TIMEOUT_S = 20


@dataclass(frozen=True)
class Places:
    """Where to look: the value of PATH, the folder that KUBEBUILDER_ASSETS names, and the cache."""

    path: str
    assets: Path | None
    cache: Cache

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Places":
        """The places that a process with this environment uses."""
        assets = environment.get("KUBEBUILDER_ASSETS")
        return cls(environment.get("PATH", os.defpath), Path(assets) if assets else None, Cache.of(environment))

    def outside(self, name: str) -> Iterator[tuple[str, Path]]:
        """Each executable called `name` outside the cache, with the word for its place, the preferred first."""
        folders = [("PATH", Path(entry)) for entry in self.path.split(os.pathsep) if entry]
        if self.assets:
            folders.append(("KUBEBUILDER_ASSETS", self.assets))
        for origin, folder in folders:
            executable = folder / name
            if is_executable(executable) and not (folder / MIRROR_MARK).exists():
                yield origin, executable.absolute()


@dataclass(frozen=True)
class Found:
    """A program that is there: `origin` is PATH, KUBEBUILDER_ASSETS or cache."""

    name: str
    path: Path
    version: str
    origin: str


@dataclass(frozen=True)
class Search:
    """The outcome of a look-up, and each copy that was passed over, as a sentence with the reason."""

    found: Found | None
    passed_over: tuple[str, ...] = field(default=())


def search(recipe: Recipe, recipes: Recipes, places: Places) -> Search:
    """Look for one program; it costs one short run of each copy that is judged."""
    passed_over: list[str] = []
    found = _first_usable(recipe, places, passed_over)
    if found and (objection := _family_objection(found, recipe, recipes, places)):
        passed_over.append(objection)
        found = None
    if not found and is_executable(cached := places.cache.executable(recipe)):
        found = Found(recipe.name, cached, recipe.version, "cache")
    return Search(found, tuple(passed_over))


def is_executable(path: Path) -> bool:
    """Whether the path is a file that may be run."""
    return path.is_file() and os.access(path, os.X_OK)


def _first_usable(recipe: Recipe, places: Places, passed_over: list[str]) -> Found | None:
    for origin, path in places.outside(recipe.name):
        version = _version_of(path, recipe)
        if version and recipe.accepts(version):
            return Found(recipe.name, path, ".".join(map(str, version)), origin)
        what = f"is {'.'.join(map(str, version))}" if version else "does not tell its version"
        passed_over.append(f"{path} ({origin}) {what}, needed is {recipe.accepted}")
    return None


def _family_objection(found: Found, recipe: Recipe, recipes: Recipes, places: Places) -> str | None:
    """Why `found` can't be taken although its own version does; None where it can."""
    minor = found.version.split(".")[:2]
    for other in recipes.family_of(recipe):
        relative = found if other is recipe else _first_usable(other, places, [])
        if not relative or relative.version.split(".")[:2] != minor:
            there = f"is {relative.version}" if relative else "is not there"
            return (
                f"{found.path} ({found.origin}) is {found.version} and {other.name} {there}: "
                f"the programs of one {recipe.family} must have one minor version"
            )
    return None


def _version_of(path: Path, recipe: Recipe) -> Numbers | None:
    if not recipe.version_args:
        return None
    try:
        run = subprocess.run(
            [path, *recipe.version_args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None  # not a program of this machine, or none that answers
    return numbers(run.stdout.decode(errors="replace")) if run.returncode == 0 else None
