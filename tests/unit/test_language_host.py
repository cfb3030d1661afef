"""The language host's decisions: which Python, what to install, which plugins to name, what of a pack's output is its port."""

from __future__ import annotations

import base64
import queue
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2_grpc
from toolchain_recipes import program

from tensorfusion_iac.local.language_host import install, interpreter, packages
from tensorfusion_iac.local.language_host.children import Output
from tensorfusion_iac.local.language_host.errors import HostError
from tensorfusion_iac.local.language_host.interpreter import Interpreter
from tensorfusion_iac.local.language_host.packages import Package
from tensorfusion_iac.local.language_host.policy_pack import attached
from tensorfusion_iac.local.language_host.program import SHOWN

BUILDABLE = '[project]\nname = "x"\n[build-system]\nrequires = ["hatchling"]\n'


@pytest.mark.parametrize(
    ("options", "virtualenv"),
    [
        ({"virtualenv": "venv"}, "project/venv"),
        ({"virtualenv": "../shared"}, "project/../shared"),
        ({"toolchain": "uv"}, "project/.venv"),
        ({"toolchain": "uv", "virtualenv": "v"}, "project/v"),
        ({"toolchain": "pip"}, None),
        ({}, None),
    ],
)
def test_the_option_decides_relative_to_the_project(tmp_path: Path, options: dict[str, Any], virtualenv: str | None) -> None:
    chosen = interpreter.of_program(tmp_path / "project", options, {})
    assert chosen.virtualenv == (tmp_path / virtualenv if virtualenv else None)
    assert chosen.python == (tmp_path / virtualenv / "bin" / "python" if virtualenv else Path(sys.executable))


def test_without_an_option_the_named_command_then_the_active_environment_then_the_hosts_own(tmp_path: Path) -> None:
    named = program(tmp_path / "bin" / "python9", "")
    active = program(tmp_path / "active" / "bin" / "python", "")
    both = {"PATH": str(tmp_path / "bin"), "PULUMI_PYTHON_CMD": "python9", "VIRTUAL_ENV": str(tmp_path / "active")}
    assert interpreter.of_program(tmp_path, {}, both).python == named
    assert interpreter.of_program(tmp_path, {}, {"VIRTUAL_ENV": str(tmp_path / "active")}).python == active
    assert interpreter.of_program(tmp_path, {}, {"VIRTUAL_ENV": "/gone"}).python == Path(sys.executable)


def test_a_python_command_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="PULUMI_PYTHON_CMD is 'python9', which is no program on PATH"):
        interpreter.of_program(tmp_path, {}, {"PATH": str(tmp_path), "PULUMI_PYTHON_CMD": "python9"})


@pytest.mark.parametrize(
    ("file", "content", "virtualenv"),
    [("requirements.txt", "x", "venv"), ("pyproject.toml", BUILDABLE, "venv"), ("pyproject.toml", "", None), (None, "", None)],
)
def test_a_plugin_with_requirements_of_its_own_gets_its_own_environment(
    tmp_path: Path, file: str | None, content: str, virtualenv: str | None
) -> None:
    if file:
        (tmp_path / file).write_text(content)
    chosen = interpreter.of_plugin(tmp_path, {}, {})
    assert chosen.virtualenv == (tmp_path / virtualenv if virtualenv else None)
    assert interpreter.of_program(tmp_path, {}, {}).virtualenv is None


def test_all_unknown_options_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(HostError) as raised:
        interpreter.of_program(tmp_path, {"toolchain": "poetry", "typechecker": "pyre"}, {})
    assert "toolchain: 'poetry' is not supported by this language host, accepted are pip and uv" in str(raised.value)
    assert "typechecker: 'pyre' is unknown, accepted are mypy and pyright" in str(raised.value)


def test_a_missing_environment_says_how_to_make_it(tmp_path: Path) -> None:
    chosen = interpreter.of_program(tmp_path, {"virtualenv": "venv"}, {})
    with pytest.raises(HostError, match=r"no virtual environment at .*/venv: `pulumi install` makes it"):
        chosen.check()
    (tmp_path / "venv").mkdir()
    with pytest.raises(HostError, match="venv is no virtual environment: it has no bin/python"):
        chosen.check()


