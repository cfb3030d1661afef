"""`python -m tensorfusion_iac.local.toolchain [NAME...]`: provides tools and prints their paths.

A name is a tool's or a group's (tools.toml); without any, all tools that belong to no group are provided.
"""

import sys

from tensorfusion_iac.local.toolchain import ToolError, ensure, to_stderr
from tensorfusion_iac.local.toolchain.recipe import load


def main(arguments: list[str]) -> int:
    """Progress goes to standard error, `name<TAB>path` lines to standard output. 0, or 1 when one can't be had."""
    try:
        recipes = load()
        paths = ensure(recipes.selected(arguments), recipes=recipes)
    except ToolError as error:
        to_stderr(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        to_stderr("interrupted: what is built so far is kept, and the next run goes on from there")
        return 130
    sys.stdout.writelines(f"{name}\t{path}\n" for name, path in paths.items())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
