"""Which Python runs a program or plugin, from the `runtime.options` of its Pulumi.yaml.

The option `virtualenv` decides where it is given. Without it: $PULUMI_PYTHON_CMD, else the active virtual environment,
else the host's own Python, which surely has pulumi. A plugin that lists requirements of its own gets its own `venv`, as
with the official host (research/pulumi.md §1).
"""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorfusion_iac.local.language_host.errors import HostError

_DEFAULT_VIRTUALENV = {"pip": None, "uv": ".venv"}
_TYPECHECKERS = ("mypy", "pyright")


@dataclass(frozen=True)
class Interpreter:
    """A Python to run programs with, and the virtual environment that must be there for it, if any."""

    python: Path
    virtualenv: Path | None
    toolchain: str
    typechecker: str | None

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The variables that make programs started by the program see the same virtual environment."""
        if not self.virtualenv:
            return dict(inherited)
        rest = {name: value for name, value in inherited.items() if name != "PYTHONHOME"}
        path = os.pathsep.join([str(self.virtualenv / "bin"), inherited.get("PATH", os.defpath)])
        return {**rest, "VIRTUAL_ENV": str(self.virtualenv), "PATH": path}

    def version(self) -> str:
        """Its version, as in `3.12.1`."""
        self.check()
        run = subprocess.run([self.python, "--version"], capture_output=True, text=True, check=False)
        return run.stdout.strip().removeprefix("Python ")

    def check(self) -> None:
        """HostError where the Python is not there."""
        if self.python.is_file():
            return
        if self.virtualenv and self.virtualenv.exists():
            raise HostError(f"{self.virtualenv} is no virtual environment: it has no bin/python")
        if self.virtualenv:
            raise HostError(f"there is no virtual environment at {self.virtualenv}: `pulumi install` makes it")
        raise HostError(f"there is no Python at {self.python}")


def of_program(root: Path, options: Mapping[str, Any], environment: Mapping[str, str]) -> Interpreter:
    """The Python of a program or policy pack whose project file is in `root`."""
    return _of(root, options, environment, own_requirements=None)


def of_plugin(root: Path, options: Mapping[str, Any], environment: Mapping[str, str]) -> Interpreter:
    """The Python of a plugin whose PulumiPlugin.yaml is in `root`."""
    own = (root / "requirements.txt").is_file() or is_buildable(root)
    return _of(root, options, environment, own_requirements="venv" if own else None)


def is_buildable(folder: Path) -> bool:
    """Whether the folder is a Python package that pip can install: its pyproject.toml has a [build-system]."""
    return "build-system" in pyproject(folder)


def pyproject(folder: Path) -> dict[str, Any]:
    """The folder's pyproject.toml, empty where there is none."""
    try:
        return tomllib.loads((folder / "pyproject.toml").read_text())
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise HostError(f"{folder / 'pyproject.toml'}: {error}") from None


def _of(root: Path, options: Mapping[str, Any], environment: Mapping[str, str], own_requirements: str | None) -> Interpreter:
    toolchain = options.get("toolchain") or "pip"
    typechecker = options.get("typechecker")
    problems = []
    if toolchain not in _DEFAULT_VIRTUALENV:
        problems.append(f"toolchain: {toolchain!r} is not supported by this language host, accepted are pip and uv")
    if typechecker and typechecker not in _TYPECHECKERS:
        problems.append(f"typechecker: {typechecker!r} is unknown, accepted are {' and '.join(_TYPECHECKERS)}")
    if problems:
        raise HostError(f"{root}: runtime.options: " + "; ".join(problems))
    virtualenv = options.get("virtualenv") or _DEFAULT_VIRTUALENV[toolchain] or own_requirements
    if virtualenv:
        folder = (root / Path(virtualenv).expanduser()).absolute()
        return Interpreter(folder / "bin" / "python", folder, toolchain, typechecker)
    return Interpreter(_default_python(environment), None, toolchain, typechecker)


def _default_python(environment: Mapping[str, str]) -> Path:
    if command := environment.get("PULUMI_PYTHON_CMD"):
        found = shutil.which(command, path=environment.get("PATH"))
        if not found:
            raise HostError(f"PULUMI_PYTHON_CMD is {command!r}, which is no program on PATH")
        return Path(found)
    if active := environment.get("VIRTUAL_ENV"):
        python = Path(active) / "bin" / "python"
        if python.is_file():
            return python
    return Path(sys.executable)
