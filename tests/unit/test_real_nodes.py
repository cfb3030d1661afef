"""The real nodes of a control plane: their addresses, their cgroups, what is written for them, what they need of the machine."""

from __future__ import annotations

import ipaddress
import itertools
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tensorfusion_iac.local import certs, commands, control_plane
from tensorfusion_iac.local.errors import LocalError, WishError
from tensorfusion_iac.local.fleet import DEFAULT_GROUPS
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.real_nodes import cgroups, files, inject, preconditions
from tensorfusion_iac.local.real_nodes.outside import nodes_of
from tensorfusion_iac.local.real_nodes.plan import MAX_REAL_NODES, Network, bridge_name, choose_number, planned
from tensorfusion_iac.local.state import Ports, Programs, Settings

PORTS = Ports(**{name: 20001 + at for at, name in enumerate(Ports.model_fields)})
TOOLS = {name: Path("/bin") / name for name in (*commands.TOOLS, "kubelet", "kube-proxy", "containerd", *files.TOOLS.values())}


def settings(**more: Any) -> Settings:
    return Settings(ports=PORTS, groups=DEFAULT_GROUPS, tools=TOOLS, **more)


def test_every_node_has_addresses_and_names_of_its_own(tmp_path: Path) -> None:
    nodes = planned(Layout.at(tmp_path), 7, MAX_REAL_NODES)
    network = nodes[0].network
    assert len({network.gateway, *(node.address for node in nodes)}) == MAX_REAL_NODES + 1
    assert all(ipaddress.ip_address(node.address) in network.nodes for node in nodes)
    assert all(node.pods.subnet_of(network.pods) for node in nodes)
    assert not any(one.pods.overlaps(other.pods) for one, other in itertools.combinations(nodes, 2))
    assert len({node.link for node in nodes}) == MAX_REAL_NODES
    assert all(len(node.link) <= 15 for node in nodes)
    assert len({node.card_uuid(index) for node in nodes for index in range(4)}) == 4 * MAX_REAL_NODES


def test_another_folder_has_another_bridge(tmp_path: Path) -> None:
    assert bridge_name(Layout.at(tmp_path / "a")) != bridge_name(Layout.at(tmp_path / "b"))


@pytest.mark.parametrize(
    ("remembered", "taken", "chosen"),
    [
        (None, [], 0),
        (5, [], 5),
        (None, ["10.89.0.0/24"], 1),
        (None, ["10.90.0.128/25", "10.89.1.9/32"], 2),
        (5, ["10.89.5.0/28"], 0),
        (None, ["10.0.0.0/8"], None),
        (None, ["192.0.2.0/24", "10.96.0.0/16"], 0),
    ],
)
def test_a_network_is_taken_that_nobody_uses(remembered: int | None, taken: list[str], chosen: int | None) -> None:
    assert choose_number(remembered, map(ipaddress.IPv4Network, taken)) == chosen


HYBRID = """\
30 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
"""
HYBRID_PLACES = "9:name=systemd:/init.scope\n2:cpu,cpuacct:/user/1:a\n0::/here\n"
PURE = "24 23 0:22 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"


def test_hierarchies_are_told_apart_and_our_place_is_found_in_each() -> None:
    places = cgroups.own_paths(HYBRID_PLACES)
    assert places == {"name=systemd": "/init.scope", "cpu,cpuacct": "/user/1:a", "": "/here"}
    found = cgroups.hierarchies(HYBRID)
    assert [(each.folder.name, each.kind, cgroups.controllers_of(each, places)) for each in found] == [
        ("cpu,cpuacct", "cgroup", "cpu,cpuacct"),
        ("systemd", "cgroup", "name=systemd"),
        ("unified", "cgroup2", ""),
    ]
    (pure,) = cgroups.hierarchies(PURE)
    assert (pure.folder, cgroups.controllers_of(pure, cgroups.own_paths("0::/x\n"))) == (cgroups.PURE, "")


def spec(*env: str) -> dict[str, Any]:
    return {"process": {"env": list(env)}, "linux": {"seccomp": {"defaultAction": "SCMP_ACT_ERRNO"}}, "mounts": []}


