"""What each program is and how it is built, read from `tools/tools.toml` and the go.mod files beside it.

A version is written once: in go.mod where the program's module is named there, else in its row. The checksum of a
recipe covers everything that decides what a build yields, so that a change of any of it builds anew (docs/tools.md).
"""

import hashlib
import platform
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorfusion_iac.local.toolchain.errors import ToolError

# Raise when build.py changes what it builds from one and the same recipe.
BUILDER_VERSION = 1

Numbers = tuple[int, ...]
"""A version as numbers, `(1, 37, 2)`: tuples compare as versions do."""


@dataclass(frozen=True)
class Recipe:
    """One program: what it is, which copies found elsewhere do, and how Go builds it."""

    name: str
    version: str
    module: Path
    """Folder with go.mod and go.sum."""
    package: str
    ldflags: str
    go: Numbers
    """The oldest Go that its go.mod allows."""
    version_args: tuple[str, ...]
    accept_from: Numbers
    accept_below: Numbers
    family: str | None
    group: str | None
    """Tools of a group are only provided where they, or their group, are asked for."""
    cpu_minutes: float
    checksum: str

    def accepts(self, version: Numbers) -> bool:
        """Whether a copy of this version, found outside the cache, does."""
        return self.accept_from <= version < self.accept_below

    @property
    def accepted(self) -> str:
        """The accepted versions, for a message."""
        return f">= {_dotted(self.accept_from)}, < {_dotted(self.accept_below)}"


@dataclass(frozen=True)
class Recipes:
    """All programs by name, in the order of tools.toml, and the PyPI requirement that brings Go itself."""

    tools: Mapping[str, Recipe]
    go_wheel: str

    def named(self, name: str) -> Recipe:
        """The recipe called `name`; ToolError names those that there are."""
        try:
            return self.tools[name]
        except KeyError:
            raise ToolError(f"tool {name!r} is unknown: accepted are {', '.join(self.tools)}") from None

    def selected(self, names: Sequence[str]) -> list[str]:
        """The tools that names of tools and of groups mean; without any, those that belong to no group. ToolError as above."""
        if not names:
            return [name for name, recipe in self.tools.items() if recipe.group is None]
        members = {name: [tool for tool, recipe in self.tools.items() if recipe.group == name] for name in names}
        return [tool for name in names for tool in members[name] or [self.named(name).name]]

    def family_of(self, recipe: Recipe) -> list[Recipe]:
        """The programs that must come from one place together with `recipe`: at least itself."""
        return [r for r in self.tools.values() if r is recipe or (r.family and r.family == recipe.family)]


def numbers(text: str) -> Numbers | None:
    """The first version in a program's output, e.g. `Kubernetes v1.37.2` -> (1, 37, 2); None where there is none."""
    match = re.search(r"\b[vV]?(\d+(?:\.\d+)+)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def load(folder: Path | None = None) -> Recipes:
    """Read tools.toml in `folder`: without one, that of the checkout, else the copy in the installed package."""
    folder = folder or _recipes_folder()
    table = tomllib.loads((folder / "tools.toml").read_text())
    tools = {name: _recipe(name, row, folder / "go" / row["module"]) for name, row in table["tool"].items()}
    return Recipes(tools=tools, go_wheel=table["go"]["wheel"])


def _recipes_folder() -> Path:
    package = Path(__file__).resolve().parents[2]
    for folder in (package.parent / "tools", package / "local" / "_recipes"):
        if (folder / "tools.toml").is_file():
            return folder
    raise ToolError(
        "the recipes of the tools (tools/tools.toml) are not in this installation of tensorfusion-iac: "
        "reinstall the package, or work in a checkout of the repository"
    )


def _recipe(name: str, row: Mapping[str, Any], module: Path) -> Recipe:
    go_mod = (module / "go.mod").read_text()
    version = row["version"] if "version" in row else _required_version(go_mod, row["version-of"], name)
    major, minor = version.split(".")[:2]
    stamps = [stamp.format(version=version, major=major, minor=minor) for stamp in row["stamps"]]
    return Recipe(
        name=name,
        version=version,
        module=module,
        package=row["package"],
        ldflags=" ".join(["-s", "-w", *(f"-X {stamp}" for stamp in stamps)]),
        go=_go_directive(go_mod, name),
        version_args=tuple(row["version-args"]),
        accept_from=_parsed(row["accept"]["from"]),
        accept_below=_parsed(row["accept"]["below"]),
        family=row.get("family"),
        group=row.get("group"),
        cpu_minutes=row["cpu-minutes"],
        checksum=_checksum(row, module),
    )


def _required_version(go_mod: str, module: str, name: str) -> str:
    match = re.search(rf"^(?:require)?\s+{re.escape(module)}\s+v(\S+)", go_mod, re.MULTILINE)
    if not match:
        raise ToolError(f"tools.toml: tool {name}: version-of names {module}, which its go.mod does not require")
    return match[1]


def _go_directive(go_mod: str, name: str) -> Numbers:
    match = re.search(r"^go (\d[\d.]*)", go_mod, re.MULTILINE)
    if not match:
        raise ToolError(f"tools.toml: tool {name}: its go.mod has no `go` line")
    return _parsed(match[1])


def _checksum(row: Mapping[str, Any], module: Path) -> str:
    """What decides the program: its row without what only messages and judgements use, sources, builder, platform."""
    building = {key: row.get(key) for key in ("package", "version", "version-of", "stamps")}
    digest = hashlib.sha256(repr((BUILDER_VERSION, sys.platform, platform.machine(), building)).encode())
    for path in sorted(p for p in module.iterdir() if p.name in ("go.mod", "go.sum") or p.suffix == ".go"):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _parsed(text: str) -> Numbers:
    return tuple(int(part) for part in text.split("."))


def _dotted(version: Numbers) -> str:
    return ".".join(map(str, version))
