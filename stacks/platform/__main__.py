"""The platform team's stack: custom resource definitions, a namespace and a pool. Its outputs are what workloads need."""

import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from quickstart import cluster, declare_platform

platform = declare_platform(cluster())
pulumi.export("pool", platform.pool)
pulumi.export("namespace", platform.namespace)
