"""The agent as a program, on a real API server, simulated cards and real processes: one node from its start to its end."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import cgroup_node as nodes
import pytest
import yaml
from cut_line import Line
from fake_nvml import Fake, build
from running_plane import ControlPlane
from waiting import eventually

from tensorfusion_iac.api.effective import Amount, Effective, EffectiveCard, to_text
from tensorfusion_iac.api.levels import Isolation, Mode, QoS
from tensorfusion_iac.api.names import SYSTEM_NAMESPACE, key
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.worker import WorkerSpec, canonical, to_json

pytestmark = pytest.mark.cluster

Process = subprocess.Popen[str]
NODE, GIB = "agent-node", 2**30


class Running:
    """One agent program with its cards, cgroups and API server."""

    def __init__(
        self,
        plane: ControlPlane,
        line: Line,
        fake: Fake,
        node: nodes.Node,
        process: subprocess.Popen[str],
        ports: tuple[int, int],
    ) -> None:
        self.plane, self.line, self.fake, self.node, self.process, self.ports = plane, line, fake, node, process, ports

    def get(self, kind: str, name: str, *more: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.plane.kubectl("get", kind, name, "-o", "json", *more))
        return found

    def card(self, index: int = 0) -> str:
        return str(self.fake.cards[index].uuid.decode())

    def gpu(self, index: int = 0) -> dict[str, Any]:
        return self.get("gpu", self.card(index).lower())

    def add_pod(self, name: str, limit: float = 0.3, vram_bytes: int = 8 * GIB, isolation: Isolation = Isolation.SOFT) -> str:
        """A pod as it is after bind and start, with its container's cgroup. Returns its UID."""
        worker = WorkerSpec(
            mode=Mode.LOCAL, pool=None, workload=name, qos=QoS.MEDIUM, priority_class="", isolation=isolation,
            vendor=Vendor.NVIDIA, gpu_count=1, containers=("main",),
        )  # fmt: skip
        annotations = {key("resolved"): canonical(to_json(worker, {})), key("effective"): self.effective(limit, vram_bytes)}
        spec = {"nodeName": NODE, "containers": [{"name": "main", "image": "x"}], "terminationGracePeriodSeconds": 0}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": spec}
        self.plane.kubectl("create", "-f", "-", stdin=json.dumps(body))
        uid = str(self.get("pod", name)["metadata"]["uid"])
        self.node.container(uid, nodes.container_id(1))
        status = {"phase": "Running", "containerStatuses": [
            {"name": "main", "image": "x", "imageID": "x", "ready": True, "restartCount": 0, "started": True,
             "state": {"running": {}}, "containerID": f"containerd://{nodes.container_id(1)}"},
        ]}  # fmt: skip
        self.plane.kubectl(
            "patch", "pod", name, "--subresource", "status", "--type", "merge", "-p", json.dumps({"status": status})
        )
        return uid

    def effective(self, limit: float, vram_bytes: int) -> str:
        amount = Amount(Decimal(str(limit)) * 312, vram_bytes, Decimal(str(limit)) * 100)
        return to_text(Effective((EffectiveCard(self.card(), amount, amount),)))

    def limits(self) -> Mapping[str, tuple[int, int]]:
        return self.fake.limits(self.fake.cards[0])

    def parts(self) -> list[dict[str, Any]]:
        return list(self.gpu(1)["status"].get("partitions", ()))

    def rows(self, uid: str) -> list[dict[str, Any]]:
        return [row for row in self.gpu()["status"].get("pods", ()) if row["uid"] == uid]