@pytest.mark.parametrize(
    ("environment", "sees"),
    [
        (["NVIDIA_VISIBLE_DEVICES=all"], True),
        (["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2"], True),
        (["NVIDIA_VISIBLE_DEVICES=void"], False),
        (["NVIDIA_VISIBLE_DEVICES=none"], False),
        (["NVIDIA_VISIBLE_DEVICES="], False),
        ([], False),
    ],
)
def test_a_container_gets_the_cards_that_it_is_to_see(environment: list[str], sees: bool) -> None:
    changed = inject.changed(spec(*environment), "/lib.so", "/state", "/usr/lib/x")
    where = {mount["destination"]: mount["source"] for mount in changed["mounts"]}
    assert where == ({"/usr/lib/x/libnvidia-ml.so.1": "/lib.so", inject.STATE_INSIDE: "/state"} if sees else {})
    assert "seccomp" not in changed["linux"]


def test_what_is_written_for_a_node_is_what_its_programs_read(tmp_path: Path) -> None:
    layout = Layout.at(tmp_path)
    layout.prepare()
    nodes = planned(layout, 3, 2)
    leaves = certs.for_nodes(nodes[0].network.gateway, files.leaves(nodes))
    pki = certs.ensure(layout.pki, leaves=leaves)
    files.write(nodes[1], pki, "https://10.89.3.1:1", TOOLS)
    kubelet = yaml.safe_load((nodes[1].folder / "kubelet.yaml").read_text())
    assert kubelet["address"] == nodes[1].address
    assert kubelet["authentication"]["anonymous"]["enabled"] is False
    containerd = tomllib.loads(files.containerd_config(nodes[1]).read_text())
    assert containerd["root"] == str(nodes[1].folder / "containerd")
    runtimes = containerd["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]
    assert set(runtimes) == {"nvidia", "runc"}
    runtime = Path(runtimes["nvidia"]["options"]["BinaryName"])
    assert subprocess.run(["sh", "-n", runtime], check=False).returncode == 0
    assert {path.name for path in files.programs_folder(nodes[1]).iterdir()} == {*files.TOOLS, "runc-with-cards"}
    users = yaml.safe_load((nodes[1].folder / "kubelet.kubeconfig").read_text())["users"]
    assert [user["name"] for user in users] == ["real-1"]


def test_without_real_nodes_the_api_server_is_told_to_nobody() -> None:
    layout = Layout(Path("/home/me/.local"))
    plain = {process.name: process for process in commands.table(settings(), layout)}
    real = {process.name: process for process in commands.table(settings(real_nodes=2, network=3), layout)}
    assert "--endpoint-reconciler-type=none" in plain["kube-apiserver"].argv
    assert "--advertise-address=10.89.3.1" in real["kube-apiserver"].argv
    assert f"--bind-address={commands.HOST}" in real["kube-apiserver"].argv
    assert real.keys() - plain.keys() == {"node-network", "real-0", "real-1"}
    assert real["real-1"].after == ("node-network",)
    assert [node.name for node in nodes_of(layout, settings(real_nodes=2, network=3))] == ["real-0", "real-1"]


def test_where_our_programs_are_pods_none_of_them_is_a_process() -> None:
    table = commands.table(settings(programs=Programs.CLUSTER, real_nodes=1, network=0), Layout(Path("/home/me/.local")))
    assert not {"webhook", "extender", "controller"} & {process.name for process in table}


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (control_plane.Wish(programs=Programs.CLUSTER), "add --real-nodes 1"),
        (control_plane.Wish(programs=Programs.CLUSTER, real_nodes=1, groups=DEFAULT_GROUPS), "leave simulated nodes out"),
    ],
)
def test_a_wish_that_cannot_work_is_refused_before_anything_starts(
    tmp_path: Path, wish: control_plane.Wish, message: str
) -> None:
    with pytest.raises(WishError, match=message):
        control_plane.up(Layout.at(tmp_path), wish, dict, lambda line: None)


def test_all_that_is_missing_is_told_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LocalError) as refused:
        preconditions.demand(Path("/var/lib/me/.local"))
    for word in ("--dir", "ip is not on PATH", "unshare", "mount", "C compiler", "root"):
        assert word in str(refused.value)


def test_networks_of_two_numbers_do_not_overlap() -> None:
    for one, other in itertools.combinations(map(Network, (0, 1, 255)), 2):
        assert not one.nodes.overlaps(other.nodes)
        assert not one.pods.overlaps(other.pods)
