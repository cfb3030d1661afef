"""Which packages a program has, and which of them need a resource plugin of the pulumi command.

Only plugins that are there already are named: one that is missing is fetched by the engine when the program registers
its first resource. So an unused package never makes the command go to the network.
"""

import base64
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi.runtime.proto import plugin_pb2

from tensorfusion_iac.local.language_host import inventory
from tensorfusion_iac.local.language_host.errors import HostError
from tensorfusion_iac.local.language_host.interpreter import Interpreter


@dataclass(frozen=True)
class Package:
    """An installed distribution; `plugin` is the content of its pulumi-plugin.json."""

    name: str
    version: str
    required: bool
    plugin: Mapping[str, Any] | None


def installed(interpreter: Interpreter) -> list[Package]:
    """The distributions that this Python can import."""
    interpreter.check()
    run = subprocess.run([interpreter.python, inventory.__file__], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise HostError(f"{interpreter.python} can't list its packages: {run.stderr.strip()[-500:]}")
    return [Package(**entry) for entry in json.loads(run.stdout)]


def plugins(packages: list[Package], environment: Mapping[str, str]) -> Iterator[plugin_pb2.PackageDependency]:
    """The resource plugins that go with these packages and are installed, as the engine asks for them."""
    for package in packages:
        content = package.plugin or {}
        version = str(content.get("version") or package.version).removeprefix("v")
        name = str(content.get("name") or package.name.removeprefix("pulumi-"))
        if not content.get("resource") or not re.match(r"\d+\.\d+\.\d+", version):
            continue
        if not _is_installed(name, version, environment):
            continue
        dependency = plugin_pb2.PackageDependency(
            name=name, kind="resource", version=f"v{version}", server=content.get("server", "")
        )
        if parameterization := content.get("parameterization"):
            dependency.parameterization.name = parameterization["name"]
            dependency.parameterization.version = parameterization["version"]
            dependency.parameterization.value = base64.b64decode(parameterization["value"])
        yield dependency


def _is_installed(name: str, version: str, environment: Mapping[str, str]) -> bool:
    home = Path(environment.get("PULUMI_HOME") or Path.home() / ".pulumi")
    if (home / "plugins" / f"resource-{name}-v{version}").is_dir():
        return True
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    return any((Path(folder) / f"pulumi-resource-{name}").is_file() for folder in folders if folder)
