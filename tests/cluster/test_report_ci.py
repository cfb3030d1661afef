"""The workflows of docs/ci, step by step in bash, against a control plane and a forge's stand-in; and their role.

What only a forge can do (checkout, installing packages) is judged by its syntax alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi_project import Project, new_project, prepare
from running_plane import ControlPlane
from running_webhook import account_kubeconfig

from tensorfusion_iac.local import pulumi_home

pytestmark = pytest.mark.cluster

CI = Path(__file__).parents[2] / "docs" / "ci"
ACCOUNT = "system:serviceaccount:tensorfusion-preview:preview"
PROGRAM = """
import pulumi
import pulumi_kubernetes as k8s
import tensorfusion_iac as tfi

reviewed = k8s.core.v1.Namespace("reviewed", metadata={"name": "reviewed"})
ns = reviewed.metadata["name"]
pool = tfi.GPUPool("reviewed", default_using_local_gpu=True, node_selector={"nowhere": "true"})
inference = tfi.WorkloadProfile("inference", namespace=ns, gpupool=pool, vgpu=tfi.VGPU(tflops_request=10, vram_request="4Gi"))
tfi.AnnotatedDeployment("chat", namespace=ns, image="i:1", replicas=2, workload_profile=inference, wait=False,
    vgpu=tfi.VGPU(qos="low"))
"""
CHANGED = PROGRAM.replace("replicas=2", "replicas=3").replace('image="i:1"', 'image="i:2"')
MARKER = "<!-- tensorfusion-report: reviewed/dev -->"


class Forge(ThreadingHTTPServer):
    """Keeps the comments of one pull request, as GitHub's and GitLab's API do."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.comments: list[dict[str, Any]] = [{"id": 1, "body": "looks good to me"}]
        self.calls: list[tuple[str, str]] = []
        self.tokens: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Forge

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.calls.append((self.command, self.path.partition("?")[0]))
        self.server.tokens.add(self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or "")
        if self.command == "POST":
            self.server.comments.append({"id": len(self.server.comments) + 1, **json.loads(body)})
        elif self.command in ("PATCH", "PUT"):
            wanted = int(self.path.rpartition("/")[2])
            self.server.comments = [one | json.loads(body) if one["id"] == wanted else one for one in self.server.comments]
        text = json.dumps(self.server.comments).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PATCH = do_PUT = _answer  # noqa: N815 - the names are http.server's

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""


@pytest.fixture
def forge() -> Iterator[Forge]:
    server = Forge()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join(timeout=10)
    server.server_close()


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """The session's control plane with our CRDs and the preview's account."""
    control_plane.install_crds()
    control_plane.kubectl("apply", "-f", str(CI / "role.yaml"))
    return control_plane


