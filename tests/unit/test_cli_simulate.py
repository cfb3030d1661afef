"""`tensorfusion simulate` and `explain`, offline: what fits where, what waits and why (SPEC §7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_scheduling_state import Cluster, gpu, pod, spec
from typer.testing import CliRunner

from tensorfusion_iac.cli import app

PREFIX = "tensor-fusion.ai/"


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def deployment(name: str, replicas: int, **annotations: str) -> dict[str, Any]:
    marks = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in annotations.items()} | {f"{PREFIX}is-local-gpu": "true"}
    template = {
        "metadata": {"labels": {"app": name, f"{PREFIX}enabled": "true"}, "annotations": marks},
        "spec": {"containers": [{"name": "app", "image": "i"}]},
    }  # fmt: skip
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "ml"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def to(name: str, *items: dict[str, Any]) -> str:
        path = tmp_path / name
        path.write_text(yaml.safe_dump_all(items))
        return str(path)

    return to


def test_what_fits_is_placed_and_the_rest_waits_with_its_reason(write: Any) -> None:
    file = write("w.yaml", deployment("chat", 5, vram_request="30Gi"), deployment("big", 1, vram_request="1Gi", gpu_model="L40S"))
    code, out, _ = run("simulate", "-f", file, "--nodes", "2xA100_SXM_80G", "-o", "json")
    found = json.loads(out)
    assert code == 1
    assert len(found["placed"]) == 4
    assert found["pending"] == [
        {"workload": "Deployment ml/chat", "namespace": "ml", "workers": 1, "why": "1 node: VRAM 30Gi asked, most free is 20Gi"},
        {"workload": "Deployment ml/big", "namespace": "ml", "workers": 1, "why": "1 node: GPU model is not L40S"},
    ]
    (use,) = found["pools"]
    assert (use["gpus"], use["idle_gpus"], use["free_vram_bytes"]) == (2, 0, 40 * 2**30)


def test_without_a_pool_the_workload_uses_the_gpus_of_its_node(write: Any) -> None:
    item = deployment("chat", 2, vram_request="20Gi")
    del item["spec"]["template"]["metadata"]["annotations"][f"{PREFIX}is-local-gpu"]
    code, out, err = run("simulate", "-f", write("w.yaml", item), "--nodes", "1xA100_SXM_80G")
    assert (code, err) == (0, "")
    assert "placed: 2 workers" in out


def test_everything_that_fits_ends_with_zero(write: Any) -> None:
    code, out, _ = run(
        "simulate", "-f", write("w.yaml", deployment("chat", 8, vram_request="20Gi")), "--nodes", "1xA100_SXM_80G * 2"
    )
    assert code == 0
    assert "placed: 8 workers" in out


def test_higher_qos_is_placed_first(write: Any) -> None:
    file = write(
        "w.yaml", deployment("low", 1, vram_request="60Gi", qos="low"), deployment("high", 1, vram_request="60Gi", qos="high")
    )
    _, out, _ = run("simulate", "-f", file, "--nodes", "1xA100_SXM_80G", "-o", "json")
    assert [one["workload"] for one in json.loads(out)["placed"]] == ["Deployment ml/high"]


def test_a_quota_of_the_namespace_holds_in_the_simulation_too(write: Any) -> None:
    quota = {
        "apiVersion": "tensor-fusion.ai/v1", "kind": "GPUResourceQuota", "metadata": {"name": "team", "namespace": "ml"},
        "spec": {"total": {"maxWorkers": 2}},
    }  # fmt: skip
    _, out, _ = run(
        "simulate", "-f", write("w.yaml", quota, deployment("chat", 3, vram_request="1Gi")), "--nodes", "1xT4", "-o", "json"
    )
    found = json.loads(out)
    assert len(found["placed"]) == 2
    assert found["pending"][0]["why"] == "1 node: quota team: 2 of 2 workers used, 1 asked"


def test_what_admission_would_refuse_is_told_and_not_placed(write: Any) -> None:
    code, out, err = run("simulate", "-f", write("w.yaml", deployment("bad", 1, vram_request="4 Gi")), "--nodes", "1xT4")
    assert code == 1
    assert "Deployment ml/bad: 1 problem" in err
    assert "placed: 0 workers" in out


@pytest.mark.parametrize(
    ("wish", "says"),
    [("8H100", "is not GPUSxMODEL"), ("0xT4", "1 to 128"), ("1xT4 * 0", "1 to 128"), ("1xNoSuchCard", "is not in the catalogue"),
     ("129xT4", "1 to 128")],
)  # fmt: skip
def test_a_wish_that_cannot_be_is_wrong_usage(write: Any, wish: str, says: str) -> None:
    code, _, err = run("simulate", "-f", write("w.yaml", deployment("a", 1, vram_request="1Gi")), "--nodes", wish)
    assert code == 2
    assert says in err


def dump() -> tuple[dict[str, Any], ...]:
    cluster = Cluster(cards=1)
    bound = cluster.run("full", spec(70))
    marks = {f"{PREFIX}is-default-pool": "true"}

    def ours(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "apiVersion": "v1", "kind": "Pod", "spec": item["spec"] | {"schedulerName": "tensor-fusion-scheduler"}}

    kind = {"apiVersion": "tensor-fusion.ai/v1"}
    return (
        kind | {"kind": "GPUPool", "metadata": {"name": "p", "annotations": marks}, "spec": {}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}},
        kind | {"kind": "GPUNode", "metadata": {"name": "n0"}, "status": {"injectionTier": "env"}},
        kind | {"kind": "GPU"} | gpu(0),
        ours(bound),
        ours(pod("waits", spec(20))),
    )


def test_a_pending_pod_is_explained_from_a_dump(write: Any) -> None:
    code, out, _ = run("explain", "pod/waits", "-n", "ns", "-f", write("dump.yaml", *dump()))
    assert code == 1
    assert out == "ns/waits: pending: 1 node: VRAM 20Gi asked, most free is 10Gi\n"


def test_a_bound_pod_is_shown_with_its_gpus(write: Any) -> None:
    code, out, _ = run("explain", "pod/full", "-n", "ns", "-f", write("dump.yaml", *dump()))
    assert code == 0
    assert out == "ns/full: bound to n0: GPU 0 A100_SXM_80G (GPU-n0-0): 0 to 312 TFLOPS, 70Gi VRAM\n"


def test_the_pods_of_a_workload_are_found_by_its_name(write: Any) -> None:
    _, out, _ = run("explain", "deployment/w", "-n", "ns", "-f", write("dump.yaml", *dump()), "-o", "json")
    assert [(one["name"], one["state"]) for one in json.loads(out)["pods"]] == [("full", "bound"), ("waits", "pending")]


@pytest.mark.parametrize("what", ["waits", "pod/", "service/x"])
def test_what_is_no_kind_and_name_is_wrong_usage(write: Any, what: str) -> None:
    assert run("explain", what, "-f", write("dump.yaml", *dump()))[0] == 2


def test_a_pod_that_is_not_there_is_a_problem(write: Any) -> None:
    code, _, err = run("explain", "pod/none", "-f", write("dump.yaml", *dump()))
    assert code == 1
    assert "there is no pod default/none" in err
    code, _, err = run("explain", "job/none", "-n", "ns", "-f", write("dump.yaml", *dump()))
    assert code == 1
    assert "job ns/none is not there, or none of its pods is enabled and went through the webhook" in err
