"""A Pulumi project on a control plane: its program is a string, its commands are the real ones, its state is its own."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from running_plane import ControlPlane, tool

from tensorfusion_iac.local import pulumi_home

PATIENCE_S = 240.0
NO_CHANGES = "--expect-no-changes"
_PROVIDER = "pulumi-resource-kubernetes"


@dataclass(frozen=True)
class Step:
    """One resource that a preview would change: `Deployment chat`, and the operation."""

    op: str
    resource: str


@dataclass(frozen=True)
class Project:
    """A folder with a Pulumi.yaml, a program and the stack `dev`."""

    folder: Path
    plane: ControlPlane
    environment: dict[str, str]

    def write(self, program: str) -> None:
        """Replace the program."""
        (self.folder / "__main__.py").write_text(program)

    def pulumi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    def ok(self, *arguments: str) -> str:
        """Run a command that must succeed; what it prints."""
        run = self.pulumi(*arguments)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def up(self) -> str:
        return self.ok("up", "--yes", "--skip-preview")

    def refused(self, *arguments: str) -> str:
        """Run a command that must fail, in words and not with a traceback; what it prints."""
        run = self.pulumi(*arguments)
        shown = run.stdout + run.stderr
        assert run.returncode != 0, shown
        assert "Traceback" not in shown, shown
        return shown

    def steps(self) -> set[Step]:
        """What an `up` would change."""
        digest = json.loads(self.ok("preview", "--json"))
        return {
            Step(step["op"], " ".join(step["urn"].rpartition("$")[2].split("::")[-2:]).rpartition(":")[2])
            for step in digest["steps"]
            if step["op"] != "same"
        }

    def outputs(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.ok("stack", "output", "--json"))
        return loaded

    def object(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.plane.kubectl("get", kind, name, "-n", namespace, "-o", "json"))
        return loaded

    def objects(self, kind: str, namespace: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self.plane.kubectl("get", kind, "-n", namespace, "-o", "json"))["items"]
        return items


def prepare(plane: ControlPlane) -> None:
    """Lay out the programs and the provider for this control plane."""
    pulumi_home.prepare(plane.layout, {name: tool(name) for name in ("pulumi", "kubectl", _PROVIDER)})


def new_project(plane: ControlPlane, folder: Path, name: str) -> Project:
    """An empty project whose stack is called `dev`."""
    here, state = folder / name, folder / f"{name}-state"
    here.mkdir()
    state.mkdir()
    environment = {
        **pulumi_home.environment(plane.layout, "/usr/bin:/bin"),
        "PULUMI_BACKEND_URL": f"file://{state}",
        "HOME": str(folder),
    }
    (here / "Pulumi.yaml").write_text(f"name: {name}\nruntime: python\n")
    project = Project(here, plane, environment)
    project.write("")
    project.ok("stack", "init", "dev")
    return project
