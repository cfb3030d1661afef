"""A project's own folder of programs, e.g. `.local/bin`: with it on PATH, a plain `pulumi up` finds all that it needs.

The pulumi command warns about a language host that does not lie beside the real `pulumi`, links followed
(research/pulumi.md §5). So where the host is not the official one, the folder holds `pulumi` itself, as a hard link or
a copy, with our host beside it, and so are the hosts of other languages; every other program is a symbolic link.
"""

import filecmp
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tensorfusion_iac.local.toolchain.errors import ToolError
from tensorfusion_iac.local.toolchain.lookup import MIRROR_MARK, is_executable

LANGUAGE_HOST = "pulumi-language-python"
DYNAMIC_PROVIDER = "pulumi-resource-pulumi-python"

# Both begin alike: they look for a Python that has this package, and say what to do where there is none.
_FIND_PYTHON = """\
#!/bin/sh
# Written by tensorfusion-iac (toolchain/bin_dir.py); `tensorfusion local up` writes it again.
{purpose}
has_host() {{
    [ -x "$1" ] && "$1" -P -c 'import sys
from importlib.util import find_spec
sys.exit(find_spec("pulumi") is None or find_spec("tensorfusion_iac.local.language_host") is None)' 2>/dev/null
}}
python=
for candidate in {python} "${{VIRTUAL_ENV:-/nowhere}}/bin/python" "$(command -v python3)"; do
    if has_host "$candidate"; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
    echo "error: no Python with tensorfusion-iac and pulumi: not "{python}", for which this was made, not in the active" \\
        "virtual environment, not python3 on PATH. Set the project up again (make setup, then tensorfusion local up)," \\
        "or activate an environment that has them." >&2
    exit 1
fi
"""

_LANGUAGE_HOST = """\
exec "$python" -P -m tensorfusion_iac.local.language_host "$@"
"""

_DYNAMIC_PROVIDER = """\
case "${PULUMI_RUNTIME_VIRTUALENV:-}" in
    "") ;;
    /*) python=$PULUMI_RUNTIME_VIRTUALENV/bin/python ;;
    *) python=$PWD/$PULUMI_RUNTIME_VIRTUALENV/bin/python ;;
esac
exec "$python" -u -m pulumi.dynamic "$@"
"""


def link(bin_dir: Path, tools: Mapping[str, Path], *, path: str | None = None, python: Path = Path(sys.executable)) -> None:
    """Fill `bin_dir` with the tools (from `ensure`), and with a Python language host where `pulumi` is among them.

    `path` is where an official host is looked for (PATH, if not given); `python` runs our own. A second call changes
    only what is no longer right. ToolError where the folder can't be written.
    """
    try:
        bin_dir.mkdir(parents=True, exist_ok=True)
        (bin_dir / MIRROR_MARK).touch()
        for name, target in tools.items():
            if name.startswith("pulumi-language-"):  # it looks for the Python host beside itself, for plugins in Python
                _same_file(bin_dir / name, target.resolve())
            elif name != "pulumi":
                _symlink(bin_dir / name, target)
        if "pulumi" in tools:
            _link_pulumi(bin_dir, tools["pulumi"], os.environ.get("PATH", os.defpath) if path is None else path, python)
    except OSError as error:
        raise ToolError(f"the folder of programs {bin_dir} can't be filled: {error.strerror or error}") from error


def install_provider(pulumi: Path, provider: Path, version: str, pulumi_home: Path) -> None:
    """Install the Kubernetes provider, the file `provider`, into a PULUMI_HOME, where the engine looks for it.

    On PATH it would do for `up` only, and with a warning. Does nothing where that very file is installed.
    """
    installed = pulumi_home / "plugins" / f"resource-kubernetes-v{version}" / "pulumi-resource-kubernetes"
    if installed.is_file() and filecmp.cmp(installed, provider, shallow=True):
        return
    pulumi_home.mkdir(parents=True, exist_ok=True)
    what = ["resource", "kubernetes", version, "--file", str(provider), "--reinstall"]
    run = subprocess.run(
        [pulumi, "plugin", "install", *what],
        env={**os.environ, "PULUMI_HOME": str(pulumi_home), "PULUMI_SKIP_UPDATE_CHECK": "true"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0 or not installed.is_file():
        raise ToolError(
            f"the Kubernetes provider {version} could not be installed into {pulumi_home} "
            f"(pulumi plugin install ended with {run.returncode}):\n{run.stderr.strip()[-2000:]}"
        )
    # The same times as the source: so the comparison above need not read 100 MB each time.
    times = provider.stat()
    os.utime(installed, ns=(times.st_atime_ns, times.st_mtime_ns))


def official_host(path: str) -> Path | None:
    """The Python language host of the official Pulumi distribution on this PATH."""
    for folder in path.split(os.pathsep):
        candidate = Path(folder) / LANGUAGE_HOST
        if folder and is_executable(candidate) and not (candidate.parent / MIRROR_MARK).exists():
            return candidate.absolute()
    return None


def _link_pulumi(bin_dir: Path, pulumi: Path, path: str, python: Path) -> None:
    official = official_host(path)
    if official and official.resolve().parent == pulumi.resolve().parent:
        _symlink(bin_dir / "pulumi", pulumi)
    else:
        _same_file(bin_dir / "pulumi", pulumi.resolve())
    if official:
        _symlink(bin_dir / LANGUAGE_HOST, official)
        (bin_dir / DYNAMIC_PROVIDER).unlink(missing_ok=True)
        return
    quoted = shlex.quote(str(python))
    for name, purpose, rest in (
        (LANGUAGE_HOST, "# Runs Python programs for the pulumi command.", _LANGUAGE_HOST),
        (DYNAMIC_PROVIDER, "# Runs the dynamic providers of Python programs.", _DYNAMIC_PROVIDER),
    ):
        _script(bin_dir / name, _FIND_PYTHON.format(purpose=purpose, python=quoted) + rest)


def _symlink(link_path: Path, target: Path) -> None:
    if link_path.is_symlink() and link_path.readlink() == target:
        return
    with _replacing(link_path) as fresh:
        fresh.symlink_to(target)


def _same_file(path: Path, source: Path) -> None:
    if not path.is_symlink() and path.is_file() and filecmp.cmp(path, source, shallow=True):
        return
    with _replacing(path) as fresh:
        try:
            os.link(source, fresh)
        except OSError:  # another file system, or one without hard links
            shutil.copy2(source, fresh)


def _script(path: Path, text: str) -> None:
    if not path.is_symlink() and path.is_file() and path.read_text() == text:
        return
    with _replacing(path) as fresh:
        fresh.write_text(text)
        fresh.chmod(0o755)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Give a fresh path to make, which then takes the place of `path` at once: a running program goes on undisturbed."""
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
        fresh = Path(folder) / path.name
        yield fresh
        fresh.replace(path)
