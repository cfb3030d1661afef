"""What `make demo` does, from an empty folder to nothing left: the real program, pulumi, provider, API server and webhook."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from state_bucket import bucket
from waiting import eventually

from tensorfusion_iac.api.effective import from_text
from tensorfusion_iac.api.quantity import parse_quantity
from tensorfusion_iac.api.worker import from_json
from tensorfusion_iac.local import control_plane, leftovers, pulumi_home
from tensorfusion_iac.local.layout import Layout

pytestmark = pytest.mark.cluster

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_S = 300
GIB = 2**30
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Demo:
    """A copy of the quick start's project, and a control plane of its own."""

    project: Path
    layout: Layout
    more: Mapping[str, str] = field(default_factory=dict)

    def tensorfusion(self, *arguments: str) -> str:
        return self._run(
            [sys.executable, "-m", "tensorfusion_iac.cli", *arguments, "--dir", str(self.layout.root)], self.project, 0
        )

    def operate(self, *arguments: str, code: int = 0) -> str:
        """A command that finds the cluster by its kubeconfig."""
        return self._run([sys.executable, "-m", "tensorfusion_iac.cli", *arguments], self.project, code)

    def kubectl(self, *arguments: str) -> str:
        return self._run(["kubectl", *arguments], self.project, 0)

    def pulumi(self, *arguments: str, folder: str = ".", code: int = 0) -> str:
        return self._run(["pulumi", *arguments, "--non-interactive"], self.project / folder, code)

    def get(self, *arguments: str) -> Any:
        return json.loads(self._run(["kubectl", "get", *arguments, "-o", "json"], self.project, 0))["items"]

    def names(self, *arguments: str) -> set[str]:
        return {item["metadata"]["name"] for item in self.get(*arguments)}

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **pulumi_home.environment(self.layout, os.environ["PATH"]), **self.more}

    def _run(self, command: list[str], folder: Path, code: int) -> str:
        run = subprocess.run(
            command, cwd=folder, env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        shown = ANSI.sub("", run.stdout + run.stderr)
        assert run.returncode == code, shown
        assert "Traceback" not in shown, shown
        return shown


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    project = tmp_path_factory.mktemp("quick-start") / "project"
    project.mkdir()
    shutil.copy(REPOSITORY / "Pulumi.yaml", project)
    shutil.copytree(REPOSITORY / "stacks", project / "stacks", ignore=shutil.ignore_patterns("Pulumi.dev.yaml", "__pycache__"))
    (project / ".venv").symlink_to(sys.prefix)
    layout = Layout.at(project / ".local")
    try:
        yield Demo(project, layout)
    finally:
        control_plane.purge(layout, lambda line: None)


@pytest.fixture(scope="module")
def shown(demo: Demo) -> str:
    """The first run's output."""
    return demo.tensorfusion("demo")


def test_the_last_screen_lists_pool_profile_workloads_and_running_pods(shown: str) -> None:
    tables = shown[shown.rindex("Pools") :]
    for word in (
        "default-pool",
        "inference",
        "chat",
        "embed",
        "train",
        "simulate",
        "vram-request: 20Gi",
        "Running",
        "A100_SXM_80G",
    ):
        assert word in tables, shown


def test_every_pod_was_resolved_by_the_webhook_and_runs(demo: Demo, shown: str) -> None:
    pods = demo.get("pods", "-n", "ml")
    workers = {}
    for pod in pods:
        assert pod["status"]["phase"] == "Running"
        assert pod["spec"]["schedulerName"] == "tensor-fusion-scheduler"
        workers[pod["metadata"]["labels"]["app"]] = from_json(pod["metadata"]["annotations"]["tensor-fusion.ai/resolved"])
    assert len(pods) == 8
    assert dict(workers["train"].container_gpus or {}) == {"trainer": 3, "evaluator": 1}
    assert workers["simulate"].dedicated
    assert all(pod["metadata"]["annotations"]["tensor-fusion.ai/gpu-ids"].startswith("GPU-") for pod in pods)
    assert (workers["chat"].qos.value, workers["chat"].vram_request_bytes) == ("high", 20 * 2**30)


def test_the_controller_tells_of_workloads_and_of_the_pool(demo: Demo, shown: str) -> None:
    pods = demo.get("pods", "-n", "ml")
    workloads = {item["metadata"]["name"]: item["status"] for item in demo.get("tensorfusionworkloads", "-n", "ml")}
    assert set(workloads) == {pod["metadata"]["labels"]["app"] for pod in pods}
    assert sum(status["readyWorkers"] for status in workloads.values()) == len(pods)
    (pool,) = demo.get("gpupools")
    assert (pool["status"]["phase"], pool["status"]["runningAppsCnt"]) == ("Running", len(workloads))
    assert pool["status"]["readyNodes"] == pool["status"]["totalNodes"] == 3


def test_the_amounts_of_the_autoscaled_workload_follow_its_load_in_place(demo: Demo, shown: str) -> None:
    assert re.search(r"embed .*TFLOPS, .*by the history of its", shown), shown
    pods = demo.get("pods", "-n", "ml", "-l", "app=embed")
    for pod in pods:
        (card,) = from_text(pod["metadata"]["annotations"]["tensor-fusion.ai/effective"]).cards
        assert 50 <= card.limits.tflops <= 140, "0.15 to 0.35 of 312 TFLOPS and a margin, instead of 200"
        assert 8 * GIB <= card.limits.vram_bytes <= 12 * GIB, "9Gi and a margin, instead of 32Gi"
        assert all(not status["restartCount"] for status in pod["status"]["containerStatuses"])


def test_the_quota_shows_what_the_pods_hold(demo: Demo, shown: str) -> None:
    cards = [
        card for pod in demo.get("pods", "-n", "ml") for card in from_text(
            pod["metadata"]["annotations"]["tensor-fusion.ai/effective"]
        ).cards
    ]  # fmt: skip
    (quota,) = demo.get("gpuresourcequotas", "-n", "ml")
    used = quota["status"]["used"]
    assert used["workers"] == 8
    fixed = sum(card.requests.vram_bytes for card in cards if card.requests.vram_bytes >= 16 * GIB)
    assert fixed < parse_quantity(used["requests"]["vram"]) < fixed + 2 * 16 * GIB, "embed's move while they are read"


def test_doctor_finds_nothing_wrong_with_it(demo: Demo, shown: str) -> None:
    found = json.loads(demo.operate("doctor", "--output", "json"))
    assert found["findings"] == []
    assert {(node["cards"], node["pool"], node["injectionTier"]) for node in found["nodes"]} == {(4, "default-pool", "env")}


def test_doctor_says_what_is_wrong_and_what_to_do(demo: Demo, shown: str) -> None:
    node = demo.get("nodes")[0]["metadata"]["name"]
    (webhook,) = leftovers.find(demo.layout.root, "webhook")
    demo.kubectl("cordon", node)
    webhook.process.suspend()
    try:
        text = demo.operate("doctor", code=1)
        of_node = json.loads(demo.operate("doctor", "--node", node, "-o", "json", code=1))
    finally:
        webhook.process.resume()
        demo.kubectl("uncordon", node)
    assert "webhook: the API server gets no answer: " in text
    assert f"node {node}: it is cordoned: it takes no pods\n  -> kubectl uncordon {node}" in text
    assert [one["node"] for one in of_node["findings"]] == [node]
    assert [one["node"] for one in of_node["nodes"]] == [node]


def test_kubectl_has_our_commands_as_its_own(demo: Demo, shown: str) -> None:
    def told() -> Any:
        status = json.loads(demo.kubectl("tensorfusion", "status", "-n", "ml", "--output", "json"))
        pools = [(pool["pool"], pool["readyNodes"], pool["totalNodes"]) for pool in status["pools"]]
        return status if pools == [("default-pool", 3, 3)] else None

    status = eventually(told, "three ready nodes, for another test has just uncordoned one")
    assert "there is no namespace nosuch" in demo.operate("status", "-n", "nosuch", code=1)
    assert "there is no namespace nosuch" in demo.operate("top", "--once", "-n", "nosuch", code=1)
    assert "(no pod of namespace default holds a card)" in demo.operate("top", "--once", "-n", "default")
    assert {item["workload"] for item in status["workloads"]} >= {"chat", "train", "simulate"}
    assert (status["waiting"], status["unreadable"]) == ([], {})
    assert "nothing waits" in demo.kubectl("tensorfusion", "status")


def test_top_shows_what_the_agents_measured(demo: Demo, shown: str) -> None:
    found = json.loads(demo.operate("top", "--once", "--output", "json"))
    pods = {pod["metadata"]["name"] for pod in demo.get("pods", "-n", "ml")}
    assert {row["pod"] for row in found["pods"]} == pods
    assert all(row["computePercent"] is not None and row["vramBytes"] for row in found["pods"])
    held = {(row["node"], row["index"]) for row in found["pods"]}
    assert {(card["node"], card["index"]) for card in found["gpus"] if card["computePercent"] is not None} == held


def test_the_commands_of_the_first_page_do_what_it_says(demo: Demo, shown: str) -> None:
    """Word for word, in one shell; but for `make demo`, which the fixture ran by its other name, and the demo's own end."""
    page = (REPOSITORY / "docs" / "getting-started.md").read_text()
    first, *blocks, last = re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert (first, last) == ("make demo\n", "tensorfusion local down --purge\n")
    script = "exec 2>&1\nset -euo pipefail\n" + "".join(f"{block}echo == block {number}\n" for number, block in enumerate(blocks))
    said = demo._run(["bash", "-c", script], demo.project, 0)
    parts = re.split(r"== block \d+\n", said)
    assert "nothing waits" in parts[0]
    assert "nothing is wrong" in parts[0]
    assert "update" in parts[1]
    assert "5 is below tflops_request 10" in parts[2]
    assert len(re.findall(r"^web-\S+ +1/1 +Running", parts[3], re.MULTILINE)) == 2
    assert parts[3].count("team/web-") == 2
    assert "has been removed" in parts[4]


def test_a_second_run_changes_nothing(demo: Demo, shown: str) -> None:
    again = demo.tensorfusion("demo")
    assert "already up" in again
    assert re.findall(r"(\d+) unchanged", again), again
    assert not re.search(r"\d+ (created|updated|replaced|deleted|to create|to update)", again), again


def test_a_change_is_one_line_and_a_mistake_is_refused_at_preview(demo: Demo, shown: str) -> None:
    key = "tensorfusion-quickstart:tflopsLimit"
    changed = demo.pulumi("preview", "--stack", "dev", "--config", f"{key}=40")
    assert "~ 2 to update" in changed  # the component and its object
    wrong = demo.pulumi("preview", "--stack", "dev", "--config", f"{key}=5", code=1)
    assert 'WorkloadProfile "inference": 1 problem' in wrong
    assert "vgpu.tflops_limit: 5 is below tflops_request 10; give at least 10, or leave it out" in wrong
    demo.pulumi("config", "rm", key, "--stack", "dev")


def test_an_admitted_template_is_judged_by_the_server_too(demo: Demo, shown: str) -> None:
    deployment = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "wrong", "namespace": "ml"},
        "spec": {"selector": {"matchLabels": {"app": "wrong"}}, "template": {
            "metadata": {"labels": {"app": "wrong", "tensor-fusion.ai/enabled": "true"},
                         "annotations": {"tensor-fusion.ai/qos": "urgent", "tensor-fusion.ai/vram-request": "4"}},
            "spec": {"containers": [{"name": "main", "image": "i:1"}]}}},
    }  # fmt: skip
    path = demo.project / "wrong.json"
    path.write_text(json.dumps(deployment))
    refused = demo._run(["kubectl", "apply", "--dry-run=server", "-f", str(path)], demo.project, 1)
    assert "tensor-fusion.ai/qos" in refused
    assert "tensor-fusion.ai/vram-request" in refused


