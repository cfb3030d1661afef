"""`tensorfusion report` as a command: where the preview and the cluster come from, exit codes, and wrong usage."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_runs import run
from recorded_previews import CLUSTER, GOLDEN, PREVIEWS, objects

from tensorfusion_iac.report import Kind


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own cluster is none of a test's business."""
    monkeypatch.delenv("KUBECONFIG", raising=False)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Pulumi project, and a `pulumi` that prints what stands in the file `prints` and ends with what is in `ends`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "pulumi"
    program.write_text('#!/bin/sh\necho "$@" > called\ncat prints\necho "progress" >&2\nexit "$(cat ends)"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: models\n")
    (folder / "ends").write_text("0")
    return folder


def test_a_file_or_standard_input_and_a_snapshot() -> None:
    expected = (GOLDEN / "grow.md").read_text()
    preview = PREVIEWS / "grow.json"
    assert run("report", preview, "--snapshot", CLUSTER).stdout == expected
    assert run("report", "-", "--snapshot", CLUSTER, stdin=preview.read_text()).stdout == expected


def test_json_for_programs() -> None:
    result = run("report", PREVIEWS / "grow.json", "-o", "json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["project"], found["fit"]) == ("models", None)
    assert found["workloads"][1]["what"] == ["TFLOPS request 10 -> 40 per GPU, x 4 GPUs x 2 replicas"]


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [("", 0), ("deadlock", 0), ("deadlock, crd-deleted", 1), ("any-risk", 1), (",", 0)],
)
def test_the_exit_code_is_by_the_kinds_of_risk_that_are_named(fail_on: str, code: int) -> None:
    result = run("report", PREVIEWS / "delete.json", "--snapshot", CLUSTER, "--fail-on", fail_on)
    assert result.exit_code == code
    assert ("error: 1 risk of --fail-on: crd-deleted" in result.stderr) == bool(code)
    assert result.stdout == (GOLDEN / "delete.md").read_text(), "the report is there all the same"


def test_a_broken_preview_is_reported_and_fails() -> None:
    result = run("report", PREVIEWS / "broken.json", "--snapshot", CLUSTER)
    assert (result.exit_code, result.stdout) == (1, (GOLDEN / "broken.md").read_text())


def test_a_kind_that_does_not_exist_is_refused_with_those_that_do() -> None:
    result = run("report", PREVIEWS / "grow.json", "--fail-on", "wont-fit,everything")
    assert result.exit_code == 2
    assert "everything is no kind of risk" in result.stderr
    assert all(kind.value in result.stderr for kind in Kind)


def test_what_is_no_preview_is_one_clear_line() -> None:
    result = run("report", "-", stdin="Previewing update (dev):\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: this is not the output of `pulumi preview --json`")


def test_the_preview_is_run_in_the_projects_folder(project: Path) -> None:
    (project / "prints").write_text((PREVIEWS / "grow.json").read_text())
    result = run("report", "--run", project, "--stack", "dev", "--snapshot", CLUSTER)
    assert result.stdout == (GOLDEN / "grow.md").read_text()
    assert (project / "called").read_text() == "preview --json --show-sames --non-interactive --stack dev\n"


def test_a_preview_that_is_run_and_fails_is_reported(project: Path) -> None:
    (project / "prints").write_text((PREVIEWS / "broken.json").read_text())
    (project / "ends").write_text("1")
    result = run("report", "--run", project, "--snapshot", CLUSTER)
    assert (result.exit_code, result.stdout) == (1, (GOLDEN / "broken.md").read_text())


def test_pulumi_that_prints_no_preview_is_told_with_its_exit_code(project: Path) -> None:
    (project / "prints").write_text("error: no stack named 'dev' found\n")
    (project / "ends").write_text("255")
    result = run("report", "--run", project)
    assert result.exit_code == 1
    assert "ended with 255" in result.stderr


def test_without_pulumi_it_says_what_to_do(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project))
    result = run("report", "--run", project)
    assert result.exit_code == 3
    assert "install it, or give the output of a preview" in result.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "give the preview's output (- for standard input), or --run FOLDER"),
        (("x.json", "--run", "."), "give the preview's output (- for standard input), or --run FOLDER"),
        (("x.json",), "x.json: No such file or directory"),
        (("--run", "/nowhere"), "there is no Pulumi.yaml in this folder"),
        (("x.json", "--stack", "dev"), "--stack goes with --run"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], says: str) -> None:
    result = run("report", *words)
    assert result.exit_code == 2
    assert says in result.stderr


