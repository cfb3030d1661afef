"""Finding and ending the processes of a control plane, and no others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tensorfusion_iac.local import leftovers

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
PARENT = "import subprocess, sys; p = subprocess.Popen(['sleep', '600']); print('ready', flush=True); p.wait()"


@contextmanager
def running(root: Path, name: str, program: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", program], env=os.environ | leftovers.marks(root, name), stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        try:
            yield child
        finally:
            child.kill()


def test_the_processes_of_one_folder_are_found_with_their_descendants(tmp_path: Path) -> None:
    with running(tmp_path, "etcd", PARENT) as child, running(tmp_path / "other", "etcd", DEAF):
        found = leftovers.find(tmp_path)
        assert child.pid in {item.process.pid for item in found}
        assert [item.name for item in found] == ["etcd", "etcd"]
        assert leftovers.find(tmp_path, "kwok") == []
        assert leftovers.end(found, 5) == []
    assert leftovers.find(tmp_path) == []


def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, "etcd", DEAF) as child:
        assert leftovers.end(leftovers.find(tmp_path), 0.2) == []
        assert child.wait(10) == -signal.SIGKILL


def test_one_that_has_ended_meanwhile_is_no_error(tmp_path: Path) -> None:
    with running(tmp_path, "etcd", DEAF) as child:
        found = leftovers.find(tmp_path)
        child.kill()
        child.wait()
        assert leftovers.end(found, 1) == []


def test_the_caller_itself_is_never_found(tmp_path: Path) -> None:
    look = (
        "from pathlib import Path; from tensorfusion_iac.local import leftovers;"
        f"print([item.name for item in leftovers.find(Path({str(tmp_path)!r}))])"
    )
    run = subprocess.run(
        [sys.executable, "-c", look], env=os.environ | leftovers.marks(tmp_path, "x"), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert run.stdout == "[]\n"