def test_destroy_leaves_the_definitions_and_nothing_else_of_ours(demo: Demo, shown: str) -> None:
    demo.pulumi("destroy", "--yes", "--stack", "dev")
    assert len([name for name in demo.names("crd") if name.endswith("tensor-fusion.ai")]) == 7
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicies"):
        assert not [name for name in demo.names(kind) if name.startswith("tensor-fusion")], kind
    assert not demo.names("gpupools")


def test_platform_and_workloads_can_be_two_stacks(demo: Demo, shown: str) -> None:
    demo.pulumi("stack", "select", "--create", "two", folder="stacks/platform")
    demo.pulumi("up", "--yes", "--skip-preview", folder="stacks/platform")
    demo.pulumi("stack", "select", "--create", "two", folder="stacks/workloads")
    demo.pulumi("config", "set", "platformStack", "organization/tensorfusion-platform/two", folder="stacks/workloads")
    demo.pulumi("up", "--yes", "--skip-preview", folder="stacks/workloads")
    assert demo.names("deployments", "-n", "ml") == {"chat", "embed", "train", "simulate"}
    demo.pulumi("destroy", "--yes", folder="stacks/workloads")
    demo.pulumi("destroy", "--yes", folder="stacks/platform")


def test_state_can_be_in_s3_with_locks_and_a_history(demo: Demo, shown: str) -> None:
    url = demo.pulumi("config", "get", "webhookUrl", "--stack", "dev").strip()
    with bucket("state") as state:
        there = replace(demo, more={**state.environment, "PULUMI_BACKEND_URL": ""})
        there.pulumi("login", state.url)
        there.pulumi("stack", "init", "s3")
        there.pulumi("config", "set", "webhookUrl", url, "--stack", "s3")
        up = ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--stack", "s3"]
        first = subprocess.Popen(
            up, cwd=demo.project, env=there.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            while not state.keys(".pulumi/locks/") and first.poll() is None:
                time.sleep(0.05)
            refused = there.pulumi("up", "--yes", "--skip-preview", "--stack", "s3", code=1)
        finally:
            said, _ = first.communicate(timeout=PATIENCE_S)
        assert first.returncode == 0, said
        assert "the stack is currently locked by 1 lock(s)" in refused
        assert state.keys(".pulumi/locks/") == []
        assert len(demo.get("pods", "-n", "ml")) == 8
        there.pulumi("up", "--yes", "--skip-preview", "--stack", "s3", "--config", "tensorfusion-quickstart:tflopsLimit=40")
        history, _ = json.JSONDecoder().raw_decode(there.pulumi("stack", "history", "--json", "--stack", "s3"))
        assert [(entry["kind"], entry["result"]) for entry in history] == [("update", "succeeded")] * 2
        assert len([key for key in state.keys(".pulumi/history/") if key.endswith(".history.json")]) == 2
        there.pulumi("destroy", "--yes", "--skip-preview", "--stack", "s3")
        assert demo.names("deployments", "-n", "ml") == set()
        there.pulumi("logout", state.url)
