"""The command lines and the generated configuration of the control plane's processes."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from tensorfusion_iac.local import commands, kubeconfig, scheduler_config, stages, supervised
from tensorfusion_iac.local.certs import Pair
from tensorfusion_iac.local.fleet import DEFAULT_GROUPS
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.process import Probe, Process
from tensorfusion_iac.local.state import Ports, Settings

PORTS = Ports(
    apiserver=20001,
    etcd=20002,
    etcd_peer=20003,
    controller_manager=20004,
    scheduler=20005,
    kwok=20006,
    webhook=20007,
    extender=20008,
    controller=20009,
    simulated_agents=20010,
)
LAYOUT = Layout(Path("/home/me/.local"))
SETTINGS = Settings(ports=PORTS, groups=DEFAULT_GROUPS, tools={name: Path("/bin") / name for name in commands.TOOLS})
TABLE = {process.name: process for process in commands.table(SETTINGS, LAYOUT)}


def test_every_program_is_run_under_its_own_name() -> None:
    assert tuple(TABLE) == commands.PROCESSES
    assert all(TABLE[name].argv[0] == f"/bin/{name}" for name in commands.TOOLS)


def test_nothing_waits_for_what_needs_the_platform() -> None:
    idle = {name for name, process in TABLE.items() if process.until}
    assert idle == {"webhook", "extender", "controller"}
    assert all(not idle & set(process.after) for process in TABLE.values())


def test_a_process_stands_after_all_that_it_needs() -> None:
    seen: set[str] = set()
    for process in commands.table(SETTINGS, LAYOUT):
        assert set(process.after) <= seen
        seen.add(process.name)


def test_every_port_is_listened_on_at_loopback_alone() -> None:
    words = " ".join(argument for process in TABLE.values() for argument in process.argv)
    for port in PORTS.model_dump().values():
        assert str(port) in words
    assert "0.0.0.0" not in words
    assert all(f"--bind-address={commands.HOST}" in TABLE[name].argv for name in commands.TOOLS[1:4])


@pytest.mark.parametrize(
    ("process", "argument"),
    [
        ("etcd", "--client-cert-auth"),
        ("etcd", "--peer-client-cert-auth"),
        ("kube-apiserver", "--authorization-mode=Node,RBAC"),
        ("kube-apiserver", "--anonymous-auth=false"),
        ("kube-apiserver", "--allow-privileged=true"),
        ("kube-apiserver", "--client-ca-file=/home/me/.local/control-plane/pki/cluster-ca.crt"),
        ("kube-apiserver", "--etcd-cafile=/home/me/.local/control-plane/pki/etcd-ca.crt"),
        ("kube-controller-manager", "--leader-elect=false"),
        ("kube-controller-manager", "--use-service-account-credentials=true"),
        ("kube-scheduler", "--config=/home/me/.local/control-plane/config/scheduler.yaml"),
        ("kwok", "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake"),
    ],
)
def test_what_matters_is_on_the_command_line(process: str, argument: str) -> None:
    assert argument in TABLE[process].argv


def test_the_scheduler_keeps_its_lease_and_asks_our_extender_about_our_pods_alone() -> None:
    config = yaml.safe_load(scheduler_config.render(Path("/k"), 20008))
    assert config["kind"] == "KubeSchedulerConfiguration"
    assert config["leaderElection"]["leaderElect"] is True
    assert config["clientConnection"]["kubeconfig"] == "/k"
    assert [profile["schedulerName"] for profile in config["profiles"]] == ["default-scheduler", "tensor-fusion-scheduler"]
    (extender,) = config["extenders"]
    assert extender["urlPrefix"] == "http://127.0.0.1:20008"
    assert extender["managedResources"] == [{"name": "tensor-fusion.ai/vgpu", "ignoredByScheduler": True}]


def test_the_stages_are_of_nodes_and_pods() -> None:
    documents = list(yaml.safe_load_all(stages.render()))
    assert {document["kind"] for document in documents} == {"Stage"}
    assert [(document["spec"]["resourceRef"]["kind"], document["metadata"]["name"]) for document in documents] == [
        ("Node", "node-initialize"), ("Node", "node-heartbeat"),
        ("Pod", "pod-ready"), ("Pod", "pod-complete"), ("Pod", "pod-delete"),
    ]  # fmt: skip


def test_a_kubeconfig_embeds_everything() -> None:
    config = yaml.safe_load(kubeconfig.render("https://127.0.0.1:1", "admin", b"CA", b"CRT", b"KEY"))
    (cluster,), (user,), (context,) = config["clusters"], config["users"], config["contexts"]
    assert config["current-context"] == context["name"] == cluster["name"] == "tensorfusion-local"
    assert context["context"] == {"cluster": cluster["name"], "user": user["name"]}
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == b"CA"
    assert base64.b64decode(user["user"]["client-certificate-data"]) == b"CRT"
    assert base64.b64decode(user["user"]["client-key-data"]) == b"KEY"


def test_a_process_is_started_with_little_of_the_users_environment() -> None:
    process = Process("etcd", ("etcd",), Probe("http://x"), env={"GOMAXPROCS": "1"})
    inherited = {"PATH": "/bin", "HOME": "/home/me", "ETCD_NAME": "x", "KUBECONFIG": "/k", "HTTPS_PROXY": "p"}
    assert supervised.environment(inherited, process, LAYOUT.root) == {
        "PATH": "/bin", "HOME": "/home/me", "GOMAXPROCS": "1",
        "TENSORFUSION_LOCAL_ROOT": "/home/me/.local", "TENSORFUSION_LOCAL_PROCESS": "etcd",
    }  # fmt: skip


@pytest.mark.parametrize(("failures", "expected_s"), [(1, 0.5), (2, 1), (3, 2), (6, 16), (7, 30), (1000, 30)])
def test_the_pause_before_a_restart_grows_and_is_bounded(failures: int, expected_s: float) -> None:
    assert supervised.pause_s(failures) == expected_s


def test_a_probe_is_a_value_that_can_be_cached() -> None:
    first = Probe("https://x", Path("/ca"), Pair(Path("/c"), Path("/k")))
    assert {first: 1}[Probe("https://x", Path("/ca"), Pair(Path("/c"), Path("/k")))] == 1
