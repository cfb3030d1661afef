"""The embedded control plane, run for real: how it comes up, what it survives, and that nothing of it is left behind."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import psutil
import pytest
from running_plane import ControlPlane, tool, tools
from waiting import eventually

from tensorfusion_iac.kube.client import Client, Object
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import CONFIG_MAPS, LEASES, NODES, PODS, Resource
from tensorfusion_iac.local import certs, leftovers, ports
from tensorfusion_iac.local import control_plane as door
from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.state import NodeGroup, load_runtime, load_settings, save
from tensorfusion_iac.local.status import ProcessStatus, status

pytestmark = pytest.mark.cluster

SMALL = door.Wish(groups=(NodeGroup(model="L40S", gpus_per_node=2, nodes=1),))
DEPLOYMENTS, JOBS = Resource("apps", "v1", "deployments", "Deployment"), Resource("batch", "v1", "jobs", "Job")


def silent(line: str) -> None:
    """Say nothing."""


def up(layout: Layout, wish: door.Wish = SMALL, say: door.Say = silent) -> door.Up:
    return door.up(layout, wish, tools, say, owner_pid=os.getpid())


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    """A folder for a control plane of the test's own, which is ended after it."""
    made = Layout.at(tmp_path / "local")
    yield made
    door.purge(made, silent)


@pytest.fixture(scope="module")
def sturdy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    """A control plane of this module's own, whose processes tests may kill; it is up and healthy at a test's start."""
    made = Layout.at(tmp_path_factory.mktemp("sturdy"))
    up(made)
    yield made
    door.purge(made, silent)


def pids(layout: Layout) -> dict[str, int]:
    return {item.name: item.process.pid for item in leftovers.find(layout.root)}


def process(layout: Layout, name: str) -> ProcessStatus:
    return next(item for item in status(layout).processes if item.name == name)


def processes_that_mention(layout: Layout) -> list[str]:
    """Another way to look than the marks: any process whose command line names the folder."""
    lines = [" ".join(item.info["cmdline"] or []) for item in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(layout.root) in line]


def container(name: str) -> Object:
    return {"containers": [{"name": name, "image": "example.com/app:1"}]}


def test_nodes_are_ready_and_deployments_run(control_plane: ControlPlane) -> None:
    labels = {"app": "local-web"}
    body = {
        "metadata": {"name": "local-web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": container("web")},
        },
    }
    control_plane.ask(lambda client: client.create(DEPLOYMENTS, body, "default"))
    control_plane.kubectl("rollout", "status", "deployment/local-web", "--timeout=60s")
    pods = control_plane.ask(lambda client: client.list(PODS, "default", label_selector="app=local-web")).items
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert len({pod["status"]["podIP"] for pod in pods}) == 2
    control_plane.ask(lambda client: client.delete(DEPLOYMENTS, "local-web", "default"))
    eventually(lambda: not control_plane.ask(lambda client: client.list(PODS, label_selector="app=local-web")).items)


def test_jobs_complete(control_plane: ControlPlane) -> None:
    template = {"spec": container("work") | {"restartPolicy": "Never"}}
    body = {"metadata": {"name": "local-job"}, "spec": {"template": template, "completions": 2, "parallelism": 2}}
    control_plane.ask(lambda client: client.create(JOBS, body, "default"))
    control_plane.kubectl("wait", "--for=condition=Complete", "job/local-job", "--timeout=60s")
    control_plane.ask(lambda client: client.delete(JOBS, "local-job", "default"))


def test_kubectl_reads_what_nodes_are(control_plane: ControlPlane) -> None:
    lines = control_plane.kubectl("get", "nodes", "-L", "nvidia.com/gpu.product", "--no-headers").splitlines()
    assert sorted((line.split()[0], line.split()[1], line.split()[-1]) for line in lines) == [
        ("a100-sxm-80g-0", "Ready", "A100_SXM_80G"),
        ("a100-sxm-80g-1", "Ready", "A100_SXM_80G"),
        ("l40s-0", "Ready", "L40S"),
    ]


