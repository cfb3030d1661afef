"""The platform installed in a cluster by one `pulumi up`: real pulumi, provider and API server; its pods are KWOK's (Part 6).

The embedded control plane's webhook stands in for the pods': it makes the certificate and has the API server trust it. But
nothing listens behind the Service, so that here the platform is always down for those who need it (R2).
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi_project import NO_CHANGES, Project, new_project, prepare
from running_plane import ControlPlane, tool, tools

from tensorfusion_iac.api.names import AGENT_NAMESPACE, ENABLED_LABEL, SYSTEM_NAMESPACE
from tensorfusion_iac.local import control_plane as door
from tensorfusion_iac.local.layout import Layout

pytestmark = pytest.mark.cluster

TESTS = Path(__file__).parents[1]
GOLDEN = TESTS / "golden" / "rights"
FROZEN = sorted(path.name for path in (TESTS / "upgrade").iterdir())
PROGRAM = """
import tensorfusion_iac as tfi
platform = tfi.ControlPlane("tensor-fusion", kubernetes_version="1.37.2", image="registry.example/tensorfusion-iac:test")
"""
ACCOUNTS = {
    "tensor-fusion-webhook": SYSTEM_NAMESPACE,
    "tensor-fusion-scheduler": SYSTEM_NAMESPACE,
    "tensor-fusion-controller": SYSTEM_NAMESPACE,
    "tensor-fusion-agent": AGENT_NAMESPACE,
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    layout = Layout.at(tmp_path_factory.mktemp("platform") / "plane")
    door.up(layout, door.Wish(), tools, lambda line: None)
    try:
        yield ControlPlane(layout)
    finally:
        door.purge(layout, lambda line: None)


@pytest.fixture(scope="module")
def project(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A stack with the platform in it, and nothing deployed yet."""
    prepare(plane)
    made = new_project(plane, tmp_path_factory.mktemp("project"), "platform")
    made.write(PROGRAM)
    return made


@pytest.fixture(scope="module")
def installed(project: Project, plane: ControlPlane) -> Project:
    """The platform, installed over a workload that was there before it, and over what the oldest version left behind."""
    plane.kubectl("apply", "--server-side", "-f", str(TESTS / "upgrade" / FROZEN[0] / "crds.yaml"))
    plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
    plane.kubectl("apply", "--server-side", "-f", str(TESTS / "upgrade" / FROZEN[0] / "objects.yaml"))
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(deployment("early", {ENABLED_LABEL: "true"})))
    project.up()
    return project


def deployment(name: str, labels: dict[str, str]) -> dict[str, Any]:
    labels = {"app": name, **labels}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template},
    }  # fmt: skip


def pod(name: str, namespace: str = "default", **labels: str) -> str:
    spec = {"containers": [{"name": "main", "image": "app:1"}]}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}
    )


def tried(plane: ControlPlane, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tool("kubectl"), "--kubeconfig", plane.kubeconfig, *arguments],
        input=stdin, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def ours(plane: ControlPlane, kinds: str) -> set[str]:
    """The names of what the platform has of these kinds, cluster-wide."""
    return set(plane.kubectl("get", kinds, "-A", "-o", "name", "-l", "app.kubernetes.io/part-of=tensor-fusion").split())


def test_one_up_runs_every_program_under_the_pod_security_of_its_namespace(installed: Project, plane: ControlPlane) -> None:
    for name in ("controller", "scheduler", "webhook"):
        found = installed.object("deployment", f"tensor-fusion-{name}", SYSTEM_NAMESPACE)
        assert found["status"]["readyReplicas"] == 2
    nodes = plane.kubectl("get", "nodes", "-o", "name").split()
    plane.kubectl("rollout", "status", "daemonset/tensor-fusion-agent", "-n", AGENT_NAMESPACE, "--timeout=60s")
    assert len(installed.objects("pods", AGENT_NAMESPACE)) == len(nodes)
    refused = tried(plane, "create", "-f", "-", stdin=pod("root", SYSTEM_NAMESPACE))
    assert 'violates PodSecurity "restricted:latest"' in refused.stderr


