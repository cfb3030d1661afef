"""`tensorfusion compile`: a program's manifests without a cluster, and how programs that fail end."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_runs import ROOT, run

from tensorfusion_iac.cli.program.manifests import SECRET_WORD, UNKNOWN_WORD, compiled
from tensorfusion_iac.cli.program.notes import Log, Resource

HEAD = "import pulumi\nimport pulumi_kubernetes as k8s\nimport tensorfusion_iac as tfi\n"


@pytest.fixture
def program(tmp_path: Path) -> Any:
    """Writes a program; returns its file."""

    def write(text: str) -> Path:
        file = tmp_path / "program.py"
        file.write_text(HEAD + textwrap.dedent(text))
        return file

    return write


def manifests(text: str) -> dict[tuple[str, str], Any]:
    found = [item for item in yaml.safe_load_all(text) if item]
    return {(item["kind"], item["metadata"].get("name", "")): item for item in found}


def test_the_quick_start_compiles() -> None:
    result = run("compile", ROOT, "--no-crds", "--config", "tflopsLimit=40", "--config", "replicas=2", "-c", "image=i:1")
    assert result.exit_code == 0
    found = manifests(result.stdout)
    assert ("Namespace", "ml") in found
    assert not [kind for kind, _ in found if kind == "CustomResourceDefinition"]
    chat = found["Deployment", "chat"]
    assert chat["spec"]["replicas"] == 2
    assert chat["spec"]["template"]["metadata"]["labels"]["tensor-fusion.ai/enabled"] == "true"
    assert chat["spec"]["template"]["spec"]["containers"][0]["image"] == "i:1"
    judged = run("validate", "-f", "-", stdin=result.stdout)
    assert judged.exit_code == 0, judged.stderr


def test_everything_a_program_can_say(program: Any) -> None:
    file = program(
        """
        print("printed by the program")
        pulumi.log.warn("careful")

        def label(args):
            if args.type_ != "kubernetes:apps/v1:Deployment":
                return None
            args.props["metadata"]["labels"] = {"by": "transform"}
            return pulumi.ResourceTransformResult(args.props, args.opts)

        pulumi.runtime.register_resource_transform(label)
        cluster = k8s.Provider("cluster", namespace="of-the-provider")
        opts = pulumi.ResourceOptions(provider=cluster)
        ns = k8s.core.v1.Namespace("ml", opts=opts)
        tfi.AnnotatedDeployment("chat", namespace=ns.metadata["name"], image="i", vgpu=tfi.VGPU(vram_request="4Gi"))
        plain = k8s.apps.v1.Deployment(
            "plain",
            metadata={"annotations": {"pulumi.com/skipAwait": "true", "kept": "x"}},
            spec={"replicas": 1, "selector": {}, "template": {}},
            opts=opts,
        )
        other = pulumi.StackReference("organization/other/dev").get_output("x")
        k8s.core.v1.ConfigMap("known", data={"name": plain.metadata["name"], "namespace": plain.metadata["namespace"]})
        k8s.core.v1.ConfigMap("unknown", data={"uid": plain.status.apply(str), "other": other})
        k8s.core.v1.Secret("secret", string_data={"token": pulumi.Output.secret("hidden")})
        k8s.yaml.ConfigGroup("group", yaml=["apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: from-yaml}\\n"])
        k8s.helm.v4.Chart("chart", chart="x")
        k8s.core.v1.Pod.get("existing", "a/b")
        """
    )
    result = run("compile", file)
    assert result.exit_code == 0, result.stderr
    found = manifests(result.stdout)
    assert set(found) == {
        ("Namespace", "ml"), ("Secret", "secret"), ("ConfigMap", "known"), ("ConfigMap", "unknown"), ("ConfigMap", "from-yaml"),
        ("Deployment", "chat"), ("Deployment", "plain"),
    }  # fmt: skip
    assert "namespace" not in found["Namespace", "ml"]["metadata"]
    assert found["Deployment", "chat"]["metadata"] == {"name": "chat", "namespace": "ml", "labels": {"by": "transform"}}
    assert found["Deployment", "plain"]["metadata"] == {
        "name": "plain", "namespace": "of-the-provider", "annotations": {"kept": "x"}, "labels": {"by": "transform"},
    }  # fmt: skip
    assert found["ConfigMap", "known"]["data"] == {"name": "plain", "namespace": "of-the-provider"}
    assert found["ConfigMap", "unknown"]["data"] == {"uid": UNKNOWN_WORD, "other": UNKNOWN_WORD}
    assert found["Secret", "secret"]["stringData"] == SECRET_WORD
    assert "hidden" not in result.output
    assert "printed by the program" in result.stderr
    assert "warning: careful" in result.stderr
    assert f'warning: ConfigMap "unknown": {UNKNOWN_WORD} stands for data.other, data.uid' in result.stderr
    assert 'warning: Chart "chart": it is rendered by the provider' in result.stderr
    shown = run("compile", file, "--show-secrets")
    assert manifests(shown.stdout)["Secret", "secret"]["stringData"] == {"token": "hidden"}


def test_the_problems_of_all_objects_are_told_together(program: Any) -> None:
    file = program(
        """
        tfi.GPUPool("pool", default=True)
        tfi.WorkloadProfile("small", namespace="ml", vgpu=tfi.VGPU(qos="urgent"))
        tfi.AnnotatedDeployment("one", image="i", vgpu=tfi.VGPU(vram_request="4Gi", vram_limit="2Gi", gpu_count=0))
        tfi.AnnotatedDeployment("two", image="i", imagee="i", vgpu=tfi.VGPU(vram_request="4Gi"))
        tfi.AnnotatedJob("fine", image="i", vgpu=tfi.VGPU(vram_request="4Gi"))
        """
    )
    result = run("compile", file)
    assert (result.exit_code, result.stdout) == (1, "")
    for line in (
        'GPUPool "pool": 1 problem',
        'WorkloadProfile "small": 1 problem',
        'AnnotatedDeployment "one": 2 problems',
        'AnnotatedDeployment "two": 1 problem',
        "  imagee: no such argument; did you mean image?",
    ):
        assert line in result.stderr.splitlines()
    data = json.loads(run("compile", file, "-o", "json").stdout)
    assert [(item["object"], len(item["problems"])) for item in data["problems"]] == [
        ('GPUPool "pool"', 1), ('WorkloadProfile "small"', 1), ('AnnotatedDeployment "one"', 2), ('AnnotatedDeployment "two"', 1),
    ]  # fmt: skip
    assert data["problems"][2]["problems"][0]["field"].startswith("vgpu.")
    assert [item["kind"] for item in data["manifests"]] == ["Job"]


FAILING = {
    "x = (": "program.py:4: SyntaxError: '(' was never closed",
    "pulumi.Config().require('a')": "give --config KEY=VALUE",
    "import sys; sys.exit(3)": "program.py:4: the program ended itself: sys.exit(3)",
    "pulumi.Output.from_input(1).apply(lambda x: x / 0)": "program.py:4: ZeroDivisionError: division by zero",
    "import no_such_module": "program.py:4: ModuleNotFoundError: No module named 'no_such_module'",
    "import os; os._exit(5)": "ended without a result",
    "raise pulumi.RunError('nope')": "program.py:4: nope",
    "pulumi.log.error('bad')": "error: bad",
    "k8s.core.v1.Pod('a'); k8s.core.v1.Pod('a')": 'error: Pod "a": a second resource of this type and name',
    "tfi.VGPU(qoss='low')": "qoss: no such argument; did you mean qos?",
    "def f(): f()\nf()": "RecursionError",
}


@pytest.mark.parametrize(("text", "said"), FAILING.items(), ids=FAILING)
def test_a_program_that_fails_ends_in_a_message(text: str, said: str, program: Any) -> None:
    result = run("compile", program(text))
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr


def test_a_program_that_does_not_end_is_ended(program: Any) -> None:
    result = run("compile", program("import time; time.sleep(600)"), "--timeout", "2")
    assert result.exit_code == 1
    assert "did not end within 2 s" in result.stderr


def test_a_program_that_declares_nothing_is_warned_of(program: Any) -> None:
    result = run("compile", program("pulumi.export('a', 1)"))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "declares no Kubernetes object" in result.stderr


def test_the_configuration_is_read_as_pulumi_reads_it(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text(
        "name: project\nruntime: python\nmain: src\nconfig:\n  plain: a\n  typed: {type: integer, default: 3}\n"
        "  needed: {type: string}\n  other:key: {value: [1, 2]}\n"
    )
    (tmp_path / "Pulumi.prod.yaml").write_text(
        "config:\n  project:plain: b\n  project:token: {secure: AAAB}\n  project:flag: true\n"
    )
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "__main__.py").write_text(
        HEAD + "c = pulumi.Config()\n"
        "data = {'plain': c.get('plain'), 'typed': str(c.get_int('typed')), 'needed': c.get('needed')}\n"
        "data |= {'flag': str(c.get_bool('flag')), 'other': str(pulumi.Config('other').get_object('key'))}\n"
        "data |= {'stack': pulumi.get_stack(), 'project': pulumi.get_project()}\n"
        "k8s.core.v1.ConfigMap('found', data=data)\n"
    )

    def data(*words: str) -> dict[str, str]:
        result = run("compile", tmp_path, *words)
        assert result.exit_code == 0, result.stderr
        return dict(manifests(result.stdout)["ConfigMap", "found"]["data"])

    plainly = {"plain": "a", "typed": "3", "flag": "None", "other": "[1, 2]", "stack": "dev", "project": "project"}
    assert data() == plainly
    assert data("--stack", "prod", "-c", "needed=x", "-c", "other:key=[3]") == {
        **plainly, "plain": "b", "needed": "x", "flag": "True", "other": "[3]", "stack": "prod",
    }  # fmt: skip
    assert "token is encrypted" in run("compile", tmp_path, "--stack", "prod").stderr
    assert "token is encrypted" not in run("compile", tmp_path, "--stack", "prod", "-c", "token=x").stderr


@pytest.mark.parametrize(
    ("project", "words", "code", "said"),
    [
        ("name: x\nruntime: nodejs\n", (), 2, "the runtime is nodejs"),
        ("name: [\n", (), 2, "Pulumi.yaml:2:"),
        ("3", (), 2, "not a mapping"),
        ("name: x\nruntime: {name: python, options: {virtualenv: nowhere}}\n", (), 3, "there is no virtual environment"),
        ("name: x\nruntime: python\n", ("--stack", "nowhere"), 2, "Pulumi.nowhere.yaml"),
        ("name: x\nruntime: python\n", ("--config", "oops"), 2, "is not KEY=VALUE"),
        ("name: x\nruntime: python\nmain: nowhere\n", (), 2, "nowhere"),
    ],
)
def test_a_project_that_cannot_run_ends_in_a_message(
    project: str, words: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "Pulumi.yaml").write_text(project)
    (tmp_path / "__main__.py").write_text("")
    result = run("compile", tmp_path, *words)
    assert result.exit_code == code
    assert said in result.stderr


def test_a_python_without_pulumi_says_what_to_do(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\nexec /usr/bin/env python3 -S -I "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setenv("PULUMI_PYTHON_CMD", str(bare))
    result = run("compile", program(""))
    assert result.exit_code == 3
    assert "can't import pulumi" in result.stderr


# --- notes into manifests --------------------------------------------------------------------------------------------


def resource(kind: str, name: str, properties: dict[str, Any], **more: Any) -> Resource:
    fields = {"urn": f"urn::{kind}::{name}", "custom": True, "read": False, "remote": False, "provider": ""}
    return Resource(**{**fields, "type": f"kubernetes:v1:{kind}", "name": name, "properties": properties, **more})


def test_numbers_are_whole_again_and_keys_in_order() -> None:
    properties = {"kind": "ConfigMap", "spec": {"z": 1.0, "a": 1.5, "name": "n", "b": [2.0, True, None]}, "apiVersion": "v1"}
    [manifest] = compiled([resource("ConfigMap", "x", properties)]).manifests
    assert json.dumps(manifest) == json.dumps(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "x"},
            "spec": {"name": "n", "a": 1.5, "b": [2, True, None], "z": 1},
        }
    )


def test_objects_come_in_the_order_in_which_they_need_each_other() -> None:
    kinds = ("Deployment", "WorkloadProfile", "GPUPool", "Namespace", "ConfigMap", "CustomResourceDefinition")
    found = compiled([resource(kind, "x", {"apiVersion": "v1", "kind": kind}) for kind in kinds]).manifests
    assert [item["kind"] for item in found] == [
        "CustomResourceDefinition", "Namespace", "ConfigMap", "GPUPool", "WorkloadProfile", "Deployment",
    ]  # fmt: skip


def test_a_log_names_its_resource() -> None:
    urn = "urn:pulumi:dev::project::tensorfusion:index:AnnotatedDeployment$kubernetes:apps/v1:Deployment::chat"
    assert Log("warning", "careful", urn).text() == 'warning: Deployment "chat": careful'
    assert Log("error", "bad", "").text() == "bad"


def test_what_the_server_adds_to_metadata_is_known_only_at_deployment(program: Any) -> None:
    file = program(
        """
        secret = k8s.core.v1.Secret("s")
        server = ("uid", "resource_version", "creation_timestamp", "generation", "self_link")
        data = {field: secret.metadata[field] for field in server}
        k8s.core.v1.ConfigMap("c", data={**data, "name": secret.metadata["name"], "by_attribute": secret.metadata.uid})
        k8s.core.v1.ConfigMap("whole", metadata=secret.metadata.apply(lambda known: {"name": known["name"]}))
        """
    )
    result = run("compile", file)
    assert result.exit_code == 0, result.stderr
    found = manifests(result.stdout)
    data = found["ConfigMap", "c"]["data"]
    assert data.pop("name") == "s"
    assert set(data.values()) == {UNKNOWN_WORD}
    assert ("ConfigMap", "s") in found
    assert found["Secret", "s"]["metadata"] == {"name": "s"}