def test_each_nodes_agent_beats(control_plane: ControlPlane) -> None:
    leases = control_plane.ask(lambda client: client.list(LEASES, "kube-node-lease")).items
    nodes = {node["metadata"]["uid"] for node in control_plane.ask(lambda client: client.list(NODES)).items}
    assert {lease["metadata"]["ownerReferences"][0]["uid"] for lease in leases} == nodes
    assert all(lease["spec"]["renewTime"] for lease in leases)


def test_who_brings_no_certificate_is_refused(control_plane: ControlPlane) -> None:
    tls = ssl.create_default_context(cafile=certs.Pki(control_plane.layout.pki).pair(certs.CLUSTER).certificate)

    async def anonymous(client: Client) -> int:
        async with aiohttp.ClientSession() as session, session.get(f"{client.credentials.server}/api", ssl=tls) as response:
            return response.status

    assert control_plane.ask(anonymous) == 401


def test_a_service_account_may_do_nothing_unasked(control_plane: ControlPlane) -> None:
    answer = control_plane.kubectl("auth", "can-i", "--list", "--as=system:serviceaccount:default:default", "-n", "default")
    assert "pods" not in answer
    with pytest.raises(AssertionError, match="forbidden"):
        control_plane.kubectl("get", "secrets", "-A", "--as=system:serviceaccount:default:default")


def test_the_administrator_cannot_open_the_store(control_plane: ControlPlane) -> None:
    settings = load_settings(control_plane.layout.settings)
    assert settings
    pki = certs.Pki(control_plane.layout.pki)
    tls = ssl.create_default_context(cafile=pki.pair(certs.ETCD).certificate)
    admin = pki.pair("admin")
    tls.load_cert_chain(admin.certificate, admin.key)

    async def read(_: Client) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://{ports.HOST}:{settings.ports.etcd}/version", ssl=tls) as response,
        ):
            await response.read()

    with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
        control_plane.ask(read)


def test_everything_listens_on_loopback_alone(control_plane: ControlPlane) -> None:
    addresses = {
        connection.laddr.ip
        for item in leftovers.find(control_plane.layout.root)
        for connection in item.process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses == {"127.0.0.1"}


def test_a_second_up_is_a_no_op(control_plane: ControlPlane) -> None:
    own = control_plane.layout.own
    before = pids(control_plane.layout), {path: path.stat().st_mtime_ns for path in own.glob("[!e]*/*")}
    said: list[str] = []
    again = door.up(control_plane.layout, door.Wish(), tools, said.append)
    assert (again.started, said) == (False, [])
    assert (pids(control_plane.layout), {path: path.stat().st_mtime_ns for path in own.glob("[!e]*/*")}) == before


def test_status_is_healthy_and_names_every_process(control_plane: ControlPlane) -> None:
    found = status(control_plane.layout)
    assert found.healthy
    expected = pids(control_plane.layout)
    assert {item.name: item.pid for item in found.processes} | {"supervisor": found.supervisor_pid} == expected


@pytest.mark.parametrize("victim", ["etcd", "kube-apiserver", "kwok"])
def test_a_killed_process_is_started_again(sturdy: Layout, victim: str) -> None:
    killed = pids(sturdy)[victim]
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: process(sturdy, victim).restarts >= 1)
    eventually(lambda: status(sturdy).healthy)
    found = process(sturdy, victim)
    assert found.pid != killed
    assert found.last_end == "was ended by SIGKILL"
    assert f"{victim} was ended by SIGKILL" in sturdy.log("supervisor").read_text()
    assert ControlPlane(sturdy).ask(lambda client: client.list(NODES)).items


def test_a_watch_from_before_the_api_server_restarted_is_told_to_list_again(sturdy: Layout) -> None:
    plane = ControlPlane(sturdy)
    version = plane.ask(lambda client: client.list(CONFIG_MAPS)).resource_version
    plane.ask(lambda client: client.create(CONFIG_MAPS, {"metadata": {"name": "later"}}, "default"))
    restarts = process(sturdy, "kube-apiserver").restarts
    os.kill(pids(sturdy)["kube-apiserver"], signal.SIGKILL)
    eventually(lambda: process(sturdy, "kube-apiserver").restarts > restarts and status(sturdy).healthy)

    async def watch(client: Client) -> None:
        async for _ in client.watch(CONFIG_MAPS, resource_version=version, timeout_s=5):
            pass

    with pytest.raises(ApiError) as error:
        plane.ask(watch)
    assert error.value.gone


