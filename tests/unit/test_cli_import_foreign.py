"""`tensorfusion import` of manifests for HAMi, Volcano vGPU and NVIDIA's device plugin: what is carried over, what is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_runs import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorfusion_iac.api import resolve
from tensorfusion_iac.api.names import ENABLED_LABEL, PREFIX
from tensorfusion_iac.cli.objects import Object
from tensorfusion_iac.cli.source.foreign import adopt

HAMI = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}
VOLCANO = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000, "volcano.sh/vgpu-cores": 30}
FRACTION = {
    "vram-request": "3000Mi", "vram-limit": "3000Mi", "compute-percent-request": "30", "compute-percent-limit": "30",
}  # fmt: skip


def manifest(
    *limits: dict[str, Any], annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    containers = [{"name": f"c{index}", "image": "i:1"} for index in range(len(limits))]
    for container, asked in zip(containers, limits, strict=True):
        if asked:
            container["resources"] = {"limits": dict(asked)}  # type: ignore[assignment]
    template = {"metadata": {"labels": {"app": "chat", **(labels or {})}, "annotations": annotations or {}}}
    pods = template | {"spec": {"containers": containers, **spec}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat", "namespace": "ml"},
        "spec": {"selector": {"matchLabels": {"app": "chat"}}, "template": pods},
    }  # fmt: skip


def adopted(raw: dict[str, Any], time_slices: int | None = None) -> tuple[dict[str, Any], list[str]]:
    found, notes = adopt(Object("f.yaml", 1, raw, "apps/v1", "Deployment", "ml", "chat"), time_slices)
    return dict(found.raw), notes


def ours(raw: dict[str, Any]) -> dict[str, str]:
    given = raw["spec"]["template"]["metadata"]["annotations"]
    assert all(name.startswith(PREFIX) for name in given)
    return {name.removeprefix(PREFIX): value for name, value in given.items()}


CARRIED: list[tuple[dict[str, Any], dict[str, str], tuple[str, ...]]] = [
    (manifest(HAMI), FRACTION, ()),
    (manifest(VOLCANO), FRACTION, ()),
    (manifest(HAMI | {"nvidia.com/gpu": "2"}), FRACTION | {"gpu-count": "2"}, ()),
    (manifest(HAMI | {"nvidia.com/gpumem": "3k"}), FRACTION, ()),
    (manifest(HAMI | {"nvidia.com/priority": 1}), FRACTION | {"qos": "low"}, ()),
    (manifest(HAMI, {}), FRACTION | {"inject-container": "c0"}, ()),
    (manifest(HAMI, HAMI | {"nvidia.com/gpu": 3}), FRACTION | {"container-gpu-count": '{"c0":1,"c1":3}'}, ()),
    (
        manifest(HAMI, HAMI | {"nvidia.com/gpumem": 6000}),
        FRACTION | {"vram-request": "6000Mi", "vram-limit": "6000Mi", "container-gpu-count": '{"c0":1,"c1":1}'},
        ("all get the largest",),
    ),
    (
        manifest({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}),
        {"vram-request": "3000Mi", "vram-limit": "3000Mi"}, ("give compute_percent_request",),
    ),
    (
        manifest({"nvidia.com/gpu": 1, "nvidia.com/gpucores": 30}),
        {"compute-percent-request": "30", "compute-percent-limit": "30"}, ("give vram_request, or dedicated_gpu",),
    ),
    (manifest({"nvidia.com/gpu": 1, "nvidia.com/gpucores": 100}), {"isolation": "shared"}, ()),
    (
        manifest({"nvidia.com/gpu": 1}, annotations={"nvidia.com/use-gputype": "A100"}, schedulerName="hami-scheduler"),
        {"dedicated-gpu": "true", "gpu-model": "A100"}, ("schedulerName",),
    ),
    (
        manifest({"nvidia.com/gpumem-percentage": 50}, annotations={"nvidia.com/use-gputype": "A100_SXM_80G"}),
        {"gpu-model": "A100_SXM_80G", "vram-request": "40960Mi", "vram-limit": "40960Mi"},
        ("50% of the memory is written as 40960Mi", "give compute_percent_request"),
    ),
    (
        manifest({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50, "nvidia.com/gpucores": 10}),
        {"compute-percent-request": "10", "compute-percent-limit": "10"}, ("give vram_request",),
    ),
    (
        manifest(HAMI, annotations={"nvidia.com/use-gputype": "A100,V100", "nvidia.com/nouse-gpuuuid": "GPU-1"}),
        FRACTION, ("no model or family", "nvidia.com/nouse-gpuuuid is left out"),
    ),
    (
        manifest({"nvidia.com/mig-1g.5gb": 2}),
        {"isolation": "partitioned", "partition-template": "1g.5gb", "gpu-count": "2"}, ("on different cards",),
    ),
    (manifest({"nvidia.com/gpu.shared": 1}), {"isolation": "shared"}, ("charged a whole card",)),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "expected", "said"), CARRIED)
def test_what_is_asked_for_is_carried_over_and_the_rest_is_said(
    raw: dict[str, Any], expected: dict[str, str], said: tuple[str, ...]
) -> None:
    found, notes = adopted(raw)
    template = found["spec"]["template"]
    assert ours(found) == expected
    assert len(notes) == len(said)
    assert all(part in note for part, note in zip(said, notes, strict=True)), notes
    assert template["metadata"]["labels"] == {"app": "chat", ENABLED_LABEL: "true"}
    assert "schedulerName" not in template["spec"]
    assert all("resources" not in container for container in template["spec"]["containers"])


def test_a_time_slice_is_its_part_of_a_card_once_the_number_is_known() -> None:
    for resource in ("nvidia.com/gpu", "nvidia.com/gpu.shared"):
        found, notes = adopted(manifest({resource: 1}), 4)
        assert ours(found) == {"isolation": "shared", "compute-percent-request": "25"}
        assert len(notes) == 1
    assert ours(adopted(manifest({"nvidia.com/gpu": 3}), 4)[0])["compute-percent-request"] == "75"


@pytest.mark.parametrize(
    "raw",
    [
        manifest({"nvidia.com/gpu": 1}),
        manifest({"cpu": "1"}),
        manifest(HAMI, labels={ENABLED_LABEL: "true"}),
        manifest(HAMI, labels={ENABLED_LABEL: "false"}),
        {"kind": "Deployment", "spec": {"template": {"spec": None}}},
    ],
)
def test_whole_cards_and_what_is_ours_already_stay_as_they_are(raw: dict[str, Any]) -> None:
    assert adopted(raw) == (raw, [])


def test_other_resources_stay() -> None:
    found, _ = adopted(manifest(HAMI | {"cpu": "1"}))
    assert found["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}}


ASKED = st.fixed_dictionaries(
    {}, optional={
        "gpu": st.integers(1, 8), "gpumem": st.integers(1, 80_000), "gpucores": st.integers(0, 100),
        "gpumem-percentage": st.integers(1, 100), "priority": st.sampled_from([0, 1]),
    },
)  # fmt: skip


@given(st.lists(ASKED, min_size=1, max_size=3))
def test_whatever_hami_takes_comes_out_as_annotations_that_are_right(asked: list[dict[str, int]]) -> None:
    raw = manifest(*({f"nvidia.com/{name}": value for name, value in one.items()} for one in asked))
    before = json.dumps(raw)
    found, _ = adopted(raw)
    assert json.dumps(raw) == before
    resolution = resolve(found["spec"]["template"])
    assert {problem.field for problem in resolution.problems} <= {"tflops-request", "vram-request"}, "only an amount may lack"


@pytest.mark.parametrize("raw", [manifest(HAMI, {}), manifest(VOLCANO), manifest({"nvidia.com/mig-1g.10gb": 1})])
def test_the_program_declares_the_same_and_says_what_it_lost(raw: dict[str, Any], tmp_path: Path) -> None:
    raw["spec"]["template"]["spec"]["schedulerName"] = "volcano" if "volcano" in str(raw) else "hami-scheduler"
    path = tmp_path / "chat.yaml"
    path.write_text(yaml.safe_dump(raw))
    imported = run("import", "-f", str(path))
    assert imported.exit_code == 0, imported.stderr
    (tmp_path / "__main__.py").write_text(imported.stdout)
    (tmp_path / "Pulumi.yaml").write_text("name: p\nruntime: python\n")
    compiled = run("compile", str(tmp_path))
    assert compiled.exit_code == 0, compiled.stderr
    [made] = [each for each in yaml.safe_load_all(compiled.stdout) if each["kind"] == "Deployment"]
    assert ours(made) == ours(adopted(raw)[0])
    if "mig" not in str(raw):
        assert "# Deployment ml/chat: schedulerName" in imported.stdout
        assert "note: Deployment ml/chat: schedulerName" in imported.stderr


SHAPES: list[tuple[tuple[str | int, ...], Any, str]] = [
    (("metadata", "annotations"), ["a"], "metadata.annotations: a list is not an object"),
    (("metadata", "labels"), {"a": 1}, "metadata.labels.a: 1 is not text; put it in quotes"),
    (("spec", "template", "metadata"), [], "spec.template.metadata: a list is not an object"),
    (("spec", "template", "metadata", "annotations"), "a", 'spec.template.metadata.annotations: "a" is not an object'),
    (("spec", "template", "metadata", "labels"), ["app"], "spec.template.metadata.labels: a list is not an object"),
    (("spec", "template", "spec", "containers", 1, "resources"), 7,
     "spec.template.spec.containers[1].resources: 7 is not an object"),
    (("spec", "template", "spec", "containers", 1, "resources"), {"limits": [1]},
     "spec.template.spec.containers[1].resources.limits: a list is not an object"),
    (("spec", "template", "spec", "containers", 1), 5, "spec.containers[1]: 5 is not a container with a name"),
    (("spec", "template", "spec", "initContainers"), 5, "spec.initContainers: 5 is not a list of containers"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value", "says"), SHAPES)
def test_what_has_not_the_shape_of_a_manifest_is_named_and_nothing_is_written(
    tmp_path: Path, place: tuple[str | int, ...], value: Any, says: str
) -> None:
    raw = json.loads(json.dumps(manifest(HAMI, {})))
    at: Any = raw
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    file = tmp_path / "m.json"
    file.write_text(json.dumps(raw))
    result = run("import", "-f", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"error: {file}: Deployment ml/chat: {says}\n"


def test_one_object_of_another_shape_hides_no_problem_of_the_others(tmp_path: Path) -> None:
    odd, wrong = manifest(HAMI), manifest(HAMI, {})
    odd["metadata"]["annotations"] = 3
    wrong["spec"]["template"]["spec"]["volumes"] = 5
    file = tmp_path / "m.yaml"
    file.write_text(yaml.safe_dump_all([odd, wrong]))
    said = run("import", "-f", file).stderr
    assert "line 4: metadata.annotations: 3 is not an object" in said
    assert "spec.volumes: 5 is not a list" in said


def test_a_template_with_no_metadata_gets_its_own(tmp_path: Path) -> None:
    raw = manifest(HAMI)
    raw["spec"]["template"]["metadata"] = None
    found, _ = adopted(raw)
    assert ours(found) == FRACTION


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["limits", "app", "name", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(sorted({place[:depth] for place, *_ in SHAPES for depth in range(1, 9)}, key=str)), junk=_JUNK)
def test_no_shape_ends_in_a_traceback(tmp_path: Path, place: tuple[str | int, ...], junk: Any) -> None:
    raw = json.loads(json.dumps(manifest(HAMI, {})))
    at: Any = raw
    for step in place[:-1]:
        at = at[step]
    if isinstance(at, list) or isinstance(place[-1], str):
        at[place[-1]] = junk
    file = tmp_path / "m.json"
    file.write_text(json.dumps(raw))
    assert run("import", "-f", file).exit_code in (0, 1)
