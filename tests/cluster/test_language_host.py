"""The real pulumi command with our Python language host: what works, and what a user sees when a program fails.

Programs without cloud resources, a file backend, and a PULUMI_HOME of their own; no control plane is needed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tensorfusion_iac.local.toolchain import ensure, link

pytestmark = pytest.mark.cluster

PATIENCE_S = 120.0

PROGRAM = """
import pulumi

class Greeting(pulumi.ComponentResource):
    def __init__(self, name: str, text: pulumi.Input[str]) -> None:
        super().__init__("probe:index:Greeting", name, {"text": text})
        self.text = pulumi.Output.from_input(text)
        self.register_outputs({"text": self.text})

config = pulumi.Config()
greeting = Greeting("greeting", config.get("text") or "hello")
print("said by the program")
pulumi.export("text", greeting.text)
pulumi.export("secret", config.get_secret("secret"))
pulumi.export("where", [pulumi.get_organization(), pulumi.get_project(), pulumi.get_stack(), pulumi.get_root_directory()])
"""


@dataclass(frozen=True)
class Project:
    """A folder with a Pulumi.yaml and a stack."""

    folder: Path
    environment: dict[str, str]

    def pulumi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def ok(self, *arguments: str) -> str:
        run = self.pulumi(*arguments)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def outputs(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.ok("stack", "output", "--json", "--show-secrets"))
        return loaded


@pytest.fixture(scope="session")
def bin_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a plain `pulumi` needs, as `tensorfusion local up` lays it out."""
    folder = tmp_path_factory.mktemp("programs") / "bin"
    # An official host on this machine must not stand in for ours.
    link(folder, ensure(["pulumi"]), path="", python=Path(sys.executable))
    return folder


@pytest.fixture
def environment(tmp_path: Path, bin_dir: Path) -> dict[str, str]:
    (tmp_path / "state").mkdir()
    return {
        "PATH": os.pathsep.join([str(bin_dir), "/usr/bin", "/bin"]),
        "HOME": str(tmp_path),
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_BACKEND_URL": f"file://{tmp_path / 'state'}",
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }


def project(folder: Path, environment: dict[str, str], program: str, runtime: str = "python", more: str = "") -> Project:
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(f"name: probe\nruntime: {runtime}\n{more}")
    (folder / "__main__.py").write_text(program)
    made = Project(folder, environment)
    made.ok("stack", "init", "dev")
    return made


def test_up_preview_refresh_and_destroy(tmp_path: Path, environment: dict[str, str]) -> None:
    here = project(tmp_path / "project", environment, PROGRAM)
    here.ok("config", "set", "--secret", "secret", "s3cret")

    first = here.ok("up", "--yes")
    assert "said by the program" in first
    assert "+ 2 created" in first
    assert "warning" not in first.lower()
    assert here.outputs() == {
        "text": "hello",
        "secret": "s3cret",
        "where": ["organization", "probe", "dev", str(here.folder)],
    }
    assert '"s3cret"' not in here.ok("stack", "output", "--json")

    here.ok("preview", "--expect-no-changes")
    here.ok("config", "set", "text", "good day")
    assert '~ text: "hello" => "good day"' in here.ok("preview", "--diff")
    here.ok("up", "--yes", "--skip-preview")
    assert here.outputs()["text"] == "good day"

    assert "2 unchanged" in here.ok("refresh", "--yes", "--skip-preview")
    assert "2 deleted" in here.ok("destroy", "--yes", "--skip-preview")
    assert json.loads(here.ok("stack", "export"))["deployment"].get("resources", []) == []


