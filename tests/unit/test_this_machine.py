"""`doctor --local`: what a machine can do by its own driver, and what is wrong with it."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from cli_runs import run

from tensorfusion_iac.agent.driver import Card
from tensorfusion_iac.agent.health import Probe
from tensorfusion_iac.operations.this_machine import report

GIB = 2**30
TOOLKIT = "accept-nvidia-visible-devices-envvar-when-unprivileged = {}\n[nvidia-container-runtime]\nmode = 'auto'\n"


@dataclass
class Machine:
    """The part of a driver that is asked."""

    count: int = 1
    version: str = "615.10"
    limits: bool = True
    lost: frozenset[str] = field(default_factory=frozenset)

    def cards(self) -> list[Card]:
        return [Card(index, f"GPU-{index}", "NVIDIA L40S", 48 * GIB) for index in range(self.count)]

    def can_limit_memory(self, uuid: str) -> bool:
        return self.limits

    def probe(self, uuid: str) -> Probe:
        return Probe(lost=uuid in self.lost)


def at(folder: Path, *, v2: bool = True, toolkit: str | None = TOOLKIT.format("true")) -> dict[str, Path]:
    """Where things are on a made-up machine."""
    mount, config = folder / "cgroup", folder / "config.toml"
    mount.mkdir()
    if v2:
        (mount / "cgroup.controllers").touch()
    if toolkit is not None:
        config.write_text(toolkit)
    return {"mount": mount, "toolkit_config": config, "mps": folder / "mps"}


def test_a_fit_machine_has_no_findings(tmp_path: Path) -> None:
    (row,), findings = report(Machine(2), **at(tmp_path))  # type: ignore[arg-type]
    assert findings == []
    assert (row.cards, row.driver, row.injection, row.cgroups) == (2, "615.10", "env", "v2")
    assert (row.memory_limits, row.compute_limits, row.mig) == ("driver", "freezer", "no")


def test_an_older_driver_is_watched(tmp_path: Path) -> None:
    (row,), findings = report(Machine(limits=False), **at(tmp_path))  # type: ignore[arg-type]
    assert (row.memory_limits, findings) == ("watch", [])


@pytest.mark.parametrize(
    ("machine", "place", "problem", "remedy"),
    [
        (Machine(0), {}, "the driver reports no card", "nvidia-smi"),
        (Machine(), {"v2": False}, "no compute limit can be held (cgroups: none)", "freezer"),
        (Machine(), {"toolkit": None}, "devices cannot reach containers here", "install the NVIDIA Container Toolkit"),
        (Machine(), {"toolkit": TOOLKIT.format("false")}, "devices cannot reach containers here", "set it to true"),
        (Machine(2, lost=frozenset({"GPU-1"})), {}, "the driver has lost it", "reset the card"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(
    tmp_path: Path, machine: Machine, place: dict[str, str], problem: str, remedy: str
) -> None:
    _, (finding,) = report(machine, **at(tmp_path, **place))  # type: ignore[arg-type]
    assert problem in finding.problem
    assert remedy in finding.remedy


def test_a_node_of_a_cluster_and_this_machine_are_two_things() -> None:
    result = run("doctor", "--local", "--node", "a")
    assert (result.exit_code, "give one of them" in result.output) == (2, True)


def test_in_a_pod_the_commands_use_its_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    result = run("top", "--once")
    assert result.exit_code == 3
    assert "the service account's token is missing" in result.output  # here it is


def test_a_user_without_a_home_has_no_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    result = run("status")
    assert (result.exit_code, "there is no kubeconfig" in result.output) == (3, True)


@pytest.mark.parametrize("command", [("doctor",), ("status",), ("top", "--once")])
def test_without_a_kubeconfig_the_commands_say_so(tmp_path: Path, command: tuple[str, ...]) -> None:
    result = run(*command, "--kubeconfig", tmp_path / "none")
    assert (result.exit_code, "there is no kubeconfig" in result.output) == (3, True)
    assert 'eval "$(tensorfusion local env)"' in result.output


@pytest.mark.parametrize("command", [("doctor",), ("status",), ("top", "--once"), ("explain", "pod/a")])
def test_where_nobody_answers_the_commands_say_what_to_look_at(tmp_path: Path, command: tuple[str, ...]) -> None:
    with socket.socket() as taken:  # bound and not listening: nobody answers there
        taken.bind(("127.0.0.1", 0))
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{taken.getsockname()[1]}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        users = [{"name": "u", "user": {"token": "t"}}]
        config = {"clusters": [cluster], "contexts": [context], "users": users, "current-context": "c"}
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        result = run(*command, "--kubeconfig", tmp_path / "config")
    assert result.exit_code == 3
    assert "cannot reach the Kubernetes API" in result.output
    assert "is the control plane up? `tensorfusion local up`" in result.output
