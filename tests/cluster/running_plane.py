"""What tests do with a running control plane, and where its programs are."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

from tensorfusion_iac.api.crd import crd_yaml, crds
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.local import commands, leftovers
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.state import load_settings
from tensorfusion_iac.local.toolchain import locate

T = TypeVar("T")


@dataclass(frozen=True)
class ControlPlane:
    """A running control plane, with the administrator's access."""

    layout: Layout

    @property
    def kubeconfig(self) -> Path:
        return self.layout.kubeconfig

    def ask(self, use: Callable[[Client], Awaitable[T]]) -> T:
        """Run `use` with a client, from a test that isn't asynchronous: `plane.ask(lambda client: client.get(...))`."""

        async def run() -> T:
            async with await Client.from_kubeconfig(self.kubeconfig) as client:
                return await use(client)

        return asyncio.run(run())

    def agents_port(self) -> int:
        """Where the simulated agents serve their metrics."""
        settings = load_settings(self.layout.settings)
        assert settings is not None
        return settings.ports.simulated_agents

    @contextmanager
    def agents_paused(self) -> Iterator[None]:
        """The simulated agents do nothing for the length of the block: they make no partition, apply no limit, don't answer."""
        (agents,) = leftovers.find(self.layout.root, "simulated-agents")
        agents.process.suspend()
        try:
            yield
        finally:
            agents.process.resume()

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return what it prints; an exit code other than 0 fails the test with its message."""
        run = subprocess.run(
            [tool("kubectl"), "--kubeconfig", self.kubeconfig, *arguments],
            input=stdin, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert run.returncode == 0, f"kubectl {' '.join(arguments)}: {run.stderr}"
        return run.stdout

    def install_crds(self) -> None:
        """Ours, as they are now, whoever wrote them before; established when this returns."""
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=crd_yaml())
        names = [f"crd/{definition['metadata']['name']}" for definition in crds()]
        self.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)


@cache
def tool(name: str) -> Path:
    """The path of a program that `make tools` provides."""
    found = locate(name)
    if found is None:
        pytest.fail(f"{name} is missing: run `make tools` first", pytrace=False)
    return found.path


def tools() -> Mapping[str, Path]:
    return {name: tool(name) for name in commands.TOOLS}
