"""The embedded control plane, run for real: etcd, kube-apiserver and the others as processes of this machine."""

from __future__ import annotations

import pytest

from tensorfusion_iac.kube.resource import NODES

pytestmark = pytest.mark.cluster


def test_its_simulated_nodes_are_ready(control_plane) -> None:
    nodes = control_plane.ask(lambda client: client.list(NODES)).items
    assert len(nodes) == 3
