"""Settings of all tests: how hypothesis looks for counter-examples.

No example is judged by how long it takes, since machines are shared; and a law of what is admitted may draw many objects that
are not. In CI the examples are the same in each run, so that a
change is judged by its own faults; elsewhere they are new each time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW_OR_PICKY = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile("everywhere", deadline=None, suppress_health_check=_SLOW_OR_PICKY, print_blob=True)
settings.register_profile("ci", settings.get_profile("everywhere"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "everywhere")