@pytest.fixture(scope="module")
def project(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A stack that is up, and a change of it that waits for review."""
    prepare(plane)
    project = new_project(plane, tmp_path_factory.mktemp("reviewed"), "reviewed")
    project.write(PROGRAM)
    project.up()
    project.write(CHANGED)
    yield project
    plane.kubectl("delete", "namespace/reviewed", "gpupool/reviewed", "--wait=false")  # other tests use this control plane too


@pytest.fixture(scope="module")
def kubeconfig(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig with the rights of the preview's account."""
    return account_kubeconfig(plane, tmp_path_factory.mktemp("account"), "preview", "tensorfusion-preview")


@dataclass
class Shell:
    """Runs the steps of a workflow, one after the other, in the project's folder."""

    project: Project
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        own = Path(sys.executable).parent
        environment = {**self.project.environment, **self.variables}
        environment["PATH"] = f"{own}:{environment['PATH']}"
        environment.setdefault("KUBECONFIG", os.devnull)
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=self.project.folder, env=environment, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip

    def ok(self, script: str) -> str:
        run = self.run(script)
        assert run.returncode == 0, f"{script}\n{run.stdout}\n{run.stderr}"
        return run.stdout


def is_well_formed(script: str) -> bool:
    return subprocess.run(["bash", "-n", "-c", script], capture_output=True, check=False).returncode == 0


def told_once(forge: Forge, again: Any) -> None:
    """The comment is made, then updated: there is never a second one, and no other is touched."""
    ((_, body),) = [(one["id"], one["body"]) for one in forge.comments if one["body"].startswith(MARKER)]
    assert "image of chat i:1 → i:2" in body
    forge.comments[1]["body"] = f"{MARKER}\nold"
    again()
    assert [one["body"].splitlines()[0] for one in forge.comments] == ["looks good to me", MARKER]
    assert "image of chat i:1 → i:2" in forge.comments[1]["body"]
    assert len(forge.tokens) == 1
    assert "token" in forge.tokens.pop()


def substituted(text: str, values: Mapping[str, str]) -> str:
    """`${{ ... }}` as GitHub puts values in; an expression that is not known fails the test."""
    return re.sub(r"\$\{\{ *([^}]+?) *\}\}", lambda found: values[found[1]], text)


def test_github_actions(project: Project, kubeconfig: Path, forge: Forge, tmp_path: Path) -> None:
    workflow = yaml.safe_load((CI / "github-actions.yaml").read_text())
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    job = workflow["jobs"]["preview"]
    values = {
        "secrets.PREVIEW_KUBECONFIG": kubeconfig.read_text(),
        "vars.PULUMI_BACKEND_URL": project.environment["PULUMI_BACKEND_URL"],
        "secrets.PULUMI_CONFIG_PASSPHRASE": project.environment["PULUMI_CONFIG_PASSPHRASE"], "github.token": "a-token",
        "github.event.pull_request.number": "7",
    }  # fmt: skip
    files = {name: tmp_path / name.lower() for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    shell = Shell(project, {
        **job["env"], **{name: str(path) for name, path in files.items()}, "RUNNER_TEMP": str(tmp_path),
        "GITHUB_API_URL": forge.url, "GITHUB_REPOSITORY": "team/models",
    })  # fmt: skip
    shell.variables["KUBECONFIG"] = os.devnull

    def step(name: str) -> subprocess.CompletedProcess[str]:
        found = next(one for one in job["steps"] if one.get("name") == name)
        given = {key: substituted(str(value), values) for key, value in found.get("env", {}).items()}
        run = Shell(project, shell.variables | given).run(substituted(found["run"], values))
        for line in files["GITHUB_ENV"].read_text().splitlines() if files["GITHUB_ENV"].exists() else ():
            key, _, value = line.partition("=")
            shell.variables[key] = value
        return run

    assert is_well_formed(next(one["run"] for one in job["steps"] if one.get("name") == "Install"))
    for name in ("Kubeconfig", "Preview", "Report", "Comment"):
        run = step(name)
        assert run.returncode == 0, f"{name}: {run.stdout}\n{run.stderr}"
    assert forge.calls == [("GET", "/repos/team/models/issues/7/comments"), ("POST", "/repos/team/models/issues/7/comments")]
    told_once(forge, lambda: step("Comment"))
    assert forge.calls[-1] == ("PATCH", "/repos/team/models/issues/comments/2")
    assert MARKER in files["GITHUB_STEP_SUMMARY"].read_text()
    outputs = dict(line.split("=") for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    assert outputs == {"code": "1"}, "the pool has no nodes, so nothing fits"
    values["steps.report.outputs.code"] = outputs["code"]
    assert step("Verdict").returncode == 1


def test_gitlab(project: Project, kubeconfig: Path, forge: Forge) -> None:
    job = yaml.safe_load((CI / "gitlab-ci.yaml").read_text())["gpu-preview"]
    shell = Shell(project, {
        **job["variables"], "PREVIEW_KUBECONFIG": str(kubeconfig), "GITLAB_TOKEN": "a-token",
        "CI_API_V4_URL": f"{forge.url}/api/v4", "CI_PROJECT_ID": "12", "CI_MERGE_REQUEST_IID": "7",
    })  # fmt: skip
    assert all(is_well_formed(line) for line in job["before_script"])
    script = "\n".join(job["script"])  # the runner, too, runs them in one shell

    run = shell.run(script)
    assert run.returncode == 1, run.stdout + run.stderr
    path = "/api/v4/projects/12/merge_requests/7/notes"
    assert forge.calls == [("GET", path), ("POST", path)]
    report = shell.project.folder / "report.md"
    told_once(forge, lambda: shell.run("\n".join(["code=0", job["script"][-2]])))
    assert forge.calls[-1] == ("PUT", f"{path}/2")
    assert set(job["artifacts"]["paths"]) == {"preview.json", report.name}


def test_jenkins(project: Project, kubeconfig: Path, forge: Forge) -> None:
    text = (CI / "Jenkinsfile").read_text()
    assert text.count("{") == text.count("}")
    defaults = dict(re.findall(r"^        (\w+) = '([^']*)'$", text, re.MULTILINE))
    install, preview, comment = re.findall(r"sh '''#!/bin/bash -e\n(.*?)'''", text, re.DOTALL)
    (verdict,) = re.findall(r"sh '(exit .*)'", text)
    shell = Shell(project, {
        **defaults, "KUBECONFIG": str(kubeconfig), "GITHUB_TOKEN": "a-token", "GITHUB_API": forge.url,
        "REPOSITORY": "team/models", "CHANGE_ID": "7",
    })  # fmt: skip
    assert is_well_formed(install)
    shell.ok(preview)
    shell.ok(comment)
    told_once(forge, lambda: shell.ok(comment))
    assert shell.run(verdict).returncode == 1


def can(plane: ControlPlane, verb: str, resource: str) -> bool:
    run = subprocess.run(
        [pulumi_home.bin_dir(plane.layout) / "kubectl", "--kubeconfig", plane.kubeconfig, "auth", "can-i", verb, resource,
         "--as", ACCOUNT, "-A"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return run.stdout.strip() == "yes"


def test_the_role_looks_and_cannot_touch(plane: ControlPlane, project: Project) -> None:
    rules = [rule for item in yaml.safe_load_all((CI / "role.yaml").read_text()) for rule in item.get("rules", ())]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert can(plane, "list", "gpupools.tensor-fusion.ai")
    assert not can(plane, "get", "secrets")
    assert not can(plane, "patch", "deployments.apps")


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: tried, namespace: reviewed}
spec:
  selector: {matchLabels: {app: tried}}
  template:
    metadata: {labels: {app: tried}}
    spec: {containers: [{name: app, image: "i:1"}]}
"""


def test_with_dry_runs_the_account_still_cannot_write(plane: ControlPlane, project: Project, kubeconfig: Path) -> None:
    plane.kubectl("apply", "-f", str(CI / "role-dry-run.yaml"))
    shell = Shell(project, {"KUBECONFIG": str(kubeconfig), "MANIFEST": DEPLOYMENT})
    apply = 'kubectl apply --server-side -f - {} <<< "$MANIFEST"'
    tried = f"{apply.format('--dry-run=none')} 2> said || true; grep -q 'only make dry runs' said && exit 0"
    shell.ok(f"for attempt in $(seq 100); do {tried}; sleep 0.1; done; cat said; exit 1")  # a new policy takes a moment
    assert "serverside-applied (server dry run)" in shell.ok(apply.format("--dry-run=server"))
    assert shell.run("kubectl delete namespace reviewed").returncode != 0
    assert "update" in shell.ok("pulumi preview --stack dev --non-interactive")
