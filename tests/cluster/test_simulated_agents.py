"""The agents of simulated nodes on a real API server: pods are told of, partitions appear, metrics and histories are served."""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
from decimal import Decimal
from typing import Any

import pytest
import yaml
from running_plane import ControlPlane
from waiting import eventually

from tensorfusion_iac.api.effective import Amount, Effective, EffectiveCard, to_text
from tensorfusion_iac.api.levels import Isolation, Mode, QoS
from tensorfusion_iac.api.names import AGENT_AUDIENCE, CONTROLLER_ACCOUNT, SCHEDULER_ACCOUNT, SYSTEM_NAMESPACE, key
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.worker import WorkerSpec, canonical, to_json
from tensorfusion_iac.components import platform
from tensorfusion_iac.controller.usage import agent_of

pytestmark = pytest.mark.cluster

GIB = 2**30


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    control_plane.install_crds()
    return control_plane


def cards(plane: ControlPlane) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(plane.kubectl("get", "gpus", "-l", "tensor-fusion.ai/simulated=true", "-o", "json"))[
        "items"
    ]
    return [item for item in items if item.get("status", {}).get("uuid")]


def test_pods_partitions_and_metrics_of_simulated_nodes(plane: ControlPlane) -> None:
    card = next(each for each in eventually(lambda: cards(plane)) if each["status"]["model"].startswith("A100"))
    name, facts = card["metadata"]["name"], card["status"]
    worker = WorkerSpec(
        mode=Mode.LOCAL, pool=None, workload="w", qos=QoS.MEDIUM, priority_class="", isolation=Isolation.SOFT,
        vendor=Vendor.NVIDIA, gpu_count=1, containers=("main",),
    )  # fmt: skip
    amount = Amount(Decimal(31), GIB, Decimal(10))
    annotations = {
        key("resolved"): canonical(to_json(worker, {})),
        key("effective"): to_text(Effective((EffectiveCard(facts["uuid"], amount, amount),))),
    }
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "simulated", "annotations": annotations},
        "spec": {"nodeName": facts["nodeName"], "containers": [{"name": "main", "image": "x"}]},
    }  # fmt: skip
    plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    try:
        status = eventually(lambda: (found := gpu(plane, name)["status"]).get("pods") and found)
        assert status["pods"][0]["enforcedBy"] == "vram=driver,compute=freezer"
        assert status["pods"][0]["container"] == "main"
        assert {field: status[field] for field in ("uuid", "model", "capacity")} == {
            field: facts[field] for field in ("uuid", "model", "capacity")
        }
        wanted = {"spec": {"partitions": [{"template": "1g.10gb", "start": 0, "size": 1, "podUID": "u"}]}}
        plane.kubectl("patch", "gpu", name, "--type", "merge", "-p", json.dumps(wanted))
        (part,) = eventually(lambda: gpu(plane, name)["status"].get("partitions"))
        assert part["uuid"].startswith("MIG-")

        def metrics() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{plane.agents_port()}/metrics", timeout=10) as answer:
                return str(answer.read().decode())

        eventually(lambda: re.search(r'tensor_fusion_pod_compute_percent\{[^}]*pod="simulated"', metrics()))
    finally:
        plane.kubectl("patch", "gpu", name, "--type", "merge", "-p", json.dumps({"spec": {"partitions": []}}))
        plane.kubectl("delete", "pod", "simulated", "--force")
    eventually(lambda: not gpu(plane, name)["status"].get("pods"))


def gpu(plane: ControlPlane, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plane.kubectl("get", "gpu", name, "-o", "json"))
    return found


def test_the_lease_of_a_node_says_where_its_history_is_and_only_the_controller_may_read_it(plane: ControlPlane) -> None:
    leases = json.loads(plane.kubectl("get", "leases", "-n", "kube-node-lease", "-o", "json"))["items"]
    found = {one.node: one for item in leases if (one := agent_of(item)) is not None}
    assert set(found) == {item["status"]["nodeName"] for item in cards(plane)}
    agent = next(iter(found.values()))

    def ask(url: str, token: str) -> int:
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=10, context=ssl.create_default_context(cadata=agent.certificate)) as one:
                assert set(json.load(one)) == {"bucketSeconds", "usage"}
                return int(one.status)
        except urllib.error.HTTPError as refused:
            return int(refused.code)

    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([*platform.namespaces(), *platform.service_accounts()]))
    controller, other = (
        plane.kubectl("create", "token", account, "-n", SYSTEM_NAMESPACE, "--audience", AGENT_AUDIENCE).strip()
        for account in (CONTROLLER_ACCOUNT, SCHEDULER_ACCOUNT)
    )
    assert ask(agent.url, controller) == 200
    assert ask(agent.url, other) == 401
    assert ask(agent.url, "") == 401
    assert ask(agent.url.replace(agent.node, "no-such-node"), controller) == 404
