"""The application: its table of commands, exit codes, start-up, completion, and the small commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from cli_runs import ROOT, pod_with, run, validated

from tensorfusion_iac.api.catalogue import catalogue
from tensorfusion_iac.api.crd import crds
from tensorfusion_iac.api.fields import FIELDS
from tensorfusion_iac.cli import application, yaml_text
from tensorfusion_iac.cli.application import COMMANDS, load
from tensorfusion_iac.cli.exits import Exit

PROGRAM = Path(sys.executable).with_name("tensorfusion")


def outside(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A run of the installed program."""
    environment = {**os.environ, **variables}
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=environment, check=False, cwd=ROOT)


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_command_loads_and_explains_itself(entry: application.Entry) -> None:
    command = load(entry)
    first = (command.help or "").strip().split("\n")[0]
    assert first.endswith((".", ":"))
    result = run(entry.name, "--help")
    assert result.exit_code == 0
    assert f"Usage: tensorfusion {entry.name} " in result.stdout


def test_help_lists_every_command() -> None:
    result = run("--help")
    assert all(f"  {entry.name} " in result.stdout for entry in COMMANDS)
    assert "Exit codes: 0" in result.stdout


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["version"], Exit.OK),
        (["validate", "--no-such-option"], Exit.USAGE),
        (["no-such-command"], Exit.USAGE),
        (["validate"], Exit.USAGE),
        (["models", "--vendor", "3dfx"], Exit.USAGE),
        (["models", "B20000"], Exit.PROBLEMS),
        (["version", "--output", "xml"], Exit.USAGE),
        (["resolve"], Exit.USAGE),
        (["import"], Exit.USAGE),
        (["compile", "no-such-folder"], Exit.USAGE),
        (["crds", "--dir", "/dev/null/x"], Exit.USAGE),
    ],
)
def test_exit_codes(words: list[str], code: Exit) -> None:
    result = run(*words)
    assert result.exit_code == code
    assert bool(result.stderr) == (code is not Exit.OK)
    assert code is Exit.OK or not result.stdout


def test_a_misspelled_command_gets_the_nearest() -> None:
    assert "Did you mean 'validate'?" in run("valdiate").stderr


def test_a_command_whose_extra_is_not_installed_says_how_to_get_it() -> None:
    hidden = "import sys\nsys.modules |= dict.fromkeys(('kubernetes_asyncio', 'aiohttp', 'psutil', 'cryptography'))\n"
    code = f"{hidden}from tensorfusion_iac.cli import main\nmain()"
    result = subprocess.run([sys.executable, "-c", code, "local", "status"], capture_output=True, text=True, check=False)
    assert result.returncode == Exit.ENVIRONMENT
    assert "pip install 'tensorfusion-iac[local]'" in result.stderr
    others = subprocess.run([sys.executable, "-c", code, "models", "A100"], capture_output=True, text=True, check=False)
    assert others.returncode == Exit.OK


# --- the installed program -------------------------------------------------------------------------------------------


