"""Settings of all tests: how hypothesis looks for counter-examples, and which files stay together if several workers run.

No example is judged by how long it takes, since machines are shared; and a law of what is admitted may draw many objects that
are not. In CI the examples are the same in each run, so that a change is judged by its own faults; elsewhere they are new.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

_SLOW_OR_PICKY = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile("everywhere", deadline=None, suppress_health_check=_SLOW_OR_PICKY, print_blob=True)
settings.register_profile("ci", settings.get_profile("everywhere"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "everywhere")

_TOGETHER = ("test_admission", "test_real_node", "test_platform_on_a_real_node")
"""How names of files begin that share what is slow to start: the first have the webhook's plane, the others a real node."""


class ByWhatTheyShare(LoadFileScheduling):
    """Under `--dist loadfile`, files that share a control plane go to the same worker, which starts it once."""

    def _split_scope(self, nodeid: str) -> str:
        name = nodeid.split("::", 1)[0].rpartition("/")[2]
        shared = next((index for index, start in enumerate(_TOGETHER) if name.startswith(start)), None)
        return super()._split_scope(nodeid) if shared is None else _TOGETHER[min(shared, 1)]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """xdist's hook; None leaves every other way of distributing as it is."""
    return ByWhatTheyShare(config, log) if config.getvalue("dist") == "loadfile" else None
