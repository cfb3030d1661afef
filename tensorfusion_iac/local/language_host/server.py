# ruff: noqa: D102, N802 -- the methods' names and meanings are the protocol's
"""The service LanguageRuntime: what the engine asks of a language, answered for Python (research/pulumi.md §5).

Each answer is put together from the modules beside this one; here are the protocol's messages and nothing else.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2, json_format  # type: ignore[import-untyped]
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from tensorfusion_iac.local.language_host import install, interpreter, packages, program
from tensorfusion_iac.local.language_host.children import Children, output, stop
from tensorfusion_iac.local.language_host.errors import HostError
from tensorfusion_iac.local.language_host.interpreter import Interpreter
from tensorfusion_iac.local.language_host.policy_pack import PolicyPackProxy, attached


class LanguageRuntime(language_pb2_grpc.LanguageRuntimeServicer):
    """Runs the programs and plugins of one pulumi command; `engine` is the address that it gave."""

    def __init__(self, engine: str, children: Children) -> None:
        self._engine = engine
        self._children = children

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=version("pulumi"))

    def About(self, request: Any, context: Any) -> Any:
        with _reported(context):
            python = _of_program(request.info)
            return language_pb2.AboutResponse(
                executable=str(python.python),
                version=python.version(),
                metadata={"host": f"tensorfusion-iac {version('tensorfusion-iac')}"},
            )

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:
        with _reported(context):
            python = _of_program(request.info)
            if python.virtualenv and not python.virtualenv.exists():
                for step in install.steps(python, Path(request.info.program_directory), os.environ, is_plugin=False):
                    self._complete(step.command, step.cwd, os.environ)
            found = packages.plugins(packages.installed(python), os.environ)
            return language_pb2.GetRequiredPackagesResponse(packages=found)

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:
        with _reported(context):
            listed = packages.installed(_of_program(request.info))
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[
                language_pb2.DependencyInfo(name=package.name, version=package.version)
                for package in listed
                if request.transitiveDependencies or not package.required
            ]
        )

    def InstallDependencies(self, request: Any, context: Any) -> Iterator[Any]:
        with _reported(context):
            folder = Path(request.info.program_directory)
            python = _of_plugin(request.info) if request.is_plugin else _of_program(request.info)
            for step in install.steps(python, folder, os.environ, request.is_plugin):
                yield language_pb2.InstallDependenciesResponse(stdout=f"{' '.join(step.command)}\n".encode())
                process = self._children.start(step.command, step.cwd, os.environ, subprocess.PIPE)
                _stop_with(context, process)
                for name, chunk in output(process):
                    yield language_pb2.InstallDependenciesResponse(**{name: chunk})
                _expect_success(step.command, process.returncode)

    def Run(self, request: Any, context: Any) -> Any:
        try:
            _refuse_debugger(request)
            python = _of_program(request.info)
            python.check()
            if python.typechecker:
                folder = Path(request.info.program_directory)
                check = (str(python.python), "-m", python.typechecker, str(folder))
                self._complete(check, folder, python.environment(os.environ))
            process = self._children.start(
                [python.python, "-u", program.__file__, *self._arguments(request)],
                Path(request.pwd),
                {
                    **python.environment(os.environ),
                    "PULUMI_CONFIG": json.dumps(dict(request.config)),
                    "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
                },
            )
        except HostError as error:
            return language_pb2.RunResponse(error=str(error))
        _stop_with(context, process)
        code = process.wait()
        return language_pb2.RunResponse(bail=code == program.SHOWN, error=_failure(code, python))

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:
        with _reported(context):
            _refuse_debugger(request)
            folder = Path(request.info.program_directory)
            environment = dict(variable.partition("=")[::2] for variable in request.env)
            if request.kind == "analyzer":
                python = _of_program(request.info)
                command = [str(python.python), "-u", "-m", "pulumi.policy", *request.args, str(folder)]
                run = self._policy_pack(command, folder, python.environment(environment), context)
            else:
                python = _of_plugin(request.info)
                command = [str(python.python), "-u", *_plugin_entry(folder), *request.args]
                run = self._plugin(command, Path(request.pwd), python.environment(environment), context)
            python.check()
            yield from run

    def GeneratePackage(self, request: Any, context: Any) -> None:
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            "the Python language host of tensorfusion-iac generates no SDKs: "
            "put the official pulumi-language-python on PATH for `pulumi package add`",
        )

    def Cancel(self, request: Any, context: Any) -> Any:
        self._children.stop()
        return empty_pb2.Empty()

    def _arguments(self, request: Any) -> list[str]:
        named = {
            "monitor": request.monitor_address,
            "engine": self._engine,
            "project": request.project,
            "stack": request.stack,
            "organization": request.organization or "organization",
            "root-directory": request.info.root_directory,
            "dry-run": "true" if request.dryRun else "false",
            "parallel": str(request.parallel),
        }
        entry = Path(request.info.program_directory) / (request.info.entry_point or ".")
        return [*(f"--{name}={value}" for name, value in named.items()), str(entry), *request.args]

    def _complete(self, command: tuple[str, ...], cwd: Path, environment: Mapping[str, str]) -> None:
        """Run a command to its end, its output going where the host's goes: to the user."""
        _expect_success(command, self._children.start(command, cwd, environment).wait())

    def _plugin(self, command: list[str], cwd: Path, environment: Mapping[str, str], context: Any) -> Iterator[Any]:
        process = self._children.start(command, cwd, environment, subprocess.PIPE)
        _stop_with(context, process)
        for name, chunk in output(process):
            yield _written(name, chunk)
        yield language_pb2.RunPluginResponse(exitcode=process.returncode)

    def _policy_pack(self, command: list[str], folder: Path, environment: Mapping[str, str], context: Any) -> Iterator[Any]:
        proxy = PolicyPackProxy()
        context.add_callback(proxy.close)
        yield language_pb2.RunPluginResponse(stdout=f"{proxy.port}\n".encode())
        configuration = proxy.environment()
        process = self._children.start(command, folder, {**configuration, **environment}, subprocess.PIPE)
        _stop_with(context, process)
        for name, chunk in attached(output(process), proxy.attach):
            yield _written(name, chunk)
        proxy.fail(f"the policy pack in {folder} ended with exit code {process.returncode} before it served")
        yield language_pb2.RunPluginResponse(exitcode=process.returncode)


