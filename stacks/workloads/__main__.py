"""The application team's stack: four workloads on the pool of another stack, found by a StackReference."""

import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from quickstart import Platform, cluster, declare_workloads

platform = pulumi.StackReference(pulumi.Config().require("platformStack"))
declare_workloads(cluster(), Platform(platform.require_output("pool"), platform.require_output("namespace"), []))
