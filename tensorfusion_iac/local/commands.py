"""The command line of every process of the control plane, from its ports, its certificates and its folders.

Everything listens on the loopback interface, and what holds data asks for a client certificate. Only what a local cluster needs
is turned on; the recipe is TOOLCHAIN.md's. Real nodes have a bridge of their own (real_nodes/).
"""

from __future__ import annotations

import sys
from pathlib import Path

from tensorfusion_iac.local.certs import CLUSTER, ETCD, SERVICE_ACCOUNTS, Pki
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.ports import HOST
from tensorfusion_iac.local.process import Probe, Process
from tensorfusion_iac.local.real_nodes import rows
from tensorfusion_iac.local.real_nodes.outside import nodes_of
from tensorfusion_iac.local.real_nodes.plan import RealNode
from tensorfusion_iac.local.state import Programs, Settings

TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
"""The programs that are needed, by their names in the tool chain."""

PROCESSES = (*TOOLS, "simulated-agents", "webhook", "extender", "controller")
"""The names of all processes but those of real nodes, in the order of the table."""

SERVICE_RANGE = "10.96.0.0/16"
POD_RANGE = "10.128.0.0/10"
_ISSUER = "https://kubernetes.default.svc.cluster.local"

_HISTORY_STEP_S, _SCALING_PERIOD_S = 2, 4
"""Of autoscaling, in seconds: shorter than in a cluster, for someone who watches."""

# What cannot work without a cloud, real kubelets or real volumes.
_CONTROLLERS_OFF = (
    "persistentvolume-attach-detach-controller",
    "persistentvolume-expander-controller",
    "certificatesigningrequest-signing-controller",
    "node-ipam-controller",
    "bootstrap-signer-controller",
    "token-cleaner-controller",
)


def table(settings: Settings, layout: Layout) -> tuple[Process, ...]:
    """The processes, each after those that it needs."""
    pki = Pki(layout.pki)
    ours = (_webhook(settings, layout), _extender(settings, layout), _controller(settings, layout))
    return (
        _etcd(settings, layout, pki),
        _apiserver(settings, layout, pki),
        _controller_manager(settings, layout, pki),
        _scheduler(settings, layout, pki),
        _kwok(settings, layout),
        _simulated_agents(settings, layout),
        *(ours if settings.programs is Programs.LOCAL else ()),
        *rows.rows(nodes_of(layout, settings), settings.ports.apiserver, pki),
    )


def server_url(settings: Settings) -> str:
    """Where the API server is."""
    return f"https://{HOST}:{settings.ports.apiserver}"


def webhook_url(settings: Settings) -> str:
    """Where the API server asks the webhook, for `ControlPlane(runtime="local", webhook_url=...)`."""
    return f"https://{HOST}:{settings.ports.webhook}"


def scheduler_config_path(layout: Layout) -> Path:
    """Where the scheduler's configuration is to be written."""
    return layout.config / "scheduler.yaml"


def kwok_config_path(layout: Layout) -> Path:
    """Where KWOK's stages are to be written."""
    return layout.config / "kwok.yaml"


def _etcd(settings: Settings, layout: Layout, pki: Pki) -> Process:
    client, peer = f"https://{HOST}:{settings.ports.etcd}", f"https://{HOST}:{settings.ports.etcd_peer}"
    authority, server = pki.pair(ETCD).certificate, pki.pair("etcd")
    argv = (
        str(settings.tools["etcd"]),
        "--name=local",
        f"--data-dir={layout.etcd_data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        "--client-cert-auth",
        f"--trusted-ca-file={authority}",
        f"--cert-file={server.certificate}",
        f"--key-file={server.key}",
        "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={authority}",
        f"--peer-cert-file={server.certificate}",
        f"--peer-key-file={server.key}",
        "--unsafe-no-fsync",  # nothing here must outlive a power cut, and every write waits for it
        "--log-level=warn",
    )
    return Process("etcd", argv, Probe(f"{client}/health", authority, pki.pair("etcd-client")))


def _apiserver(settings: Settings, layout: Layout, pki: Pki) -> Process:
    server, store, accounts = pki.pair("apiserver"), pki.pair("etcd-client"), pki.pair(SERVICE_ACCOUNTS)
    authority = pki.pair(CLUSTER).certificate
    argv = (
        str(settings.tools["kube-apiserver"]),
        f"--bind-address={HOST}",
        f"--secure-port={settings.ports.apiserver}",
        f"--tls-cert-file={server.certificate}",
        f"--tls-private-key-file={server.key}",
        f"--client-ca-file={authority}",
        "--anonymous-auth=false",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--etcd-servers=https://{HOST}:{settings.ports.etcd}",
        f"--etcd-cafile={pki.pair(ETCD).certificate}",
        f"--etcd-certfile={store.certificate}",
        f"--etcd-keyfile={store.key}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={accounts.certificate}",
        f"--service-account-signing-key-file={accounts.key}",
        "--profiling=false",
        *_reached_by(nodes_of(layout, settings), pki),
    )
    probe = Probe(f"{server_url(settings)}/readyz", authority, pki.pair("admin"))
    return Process("kube-apiserver", argv, probe, after=("etcd",))


