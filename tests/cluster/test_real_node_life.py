"""A real node from the command line: up, a pod as a real process, a killed supervisor, a killed node, down, nothing left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from real_node import JOB_IMAGE
from running_plane import ControlPlane
from waiting import eventually

from tensorfusion_iac.local import leftovers
from tensorfusion_iac.local.images.oci import Image, write_archive, write_layer
from tensorfusion_iac.local.images.python_root import with_libraries
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.real_nodes import preconditions
from tensorfusion_iac.local.real_nodes.plan import bridge_name
from tensorfusion_iac.local.status import status

pytestmark = pytest.mark.cluster

PATIENCE_S = 300.0


class Machine:
    """A control plane as its user sees it, and what there is of it on this machine."""

    def __init__(self, folder: Path) -> None:
        self.layout = Layout.at(folder)
        self.plane = ControlPlane(self.layout)

    def local(self, *arguments: str, code: int = 0) -> str:
        run = subprocess.run(
            [sys.executable, "-m", "tensorfusion_iac.cli", "local", *arguments, "--dir", str(self.layout.root)],
            capture_output=True, text=True, check=False, timeout=PATIENCE_S + 60,
        )  # fmt: skip
        assert run.returncode == code, run.stdout + run.stderr
        return run.stdout

    def left(self) -> list[str]:
        """Everything of it that the machine still has."""
        name = bridge_name(self.layout)
        links = [f"link {link}" for link in psutil.net_if_addrs() if link.startswith(name)]
        groups = [f"cgroup {path}" for path in cgroups() if path.name.startswith(name)]
        mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.layout.root) in line]
        running = [f"process {item.name}" for item in leftovers.find(self.layout.root)]
        namespaces = [f"process {pid} in its namespaces" for pid in self.inside()]
        return [*links, *groups, *mounts, *running, *namespaces]

    def inside(self) -> list[int]:
        """Processes whose root file system has this control plane's node in it: those of its containers too."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                text = (process / "mountinfo").read_text()
            except OSError:
                continue
            if f"{self.layout.root}/control-plane/nodes" in text:
                found.append(int(process.name))
        return found


def cgroups() -> Iterator[Path]:
    for folder, _, _ in os.walk("/sys/fs/cgroup"):
        yield Path(folder)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if lacking := preconditions.missing():
        pytest.skip(f"NO REAL NODE, so that this is NOT TESTED: {'; '.join(lacking)}")
    machine = Machine(tmp_path_factory.mktemp("life") / "plane")
    try:
        machine.local("up", "--real-nodes", "1", "--nodes", "1", "--gpus-per-node", "1", "--timeout", str(PATIENCE_S))
        yield machine
    finally:
        machine.local("down", "--purge")


def pod(name: str, container: dict[str, Any]) -> dict[str, Any]:
    spec = {"nodeSelector": {"kubernetes.io/hostname": "real-0"}, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_a_pod_is_a_process_with_a_network_and_a_way_to_the_api_server(machine: Machine) -> None:
    script = (
        "import os, ssl, time, urllib.request as u\n"
        "folder = '/var/run/secrets/kubernetes.io/serviceaccount/'\n"
        "ask = u.Request('https://' + os.environ['KUBERNETES_SERVICE_HOST'] + '/version',"
        " headers={'Authorization': 'Bearer ' + open(folder + 'token').read()})\n"
        "print(u.urlopen(ask, context=ssl.create_default_context(cafile=folder + 'ca.crt')).status, flush=True)\n"
        "time.sleep(3600)\n"
    )
    container = {"name": "main", "image": JOB_IMAGE, "command": ["python3", "-c", script]}
    eventually(
        lambda: "default" in machine.plane.kubectl("get", "serviceaccounts", "-n", "default"), "the service account", PATIENCE_S
    )
    machine.plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump(pod("asks", container)))
    machine.plane.kubectl("wait", "pod/asks", "--for=condition=Ready", "--timeout=55s")
    assert eventually(lambda: machine.plane.kubectl("logs", "asks"), "its answer", PATIENCE_S).strip() == "200"


def test_status_and_logs_know_the_node(machine: Machine) -> None:
    shown = json.loads(machine.local("status", "--output", "json"))
    assert {"node-network", "real-0"} <= {process["name"] for process in shown["processes"] if process["health"] == "ok"}
    assert "kubelet" in machine.local("logs", "real-0-kubelet", "-n", "200")


def test_an_image_of_ones_own_needs_no_registry(machine: Machine, tmp_path: Path) -> None:
    layer = write_layer(tmp_path / "layer.tar", with_libraries({"sleep": Path("/bin/sleep").resolve()}))
    write_archive([Image("docker.io/library/mine:1", (layer,), ("/sleep",), ("3600",), user="65532")], tmp_path / "mine.tar")
    assert machine.local("load-image", str(tmp_path / "mine.tar")) == "loaded on real-0\n"
    machine.plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump(pod("mine", {"name": "main", "image": "mine:1"})))
    machine.plane.kubectl("wait", "pod/mine", "--for=condition=Ready", "--timeout=55s")


def test_a_killed_node_comes_back_with_its_pods(machine: Machine) -> None:
    (node,) = (item for item in leftovers.find(machine.layout.root, "real-0") if "outside" in " ".join(item.process.cmdline()))
    before = set(machine.inside())
    node.process.send_signal(signal.SIGKILL)
    eventually(lambda: restarts(machine) == 1, "a restart", PATIENCE_S)
    eventually(lambda: logs(machine).strip() == "200", "its answer", PATIENCE_S)
    assert not before & set(machine.inside())


def test_a_killed_supervisor_leaves_nothing_that_down_does_not_end(machine: Machine) -> None:
    (supervisor,) = leftovers.find(machine.layout.root, leftovers.SUPERVISOR)
    supervisor.process.send_signal(signal.SIGKILL)
    assert machine.inside()
    machine.local("down")
    eventually(lambda: not machine.left(), "an empty machine", PATIENCE_S)


def logs(machine: Machine) -> str:
    try:
        return machine.plane.kubectl("logs", "asks")
    except AssertionError:
        return ""  # its node is just being started


def restarts(machine: Machine) -> int:
    """How often the node was started again, once it is ready again."""
    node = next(process for process in status(machine.layout).processes if process.name == "real-0")
    return node.restarts if node.fault is None else 0
