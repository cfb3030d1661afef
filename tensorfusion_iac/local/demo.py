"""`make demo`: a control plane, then a real `pulumi up` of the quick start on it (ARCHITECTURE.md, "The embedded default")."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tensorfusion_iac.local import commands, pulumi_home
from tensorfusion_iac.local.control_plane import Say, Wish, up
from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.layout import Layout

TOOLS = (*commands.TOOLS, *pulumi_home.TOOLS)


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo works with: the project's folder, the control plane's, and how programs are had."""

    project: Path
    layout: Layout
    provide: Callable[[], Mapping[str, Path]]


def run(demo: Demo, say: Say) -> None:
    """Set up, bring the control plane up, and deploy. Pulumi's own output goes to the terminal.

    Raises LocalError or ToolError with one message that says what to do.
    """
    if not (demo.project / "Pulumi.yaml").is_file():
        raise LocalError(f"{demo.project} has no Pulumi.yaml; run this in the project's folder, or give --project")
    tools = demo.provide()
    started = up(demo.layout, Wish(), lambda: tools, say)
    say(f"control plane {'up' if started.started else 'already up'} at {started.server}, {started.nodes} simulated nodes")
    pulumi_home.prepare(demo.layout, tools)
    deploy(demo.project, started.webhook_url, pulumi_home.environment(demo.layout, os.environ.get("PATH", os.defpath)), say)


def deploy(project: Path, webhook_url: str, variables: Mapping[str, str], say: Say) -> None:
    """`pulumi up` of the project's stack, made if need be and told where the webhook is."""
    say(f"pulumi up: {project.name}, stack {pulumi_home.STACK}")
    _pulumi(project, variables, "stack", "select", "--create", pulumi_home.STACK)
    _pulumi(project, variables, "config", "set", "webhookUrl", webhook_url, "--stack", pulumi_home.STACK)
    _pulumi(project, variables, "up", "--yes", "--non-interactive", "--stack", pulumi_home.STACK)


def _pulumi(project: Path, variables: Mapping[str, str], *arguments: str) -> None:
    program = Path(variables["PATH"].split(os.pathsep)[0]) / "pulumi"
    run = subprocess.run(
        [program, *arguments], cwd=project, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, check=False
    )
    if run.returncode != 0:
        raise LocalError(f"`pulumi {' '.join(arguments)}` ended with {run.returncode}; what it says above is the reason")
