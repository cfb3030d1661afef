"""The run of a program in a process of its own, with its own Python; what it prints is kept apart from the result."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from tensorfusion_iac.cli.exits import Exit, Failure, environment
from tensorfusion_iac.cli.program.notes import Notes, read_notes
from tensorfusion_iac.cli.program.project import Project

_RECORD = Path(__file__).with_name("record.py")


def run_program(project: Project, timeout_s: float) -> tuple[Notes, str]:
    """The notes of the run, and what the program printed. Raises Failure if there is no result."""
    with tempfile.TemporaryDirectory(prefix="tensorfusion-compile-") as folder:
        notes = Path(folder) / "notes.json"
        options = {"--notes": str(notes), "--project": project.name, "--stack": project.stack}
        words = [word for pair in options.items() for word in pair]
        command = [str(project.python), "-u", str(_RECORD), *words, str(project.program)]
        variables = {**project.environment, "PULUMI_CONFIG": json.dumps(dict(project.config)), "PULUMI_CONFIG_SECRET_KEYS": "[]"}
        with subprocess.Popen(
            command,
            cwd=project.root,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                printed, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                _end(process)
                raise Failure(
                    f"{project.program}: the program did not end within {timeout_s:g} s (--timeout)", Exit.PROBLEMS
                ) from None
            except BaseException:
                _end(process)
                raise
        text = printed.decode(errors="replace")
        if not notes.is_file():
            raise Failure(f"{project.program}: the program ended without a result\n{text}".rstrip(), Exit.PROBLEMS)
        found = read_notes(json.loads(notes.read_text()))
    if found.ending is not None and found.ending.kind == "environment":
        raise environment(f"{found.ending.message}: install the program's requirements there")
    return found, text


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and everything that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
