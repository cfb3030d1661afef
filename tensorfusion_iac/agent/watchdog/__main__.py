"""`python -m tensorfusion_iac.agent.watchdog`: thaws every `tf-duty` while no living agent holds the lifeline.

It needs the host's cgroups and the lifeline's folder, nothing else: no API server, no driver, no packages. It thaws only
children of that name, which nobody but an agent makes, and goes on until it is ended.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from pathlib import Path

from tensorfusion_iac.agent import freezer
from tensorfusion_iac.agent.cgroups import MOUNT, Cgroups
from tensorfusion_iac.agent.lifeline import LIFELINE, is_alive

LOOK_S = 0.1
AGAIN_S = 1.0
"""Between two thaws while there is no agent; there is nobody who would freeze anything."""


def main() -> int:
    """Watch until SIGTERM."""
    parser = argparse.ArgumentParser(prog="tensorfusion-watchdog", description=__doc__)
    parser.add_argument("--lifeline", type=Path, default=LIFELINE)
    parser.add_argument("--cgroups", type=Path, default=MOUNT)
    options = parser.parse_args()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    signal.signal(signal.SIGINT, lambda *_: ended.set())
    sys.stdout.write("watching\n")
    sys.stdout.flush()
    thawed_s, was_alive = float("-inf"), True
    while not ended.wait(LOOK_S):
        alive, now_s = is_alive(options.lifeline, time.monotonic_ns()), time.monotonic()
        if not alive and (was_alive or now_s - thawed_s >= AGAIN_S):
            thawed, thawed_s = thaw_all(Cgroups(options.cgroups)), now_s
            if was_alive:
                sys.stderr.write(f"no living agent: {thawed} cgroups thawed\n")
        was_alive = alive
    return 0


def thaw_all(cgroups: Cgroups) -> int:
    """Thaw every child that an agent made. Returns how many there are."""
    count = 0
    for path, version in cgroups.duty_directories():
        freezer.thaw(path, version)
        count += 1
    return count


if __name__ == "__main__":
    sys.exit(main())