@pytest.mark.parametrize(
    ("raising", "shown"),
    [
        (
            'raise pulumi.RunError("GPUPool \\"a\\": spec.qos: must be low, medium or high")',
            'error: GPUPool "a": spec.qos: must be low, medium or high\n',
        ),
        (
            "class SpecError(pulumi.RunError): pass\nraise SpecError('first problem\\nsecond problem')",
            "error: first problem\n    second problem\n",
        ),
        (
            "def late(text):\n    raise pulumi.RunError('found when the value was known')\n"
            "pulumi.export('x', pulumi.Output.from_input('y').apply(late))",
            "error: found when the value was known\n",
        ),
    ],
)
def test_a_run_error_is_one_clean_error_without_a_traceback(
    tmp_path: Path, environment: dict[str, str], raising: str, shown: str
) -> None:
    here = project(tmp_path / "project", environment, f"import pulumi\n{raising}\n")
    run = here.pulumi("preview")
    assert run.returncode != 0
    assert shown in run.stdout
    assert "Traceback" not in run.stdout + run.stderr
    assert "exit code" not in run.stdout + run.stderr


def test_a_bug_shows_the_traceback_from_the_programs_first_line_on(tmp_path: Path, environment: dict[str, str]) -> None:
    here = project(tmp_path / "project", environment, "def broken():\n    return {}['key']\n\nbroken()\n")
    run = here.pulumi("preview")
    assert run.returncode != 0
    assert "error: the program failed with an unhandled exception:" in run.stdout
    assert "KeyError: 'key'" in run.stdout
    files = [line.split('"')[1] for line in run.stdout.splitlines() if line.strip().startswith("File ")]
    assert set(files) == {str(here.folder / "__main__.py")}


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        ("raise SystemExit(3)\n", "the program ended with exit code 3"),
        ("this is no Python\n", "SyntaxError: invalid syntax"),
    ],
)
def test_other_ends_of_a_program_are_told(tmp_path: Path, environment: dict[str, str], program: str, shown: str) -> None:
    run = project(tmp_path / "project", environment, program).pulumi("preview")
    assert run.returncode != 0
    assert shown in run.stdout


def test_a_folder_without_a_program_says_what_to_add(tmp_path: Path, environment: dict[str, str]) -> None:
    here = project(tmp_path / "project", environment, "")
    (here.folder / "__main__.py").unlink()
    run = here.pulumi("preview")
    assert run.returncode != 0
    assert f"there is no __main__.py in {here.folder}" in run.stdout


def test_main_names_a_folder_or_a_file_which_can_import_its_neighbours(tmp_path: Path, environment: dict[str, str]) -> None:
    here = project(tmp_path / "project", environment, "", more="main: stacks\n")
    (here.folder / "stacks").mkdir()
    # Named like modules of the host and of the standard library: each must find its own.
    (here.folder / "stacks" / "program.py").write_text("ANSWER = 42\n")
    (here.folder / "signal.py").write_text("raise SystemExit('not this one')\n")
    program = "import os, pulumi, program\npulumi.export('seen', [program.ANSWER, os.getcwd()])\n"
    (here.folder / "stacks" / "__main__.py").write_text(program)
    here.ok("up", "--yes", "--skip-preview")
    assert here.outputs()["seen"] == [42, str(here.folder / "stacks")]

    (here.folder / "Pulumi.yaml").write_text("name: probe\nruntime: python\nmain: stacks/other.py\n")
    (here.folder / "stacks" / "other.py").write_text("import pulumi, program\npulumi.export('seen', program.ANSWER + 1)\n")
    here.ok("up", "--yes", "--skip-preview")
    assert here.outputs()["seen"] == 43


def test_the_virtual_environment_that_pulumi_yaml_names_runs_the_program(tmp_path: Path, environment: dict[str, str]) -> None:
    runtime = "{name: python, options: {virtualenv: ../venv}}"
    here = project(tmp_path / "project", environment, "import sys, pulumi\npulumi.export('prefix', sys.prefix)\n", runtime)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)

    run = here.pulumi("preview")
    assert run.returncode != 0
    assert f"{here.folder}/../venv/bin/python can't import pulumi: install the program's requirements there" in run.stdout

    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "borrowed.pth").write_text(str(Path(pytest.__file__).parents[1]))
    here.ok("up", "--yes", "--skip-preview")
    assert Path(here.outputs()["prefix"]).resolve() == tmp_path / "venv"


def test_a_missing_virtual_environment_is_made(tmp_path: Path, environment: dict[str, str]) -> None:
    here = project(tmp_path / "project", environment, "import pulumi\n", "{name: python, options: {virtualenv: venv}}")
    assert "can't import pulumi" in here.pulumi("preview").stdout  # made, and nothing was listed to install
    assert (here.folder / "venv" / "bin" / "python").exists()