def test_a_second_up_changes_nothing(installed: Project) -> None:
    installed.ok("up", "--yes", "--skip-preview", "--refresh", NO_CHANGES)


@pytest.mark.parametrize("account", ACCOUNTS)
def test_an_account_has_the_rights_that_are_written_down_and_no_others(
    installed: Project, plane: ControlPlane, account: str
) -> None:
    user = f"system:serviceaccount:{ACCOUNTS[account]}:{account}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{ACCOUNTS[account]}", "system:authenticated")
    as_it = [f"--as={user}", *(f"--as-group={group}" for group in groups)]
    shown: list[str] = []
    everywhere: set[str] = set()
    for namespace in ("default", SYSTEM_NAMESPACE, "kube-node-lease", "kube-system"):
        rows = plane.kubectl("auth", "can-i", "--list", "-n", namespace, *as_it).splitlines()[1:]
        lines = {in_order(row) for row in rows}
        shown += [f"== {namespace}", *sorted(lines - everywhere)]
        everywhere = everywhere or lines
    assert "\n".join(shown) + "\n" == (GOLDEN / f"{account}.txt").read_text()


def in_order(row: str) -> str:
    """A row of kubectl's table, without its layout, and with its verbs sorted."""
    what, _, verbs = re.sub(r"\s{2,}", "  ", row.rstrip()).rpartition("[")
    return f"{what}[{' '.join(sorted(verbs.rstrip(']').split()))}]"


def test_an_agents_token_writes_the_objects_of_its_own_node_alone(installed: Project, plane: ControlPlane) -> None:
    nodes = json.loads(plane.kubectl("get", "nodes", "-o", "json"))["items"][:2]
    (mine, theirs) = (node["metadata"]["name"] for node in nodes)
    bound = ("--bound-object-kind=Node", f"--bound-object-name={mine}")
    account = ("tensor-fusion-agent", "-n", AGENT_NAMESPACE)
    tokens = {
        "bound": plane.kubectl("create", "token", *account, *bound).strip(),
        "unbound": plane.kubectl("create", "token", *account).strip(),
    }
    server = yaml.safe_load(plane.kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = plane.kubeconfig.with_name("authority.pem")
    authority.write_bytes(base64.b64decode(server["certificate-authority-data"]))

    def write(token: str, *objects: dict[str, Any], status: bool = False) -> str:
        run = subprocess.run(
            [tool("kubectl"), "--kubeconfig=/dev/null", f"--server={server['server']}", f"--token={tokens[token]}",
             f"--certificate-authority={authority}", "apply", "--server-side", "--force-conflicts",
             *(["--subresource=status"] if status else []), "-f", "-"],
            input=yaml.safe_dump_all(objects), capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return "" if run.returncode == 0 else run.stderr

    def gpu(name: str, node: str, owner: str) -> dict[str, Any]:
        uid = next(item["metadata"]["uid"] for item in nodes if item["metadata"]["name"] == owner)
        owners = [{"apiVersion": "v1", "kind": "Node", "name": owner, "uid": uid}]
        metadata = {"name": name, "ownerReferences": owners}
        return {"apiVersion": "tensor-fusion.ai/v1", "kind": "GPU", "metadata": metadata, "status": {"nodeName": node}}

    def lease(name: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "kube-node-lease"}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": "x"}}

    def gpu_node(name: str) -> dict[str, Any]:
        return {"apiVersion": "tensor-fusion.ai/v1", "kind": "GPUNode", "metadata": {"name": name}}

    own, other = gpu("gpu-mine", mine, mine), gpu("gpu-theirs", theirs, theirs)
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(other))
    assert write("bound", own, lease(f"tensor-fusion-agent-{mine}"), gpu_node(mine)) == ""
    assert write("bound", own, status=True) == ""
    refusals = {
        "another node's card": write("bound", other),
        "its status": write("bound", other, status=True),
        "taking it over": write("bound", gpu("gpu-theirs", mine, mine)),
        "another node in the status": write("bound", gpu("gpu-mine", theirs, mine), status=True),
        "another node's object": write("bound", gpu_node(theirs)),
        "another agent's heartbeat": write("bound", lease(f"tensor-fusion-agent-{theirs}")),
        "a kubelet's heartbeat": write("bound", lease(mine)),
        "a token of no node": write("unbound", own),
    }
    for what, said in refusals.items():
        assert "tensor-fusion-agent-" in said, what
        assert "denied" in said, what


def test_pods_that_are_not_ours_start_while_we_are_down_and_ours_are_refused_with_the_reason(
    installed: Project, plane: ControlPlane
) -> None:
    for namespace in ("default", "kube-system"):
        plane.kubectl("create", "-f", "-", stdin=pod("plain", namespace))
        plane.kubectl("wait", "pod/plain", "-n", namespace, "--for=condition=Ready", "--timeout=30s")
        plane.kubectl("delete", "pod", "plain", "-n", namespace, "--wait=false")
    refused = tried(plane, "create", "-f", "-", stdin=pod("enabled", **{ENABLED_LABEL: "true"}))
    assert 'failed calling webhook "pods.admission.tensor-fusion.ai"' in refused.stderr


def test_an_uninstall_stops_nothing_leaves_nothing_in_the_way_and_can_be_undone(installed: Project, plane: ControlPlane) -> None:
    pool = {"apiVersion": "tensor-fusion.ai/v1", "kind": "GPUPool", "metadata": {"name": "kept"}, "spec": {}}
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(pool))
    before = {item["metadata"]["uid"] for item in installed.objects("pods", "default")}
    installed.ok("destroy", "--yes", "--skip-preview")
    assert before <= {item["metadata"]["uid"] for item in installed.objects("pods", "default")}
    nothing_is_left(plane)
    installed.up()
    assert plane.kubectl("get", "gpupool", "kept", "-o", "name")


