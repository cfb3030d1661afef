"""The configuration of what runs on a real node: containerd, its network and its runtime, kube-proxy, kubelet.

Most of it is written by `up` into the node's folder; what programs look for at a fixed place is written inside the node, where
that place is its own. The recipe, and why each setting is there, is TOOLCHAIN.md's.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tensorfusion_iac.local import kubeconfig
from tensorfusion_iac.local.certs import CLUSTER, Leaf, Pki
from tensorfusion_iac.local.images.made import PAUSE
from tensorfusion_iac.local.layout import Layout, write_private_if_changed
from tensorfusion_iac.local.real_nodes.plan import CARDS_PER_NODE, RealNode

WRITTEN_TO = ("/etc", "/var/lib")
"""Folders of this machine in which a node's programs have fixed places: a node has its own view of them."""
HIDDEN = (*WRITTEN_TO, "/run", "/var/log")
"""What a node does not share with this machine: a control plane's folder can't be there."""

SOCKET = Path("/run/containerd/containerd.sock")
KUBELET_ROOT = Path("/run/kubelet")
"""Where the node sees kubelet's files: sockets are among them, whose paths may have 107 characters only."""
KUBELET_HEALTH_PORT, PROXY_HEALTH_PORT = 10248, 10256
PROXY_USER = "kube-proxy"

TOOLS = {
    "runc": "runc", "containerd-shim-runc-v2": "containerd-shim-runc-v2", "ctr": "ctr", "nft": "nft",
    "ptp": "cni-ptp", "host-local": "cni-host-local", "loopback": "cni-loopback",
}  # fmt: skip
"""Names in the node's folder of programs, and in the tool chain."""

_TOOLKIT_CONFIG = Path("/etc/nvidia-container-runtime/config.toml")
_LIBRARIES = f"/usr/lib/{sysconfig.get_config_var('MULTIARCH') or ''}".rstrip("/")

_RUNTIME = """\
#!/bin/sh
# Stands in for NVIDIA's container runtime: what it changes in a container about to be made is in inject.py.
previous= bundle=. create=
for word; do
    case $previous in --bundle|-b) bundle=$word ;; esac
    case $word in --bundle=*) bundle=${{word#--bundle=}} ;; create) create=yes ;; esac
    previous=$word
done
if [ "$create" ]; then {python} -S -E {script} "$bundle/config.json" {library} {state} {libraries} || exit 1; fi
exec {runc} "$@"
"""


def leaves(nodes: tuple[RealNode, ...]) -> tuple[Leaf, ...]:
    """The certificates that real nodes need beside those of every control plane."""
    return (
        Leaf("kubelet-client", CLUSTER, "kube-apiserver-kubelet-client", "system:masters"),
        Leaf(PROXY_USER, CLUSTER, "system:kube-proxy"),
        *(
            Leaf(node.name, CLUSTER, f"system:node:{node.name}", "system:nodes", hosts=(node.address, node.name))
            for node in nodes
        ),
    )


def programs_folder(node: RealNode) -> Path:
    """Where a node's programs find each other."""
    return node.folder / "bin"


def containerd_config(node: RealNode) -> Path:
    """containerd's configuration."""
    return node.folder / "containerd.toml"


def card_program(node: RealNode) -> Path:
    """The program that is the cards."""
    return virtual_gpus_folder(node.layout) / "card"


def card_state(node: RealNode) -> Path:
    """The state of the node's cards."""
    return node.cards / "state"


def virtual_gpus_folder(layout: Layout) -> Path:
    """Where the programs of the simulated cards are compiled."""
    return layout.real_nodes / "virtual-gpus"


def images_folder(layout: Layout) -> Path:
    """Where the images are that every node loads at its start."""
    return layout.real_nodes / "images"


def archives(layout: Layout) -> list[Path]:
    """The images that every node loads."""
    return sorted(images_folder(layout).glob("*.tar"))


def kubelet_command(node: RealNode, tools: Mapping[str, Path]) -> list[Path | str]:
    """How kubelet is run."""
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": str(CARDS_PER_NODE)}
    return [
        tools["kubelet"], f"--config={node.folder / 'kubelet.yaml'}", f"--kubeconfig={node.folder / 'kubelet.kubeconfig'}",
        f"--hostname-override={node.name}", f"--node-ip={node.address}", f"--root-dir={KUBELET_ROOT}",
        f"--cert-dir={node.folder / 'kubelet-pki'}", "--node-labels=" + ",".join(f"{key}={labels[key]}" for key in labels),
    ]  # fmt: skip


def kube_proxy_command(node: RealNode, tools: Mapping[str, Path]) -> list[Path | str]:
    """How kube-proxy is run. It leaves the kernel's limits of connections alone, which are the whole machine's."""
    return [
        tools["kube-proxy"], f"--kubeconfig={node.folder / 'kube-proxy.kubeconfig'}", "--proxy-mode=nftables",
        f"--hostname-override={node.name}", f"--cluster-cidr={node.network.pods}",
        f"--healthz-bind-address={node.address}:{PROXY_HEALTH_PORT}", "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
    ]  # fmt: skip


