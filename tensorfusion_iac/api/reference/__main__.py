"""`python -m tensorfusion_iac.api.reference [CHECKOUT]`: rewrite the generated files of a checkout (default: here)."""

from __future__ import annotations

import sys
from pathlib import Path

from tensorfusion_iac.api.reference import README, pages


def main(arguments: list[str]) -> int:
    """Write every page that differs, and name it. Returns the exit code."""
    root = Path(arguments[0] if arguments else ".")
    readme = root / README
    if not (root / "pyproject.toml").is_file() or not readme.is_file():
        sys.stderr.write(f"error: {root.resolve()} is not a checkout of tensorfusion-iac; run this there, or name it\n")
        return 2
    for path, text in pages(readme.read_text("utf-8")).items():
        page = root / path
        if not page.is_file() or page.read_text("utf-8") != text:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, "utf-8")
            sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
