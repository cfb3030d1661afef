"""`tensorfusion serve controller` as processes beside a control plane, under the rights of its own service account."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from running_plane import ControlPlane
from running_webhook import account_kubeconfig, apply

from tensorfusion_iac.api.names import SYSTEM_NAMESPACE
from tensorfusion_iac.components import platform

READY_S = 60.0
ACCOUNT = "test-controller"


@dataclass
class Controller:
    """One replica."""

    kubeconfig: Path
    identity: str
    options: tuple[str, ...] = ()
    process: subprocess.Popen[str] | None = None
    log: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.log.clear()
        self.process = subprocess.Popen(
            [Path(sys.executable).with_name("tensorfusion"), "serve", "controller", "--port", "0", "--address", "127.0.0.1",
             "--kubeconfig", str(self.kubeconfig), "--identity", self.identity, *self.options],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()

    @property
    def port(self) -> int:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            for line in list(self.log):
                if found := re.search(r"ready on port (\d+)", line):
                    return int(found[1])
            time.sleep(0.05)
        raise AssertionError("".join(self.log))

    def writes(self) -> dict[str, float]:
        """How often each kind was written."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found = re.findall(r'controller_writes_total\{resource="([^"]+)"\} ([\d.e+]+)', text)
        return {resource: float(count) for resource, count in found}

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=30)

    def stop(self) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
            assert self.process.wait(timeout=30) == 0, "".join(self.log)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with process.stderr:
            self.log.extend(process.stderr)


def access(plane: ControlPlane, folder: Path) -> Path:
    """Install what the controller needs, and give a kubeconfig with its rights.

    An account of the tests' own has them: the control plane's own controller, which nobody may kill, has none and stays idle.
    """
    apply(plane, *platform.namespaces())
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": SYSTEM_NAMESPACE}}
    apply(plane, *platform.service_accounts(), account, *(_for_tests(manifest) for manifest in platform.controller_rights()))
    return account_kubeconfig(plane, folder, ACCOUNT)


def _for_tests(manifest: dict[str, Any]) -> dict[str, Any]:
    if "subjects" not in manifest:
        return manifest
    return manifest | {"subjects": [subject | {"name": ACCOUNT} for subject in manifest["subjects"]]}


@contextmanager
def controlled(kubeconfig: Path, identity: str = "one", *options: str) -> Iterator[Controller]:
    """A running controller; it ends well, and its log has no traceback and no refusal."""
    made = Controller(kubeconfig, identity, options)
    made.start()
    try:
        assert made.port
        yield made
    finally:
        made.stop()
    wrong = [line for line in made.log if "Traceback" in line or "orbidden" in line]
    assert not wrong, "".join(made.log)