def start(kubeconfig: Path, fake: Fake, node: nodes.Node, folder: Path) -> tuple[subprocess.Popen[str], tuple[int, int]]:
    command = [
        sys.executable, "-m", "tensorfusion_iac.cli", "serve", "agent", "--node", NODE, "--kubeconfig", str(kubeconfig),
        "--cgroups", str(node.mount), "--run-folder", str(folder), "--metrics-port", "0", "--history-port", "0",
    ]  # fmt: skip
    process = subprocess.Popen(command, env=fake.environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if match := re.search(r"ready on port (\d+), history on (\d+)", line):
            os.set_blocking(process.stderr.fileno(), False)
            return process, (int(match[1]), int(match[2]))
    raise AssertionError("the agent did not start")


def through_a_line(plane: ControlPlane, folder: Path) -> tuple[Line, Path]:
    """A way to the API server that can be cut, and a kubeconfig that takes it."""
    config = yaml.safe_load(plane.kubeconfig.read_text())
    server = urllib.parse.urlsplit(config["clusters"][0]["cluster"]["server"])
    line = Line(str(server.hostname), int(server.port or 443))
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{line.port}"
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    for name in ("certificate-authority", "client-certificate", "client-key"):
        for entry in (config["clusters"][0]["cluster"], config["users"][0]["user"]):
            if name in entry:
                entry[name] = str((plane.kubeconfig.parent / entry[name]).resolve())
    path.write_text(json.dumps(config))
    return line, path


@pytest.fixture(scope="module")
def running(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("agent")
    control_plane.install_crds()
    node_object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(node_object))
    fake = Fake(build(folder / "built"), folder / "cards")
    fake.add_card()
    fake.allow_mig(fake.add_card(), (("1g.10gb", 0, 1, (0, 1, 2, 3, 4, 5, 6), 1), ("3g.40gb", 2, 3, (0, 4), 4)))
    fake.add_card("NVIDIA X9000 Prototype", 24)
    with nodes.made(folder / "cgroup") as node:
        line, kubeconfig = through_a_line(control_plane, folder)
        process, ports = start(kubeconfig, fake, node, folder / "run")
        try:
            yield Running(control_plane, line, fake, node, process, ports)
        finally:
            line.cut()
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=20)
            control_plane.kubectl("delete", "node", NODE, "--ignore-not-found")


def test_cards_and_node_are_reported(running: Running) -> None:
    gpu = eventually(lambda: running.plane.kubectl("get", "gpu", running.card().lower(), "--ignore-not-found") and running.gpu())
    eventually(lambda: "uuid" in running.gpu().get("status", {}))
    status = running.gpu()["status"]
    assert {key: status[key] for key in ("phase", "health", "usedBy", "model", "index", "nodeName", "vendor")} == {
        "phase": "Running", "health": "Healthy", "usedBy": "tensor-fusion", "model": "A100_SXM_80G", "index": 0,
        "nodeName": NODE, "vendor": "NVIDIA",
    }  # fmt: skip
    assert status["capabilities"]["vramLimit"] == "driver"
    assert status["capabilities"]["computeLimit"] == "freezer"
    assert gpu["metadata"]["ownerReferences"][0]["name"] == NODE
    gpu_node = eventually(lambda: running.get("gpunode", NODE).get("status"))
    assert (gpu_node["phase"], gpu_node["totalGPUs"]) == ("Running", 3)
    named = ("lease", f"tensor-fusion-agent-{NODE}", "-n", "kube-node-lease")
    lease = eventually(lambda: running.plane.kubectl("get", *named, "--ignore-not-found") and running.get(*named))
    assert lease["spec"]["holderIdentity"] == NODE


def test_an_unknown_model_has_its_own_facts_and_a_warning(running: Running) -> None:
    status = eventually(lambda: running.gpu(2).get("status"))
    assert status["model"] == "NVIDIA X9000 Prototype"
    assert status["capacity"]["tflops"] == "0"
    assert "catalogue" in status["message"]


