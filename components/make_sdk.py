"""Writes the Go and the TypeScript SDK of the components: `python components/make_sdk.py [FOLDER]`, by default into `sdk/`."""

import subprocess
import sys
from pathlib import Path

from shims.plugin import Plugin

from tensorfusion_iac.local.toolchain import ensure

DEFAULT = Path(__file__).resolve().parents[1] / "sdk"


def make_sdk(folder: Path) -> None:
    """Write `go/` and `nodejs/` in the folder. The generator is built first where it is not there yet."""
    generator = ensure(["tensorfusion-sdk"])["tensorfusion-sdk"]
    subprocess.run([generator, folder], input=(Plugin().schema or "").encode(), check=True)


if __name__ == "__main__":
    make_sdk(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT)
