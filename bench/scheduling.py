"""The scheduler's figures of TARGETS.md: decisions over HTTP (P1, P2), a real cluster's drain (P3), and fill (P5).

P1 and P2 run the extender's own server in a process of its own, against a bare aiohttp handler that parses and answers the
same bodies. P3 starts etcd, kube-apiserver, kube-scheduler and KWOK; TENSORFUSION_P3=1000x1000 says how many nodes and pods,
0 leaves it out.
"""

from __future__ import annotations

import os
import statistics
import sys

from measure import Row, quick, report
from scheduling_decisions import decisions
from scheduling_drain import drain
from scheduling_fill import fill


def rows() -> list[Row]:
    """All rows; a short run has smaller clusters."""
    found = [*decisions(), *fill()]
    size = os.environ.get("TENSORFUSION_P3", "100x300" if quick() else "1000x2000")
    if size != "0":
        nodes, pods = map(int, size.split("x"))
        found += drain(nodes, pods)
    return found


if __name__ == "__main__":
    print(f"cores: {os.cpu_count()}, load: {statistics.fmean(os.getloadavg()):.1f}", file=sys.stderr)
    sys.exit(report(rows()))