@contextmanager
def _reported(context: Any) -> Iterator[None]:
    """Answer a call with the text of a HostError."""
    try:
        yield
    except HostError as error:
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))


def _written(name: str, chunk: bytes) -> Any:
    if name == "stdout":
        return language_pb2.RunPluginResponse(stdout=chunk)
    return language_pb2.RunPluginResponse(stderr=chunk)


def _stop_with(context: Any, process: "subprocess.Popen[bytes]") -> None:
    """Stop the process when the engine ends the call."""
    if not context.add_callback(lambda: stop(process)):
        stop(process)


def _expect_success(command: tuple[str, ...], code: int) -> None:
    if code != 0:
        raise HostError(f"{' '.join(command)} ended with exit code {code}")


def _failure(code: int, python: Interpreter) -> str:
    """What to say of a program's exit code: nothing where the program has said it."""
    if code in (0, program.SHOWN):
        return ""
    if code == program.NO_PULUMI:
        return (
            f"{python.python} can't import pulumi: install the program's requirements there (`pulumi install`), "
            "or name another virtual environment in Pulumi.yaml (runtime.options.virtualenv)"
        )
    return f"the program ended with exit code {code}"


def _of_program(info: Any) -> Interpreter:
    return interpreter.of_program(Path(info.root_directory), json_format.MessageToDict(info.options), os.environ)


def _of_plugin(info: Any) -> Interpreter:
    return interpreter.of_plugin(Path(info.root_directory), json_format.MessageToDict(info.options), os.environ)


def _plugin_entry(folder: Path) -> list[str]:
    """What Python runs for a plugin: its __main__.py, else its package's components (research/pulumi.md §1)."""
    if (folder / "__main__.py").is_file():
        return [str(folder)]
    if interpreter.is_buildable(folder):
        return ["-m", "pulumi.run.plugin", interpreter.pyproject(folder)["project"]["name"]]
    raise HostError(f"the plugin in {folder} can't be run: it has neither a __main__.py nor a [build-system]")


def _refuse_debugger(request: Any) -> None:
    if request.attach_debugger:
        raise HostError("this Python language host attaches no debugger: use the official pulumi-language-python")
