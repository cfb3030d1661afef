"""The first process of a real node, in its own namespaces: `python -m tensorfusion_iac.local.real_nodes.inside ROOT ORDINAL`.

Mounts what belongs to the node alone, sets up its network, and starts what runs on a node: the simulated cards, containerd with
our images, kube-proxy and kubelet. When one of these ends, so does the node; the supervisor starts it again. Orphans are reaped.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.real_nodes import cgroups, files
from tensorfusion_iac.local.real_nodes.loading import load_images
from tensorfusion_iac.local.real_nodes.network import ip
from tensorfusion_iac.local.real_nodes.outside import GO, nodes_of
from tensorfusion_iac.local.real_nodes.plan import RealNode
from tensorfusion_iac.local.state import needed_settings
from tensorfusion_iac.local.supervised import LOG_LIMIT_BYTES

KUBELET_WOULD_SET = {
    "vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}  # fmt: skip
"""Settings of the whole machine that kubelet makes: in the node they are shown as made, and the machine keeps its own."""

_CONTAINERD_S = 20.0
_POLL_S = 0.02


def run(node: RealNode, others: tuple[RealNode, ...], tools: Mapping[str, Path]) -> int:
    """Be the node. Returns when something that it needs has ended."""
    if sys.stdin.buffer.readline() != GO:
        return 1  # who started us has ended
    _mount(node)
    socket.sethostname(node.name)
    _network(node, others)
    programs = {_start(node, "cards", [files.card_program(node), files.card_state(node)]): "cards"}
    programs[_start(node, "containerd", [tools["containerd"], "--config", files.containerd_config(node)])] = "containerd"
    _load_images(node, tools)
    programs[_start(node, "kube-proxy", files.kube_proxy_command(node, tools))] = "kube-proxy"
    programs[_start(node, "kubelet", files.kubelet_command(node, tools))] = "kubelet"
    while True:
        pid, status = os.wait()
        if pid in programs:
            sys.stderr.write(f"{programs[pid]} ended with {os.waitstatus_to_exitcode(status)}: see its log\n")
            return 1


def _mount(node: RealNode) -> None:
    places = cgroups.own_paths(Path("/proc/self/cgroup").read_text())
    hierarchies = cgroups.hierarchies(Path("/proc/self/mountinfo").read_text())
    mount("none", "/", "--make-rshared")  # containers ask for mounts that reach them later; nothing leaves the node
    mount("sysfs", "/sys", "-t", "sysfs")
    if any(hierarchy.folder == cgroups.PURE for hierarchy in hierarchies):
        mount("cgroup2", cgroups.PURE, "-t", "cgroup2")
        _hand_controllers_on(cgroups.PURE)
    else:
        mount("tmpfs", cgroups.PURE, "-t", "tmpfs", "-o", "mode=755")
        for hierarchy in hierarchies:
            controllers = cgroups.controllers_of(hierarchy, places)
            if controllers is None:
                continue
            hierarchy.folder.mkdir(parents=True)
            options = f"none,{controllers}" if controllers.startswith("name=") else controllers
            mount(hierarchy.kind, hierarchy.folder, "-t", hierarchy.kind, *(["-o", options] if controllers else []))
    mount("tmpfs", "/run", "-t", "tmpfs", "-o", "mode=755")
    for folder in files.WRITTEN_TO:  # what is written there, is written for the node alone
        upper, work = Path(f"/run/over{folder}/upper"), Path(f"/run/over{folder}/work")
        upper.mkdir(parents=True)
        work.mkdir()
        mount("overlay", folder, "-t", "overlay", "-o", f"lowerdir={folder},upperdir={upper},workdir={work}")
    files.KUBELET_ROOT.mkdir()
    for own, seen_at in (("log", Path("/var/log")), ("kubelet", files.KUBELET_ROOT)):
        (node.folder / own).mkdir(exist_ok=True)
        mount(node.folder / own, seen_at, "--bind")
    for name, value in KUBELET_WOULD_SET.items():
        shown, setting = Path("/run/sysctl", name), Path("/proc/sys", name)
        shown.parent.mkdir(parents=True, exist_ok=True)
        shown.write_text(f"{value}\n")
        if setting.exists():
            mount(shown, setting, "--bind")
    files.write_inside()


def _hand_controllers_on(root: Path) -> None:
    """On v2 a cgroup has processes or hands controllers on: ours go to one of their own."""
    (root / "init").mkdir()
    cgroups.enter([root / "init"])
    for controller in (root / "cgroup.controllers").read_text().split():
        with suppress(OSError):
            (root / "cgroup.subtree_control").write_text(f"+{controller}")


def mount(what: Path | str, where: Path | str, *options: str) -> None:
    """Mount; LocalError with mount's message where it fails."""
    run = subprocess.run(["mount", *options, str(what), str(where)], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise LocalError(f"mount {' '.join(options)} {where}: {run.stderr.strip()}")


def _network(node: RealNode, others: tuple[RealNode, ...]) -> None:
    ip("link", "set", "lo", "up")
    ip("address", "add", f"{node.address}/{node.network.nodes.prefixlen}", "dev", "eth0")
    ip("link", "set", "eth0", "up")
    ip("route", "add", "default", "via", node.network.gateway)
    for other in others:
        if other != node:
            ip("route", "add", str(other.pods), "via", other.address)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _start(node: RealNode, name: str, command: list[Path | str]) -> int:
    """Start one of the node's programs, with a log of its own; its process id."""
    path = node.layout.log(f"{node.name}-{name}")
    if path.is_file() and path.stat().st_size > LOG_LIMIT_BYTES:
        path.replace(node.layout.older_log(f"{node.name}-{name}"))
    environment = os.environ | {"PATH": f"{files.programs_folder(node)}:{os.environ['PATH']}"}
    with path.open("ab") as output:
        program = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, cwd="/"
        )
    program.returncode = 0  # it is waited for with all others
    return program.pid


def _load_images(node: RealNode, tools: Mapping[str, Path]) -> None:
    deadline = time.monotonic() + _CONTAINERD_S
    while not files.SOCKET.is_socket():
        if time.monotonic() > deadline:
            raise LocalError(f"containerd does not listen; see {node.layout.log(f'{node.name}-containerd')}")
        time.sleep(_POLL_S)
    for archive in files.archives(node.layout):
        load_images(archive, files.SOCKET, tools)


def main(arguments: list[str]) -> int:
    """Be the node that the arguments name."""
    layout = Layout.at(Path(arguments[0]))
    try:
        settings = needed_settings(layout.settings)
        nodes = nodes_of(layout, settings)
        return run(nodes[int(arguments[1])], nodes, settings.tools)
    except (LocalError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