def test_a_type_checker_that_finds_an_error_stops_the_program(tmp_path: Path, environment: dict[str, str]) -> None:
    runtime = "{name: python, options: {typechecker: mypy}}"
    here = project(tmp_path / "project", environment, "x: int = 'text'\nprint('was run')\n", runtime)
    run = here.pulumi("preview")
    assert run.returncode != 0
    assert "Incompatible types in assignment" in run.stdout
    assert "mypy" in run.stdout
    assert "was run" not in run.stdout


POLICY_PACK = """
import pulumi
from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy

def judge(args, report):
    if args.resource_type == "probe:index:Greeting" and args.props["text"] != pulumi.Config("probe").get("wanted"):
        report(f"{pulumi.get_project()}/{pulumi.get_stack()} wants {pulumi.Config('probe').get('wanted')}")

print("said by the pack")
PolicyPack("manners", [ResourceValidationPolicy("wanted-text", "Say what is wanted.", judge, EnforcementLevel.MANDATORY)])
"""


@pytest.fixture
def policy_pack(tmp_path: Path) -> Path:
    folder = tmp_path / "pack"
    folder.mkdir()
    (folder / "PulumiPolicy.yaml").write_text("runtime: python\nversion: 0.1.0\n")
    (folder / "__main__.py").write_text(POLICY_PACK)
    return folder


def test_a_policy_pack_judges_with_the_stacks_configuration(
    tmp_path: Path, environment: dict[str, str], policy_pack: Path
) -> None:
    here = project(tmp_path / "project", environment, PROGRAM)
    here.ok("config", "set", "wanted", "good day")
    refused = here.pulumi("preview", "--policy-pack", str(policy_pack))
    assert refused.returncode != 0
    assert "[mandatory]  wanted-text  (probe:index:Greeting: greeting)" in refused.stdout
    assert "probe/dev wants good day" in refused.stdout
    here.ok("config", "set", "text", "good day")
    assert "manners" in here.ok("preview", "--policy-pack", str(policy_pack))


def test_a_policy_pack_that_fails_says_why(tmp_path: Path, environment: dict[str, str], policy_pack: Path) -> None:
    (policy_pack / "__main__.py").write_text("raise ValueError('no policies today')\n")
    here = project(tmp_path / "project", environment, PROGRAM)
    run = here.pulumi("preview", "--policy-pack", str(policy_pack))
    assert run.returncode != 0
    assert "ValueError: no policies today" in run.stdout + run.stderr


PLUGIN = """
from typing import TypedDict

import pulumi
from pulumi.provider.experimental import component_provider_host

class GreeterArgs(TypedDict):
    name: pulumi.Input[str]

class Greeter(pulumi.ComponentResource):
    greeting: pulumi.Output[str]

    def __init__(self, name: str, args: GreeterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("greeter:index:Greeter", name, args, opts)
        self.greeting = pulumi.Output.concat("hello ", args["name"])
        self.register_outputs({"greeting": self.greeting})

if __name__ == "__main__":
    component_provider_host(name="greeter", components=[Greeter])
"""