def test_a_pod_is_held_from_start_to_end(running: Running) -> None:
    uid = running.add_pod("held")
    container = running.node.container(uid, nodes.container_id(1))
    limits = eventually(lambda: len(running.limits()) == 2 and running.limits())
    assert set(limits.values()) == {(8 * GIB, 8 * GIB)}
    assert {Path(path).name for path in limits} == {f"pod{uid}", container.name}
    row = eventually(lambda: running.rows(uid) and running.rows(uid)[0].get("applied", {}).get("vram") and running.rows(uid)[0])
    assert row["enforcedBy"] == "vram=driver,compute=freezer"
    assert row["container"] == "main"
    assert row["applied"] == {"tflops": "93.6", "vram": "8Gi"}
    with running.fake.working():
        job = running.node.run(container, running.fake.job_command())
        duty = container / "tf-duty"
        eventually(lambda: duty.is_dir() and str(job.pid) in (duty / "cgroup.procs").read_text())
        metrics = eventually(lambda: (text := scrape(running)) and 'pod="held"' in text and text)
        assert re.search(r'tensor_fusion_pod_vram_used_bytes\{[^}]*pod="held"[^}]*\} 1.073741824e\+09', metrics)
        assert 'enforced_by="vram=driver,compute=freezer"' in metrics
        running.plane.kubectl("annotate", "pod", "held", "--overwrite", f"{key('effective')}={running.effective(0.5, 4 * GIB)}")
        eventually(lambda: set(running.limits().values()) == {(4 * GIB, 4 * GIB)})
        eventually(lambda: running.rows(uid)[0]["applied"] == {"tflops": "156", "vram": "4Gi"})
        job.kill()
        job.wait(timeout=10)
    running.plane.kubectl("delete", "pod", "held", "--force")
    eventually(lambda: not running.limits())
    eventually(lambda: not (container / "tf-duty").exists())
    eventually(lambda: not running.rows(uid))


def scrape(running: Running) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{running.ports[0]}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def test_the_history_is_for_the_controller_alone_over_the_certificate_of_the_lease(running: Running) -> None:
    lease = eventually(lambda: running.get("lease", f"tensor-fusion-agent-{NODE}", "-n", "kube-node-lease"))
    endpoint = lease["metadata"]["annotations"][key("agent-endpoint")]
    pem = base64.b64decode(lease["metadata"]["annotations"][key("agent-certificate")]).decode()
    context = ssl.create_default_context(cadata=pem)
    for namespace, account in ((SYSTEM_NAMESPACE, "tensor-fusion-controller"), ("default", "somebody")):
        if namespace != "default":
            manifest = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            running.plane.kubectl("apply", "-f", "-", stdin=manifest)
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}}
        running.plane.kubectl("apply", "-f", "-", stdin=json.dumps(body))

    def ask(token: str) -> tuple[int, Any]:
        request = urllib.request.Request(endpoint, headers={"Authorization": f"Bearer {token}"} if token else {})
        try:
            with urllib.request.urlopen(request, timeout=10, context=context) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, None

    def token(namespace: str, account: str, audience: str) -> str:
        return running.plane.kubectl("create", "token", account, "-n", namespace, "--audience", audience).strip()

    controller = (SYSTEM_NAMESPACE, "tensor-fusion-controller")
    assert ask("")[0] == 401
    assert ask("nonsense")[0] == 401
    assert ask(token("default", "somebody", "tensor-fusion-agent"))[0] == 401
    assert ask(token(*controller, "https://kubernetes.default.svc"))[0] == 401
    status, body = ask(token(*controller, "tensor-fusion-agent"))
    assert status == 200
    assert "usage" in body


