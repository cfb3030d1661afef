"""One embedded control plane for the whole test session: started at its first use, shared by xdist's workers, ended for sure.

It ends when the session does, and also when pytest is killed: its supervisor watches the process that owns it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.local import commands
from tensorfusion_iac.local import control_plane as control_plane_module
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.toolchain import locate

T = TypeVar("T")

FOLDER = "control-plane"


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

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return what it prints; an exit code other than 0 fails the test with its message."""
        run = subprocess.run(
            [tool("kubectl"), "--kubeconfig", self.kubeconfig, *arguments],
            input=stdin, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert run.returncode == 0, f"kubectl {' '.join(arguments)}: {run.stderr}"
        return run.stdout


def tool(name: str) -> Path:
    """The path of a program that `make tools` provides."""
    found = locate(name)
    if found is None:
        pytest.fail(f"{name} is missing: run `make tools` first", pytrace=False)
    return found.path


def tools() -> Mapping[str, Path]:
    return {name: tool(name) for name in commands.TOOLS}


def _owner_pid(config: pytest.Config) -> int:
    # xdist's workers are children of the process that the user started, and end before it.
    return os.getppid() if hasattr(config, "workerinput") else os.getpid()


def _folder(base: Path, config: pytest.Config) -> Path:
    return (base.parent if hasattr(config, "workerinput") else base) / FOLDER


@pytest.fixture(scope="session")
def control_plane_root(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """Where the session's control plane lies; the same for all workers."""
    return _folder(tmp_path_factory.getbasetemp(), pytestconfig)


@pytest.fixture(scope="session")
def control_plane(control_plane_root: Path, pytestconfig: pytest.Config) -> ControlPlane:
    """The session's control plane: with 3 simulated nodes, without our CRDs. `up` is a no-op for the second worker."""
    layout = Layout.at(control_plane_root)
    said: list[str] = []
    control_plane_module.up(layout, control_plane_module.Wish(), tools, said.append, owner_pid=_owner_pid(pytestconfig))
    return ControlPlane(layout)


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    factory = getattr(config, "_tmp_path_factory", None)
    if hasattr(config, "workerinput") or factory is None or getattr(factory, "_basetemp", None) is None:
        return  # a worker, or nothing ever asked for a temporary folder
    control_plane_module.purge(Layout.at(factory.getbasetemp() / FOLDER), lambda line: None)