def test_programs_see_the_environment_they_run_in(tmp_path: Path) -> None:
    chosen = interpreter.of_program(tmp_path, {"virtualenv": "venv"}, {})
    seen = chosen.environment({"PATH": "/usr/bin", "PYTHONHOME": "/x", "A": "1"})
    assert seen == {"PATH": f"{tmp_path}/venv/bin:/usr/bin", "VIRTUAL_ENV": f"{tmp_path}/venv", "A": "1"}


def _interpreter(folder: Path, *, virtualenv: Path | None, toolchain: str = "pip") -> Interpreter:
    python = virtualenv / "bin" / "python" if virtualenv else Path(sys.executable)
    return Interpreter(python, virtualenv, toolchain, None)


@pytest.mark.parametrize(
    ("is_plugin", "files", "wanted"),
    [
        (False, ["requirements.txt"], ["-r", "requirements.txt"]),
        (False, ["pyproject.toml"], None),
        (True, ["pyproject.toml"], ["."]),
        (True, ["pyproject.toml", "requirements.txt"], ["-r", "requirements.txt", "."]),
        (True, [], None),
    ],
)
def test_what_is_installed_is_what_the_folder_lists(
    tmp_path: Path, is_plugin: bool, files: list[str], wanted: list[str] | None
) -> None:
    for file in files:
        (tmp_path / file).write_text(BUILDABLE)
    chosen = _interpreter(tmp_path, virtualenv=tmp_path / "venv")
    made, *installed = install.steps(chosen, tmp_path, {}, is_plugin)
    assert made.command == (sys.executable, "-m", "venv", str(tmp_path / "venv"))
    assert [list(step.command)[-len(wanted or []) :] for step in installed] == ([wanted] if wanted else [])
    assert all(step.command[0] == str(tmp_path / "venv" / "bin" / "python") for step in installed)


def test_nothing_is_installed_where_nothing_is_listed(tmp_path: Path) -> None:
    assert install.steps(_interpreter(tmp_path, virtualenv=None), tmp_path, {}, is_plugin=False) == []


def test_the_uv_toolchain_syncs(tmp_path: Path) -> None:
    uv = program(tmp_path / "bin" / "uv", "")
    chosen = _interpreter(tmp_path, virtualenv=tmp_path / ".venv", toolchain="uv")
    environment = {"PATH": str(tmp_path / "bin")}
    assert install.steps(chosen, tmp_path, environment, is_plugin=False) == [install.Step((str(uv), "sync"), tmp_path)]
    with pytest.raises(HostError, match="uv is needed"):
        install.steps(chosen, tmp_path, {"PATH": "/nonexistent"}, is_plugin=False)


def test_the_installed_packages_are_those_of_that_python() -> None:
    listed = {package.name: package for package in packages.installed(_interpreter(Path(), virtualenv=None))}
    assert listed["pulumi-kubernetes"].plugin == {"resource": True, "name": "kubernetes", "version": "4.25.0"}
    assert listed["pulumi"].required
    assert not listed["tensorfusion-iac"].required
    assert listed["pulumi-policy"].plugin == {"resource": False}


KUBERNETES = Package("pulumi-kubernetes", "4.25.0", True, {"resource": True, "name": "kubernetes", "version": "4.25.0"})


