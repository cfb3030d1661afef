"""The Deployments: controller, webhook with its Service, and our kube-scheduler with the extender beside it (SPEC §9). Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from tensorfusion_iac.admission.configuration import CONFIGURATION, TLS_SECRET
from tensorfusion_iac.api.names import (
    CONTROLLER_ACCOUNT,
    SCHEDULER_ACCOUNT,
    SCHEDULER_NAME,
    SYSTEM_NAMESPACE,
    WEBHOOK_ACCOUNT,
)
from tensorfusion_iac.components.platform import pods
from tensorfusion_iac.components.platform.foundation import Manifest
from tensorfusion_iac.components.platform.settings import Settings
from tensorfusion_iac.scheduling import profile

CONTROLLER_PORT, KUBE_SCHEDULER_PORT = 9480, 10259
TLS_FOLDER = "/etc/tensor-fusion/tls"
LEASE = f"{SYSTEM_NAMESPACE}/{SCHEDULER_NAME}"
"""The lease of our kube-scheduler, NAMESPACE/NAME: the cluster's own scheduler keeps the default one."""
_CONFIG_FOLDER, _CONFIG_FILE = "/etc/tensor-fusion/scheduler", "config.yaml"


def controller(settings: Settings) -> Iterator[Manifest]:
    """The controller."""
    yield pods.disruption_budget(CONTROLLER_ACCOUNT)
    hosts = [f"--external-scaler-host={host}" for host in settings.external_scaler_hosts]
    serving = pods.container(
        "controller", settings, ["serve", "controller", f"--port={CONTROLLER_PORT}", *hosts],
        ports={"metrics": CONTROLLER_PORT}, probes=pods.probes("HTTP", "metrics"),
    )  # fmt: skip
    yield pods.deployment(CONTROLLER_ACCOUNT, settings, settings.replicas_of("controller"), [serving])


def webhook(settings: Settings) -> Iterator[Manifest]:
    """The webhook and its Service. Its configurations come after it serves (control_plane.py)."""
    arguments, volumes, mounts = ["serve", "webhook", f"--port={settings.webhook_port}"], [], []
    if settings.certificates == "cert-manager":
        arguments.append(f"--tls={TLS_FOLDER}")
        volumes = [{"name": "tls", "secret": {"secretName": TLS_SECRET, "defaultMode": 0o440}}]
        mounts = [{"name": "tls", "mountPath": TLS_FOLDER, "readOnly": True}]
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": CONFIGURATION, "namespace": SYSTEM_NAMESPACE, "labels": pods.labels_of(WEBHOOK_ACCOUNT)},
        "spec": {
            "type": "ClusterIP",
            "selector": {pods.NAME: WEBHOOK_ACCOUNT},
            "ports": [{"name": "https", "port": 443, "targetPort": "https", "protocol": "TCP"}],
        },
    }
    yield pods.disruption_budget(WEBHOOK_ACCOUNT)
    serving = pods.container(
        "webhook", settings, arguments,
        ports={"https": settings.webhook_port}, probes=pods.probes("HTTPS", "https"), mounts=mounts,
    )  # fmt: skip
    yield pods.deployment(
        WEBHOOK_ACCOUNT, settings, settings.replicas_of("webhook"), [serving],
        volumes=volumes, host_network=settings.webhook_host_network,
    )  # fmt: skip


def scheduler(settings: Settings) -> Iterator[Manifest]:
    """kube-scheduler with one profile, ours, and the extender, which it reaches on the loopback interface of their pod."""
    config = profile.configuration(LEASE, [profile.profile()])
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": SCHEDULER_ACCOUNT, "namespace": SYSTEM_NAMESPACE, "labels": pods.labels_of(SCHEDULER_ACCOUNT)},
        "data": {_CONFIG_FILE: config},
    }
    yield pods.disruption_budget(SCHEDULER_ACCOUNT)
    extender = pods.container(
        "scheduler", settings, ["serve", "scheduler", f"--lease={LEASE}", f"--telemetry-port={profile.TELEMETRY_PORT}"],
        ports={"metrics": profile.TELEMETRY_PORT}, probes=pods.probes("HTTP", "metrics"),
    )  # fmt: skip
    yield pods.deployment(
        SCHEDULER_ACCOUNT, settings, settings.replicas_of("scheduler"), [_kube_scheduler(settings), extender],
        volumes=[{"name": "config", "configMap": {"name": SCHEDULER_ACCOUNT, "defaultMode": 0o444}}],
        annotations={"checksum/config": hashlib.sha256(config.encode()).hexdigest()},  # it reads its file once
    )  # fmt: skip


def _kube_scheduler(settings: Settings) -> Manifest:
    return {
        "name": "kube-scheduler",
        "image": settings.kube_scheduler_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["kube-scheduler"],
        "args": [f"--config={_CONFIG_FOLDER}/{_CONFIG_FILE}", f"--secure-port={KUBE_SCHEDULER_PORT}"],
        "ports": [{"name": "https", "containerPort": KUBE_SCHEDULER_PORT, "protocol": "TCP"}],
        **pods.probes("HTTPS", "https", alive="/livez"),
        "resources": settings.resources_of("kube-scheduler"),
        "securityContext": pods.locked(),
        "volumeMounts": [{"name": "config", "mountPath": _CONFIG_FOLDER, "readOnly": True}],
    }
