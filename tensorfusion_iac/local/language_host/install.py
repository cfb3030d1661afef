"""`pulumi install`: makes the virtual environment that a Pulumi.yaml names and installs what the project lists.

The commands are plain venv, pip and uv; their output goes to the user as it comes.
"""

import importlib.util
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tensorfusion_iac.local.language_host.errors import HostError
from tensorfusion_iac.local.language_host.interpreter import Interpreter, is_buildable


@dataclass(frozen=True)
class Step:
    """One command of an installation, run in `cwd`."""

    command: tuple[str, ...]
    cwd: Path


def steps(interpreter: Interpreter, folder: Path, environment: Mapping[str, str], is_plugin: bool) -> list[Step]:
    """The commands that bring what the program or plugin in `folder` needs: none where it lists nothing."""
    if interpreter.toolchain == "uv":
        return [Step((_uv(environment), "sync"), folder)]
    found = []
    if interpreter.virtualenv and not interpreter.python.is_file():
        found.append(Step((sys.executable, "-m", "venv", str(interpreter.virtualenv)), folder))
    wanted = []
    if (folder / "requirements.txt").is_file():
        wanted += ["-r", "requirements.txt"]
    if is_plugin and is_buildable(folder):
        wanted += ["."]
    if wanted:
        found.append(Step((*_installer(interpreter, environment), *wanted), folder))
    return found


def _installer(interpreter: Interpreter, environment: Mapping[str, str]) -> list[str]:
    """pip of that Python, which `python -m venv` brings; uv for the host's own Python where that has no pip."""
    own = interpreter.python == Path(sys.executable)
    if own and not importlib.util.find_spec("pip"):
        return [_uv(environment), "pip", "install", "--python", str(interpreter.python)]
    return [str(interpreter.python), "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off"]


def _uv(environment: Mapping[str, str]) -> str:
    found = shutil.which("uv", path=environment.get("PATH"))
    if not found:
        raise HostError("uv is needed to install the requirements and is not on PATH: install it (pip install uv)")
    return found
