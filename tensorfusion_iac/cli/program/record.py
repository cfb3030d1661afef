"""Run by path with the Python of a program: runs the program against `monitor.py`, and writes down what it declares.

It needs only pulumi, for that Python need not have this package; where it has, components hand over their problems instead
of ending the program at the first. `notes.py` says what the notes hold.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import logging
import runpy
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

_WORKERS = 16

Notes = dict[str, Any]


def main() -> int:
    """Run the program that the command line names. Exit code 0 if the notes were written, whatever they say."""
    arguments = _arguments()
    notes: Notes = {"resources": [], "problems": [], "logs": [], "failure": None}
    try:
        monitor = _load("monitor")
    except ImportError as error:
        reason = f"{sys.executable} can't import pulumi ({error})"
        notes["failure"] = {"kind": "environment", "message": reason, "file": None, "line": None}
    else:
        notes["failure"] = _run(arguments, monitor, notes)
    Path(arguments.notes).write_text(json.dumps(notes))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="record")
    for name in ("notes", "project", "stack"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("program", help="a Python file, or a folder with a __main__.py")
    return parser.parse_args()


def _load(name: str) -> ModuleType:
    """A module beside this one, under a name that no program imports."""
    spec = importlib.util.spec_from_file_location(f"_tensorfusion_{name}", Path(__file__).with_name(f"{name}.py"))
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run(arguments: argparse.Namespace, monitor: ModuleType, notes: Notes) -> Notes | None:
    """Run the program; what ended it before its time, if anything did."""
    import pulumi
    from pulumi.runtime.settings import configure
    from pulumi.runtime.stack import run_in_stack

    configure(monitor.settings(arguments.project, arguments.stack, notes, _load("kinds").CLUSTER_WIDE))
    _load("server_fields").make_unknown()
    pulumi.runtime.set_all_config(pulumi.runtime.get_config_env(), pulumi.runtime.config.get_config_secret_keys_env())
    program = Path(arguments.program)
    root = program if program.is_dir() else program.parent
    sys.argv, sys.path[0] = [str(program)], str(root)  # in place of this file and its folder

    def run_program() -> None:
        runpy.run_path(str(program), run_name="__main__")

    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # what fails in a task is told once, below
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_default_executor(ThreadPoolExecutor(max_workers=_WORKERS))
    with _collecting(notes):
        try:
            loop.run_until_complete(run_in_stack(run_program))
        except SystemExit as error:
            if error.code not in (None, 0):
                return _failure(f"the program ended itself: sys.exit({error.code!r})", error, root)
        except pulumi.RunError as error:
            if not hasattr(error, "records"):
                return _failure(str(error), error, root)
            notes["problems"].append(_problem(error))  # a SpecError, raised where nothing can go on without its object
        except Exception as error:  # noqa: BLE001 -- whatever a user's program raises
            return _failure(_sentence(error), error, root)
        finally:
            _end(loop)
    return None


@contextlib.contextmanager
def _collecting(notes: Notes) -> Iterator[None]:
    """Let the components of this package hand over their problems, if the program's Python has it."""
    try:
        from tensorfusion_iac.components.errors import collecting
    except ImportError:
        yield
        return
    with collecting() as found:
        yield
    notes["problems"][:0] = [_problem(error) for error in found]


def _problem(error: Any) -> Notes:
    return {"subject": error.subject, "lines": list(error.lines), "records": error.records()}


def _failure(message: str, error: BaseException, root: Path) -> Notes:
    """What ended the program, and the last line of its own that led there."""
    file, line = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (None, None)
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename).is_relative_to(root) and "site-packages" not in frame.filename:
            file, line = frame.filename, frame.lineno
    return {"kind": "program", "message": message, "file": file, "line": line}


def _sentence(error: Exception) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _end(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what a failed program left pending, so that closing the loop is silent."""
    pending = asyncio.all_tasks(loop)
    for task in pending:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
    loop.close()
    sys.stdout.flush()
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