@pytest.mark.parametrize(
    ("package", "plugin", "named"),
    [
        (KUBERNETES, "home/plugins/resource-kubernetes-v4.25.0/pulumi-resource-kubernetes", ("kubernetes", "v4.25.0")),
        (KUBERNETES, "bin/pulumi-resource-kubernetes", ("kubernetes", "v4.25.0")),
        (KUBERNETES, "home/plugins/resource-kubernetes-v4.24.0/pulumi-resource-kubernetes", None),
        (KUBERNETES, "elsewhere", None),
        (Package("pulumi-random", "4.2.1", True, {"resource": True}), "bin/pulumi-resource-random", ("random", "v4.2.1")),
        (Package("pulumi-random", "4.2a1", True, {"resource": True}), "bin/pulumi-resource-random", None),
        (Package("pulumi-policy", "1.0.0", True, {"resource": False}), "bin/pulumi-resource-policy", None),
        (Package("pulumi-policy", "1.0.0", True, None), "bin/pulumi-resource-policy", None),
    ],
)
def test_only_plugins_that_are_there_are_named_so_that_none_is_fetched(
    tmp_path: Path, package: Package, plugin: str, named: tuple[str, str] | None
) -> None:
    program(tmp_path / plugin, "")
    environment = {"PULUMI_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "bin")}
    found = [(dependency.name, dependency.version) for dependency in packages.plugins([package], environment)]
    assert found == ([named] if named else [])


def test_a_parameterized_package_keeps_its_parameter(tmp_path: Path) -> None:
    program(tmp_path / "pulumi-resource-terraform-provider", "")
    content = {
        "resource": True,
        "name": "terraform-provider",
        "version": "0.5.0",
        "parameterization": {"name": "x", "version": "1.0.0", "value": base64.b64encode(b"\x00v").decode()},
    }
    package = Package("pulumi-x", "1.0.0", False, content)
    (dependency,) = packages.plugins([package], {"PATH": str(tmp_path), "PULUMI_HOME": "/nonexistent"})
    assert (dependency.parameterization.name, dependency.parameterization.value) == ("x", b"\x00v")


@pytest.mark.parametrize(
    ("chunks", "port", "rest"),
    [
        ([("stdout", b"40925\n")], 40925, b""),
        ([("stdout", b"409"), ("stdout", b"25"), ("stdout", b"\n")], 40925, b""),
        ([("stdout", b"40925\nhello\nagain")], 40925, b"hello\nagain"),
        ([("stdout", b"loading\n40925\nhello\n7\n")], 40925, b"loading\nhello\n7\n"),
        ([("stdout", b"40925\n"), ("stdout", b"7\n")], 40925, b"7\n"),
        ([("stdout", b"no port")], None, b"no port"),
        ([], None, b""),
    ],
)
def test_the_first_line_of_digits_is_the_packs_port_and_all_else_is_passed_on(
    chunks: list[Output], port: int | None, rest: bytes
) -> None:
    attached_to: list[int] = []
    passed = list(attached(iter(chunks), attached_to.append))
    assert attached_to == ([] if port is None else [port])
    assert b"".join(chunk for name, chunk in passed if name == "stdout") == rest


def test_a_packs_errors_are_passed_on_before_it_serves() -> None:
    chunks: list[Output] = [("stderr", b"12345\n"), ("stdout", b"1\n")]
    assert list(attached(iter(chunks), lambda port: None)) == [("stderr", b"12345\n")]


class InterruptingEngine(engine_pb2_grpc.EngineServicer):
    """Has its program interrupted as soon as it tells an error, as an engine does that gives up at that moment."""

    def __init__(self) -> None:
        self.program: queue.Queue[subprocess.Popen[str]] = queue.Queue()

    def Log(self, request: Any, context: grpc.ServicerContext) -> empty_pb2.Empty:  # noqa: N802 - gRPC's name
        program = self.program.get(timeout=30)
        program.send_signal(signal.SIGINT)
        program.wait(30)  # it gets no answer
        return empty_pb2.Empty()


def test_a_program_that_is_interrupted_while_it_tells_an_error_ends_in_silence(tmp_path: Path) -> None:
    engine = InterruptingEngine()
    server = grpc.server(ThreadPoolExecutor())
    engine_pb2_grpc.add_EngineServicer_to_server(engine, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    options = {
        "monitor": address, "engine": address, "project": "p", "stack": "s", "organization": "o", "root-directory": str(tmp_path),
        "dry-run": "false", "parallel": "1",
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    script = str(install.__file__).replace("install.py", "program.py")
    command = [sys.executable, script, *words, str(tmp_path)]  # a folder without a program, which is the error
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            engine.program.put(process)
            printed, _ = process.communicate(timeout=60)
    finally:
        server.stop(None)
    assert (process.returncode, printed) == (SHOWN, "")
