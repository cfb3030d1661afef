"""The simulated cards for the agent's tests: built once a session, one set of cards a test; no compiler fails them loudly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fakes" / "nvml"))

from fake_nvml import Fake, build


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