def test_an_uninstall_after_our_namespaces_were_deleted_by_hand_does_not_hang(installed: Project, plane: ControlPlane) -> None:
    plane.kubectl("delete", "namespace", SYSTEM_NAMESPACE, AGENT_NAMESPACE, "--timeout=60s")
    installed.ok("destroy", "--yes", "--skip-preview")
    nothing_is_left(plane)


@pytest.mark.parametrize("version", FROZEN)
def test_objects_of_earlier_versions_are_there_and_still_taken(installed: Project, plane: ControlPlane, version: str) -> None:
    path = TESTS / "upgrade" / version / "objects.yaml"
    objects = list(yaml.safe_load_all(path.read_text()))
    said = plane.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", str(path))
    assert len(said.splitlines()) == len(objects)
    if version == FROZEN[0]:
        # The controller removes what stands for cards and nodes that are not there.
        users = {item["metadata"]["name"] for item in objects if item["kind"] not in ("GPU", "GPUNode")}
        kept = plane.kubectl("get", "-f", str(path), "--ignore-not-found", "-o", "name").split()
        assert users <= {name.rpartition("/")[2] for name in kept}


def nothing_is_left(plane: ControlPlane) -> None:
    """No object of ours but CRDs and what they hold; pods start, enabled and not."""
    assert ours(plane, "mutatingwebhookconfigurations,validatingwebhookconfigurations") == set()
    assert ours(plane, "validatingadmissionpolicies,validatingadmissionpolicybindings") == set()
    assert ours(plane, "namespaces,clusterroles,clusterrolebindings,priorityclasses,runtimeclasses") == set()
    assert ours(plane, "roles,rolebindings,deployments,daemonsets,services,configmaps") == set()
    assert plane.kubectl("get", "gpupool", "kept", "-o", "name")
    plane.kubectl("create", "-f", "-", stdin=pod("plain-again"))
    plane.kubectl("wait", "pod/plain-again", "--for=condition=Ready", "--timeout=30s")
    plane.kubectl("delete", "pod", "plain-again")
    plane.kubectl("scale", "deployment", "early", "--replicas=2")
    plane.kubectl("rollout", "status", "deployment/early", "--timeout=30s")
    plane.kubectl("scale", "deployment", "early", "--replicas=1")