def test_up_recovers_from_a_killed_supervisor(sturdy: Layout) -> None:
    before = pids(sturdy)
    os.kill(before["supervisor"], signal.SIGKILL)
    eventually(lambda: not status(sturdy).running)
    assert not status(sturdy).healthy
    assert up(sturdy).started
    assert pids(sturdy).keys() == before.keys()
    assert not set(pids(sturdy).values()) & set(before.values())
    assert ControlPlane(sturdy).ask(lambda client: client.list(NODES)).items


def test_down_ends_what_a_killed_supervisor_left(layout: Layout) -> None:
    up(layout)
    os.kill(pids(layout)["supervisor"], signal.SIGKILL)
    assert door.down(layout, silent)
    assert (pids(layout), processes_that_mention(layout)) == ({}, [])


def test_down_leaves_nothing_running_and_keeps_the_data(layout: Layout) -> None:
    first = up(layout)
    plane = ControlPlane(layout)
    plane.ask(lambda client: client.create(CONFIG_MAPS, {"metadata": {"name": "kept"}, "data": {"a": "b"}}, "default"))
    uid = plane.ask(lambda client: client.get(NODES, "l40s-0"))["metadata"]["uid"]
    assert door.down(layout, silent)
    assert (pids(layout), processes_that_mention(layout)) == ({}, [])
    assert not door.down(layout, silent)
    second = up(layout)
    assert second.server == first.server
    assert plane.ask(lambda client: client.get(CONFIG_MAPS, "kept", "default"))["data"] == {"a": "b"}
    assert plane.ask(lambda client: client.get(NODES, "l40s-0"))["metadata"]["uid"] == uid


def test_purge_leaves_nothing_at_all(layout: Layout) -> None:
    up(layout)
    assert door.purge(layout, silent)
    assert not layout.root.exists()
    assert processes_that_mention(layout) == []
    up(layout)  # with other certificates
    assert status(layout).healthy


def test_processes_are_found_and_ended_even_if_their_folder_is_gone(layout: Layout) -> None:
    up(layout)
    layout.purge([])
    assert pids(layout)
    assert door.down(layout, silent)
    assert pids(layout) == {}


def test_unreadable_settings_and_damaged_certificates_are_recovered_from(layout: Layout) -> None:
    first = up(layout)
    ControlPlane(layout).ask(lambda client: client.create(CONFIG_MAPS, {"metadata": {"name": "kept"}}, "default"))
    door.down(layout, silent)
    layout.settings.write_text(layout.settings.read_text()[:40])
    layout.runtime.write_text("{")
    certs.Pki(layout.pki).pair(certs.CLUSTER).key.write_bytes(b"")
    said: list[str] = []
    second = up(layout, say=said.append)
    assert "does not hold the settings of a control plane" in said[0]
    assert "decided anew" in said[0]
    assert second.server != first.server
    assert ControlPlane(layout).ask(lambda client: client.get(CONFIG_MAPS, "kept", "default"))


def test_a_record_of_another_boot_is_not_believed(layout: Layout) -> None:
    up(layout)
    recorded = load_runtime(layout.runtime)
    assert recorded
    door.down(layout, silent)
    # After a reboot other programs have the recorded ids; here, process 1.
    reused = tuple(record.model_copy(update={"pid": 1}) for record in recorded.processes)
    save(layout.runtime, recorded.model_copy(update={"processes": reused}))
    found = status(layout)
    assert not found.running
    assert {(item.phase.value, item.pid, item.health) for item in found.processes} == {("stopped", None, "does not run")}
    assert up(layout).started


