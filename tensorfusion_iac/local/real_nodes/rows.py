"""The processes that make the real nodes, as rows of the supervisor's table, and the API server's options that they need."""

from __future__ import annotations

import sys

from tensorfusion_iac.local.certs import CLUSTER, Pki
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.process import Probe, Process
from tensorfusion_iac.local.real_nodes.files import KUBELET_HEALTH_PORT
from tensorfusion_iac.local.real_nodes.plan import Network, RealNode

NETWORK = "node-network"
IN_A_NODE = ("cards", "containerd", "kube-proxy", "kubelet")
"""What runs inside a node, each with a log of its own."""

_PACKAGE = "tensorfusion_iac.local.real_nodes"
_GRACE_S = 30.0


def rows(nodes: tuple[RealNode, ...], apiserver_port: int, pki: Pki) -> tuple[Process, ...]:
    """The network, which is ready when the API server is reached through it, and the nodes, which are when their kubelet is."""
    if not nodes:
        return ()
    root = str(nodes[0].layout.root)
    server = Probe(
        f"https://{nodes[0].network.gateway}:{apiserver_port}/readyz", pki.pair(CLUSTER).certificate, pki.pair("admin")
    )
    network = Process(NETWORK, (sys.executable, "-m", f"{_PACKAGE}.network", root), server, after=("kube-apiserver",))
    return (network, *(_node(node, root) for node in nodes))


def apiserver_options(network: Network, pki: Pki) -> tuple[str, ...]:
    """How the API server is told to pods, and reaches kubelets, and webhooks that are pods (by their own addresses)."""
    client = pki.pair("kubelet-client")
    return (
        f"--advertise-address={network.gateway}",
        "--endpoint-reconciler-type=lease",
        f"--kubelet-certificate-authority={pki.pair(CLUSTER).certificate}",
        f"--kubelet-client-certificate={client.certificate}",
        f"--kubelet-client-key={client.key}",
        "--kubelet-preferred-address-types=InternalIP",
        "--enable-aggregator-routing=true",
    )


def log_names(layout: Layout) -> tuple[str, ...]:
    """The logs of all real nodes that there ever were here."""
    names = sorted(path.name for path in layout.real_nodes.glob("real-*"))
    return (NETWORK, *names, *(f"{name}-{program}" for name in names for program in IN_A_NODE))


def _node(node: RealNode, root: str) -> Process:
    argv = (sys.executable, "-m", f"{_PACKAGE}.outside", root, str(node.ordinal))
    probe = Probe(f"http://{node.address}:{KUBELET_HEALTH_PORT}/healthz")
    return Process(node.name, argv, probe, after=(NETWORK,), grace_s=_GRACE_S)