def test_only_what_a_command_needs_is_loaded() -> None:
    heavy = ("pulumi", "pulumi_kubernetes", "kubernetes_asyncio", "aiohttp", "cryptography", "numpy", "grpc")
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom tensorfusion_iac.cli import app\n"
        "result = CliRunner().invoke(app, sys.argv[1:])\nassert result.exit_code in (0, 1), result.output\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    case = str(ROOT / "tests" / "cases" / "fractions.yaml")
    for words in (["--help"], ["validate", "-f", case], ["import", "-f", case], ["models"], ["crds"]):
        result = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
        assert (result.stdout.strip(), result.stderr) == ("[]", ""), words


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{PROGRAM} crds | head -1"
    result = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert result.stdout.startswith("---")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("validate -f - <&-", Exit.USAGE, "error: -: standard input is closed\n"),
        ("import -f - <&-", Exit.USAGE, "error: -: standard input is closed\n"),
        ("crds >/dev/full", Exit.ENVIRONMENT, "error: cannot write the output: No space left on device\n"),
        ("version >/dev/full", Exit.ENVIRONMENT, "error: cannot write the output: No space left on device\n"),
        ("validate -o json -f tests/cases/fractions.yaml >/dev/full", Exit.ENVIRONMENT,
         "error: cannot write the output: No space left on device\n"),
        ("crds >/dev/full 2>/dev/full", Exit.ENVIRONMENT, ""),
        ("local down --dir pyproject.toml", Exit.ENVIRONMENT,
         f"error: {ROOT / 'pyproject.toml'} is not a folder; give the control plane's with --dir\n"),
        ("local down --purge --dir pyproject.toml", Exit.ENVIRONMENT,
         f"error: {ROOT / 'pyproject.toml'} is not a folder; give the control plane's with --dir\n"),
    ],
)  # fmt: skip
def test_what_the_shell_gives_may_be_of_no_use(command: str, code: Exit, message: str) -> None:
    result = subprocess.run(["bash", "-c", f"{PROGRAM} {command}"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (result.returncode, result.stderr) == (code, message)


def test_any_output_encoding_will_do(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: 工作, labels: {tensor-fusion.ai/enabled: '是'}}\n")
    result = outside("validate", "-f", str(file), PYTHONIOENCODING="ascii")
    assert result.returncode == 0
    assert "turns nothing on" in result.stderr
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml")
    assert outside("validate", "-f", name).returncode == Exit.USAGE


def test_the_program_judges_standard_input() -> None:
    result = subprocess.run([PROGRAM, "validate", "-f", "-"], input=pod_with({}), capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "1 object judged, 1 with problems\n")
    assert "nothing asked for" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands_and_options(shell: str) -> None:
    def completed(line: str) -> str:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        if shell != "bash":
            words = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        return outside(_TENSORFUSION_COMPLETE=f"complete_{shell}", **words).stdout

    assert "validate" in completed("tensorfusion va")
    if shell == "bash":
        assert "--namespace" in completed("tensorfusion validate --na")
        assert "status" in completed("tensorfusion local st")


# --- small commands --------------------------------------------------------------------------------------------------


def test_version_tells_what_is_at_work() -> None:
    data = json.loads(run("version", "-o", "json").stdout)
    assert set(data) == {"tensorfusion-iac", "pulumi", "pulumi-kubernetes", "python", "api"}
    assert f"api {data['api']}" in run("version").stdout


def test_models_are_the_catalogue() -> None:
    text = run("models").stdout
    assert len(text.splitlines()) == len(catalogue()) + 1
    assert all(model.name in text and model.source in text for model in catalogue())


def test_models_are_filtered_by_name_vendor_and_family() -> None:
    def names(*words: str) -> set[str]:
        return {model["name"] for model in json.loads(run("models", *words, "-o", "json").stdout)}

    assert names("l40s") == {"L40S"}
    assert names("A100") == names("--family", "a100") == {model.name for model in catalogue() if model.family == "A100"}
    assert names("--vendor", "moorethreads") == {"MTT_S4000"}
    assert names("A100", "--vendor", "AMD") == set()
    assert "did you mean" in run("models", "L40SS").stderr


def test_annotations_are_the_table() -> None:
    data = json.loads(run("annotations", "-o", "json").stdout)
    assert [(row["annotation"], row["argument"]) for row in data] == [
        (f"tensor-fusion.ai/{field.key}", field.argument) for field in FIELDS
    ]
    assert len(run("annotations").stdout.splitlines()) == len(FIELDS) + 1


def test_crds_are_written_to_standard_output_or_a_folder(tmp_path: Path) -> None:
    expected = list(crds())
    assert list(yaml.safe_load_all(run("crds").stdout)) == expected
    assert json.loads(run("crds", "-o", "json").stdout)["items"] == expected
    assert run("crds", "--dir", tmp_path / "a" / "b").exit_code == 0
    written = [yaml.safe_load(path.read_text()) for path in (tmp_path / "a" / "b").iterdir()]
    assert {item["metadata"]["name"] for item in written} == {item["metadata"]["name"] for item in expected}
    assert [document.value for document in yaml_text.read(run("crds").stdout.encode())] == expected
    assert validated("-f", tmp_path / "a" / "b")[1]["leftAlone"] == len(expected)
