"""Settings of all tests: how hypothesis looks for counter-examples.

No example is judged by how long it takes, since machines are shared. In CI the examples are the same in each run, so that a
change is judged by its own faults; elsewhere they are new each time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile("everywhere", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("ci", settings.get_profile("everywhere"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "everywhere")
