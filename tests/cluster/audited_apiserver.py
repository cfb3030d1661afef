"""A second API server on the store of a running control plane, which writes an audit log: the control plane's own has none."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from running_plane import ControlPlane, tool

from tensorfusion_iac.local import commands
from tensorfusion_iac.local.state import load_settings

START_S = 60.0
POLICY = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "resources": [{"group": "", "resources": ["pods", "pods/ephemeralcontainers"]}]}],
}  # fmt: skip


@dataclass(frozen=True)
class AuditedServer:
    """The API server: how to reach it as the administrator, and its log of requests about pods."""

    kubeconfig: Path
    log: Path

    def entries(self) -> list[dict[str, Any]]:
        """What it has logged so far; a request's entry is there before its answer."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@contextmanager
def audited(plane: ControlPlane, folder: Path) -> Iterator[AuditedServer]:
    """The server, from when it is ready until the end of the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    policy, found = folder / "policy.yaml", AuditedServer(folder / "audited.kubeconfig", folder / "audit.log")
    policy.write_text(yaml.safe_dump(POLICY))
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    found.kubeconfig.write_text(yaml.safe_dump(config))
    own = next(one for one in commands.table(load_settings(plane.layout.settings), plane.layout) if one.name == "kube-apiserver")
    argv = [argument for argument in own.argv if not argument.startswith("--secure-port=")]
    argv += [f"--secure-port={port}", f"--audit-policy-file={policy}", f"--audit-log-path={found.log}"]
    with (folder / "apiserver.log").open("w") as output, subprocess.Popen(argv, stdout=output, stderr=output) as process:
        try:
            _wait(found.kubeconfig, folder / "apiserver.log")
            yield found
        finally:
            process.kill()


def _wait(kubeconfig: Path, log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        asked = subprocess.run(
            [tool("kubectl"), "--kubeconfig", kubeconfig, "get", "--raw", "/readyz"], capture_output=True, check=False, timeout=30
        )
        if asked.returncode == 0:
            return
        time.sleep(0.3)
    raise AssertionError(f"the second API server is not ready after {START_S} s: {log.read_text()[-2000:]}")
