"""One embedded control plane for the whole test session: started at its first use, shared by xdist's workers, ended for sure.

It ends when the session does, and also when pytest is killed: its supervisor watches the process that owns it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi_project import Project
from real_node import RealNodePlane, install_platform, real_node_plane
from running_plane import ControlPlane, tools
from running_webhook import admitting

from tensorfusion_iac.local import control_plane as door
from tensorfusion_iac.local.layout import Layout

FOLDER = "control-plane"


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
    door.up(layout, door.Wish(), tools, lambda line: None, owner_pid=_owner_pid(pytestconfig))
    return ControlPlane(layout)


@pytest.fixture(scope="session")
def admission(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """A control plane with our CRDs, policies and the real webhook; a default pool, and one with images for remote use.

    It is not the session's, where other tests make pods that the policies would refuse.
    """
    layout = Layout.at(tmp_path_factory.mktemp("admission") / "plane")
    door.up(layout, door.Wish(), tools, lambda line: None, owner_pid=_owner_pid(pytestconfig))
    try:
        with admitting(ControlPlane(layout), tmp_path_factory.mktemp("webhook")):
            yield ControlPlane(layout)
    finally:
        door.purge(layout, lambda line: None)


@pytest.fixture(scope="session")
def real_node(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[RealNodePlane]:
    """The session's control plane with a real node; skips, with the reason, where there can be none."""
    with real_node_plane(tmp_path_factory.mktemp("real-node") / "plane", _owner_pid(pytestconfig)) as plane:
        yield plane


@pytest.fixture(scope="session")
def real_platform(real_node: RealNodePlane, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The whole platform as pods of the real node, with a default pool."""
    return install_platform(real_node, tmp_path_factory.mktemp("real-platform"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    factory = getattr(config, "_tmp_path_factory", None)
    if hasattr(config, "workerinput") or factory is None or getattr(factory, "_basetemp", None) is None:
        return  # a worker, or nothing ever asked for a temporary folder
    door.purge(Layout.at(factory.getbasetemp() / FOLDER), lambda line: None)