def test_a_busy_port_that_was_asked_for_is_one_clear_error(layout: Layout) -> None:
    with socket.create_server((ports.HOST, 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(LocalError, match=rf"port {port} is in use on 127.0.0.1 by .*; end that, or give another"):
            up(layout, door.Wish(port=port))
    assert pids(layout) == {}


def test_a_port_that_was_asked_for_is_used_and_kept(layout: Layout) -> None:
    port = next(port for port in range(19_000, 19_999) if ports.is_free(port))
    assert up(layout, door.Wish(SMALL.groups, port)).server == f"https://127.0.0.1:{port}"
    with pytest.raises(LocalError, match=rf"already up on port {port}; run `tensorfusion local down` before `up --port"):
        up(layout, door.Wish(port=port + 1))
    assert not up(layout, door.Wish(port=port)).started


def test_a_remembered_port_that_is_busy_now_is_chosen_anew(layout: Layout) -> None:
    port = int(up(layout).server.rpartition(":")[2])
    door.down(layout, silent)
    said: list[str] = []
    with socket.create_server((ports.HOST, port)):
        moved = up(layout, say=said.append)
    assert said[0].startswith(f"port {port} of apiserver is in use now; it moves to ")
    assert not moved.server.endswith(f":{port}")
    assert ControlPlane(layout).ask(lambda client: client.list(NODES)).items


def test_a_program_that_does_not_run_is_named_with_the_end_of_its_log(layout: Layout) -> None:
    broken = dict(tools()) | {"kwok": layout.root.parent / "kwok"}
    broken["kwok"].write_text("#!/bin/sh\necho no such flag >&2\nexit 7\n")
    broken["kwok"].chmod(0o755)
    with pytest.raises(LocalError, match=r"(?s)kwok ended with exit code 7, 3 times in a row; .*no such flag"):
        door.up(layout, SMALL, lambda: broken, silent, owner_pid=os.getpid())
    assert processes_that_mention(layout) == []


def test_everything_ends_with_its_owner(layout: Layout) -> None:
    with subprocess.Popen(["sleep", "600"]) as owner:
        try:
            door.up(layout, SMALL, tools, silent, owner_pid=owner.pid)
            assert pids(layout)
        finally:
            owner.kill()
    eventually(lambda: not pids(layout))


def test_a_signal_to_the_terminals_group_does_not_reach_it(control_plane: ControlPlane) -> None:
    own = pids(control_plane.layout)
    groups = {os.getpgid(pid) for pid in own.values()}
    assert os.getpgid(0) not in groups
    assert len(groups) == len(own)


def test_the_command_brings_it_up_and_down(layout: Layout) -> None:
    folder = [str(tool(name).parent) for name in ("etcd", "kube-apiserver", "kwok")]
    environment = os.environ | {"PATH": os.pathsep.join([*folder, os.environ["PATH"]])}
    command = [sys.executable, "-c", "from tensorfusion_iac.cli import main; main()", "local"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments, "--dir", str(layout.root)], env=environment, capture_output=True, text=True, check=False
        )

    first = run("up", "--gpus", "L40S=1x2")
    assert first.returncode == 0, first.stderr
    assert 'use it:  eval "$(tensorfusion local env)"' in first.stdout
    assert "kube-apiserver is ready" in first.stderr
    assert run("up").stdout.startswith("already up: ")
    healthy = run("status")
    assert healthy.returncode == 0
    assert "simulated nodes: 2 x 1 L40S" in healthy.stdout
    assert run("logs", "kube-scheduler", "-n", "1").stdout.count("\n") == 1
    assert run("down", "--purge").stdout == "down; nothing of it is left\n"
    assert run("status").returncode == 1


def test_the_wish_of_an_unknown_model_starts_nothing(layout: Layout) -> None:
    with pytest.raises(LocalError, match="unknown GPU model"):
        up(layout, door.Wish((NodeGroup(model="L41S", gpus_per_node=1, nodes=1),)))
    assert processes_that_mention(layout) == []


def test_missing_objects_are_api_errors(control_plane: ControlPlane) -> None:
    with pytest.raises(ApiError, match='nodes "none" not found'):
        control_plane.ask(lambda client: client.get(NODES, "none"))
