"""The agents' DaemonSet: one pod on each GPU node, with a watchdog in a container of its own (ENFORCEMENT.md). Pure.

Its pods see the host's processes and write the host's cgroups, so that they run as root in a namespace of their own; each
capability is there for a reason that stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorfusion_iac.api.names import AGENT_ACCOUNT, AGENT_METRICS_PORT, AGENT_NAMESPACE
from tensorfusion_iac.components.platform import pods
from tensorfusion_iac.components.platform.foundation import RUNTIME_CLASS, Manifest, runtime_class
from tensorfusion_iac.components.platform.settings import Agents, Settings

METRICS_PORT, HISTORY_PORT = AGENT_METRICS_PORT, 9461
CGROUPS = "/host/sys/fs/cgroup"
"""Where the host's cgroups are mounted; /sys/fs/cgroup of a container is its own, and read-only."""
RUN_FOLDER, AGENT_RUN_FOLDER = "/run/tensor-fusion", "/run/tensor-fusion/agent"
_TOOLKIT = "/etc/nvidia-container-runtime"

CAPABILITIES = {
    "KILL": "to end a process that is over its memory limit, whoever's it is",
    "SYS_ADMIN": "the driver lets nobody else set memory limits, hardware partitions and compute modes",
}
"""What an agent that is not privileged may, and why. Freezing needs none: the files of cgroups are root's."""


def agents(settings: Settings, given: Agents) -> Iterator[Manifest]:
    """The runtime class and the DaemonSet."""
    yield runtime_class(given.runtime_handler)
    host_run = {"name": "run", "hostPath": {"path": RUN_FOLDER, "type": "DirectoryOrCreate"}}
    toolkit = {"name": "toolkit", "hostPath": {"path": given.toolkit_folder, "type": "DirectoryOrCreate"}}
    cgroups = {"name": "cgroups", "hostPath": {"path": "/sys/fs/cgroup", "type": "Directory"}}
    pod: Manifest = {
        **pods.shared_spec(settings, given.node_selector, given.tolerations),
        "serviceAccountName": AGENT_ACCOUNT,
        "automountServiceAccountToken": True,
        "priorityClassName": "system-node-critical",
        "runtimeClassName": RUNTIME_CLASS,
        "hostPID": True,  # NVML's process numbers are the host's
        "securityContext": {
            "runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"},
            "appArmorProfile": {"type": "Unconfined"},  # the default one forbids to signal processes of other pods
        },
        "containers": [_agent(settings, given), _watchdog(settings)],
        "volumes": [pods.TEMPORARY, host_run, toolkit, cgroups],
        "terminationGracePeriodSeconds": 30,
    }  # fmt: skip
    yield {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": AGENT_ACCOUNT, "namespace": AGENT_NAMESPACE, "labels": pods.labels_of(AGENT_ACCOUNT),
            # One node that is down must not hold up the deployment of all.
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "selector": pods.selector_of(AGENT_ACCOUNT),
            # The old pod has to go first: the agent of a node is alone, which a lock on the host sees to.
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "10%"}},
            "template": {"metadata": {"labels": pods.labels_of(AGENT_ACCOUNT)}, "spec": pod},
        },
    }  # fmt: skip


def _agent(settings: Settings, given: Agents) -> Manifest:
    run: Manifest = {"name": "run", "mountPath": RUN_FOLDER}
    if given.mps:  # the folders that pods see are bind mounts, which leave a container by this way only
        run["mountPropagation"] = "Bidirectional"
    context = pods.locked(capabilities={"drop": ["ALL"], "add": sorted(CAPABILITIES)})
    if given.mps:
        context = {"privileged": True, "readOnlyRootFilesystem": True}  # Kubernetes allows that way to no other container
    made = pods.container(
        "agent", settings,
        [
            "serve", "agent", f"--cgroups={CGROUPS}", f"--metrics-port={METRICS_PORT}", f"--history-port={HISTORY_PORT}",
            f"--run-folder={AGENT_RUN_FOLDER}",
        ],
        ports={"metrics": METRICS_PORT, "history": HISTORY_PORT}, probes=pods.probes("HTTP", "metrics", ready="/healthz"),
        environment=[
            pods.of_pod("NODE_NAME", "spec.nodeName"),
            pods.of_pod("POD_IP", "status.podIP"),
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            # `utility` is NVML; `compute` brings MPS' programs, without which the agent says that there is no MPS.
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility" if given.mps else "utility"},
            {"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"},
        ],
        mounts=[
            run,
            {"name": "toolkit", "mountPath": _TOOLKIT, "readOnly": True},
            {"name": "cgroups", "mountPath": CGROUPS},
        ],
    )  # fmt: skip
    return made | {"securityContext": context}


def _watchdog(settings: Settings) -> Manifest:
    return {
        "name": "watchdog",
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "tensorfusion_iac.agent.watchdog"],
        "args": [f"--lifeline={AGENT_RUN_FOLDER}/lifeline", f"--cgroups={CGROUPS}"],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "resources": settings.resources_of("watchdog"),
        "securityContext": pods.locked(),
        "volumeMounts": [
            {"name": "run", "mountPath": RUN_FOLDER},
            {"name": "cgroups", "mountPath": CGROUPS},
        ],
    }