USER = """
import pulumi

class Greeter(pulumi.ComponentResource):
    greeting: pulumi.Output[str]

    def __init__(self, name: str, who: str) -> None:
        super().__init__("greeter:index:Greeter", name, {"name": who, "greeting": None}, remote=True)

pulumi.export("greeting", Greeter("greeter", "you").greeting)
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "plugin"
    folder.mkdir()
    (folder / "PulumiPlugin.yaml").write_text("runtime: python\n")
    (folder / "__main__.py").write_text(PLUGIN)
    return folder


def test_a_component_plugin_tells_its_schema(tmp_path: Path, environment: dict[str, str], plugin: Path) -> None:
    here = Project(tmp_path, environment)
    schema = json.loads(here.ok("package", "get-schema", str(plugin)))
    assert schema["resources"]["greeter:index:Greeter"]["inputProperties"] == {"name": {"type": "string"}}


def test_a_program_uses_a_component_of_a_plugin(tmp_path: Path, environment: dict[str, str], plugin: Path) -> None:
    here = project(tmp_path / "project", environment, USER, more=f"packages:\n  greeter: {plugin}\n")
    here.ok("up", "--yes", "--skip-preview")
    assert here.outputs() == {"greeting": "hello you"}
    here.ok("destroy", "--yes", "--skip-preview")


def test_a_plugin_that_can_not_run_says_why(tmp_path: Path, environment: dict[str, str], plugin: Path) -> None:
    (plugin / "__main__.py").unlink()
    run = Project(tmp_path, environment).pulumi("package", "get-schema", str(plugin))
    assert run.returncode != 0
    assert "neither a __main__.py nor a [build-system]" in run.stderr


DYNAMIC = """
import pulumi
from pulumi.dynamic import CreateResult, Resource, ResourceProvider

class Shouting(ResourceProvider):
    def create(self, props):
        return CreateResult("id-1", {**props, "loud": props["text"].upper()})

class Shout(Resource):
    loud: pulumi.Output[str]

    def __init__(self, name: str, text: str) -> None:
        super().__init__(Shouting(), name, {"text": text, "loud": None})

pulumi.export("loud", Shout("shout", "hello").loud)
"""


def test_dynamic_providers_work(tmp_path: Path, environment: dict[str, str]) -> None:
    here = project(tmp_path / "project", environment, DYNAMIC)
    here.ok("up", "--yes", "--skip-preview")
    assert here.outputs() == {"loud": "HELLO"}
    here.ok("destroy", "--yes", "--skip-preview")


def test_about_and_install_work(tmp_path: Path, environment: dict[str, str]) -> None:
    here = project(tmp_path / "project", environment, PROGRAM)
    about = json.loads(here.ok("about", "--json"))
    assert about["runtime"]["executable"] == sys.executable
    assert "tensorfusion-iac" in {dependency["name"] for dependency in about["dependencies"]}
    here.ok("install")


def test_an_interrupt_ends_the_program_and_the_host_in_silence(tmp_path: Path, environment: dict[str, str]) -> None:
    program = "import os, time\nfrom pathlib import Path\nPath('pid').write_text(str(os.getpid()))\ntime.sleep(600)\n"
    here = project(tmp_path / "project", environment, program)
    command = ["pulumi", "preview", "--non-interactive"]
    with subprocess.Popen(
        command, cwd=here.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        deadline = time.monotonic() + PATIENCE_S
        pid_file = here.folder / "pid"
        while not (pid_file.exists() and pid_file.read_text()):
            assert time.monotonic() < deadline, "the program did not start"
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert "canceled" in printed
    assert "Traceback" not in printed
    assert not Path(f"/proc/{pid_file.read_text()}").exists()


HOOKED = """
import time
from pathlib import Path
import pulumi
from pulumi.dynamic import Resource, ResourceProvider

here = str(Path.cwd())

class Failing(ResourceProvider):
    def create(self, props):
        folder = Path(props["folder"])
        (folder / "begun").touch()
        while not (folder / "interrupted").exists():
            time.sleep(0.05)
        raise Exception("it was cut off")

class Failure(Resource):
    pass

async def why(args):
    (Path(here) / "asked").touch()
    return False

hooks = pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook("why", why)])
Failure(Failing(), "failure", {"folder": here}, opts=pulumi.ResourceOptions(hooks=hooks))
"""


def test_an_interrupted_program_still_answers_its_error_hooks(tmp_path: Path, environment: dict[str, str]) -> None:
    here = project(tmp_path / "project", environment, HOOKED)
    command = ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive"]
    with subprocess.Popen(
        command, cwd=here.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not (here.folder / "begun").exists():
            assert time.monotonic() < deadline, "the resource was not begun"
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        time.sleep(1)  # the engine tells the host, which interrupts the program
        (here.folder / "interrupted").touch()
        printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert "hook" not in printed, printed
    assert "it was cut off" in printed
    assert (here.folder / "asked").exists(), printed