def test_partitions_follow_the_spec_and_report_their_uuids(running: Running) -> None:
    name = running.card(1).lower()
    eventually(lambda: running.gpu(1).get("status"))
    spec = {"spec": {"partitions": [
        {"template": "3g.40gb", "start": 4, "size": 4}, {"template": "1g.10gb", "start": 0, "size": 1, "podUID": "u-1"},
    ]}}  # fmt: skip
    running.plane.kubectl("patch", "gpu", name, "--type", "merge", "-p", json.dumps(spec))
    parts = eventually(
        lambda: len(running.gpu(1)["status"].get("partitions", ())) == 2 and running.gpu(1)["status"]["partitions"]
    )
    assert [(part["template"], part["start"], part.get("podUID")) for part in parts] == [
        ("1g.10gb", 0, "u-1"),
        ("3g.40gb", 4, None),
    ]
    assert all(part["uuid"].startswith("MIG-") for part in parts)
    running.plane.kubectl("patch", "gpu", name, "--type", "merge", "-p", json.dumps({"spec": {"partitions": []}}))
    eventually(lambda: not running.parts())


def test_a_sick_card_is_reported_and_a_deleted_object_comes_back(running: Running) -> None:
    running.fake.add_xid(2, 79)
    eventually(lambda: running.gpu(2)["status"]["health"] == "Unhealthy")
    assert running.gpu(0)["status"]["health"] == "Healthy"
    running.plane.kubectl("delete", "gpu", running.card(2).lower())
    eventually(lambda: running.plane.kubectl("get", "gpu", running.card(2).lower(), "--ignore-not-found") != "")
    eventually(lambda: running.gpu(2).get("status", {}).get("health") == "Unhealthy")


def test_what_does_not_change_is_not_written(running: Running) -> None:
    eventually(lambda: running.gpu().get("status"))
    time.sleep(1.5)
    before = [running.gpu(index)["metadata"]["resourceVersion"] for index in range(3)]
    time.sleep(3)
    assert [running.gpu(index)["metadata"]["resourceVersion"] for index in range(3)] == before


def test_without_the_api_server_pods_are_held_on_and_what_was_missed_is_made_up_for(running: Running) -> None:
    uid = running.add_pod("outage", limit=0.1)
    container = running.node.container(uid, nodes.container_id(1))
    with running.fake.working():
        job = running.node.run(container, running.fake.job_command())
        eventually(lambda: (container / "tf-duty").is_dir() and len(running.limits()) == 2)
        running.line.cut()
        try:
            time.sleep(4)
            begin_s, given_s = time.monotonic(), running.fake.job_seconds(job.pid)
            time.sleep(4)
            share = (running.fake.job_seconds(job.pid) - given_s) / (time.monotonic() - begin_s)
            assert share < 0.2
            assert len(running.limits()) == 2
            running.plane.kubectl("delete", "pod", "outage", "--force")
        finally:
            running.line.mend()
        eventually(lambda: not running.limits() and not (container / "tf-duty").exists(), within_s=40)
        job.kill()
    assert running.process.poll() is None


def test_a_second_agent_of_the_node_is_refused(running: Running, tmp_path: Path) -> None:
    run_folder = next(running.node.mount.parent.glob("run"))
    command = [
        sys.executable, "-m", "tensorfusion_iac.cli", "serve", "agent", "--node", NODE, "--kubeconfig",
        str(running.plane.kubeconfig), "--cgroups", str(running.node.mount), "--run-folder", str(run_folder),
        "--metrics-port", "0", "--history-port", "0",
    ]  # fmt: skip
    run = subprocess.run(command, env=running.fake.environment, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 3
    assert "another agent" in run.stderr
    assert "Traceback" not in run.stderr


def test_an_agent_that_ends_lets_everything_run(running: Running) -> None:
    uid = running.add_pod("last", limit=0.1)
    container = running.node.container(uid, nodes.container_id(1))
    with running.fake.working():
        job = running.node.run(container, running.fake.job_command())
        eventually(lambda: (container / "tf-duty").is_dir() and running.limits())
        running.process.terminate()
        assert running.process.wait(timeout=20) == 0
        assert not (container / "tf-duty").exists()
        assert str(job.pid) in (container / "cgroup.procs").read_text()
        assert running.limits() == {}
        job.kill()
    running.plane.kubectl("delete", "pod", "last", "--force")
