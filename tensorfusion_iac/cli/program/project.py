"""The Pulumi project around a program: where the program is, which Python runs it, and its configuration.

Read from Pulumi.yaml and Pulumi.<stack>.yaml as pulumi reads them, without pulumi. A lone Python file needs neither.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensorfusion_iac.cli.exits import environment, usage
from tensorfusion_iac.cli.yaml_text import SyntaxFault, plain, read

_NAMES = ("Pulumi.yaml", "Pulumi.yml")
DEFAULT_STACK = "dev"


@dataclass(frozen=True, slots=True)
class Project:
    """A program and how to run it. `config` has full keys (`project:key`) and texts; `notes` say what is left out of it."""

    name: str
    root: Path
    program: Path
    python: Path
    environment: Mapping[str, str]
    stack: str
    config: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def find_project(path: Path, stack: str | None, settings: Sequence[str], variables: Mapping[str, str]) -> Project:
    """The project of a folder with a Pulumi.yaml, of a folder with a __main__.py, or of a Python file.

    `settings` are `key=value`, over what the files say; `variables` is the environment. Raises Failure.
    """
    if not path.exists():
        raise usage(f"{path}: there is no such file or folder")
    root = path if path.is_dir() else path.parent
    file = next((root / name for name in _NAMES if path.is_dir() and (root / name).is_file()), None)
    about = _mapping(file) if file else {}
    runtime = about.get("runtime")
    options = runtime.get("options") if isinstance(runtime, dict) else None
    language = runtime.get("name") if isinstance(runtime, dict) else runtime
    if language not in (None, "python"):
        raise usage(f"{file}: the runtime is {language}; only Python programs can be compiled")
    name = about.get("name") if isinstance(about.get("name"), str) else root.absolute().name
    main = about.get("main")
    program = root / main if isinstance(main, str) else path
    if not program.exists():
        raise usage(f"{file}: main is {main}, and there is no {program}")
    if program.is_dir() and not (program / "__main__.py").is_file():
        raise usage(f"{program}: there is no __main__.py in this folder; give a Pulumi program, or its file")
    config, notes = _config(str(name), about.get("config"), root, stack, settings)
    python, inherited = _python(root, options if isinstance(options, dict) else {}, variables)
    return Project(
        str(name), root.absolute(), program.absolute(), python, inherited, stack or DEFAULT_STACK, config, tuple(notes)
    )


def _python(root: Path, options: Mapping[str, Any], variables: Mapping[str, str]) -> tuple[Path, Mapping[str, str]]:
    from tensorfusion_iac.local.language_host.errors import HostError
    from tensorfusion_iac.local.language_host.interpreter import of_program

    try:
        interpreter = of_program(root, options, variables)
        interpreter.check()
    except HostError as error:
        raise environment(str(error)) from None
    return interpreter.python, interpreter.environment(variables)


def _mapping(file: Path) -> dict[str, Any]:
    try:
        documents = [plain(document.value) for document in read(file.read_bytes())]
    except OSError as error:
        raise usage(f"{file}: {error.strerror}") from None
    except SyntaxFault as fault:
        raise usage(f"{file}:{fault.line}: {fault.message}") from None
    value = documents[0] if documents else None
    if not isinstance(value, dict):
        raise usage(f"{file}: this is not a mapping")
    return value


def _config(
    project: str, declared: Any, root: Path, stack: str | None, settings: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """Defaults of the project, then the stack's file, then the command line's settings."""
    found: dict[str, str] = {}
    notes: list[str] = []
    for key, value in (declared if isinstance(declared, dict) else {}).items():
        if isinstance(value, dict):
            value = value.get("value", value.get("default"))
        if value is not None:
            found[_full(project, key)] = _as_text(value)
    file = root / f"Pulumi.{stack or DEFAULT_STACK}.yaml"
    if file.is_file():
        given = _mapping(file).get("config")
        for key, value in (given if isinstance(given, dict) else {}).items():
            if isinstance(value, dict) and set(value) == {"secure"}:
                notes.append(f"{file}: {key} is encrypted; give it by --config {key}=VALUE if the program needs it")
            else:
                found[_full(project, key)] = _as_text(value)
    elif stack is not None:
        raise usage(f"--stack {stack}: there is no {file}")
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise usage(f'--config: "{setting}" is not KEY=VALUE')
        found[_full(project, key)] = text
    return found, [note for note in notes if not any(note.split(": ")[1].startswith(f"{key} ") for key in found)]


def _full(project: str, key: str) -> str:
    return key if ":" in key else f"{project}:{key}"


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value)