def _reached_by(nodes: tuple[RealNode, ...], pki: Pki) -> tuple[str, ...]:
    if nodes:
        return rows.apiserver_options(nodes[0].network, pki)
    # A loopback address is no endpoint, and simulated pods have no network.
    return (f"--advertise-address={HOST}", "--endpoint-reconciler-type=none")


def _controller_manager(settings: Settings, layout: Layout, pki: Pki) -> Process:
    kubeconfig, serving = layout.component_kubeconfig("controller-manager"), pki.pair("components")
    authority, port = pki.pair(CLUSTER).certificate, settings.ports.controller_manager
    argv = (
        str(settings.tools["kube-controller-manager"]),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup=true",
        f"--client-ca-file={authority}",
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--root-ca-file={authority}",
        f"--service-account-private-key-file={pki.pair(SERVICE_ACCOUNTS).key}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        f"--controllers=*,{','.join(f'-{name}' for name in _CONTROLLERS_OFF)}",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--profiling=false",
    )
    probe = Probe(f"https://{HOST}:{port}/healthz", authority)
    return Process("kube-controller-manager", argv, probe, after=("kube-apiserver",))


def _scheduler(settings: Settings, layout: Layout, pki: Pki) -> Process:
    kubeconfig, serving = layout.component_kubeconfig("scheduler"), pki.pair("components")
    authority, port = pki.pair(CLUSTER).certificate, settings.ports.scheduler
    argv = (
        str(settings.tools["kube-scheduler"]),
        f"--config={scheduler_config_path(layout)}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup=true",
        f"--client-ca-file={authority}",
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
    )
    probe = Probe(f"https://{HOST}:{port}/healthz", authority)
    return Process("kube-scheduler", argv, probe, after=("kube-apiserver",))


def _serve(program: str, kubeconfig: Path, port: int, *more: str) -> tuple[str, ...]:
    """One of our programs, on the loopback interface."""
    command = (sys.executable, "-m", "tensorfusion_iac.cli", "serve", program)
    return (*command, f"--kubeconfig={kubeconfig}", f"--address={HOST}", f"--port={port}", *more)


def _extender(settings: Settings, layout: Layout) -> Process:
    port = settings.ports.extender
    argv = _serve("scheduler", layout.component_kubeconfig("extender"), port)
    probe = Probe(f"http://{HOST}:{port}/readyz")
    return Process("extender", argv, probe, after=("kube-apiserver",), until="the platform is deployed")


def _controller(settings: Settings, layout: Layout) -> Process:
    port = settings.ports.controller
    argv = _serve(
        "controller",
        layout.component_kubeconfig("controller"),
        port,
        "--identity=local",  # one that is started again need not wait for the lease of the one before it
        f"--scaling-period={_SCALING_PERIOD_S}",
    )
    probe = Probe(f"http://{HOST}:{port}/readyz")
    return Process("controller", argv, probe, after=("kube-apiserver",), until="the platform is deployed")


def _simulated_agents(settings: Settings, layout: Layout) -> Process:
    port = settings.ports.simulated_agents
    argv = _serve(
        "simulated-agents",
        layout.component_kubeconfig("simulated-agents"),
        port,
        f"--history-step={_HISTORY_STEP_S}",
    )
    return Process("simulated-agents", argv, Probe(f"http://{HOST}:{port}/healthz"), after=("kube-apiserver",))


def _webhook(settings: Settings, layout: Layout) -> Process:
    argv = _serve(
        "webhook",
        layout.component_kubeconfig("webhook"),
        settings.ports.webhook,
        f"--host={HOST}",
        "--identity=local",
    )
    probe = Probe(f"{webhook_url(settings)}/readyz", any_certificate=True)
    return Process("webhook", argv, probe, after=("kube-apiserver",), until="the platform is deployed")


def _kwok(settings: Settings, layout: Layout) -> Process:
    address = f"{HOST}:{settings.ports.kwok}"
    argv = (
        str(settings.tools["kwok"]),
        f"--kubeconfig={layout.component_kubeconfig('kwok')}",
        f"--config={kwok_config_path(layout)}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=0",  # a restarted KWOK would wait for its predecessor's leases; a stage beats
        f"--cidr={POD_RANGE}",
        f"--server-address={address}",
    )
    return Process("kwok", argv, Probe(f"http://{address}/healthz"), after=("kube-apiserver",))
