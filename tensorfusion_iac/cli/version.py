"""`tensorfusion version`: which versions are at work, for bug reports."""

from __future__ import annotations

import platform
from importlib import metadata

import typer

from tensorfusion_iac.cli.output import Output, OutputOption, show

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_PACKAGES = ("tensorfusion-iac", "pulumi", "pulumi-kubernetes")


@app.command()
def version(output: OutputOption = Output.TEXT) -> None:
    """Show the versions of this package and of what it works with."""
    from tensorfusion_iac.api.names import API_VERSION

    found = {name: _version(name) for name in _PACKAGES} | {"python": platform.python_version(), "api": API_VERSION}
    show(output, found, "\n".join(f"{name} {value}" for name, value in found.items()))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
