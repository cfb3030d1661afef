"""The real library of this machine's driver. Without one these tests fail and say so; only `make test-gpu` asks for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tensorfusion_iac.agent.driver import DriverError
from tensorfusion_iac.agent.nvml import Nvml


@pytest.fixture(scope="session")
def driver() -> Iterator[Nvml]:
    """The agent's reader on the real library."""
    try:
        made = Nvml()
    except DriverError as error:
        pytest.fail(f"NO GPU HERE, so that nothing is tested: {error}", pytrace=False)
    yield made
    made.close()