def test_the_guide_tells_every_kind_of_risk_and_no_other() -> None:
    guide = (PREVIEWS.parents[2] / "docs" / "guides" / "report.md").read_text()
    assert re.findall(r"^\| `([a-z-]+)` \|", guide, re.MULTILINE) == [kind.value for kind in Kind]


def at(kind: str, *path: str | int, value: Any) -> tuple[str, tuple[str | int, ...], Any]:
    return kind, path, value


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (at("GPU", "metadata", value=5), "metadata: 5 is not an object"),
        (at("GPU", "status", "index", value="None"), 'status.index: "None" is not a whole number, without quotes'),
        (at("GPU", "status", "index", value=2**31), f"status.index: {2**31} is too large; give at most 2147483647"),
        (at("GPU", "status", "numaNode", value="1"), 'status.numaNode: "1" is not a whole number, without quotes'),
        (at("GPU", "status", "uuid", value={"a": 1}), "status.uuid: an object is not text; put it in quotes"),
        (at("GPU", "status", "nodeName", value=["n"]), "status.nodeName: a list is not text; put it in quotes"),
        (at("GPU", "status", "vendor", value=1), "status.vendor: 1 is not text; put it in quotes"),
        (at("GPU", "status", "model", value=1), "status.model: 1 is not text; put it in quotes"),
        (at("GPU", "status", "capacity", value="80Gi"), 'status.capacity: "80Gi" is not an object'),
        (at("GPU", "status", "capacity", "vram", value="9E"), "status.capacity.vram: "),
        (at("GPU", "status", "capacity", "tflops", value="1e30"), "status.capacity.tflops: "),
        (at("GPU", "status", "nvLink", value=[1]), "status.nvLink: a list is not an object"),
        (at("GPU", "status", "partitions", value=3), "status.partitions: 3 is not a list"),
        (at("GPUNode", "spec", "poolName", value={"a": 1}), "spec.poolName: an object is not text; put it in quotes"),
        (at("GPUNode", "status", value="ready"), 'status: "ready" is not an object'),
        (at("Node", "metadata", "labels", value="gpu"), 'metadata.labels: "gpu" is not an object'),
        (at("Pod", "spec", value=[]), "spec: a list is not an object"),
        (at("Pod", "metadata", "uid", value=[1]), "metadata.uid: a list is not text; put it in quotes"),
    ],
)
def test_what_was_edited_in_a_snapshot_into_another_shape_is_named(
    tmp_path: Path, edit: tuple[str, tuple[str | int, ...], Any], says: str
) -> None:
    kind, path, value = edit
    items = copy.deepcopy(objects())
    place: Any = next(item for item in items if item["kind"] == kind)
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    for command in (("report", PREVIEWS / "grow.json", "--snapshot", file), ("explain", "pod/chat", "-n", "ml", "-f", file)):
        result = run(*command)
        assert (result.exit_code, result.stdout) == (1, "")
        said = rf"error: {re.escape(str(file))}:\d+: {kind} \S.*: {re.escape(says)}.*\n"
        assert re.fullmatch(said, result.stderr), result.stderr


def test_objects_of_a_snapshot_that_nobody_reads_may_have_any_shape(tmp_path: Path) -> None:
    others = [{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "spec": [1], "status": "x"}]
    file = tmp_path / "others.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": others}))
    result = run("report", PREVIEWS / "grow.json", "--snapshot", CLUSTER, "--snapshot", file)
    assert result.stdout == (GOLDEN / "grow.md").read_text()
