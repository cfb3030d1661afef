"""The folder of programs that makes a plain `pulumi` work, and the Python language host in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toolchain_recipes import printing, program

from tensorfusion_iac.local.toolchain import ToolError, install_provider, link

PATIENCE_S = 60.0


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, Path]:
    names = ("pulumi", "kubectl")
    return {name: printing(tmp_path / "cache" / name / name, "3.276.0") for name in names}


def inodes(folder: Path) -> dict[str, int]:
    return {path.name: path.lstat().st_ino for path in folder.iterdir()}


def test_pulumi_lies_beside_our_host_and_the_rest_is_linked(tmp_path: Path, tools: dict[str, Path]) -> None:
    bin_dir = tmp_path / "bin"
    link(bin_dir, tools, path="")
    # The engine follows links from `pulumi` and expects the host beside what it finds there.
    assert (bin_dir / "pulumi").resolve() == bin_dir / "pulumi"
    assert (bin_dir / "pulumi").samefile(tools["pulumi"])
    assert os.access(bin_dir / "pulumi-language-python", os.X_OK)
    assert os.access(bin_dir / "pulumi-resource-pulumi-python", os.X_OK)
    assert (bin_dir / "kubectl").readlink() == tools["kubectl"]


def test_the_host_of_another_language_lies_beside_our_host(tmp_path: Path, tools: dict[str, Path]) -> None:
    host = printing(tmp_path / "cache" / "yaml" / "pulumi-language-yaml", "1.25.0")
    link(tmp_path / "bin", {**tools, "pulumi-language-yaml": host}, path="")
    # It looks for the host of a plugin's language where it lies itself, links followed.
    assert (tmp_path / "bin" / "pulumi-language-yaml").resolve().parent == tmp_path / "bin"
    assert (tmp_path / "bin" / "pulumi-language-yaml").samefile(host)


def test_a_second_call_changes_nothing(tmp_path: Path, tools: dict[str, Path]) -> None:
    link(tmp_path / "bin", tools, path="")
    before = inodes(tmp_path / "bin")
    link(tmp_path / "bin", tools, path="")
    assert inodes(tmp_path / "bin") == before


def test_another_pulumi_and_another_python_take_the_place_of_the_old(tmp_path: Path, tools: dict[str, Path]) -> None:
    link(tmp_path / "bin", tools, path="", python=Path("/gone/bin/python"))
    newer = printing(tmp_path / "cache" / "newer" / "pulumi", "3.300.0")
    link(tmp_path / "bin", {**tools, "pulumi": newer}, path="", python=Path("/new/bin/python"))
    assert (tmp_path / "bin" / "pulumi").samefile(newer)
    assert "/new/bin/python" in (tmp_path / "bin" / "pulumi-language-python").read_text()
    assert not list((tmp_path / "bin").glob(".new-*"))


def test_an_official_host_on_path_is_used(tmp_path: Path, tools: dict[str, Path]) -> None:
    link(tmp_path / "bin", tools, path="")
    official = program(tmp_path / "official" / "pulumi-language-python", "exit 0")
    link(tmp_path / "bin", tools, path=f"{tmp_path / 'bin'}:{official.parent}")
    assert (tmp_path / "bin" / "pulumi-language-python").readlink() == official
    assert not (tmp_path / "bin" / "pulumi-resource-pulumi-python").exists()


def test_an_official_host_beside_pulumi_needs_no_copy_of_pulumi(tmp_path: Path, tools: dict[str, Path]) -> None:
    official = program(tools["pulumi"].parent / "pulumi-language-python", "exit 0")
    link(tmp_path / "bin", tools, path=str(official.parent))
    assert (tmp_path / "bin" / "pulumi").readlink() == tools["pulumi"]
    assert (tmp_path / "bin" / "pulumi-language-python").readlink() == official


def test_without_pulumi_there_is_no_host(tmp_path: Path, tools: dict[str, Path]) -> None:
    link(tmp_path / "bin", {"kubectl": tools["kubectl"]}, path="")
    assert sorted(inodes(tmp_path / "bin")) == [".tensorfusion-tools", "kubectl"]


def test_a_folder_that_can_not_be_filled_is_one_clear_error(tmp_path: Path, tools: dict[str, Path]) -> None:
    (tmp_path / "bin").write_text("")
    with pytest.raises(ToolError, match=r"the folder of programs .*bin can't be filled: File exists"):
        link(tmp_path / "bin", tools, path="")


def host(bin_dir: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [bin_dir / "pulumi-language-python", *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_a_host_whose_python_is_gone_says_so(tmp_path: Path, tools: dict[str, Path]) -> None:
    link(tmp_path / "bin", tools, path="", python=Path("/gone/bin/python"))
    run = host(tmp_path / "bin", "127.0.0.1:1", PATH="/nonexistent")
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.startswith("error: no Python with tensorfusion-iac and pulumi: not /gone/bin/python, for which")
    assert "tensorfusion local up" in run.stderr


@pytest.mark.parametrize("place", ["VIRTUAL_ENV", "PATH"])
def test_a_host_whose_python_is_gone_takes_the_active_one(tmp_path: Path, tools: dict[str, Path], place: str) -> None:
    link(tmp_path / "bin", tools, path="", python=Path("/gone/bin/python"))
    for name in ("python", "python3"):
        program(tmp_path / "active" / "bin" / name, f'exec {sys.executable} "$@"')
    environment = {"PATH": "/nonexistent"}
    environment[place] = str(tmp_path / "active" / ("bin" if place == "PATH" else ""))
    run = host(tmp_path / "bin", **environment)
    assert (run.returncode, run.stderr) == (2, "error: this program is started by the pulumi command, which gives its address\n")


def test_the_host_prints_its_port_first_and_ends_in_silence(tmp_path: Path, tools: dict[str, Path]) -> None:
    link(tmp_path / "bin", tools, path="")
    command = [tmp_path / "bin" / "pulumi-language-python", "--logtostderr", "-v=3", "127.0.0.1:1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert 1024 <= int(process.stdout.readline()) < 65536
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE_S) == ("", "")
    assert process.returncode == 0


def test_the_host_ends_with_the_command_that_started_it(tmp_path: Path, tools: dict[str, Path]) -> None:
    link(tmp_path / "bin", tools, path="")
    command = f"{tmp_path / 'bin' / 'pulumi-language-python'} 127.0.0.1:1 & echo $!; wait"
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, _port = int(parent.stdout.readline()), int(parent.stdout.readline())
        parent.kill()
        deadline = time.monotonic() + PATIENCE_S
        while _lives(pid):
            assert time.monotonic() < deadline, "the host outlived its parent"
            time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""  # empty for a zombie
    except OSError:
        return False


PULUMI = """
echo "$@" >> {calls}
[ "$1 $2" = "plugin install" ] || exit 9
mkdir -p "$PULUMI_HOME/plugins/resource-kubernetes-v$5"
cp "$7" "$PULUMI_HOME/plugins/resource-kubernetes-v$5/pulumi-resource-kubernetes"
"""


def test_the_provider_is_installed_once_and_again_when_it_changed(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    pulumi = program(tmp_path / "pulumi", PULUMI.format(calls=calls))
    provider = printing(tmp_path / "provider", "4.25.0")
    for _ in range(2):
        install_provider(pulumi, provider, "4.25.0", tmp_path / "home")
    assert calls.read_text() == f"plugin install resource kubernetes 4.25.0 --file {provider} --reinstall\n"
    printing(provider, "4.25.0-rebuilt")
    install_provider(pulumi, provider, "4.25.0", tmp_path / "home")
    installed = tmp_path / "home" / "plugins" / "resource-kubernetes-v4.25.0" / "pulumi-resource-kubernetes"
    assert installed.read_text() == provider.read_text()


def test_a_provider_that_can_not_be_installed_is_one_clear_error(tmp_path: Path) -> None:
    pulumi = program(tmp_path / "pulumi", "echo 'error: no such flag' >&2; exit 255")
    with pytest.raises(ToolError) as raised:
        install_provider(pulumi, printing(tmp_path / "provider", "4.25.0"), "4.25.0", tmp_path / "home")
    assert "(pulumi plugin install ended with 255):\nerror: no such flag" in str(raised.value)
