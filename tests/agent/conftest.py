"""The simulated cards for the agent's tests: built once a session, one set of cards a test; no compiler fails them loudly.

`loaded` puts the fake library under the real pynvml of this process; programs that are started get it by LD_LIBRARY_PATH.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import cgroup_node as nodes
import pynvml
import pytest
from fake_nvml import Fake, build

from tensorfusion_iac.agent.nvml import Nvml


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled fakes. Without a compiler this raises, so that nothing here passes silently."""
    return build(tmp_path_factory.mktemp("fake-nvml"))


@pytest.fixture
def fake(built: Path, tmp_path: Path) -> Fake:
    """A node's cards under a driver with memory limits; the test adds them."""
    return Fake(built, tmp_path / "cards")


@pytest.fixture
def old_fake(built: Path, tmp_path: Path) -> Fake:
    """The same under a driver from before r615."""
    return Fake(built, tmp_path / "old-cards", old_driver=True)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Fake], Nvml]]:
    """Start the agent's reader on a fake's cards, in this process: `nvml = loaded(fake)`."""
    opened: list[Nvml] = []

    def load(fake: Fake) -> Nvml:
        monkeypatch.setenv("FAKE_NVML_STATE", str(fake.path))
        monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(fake.library)))
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        opened.append(Nvml())
        return opened[-1]

    yield load
    for nvml in opened:
        nvml.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[nodes.Node]:
    """Real cgroups for pods of this test."""
    with nodes.made(tmp_path / "cgroup") as made:
        yield made