def write(node: RealNode, pki: Pki, server: str, tools: Mapping[str, Path]) -> None:
    """Write what can be written before the node starts."""
    node.folder.mkdir(parents=True, exist_ok=True)
    programs = programs_folder(node)
    programs.mkdir(exist_ok=True)
    for name, tool in TOOLS.items():
        link = programs / name
        link.unlink(missing_ok=True)
        link.symlink_to(tools[tool])
    runtime = programs / "runc-with-cards"
    runtime.write_text(_runtime(node))
    runtime.chmod(0o755)
    authority = pki.pair(CLUSTER).certificate.read_bytes()
    for user, name in ((node.name, "kubelet"), (PROXY_USER, "kube-proxy")):
        pair = pki.pair(user)
        text = kubeconfig.render(server, user, authority, pair.certificate.read_bytes(), pair.key.read_bytes())
        write_private_if_changed(node.folder / f"{name}.kubeconfig", text.encode())
    (node.folder / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(node, pki), sort_keys=False))
    containerd_config(node).write_text(_containerd(node))
    (node.folder / "resolv.conf").write_text("")  # there is no DNS here, neither the cluster's nor another
    cni = node.folder / "cni"
    cni.mkdir(exist_ok=True)
    (cni / "10-nodes.conflist").write_text(json.dumps(_pod_network(node), indent=2))


def write_inside() -> None:
    """Write what is looked for at a fixed place: inside the node, it is the node's own."""
    _TOOLKIT_CONFIG.parent.mkdir(exist_ok=True)
    _TOOLKIT_CONFIG.write_text('[nvidia-container-runtime]\nmode = "auto"\n')  # by which agents know that devices are injected


def _runtime(node: RealNode) -> str:
    library = virtual_gpus_folder(node.layout) / "new" / "libnvidia-ml.so.1"
    words = {
        "python": sys.executable, "script": Path(__file__).with_name("inject.py"), "library": library,
        "state": card_state(node), "libraries": _LIBRARIES, "runc": programs_folder(node) / "runc",
    }  # fmt: skip
    return _RUNTIME.format_map({name: shlex.quote(str(word)) for name, word in words.items()})


def _kubelet(node: RealNode, pki: Pki) -> dict[str, Any]:
    serving = pki.pair(node.name)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "healthzBindAddress": node.address,
        "healthzPort": KUBELET_HEALTH_PORT,
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(pki.pair(CLUSTER).certificate)}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        # The disk and the memory are the machine's, and how full they are is nobody's business here.
        "evictionHard": dict.fromkeys(("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available"), "0%"),
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "podLogsDir": "/var/log/pods",
        "resolvConf": str(node.folder / "resolv.conf"),
        "volumePluginDir": str(node.folder / "volume-plugins"),
    }


def _containerd(node: RealNode) -> str:
    values = {
        "root": node.folder / "containerd", "socket": SOCKET, "pause": PAUSE, "snapshotter": _snapshotter(node.folder),
        "programs": programs_folder(node), "cni": node.folder / "cni",
    }  # fmt: skip
    runtime = json.dumps(str(programs_folder(node) / "runc-with-cards"))
    text = _CONTAINERD.format_map({name: json.dumps(str(value)) for name, value in values.items()})
    return text + "".join(_RUNTIME_TABLE.format(name=name, runtime=runtime) for name in ("nvidia", "runc"))


_CONTAINERD = """\
version = 3
root = {root}
state = "/run/containerd"
oom_score = 0
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
address = {socket}

[plugins."io.containerd.cri.v1.images"]
snapshotter = {snapshotter}

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = {pause}

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true   # a confined root may not lower it
disable_apparmor = true
tolerate_missing_hugetlb_controller = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = [{programs}]
conf_dir = {cni}

[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "nvidia"
"""


_RUNTIME_TABLE = """
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{name}]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{name}.options]
BinaryName = {runtime}
SystemdCgroup = false
"""


def _snapshotter(folder: Path) -> str:
    """containerd's overlayfs, or copies where the folder is on an overlay itself, which takes none on top of it."""
    run = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=False)
    return "native" if run.stdout.strip() == "overlayfs" else "overlayfs"


def _pod_network(node: RealNode) -> dict[str, Any]:
    """Each pod has a cable of its own to its node, so that all traffic is routed, and seen by kube-proxy's rules."""
    pods = {
        "type": "ptp",
        "ipMasq": False,  # this machine and the other nodes know the way to the pods
        "ipam": {
            "type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": str(node.pods)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }  # fmt: skip
    return {"cniVersion": "1.0.0", "name": "tensorfusion-local", "plugins": [pods]}
