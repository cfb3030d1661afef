"""A control plane with one real node: kubelet and containerd, pods as real processes, simulated cards under NVIDIA's interface.

Where real nodes can't be had (no root, no compiler, no namespaces), the tests that need one are skipped, and say why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_nvml import Fake
from pulumi_project import Project, new_project, prepare
from running_plane import ControlPlane, tools

from tensorfusion_iac.local import control_plane as door
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.real_nodes import files, preconditions
from tensorfusion_iac.local.real_nodes.outside import nodes_of
from tensorfusion_iac.local.real_nodes.plan import RealNode, bridge_name
from tensorfusion_iac.local.state import Programs, load_settings

TIMEOUT_S = 300.0
POOL = "real-pool"
PLATFORM = f"""
import pulumi
import tensorfusion_iac as tfi

NODE = {{"kubernetes.io/hostname": "real-0"}}
platform = tfi.ControlPlane("tensor-fusion", kubernetes_version="1.37.2", replicas=1, node_selector=NODE,
    agent_node_selector=NODE)
tfi.GPUPool("{POOL}", default=True, default_using_local_gpu=True, node_selector=NODE,
    opts=pulumi.ResourceOptions(depends_on=[platform]))
"""
IMAGE = "tensorfusion-iac:0.1.0"
"""Our programs: ControlPlane's default image is there, as is kube-scheduler's."""
JOB_IMAGE = "virtual-gpu-job:0.1.0"
"""`virtual-gpu-job` (arguments: job.c's from CARD on; `-` is the visible card) and Python."""


@dataclass(frozen=True)
class RealNodePlane(ControlPlane):
    """A control plane with one real node, on which our programs can be pods."""

    node: RealNode
    cards: Fake


@contextmanager
def real_node_plane(folder: Path, owner_pid: int) -> Iterator[RealNodePlane]:
    """The plane, for the length of the block. Skips the test where there can be none."""
    if lacking := preconditions.missing():
        pytest.skip(f"NO REAL NODE, so that this is NOT TESTED: {'; '.join(lacking)}")
    layout = Layout.at(folder)
    wish = door.Wish(real_nodes=1, programs=Programs.CLUSTER)
    door.up(layout, wish, tools, lambda line: None, timeout_s=TIMEOUT_S, owner_pid=owner_pid)
    try:
        settings = load_settings(layout.settings)
        assert settings is not None
        (node,) = nodes_of(layout, settings)
        cards = Fake.opened(files.virtual_gpus_folder(layout), files.card_state(node))
        yield RealNodePlane(layout, node, cards)
    finally:
        door.purge(layout, lambda line: None)
        assert not list(Path("/sys/class/net").glob(f"{bridge_name(layout)}*"))


def install_platform(plane: RealNodePlane, folder: Path) -> Project:
    """Our programs as pods of the plane, and a default pool: by one `pulumi up`."""
    prepare(plane)
    project = new_project(plane, folder, "real-platform")
    project.write(PLATFORM)
    project.up()
    return project
