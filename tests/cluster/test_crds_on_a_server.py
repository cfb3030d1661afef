"""The CRDs at a real API server: it takes them, and it takes what SPEC §2 and §4 accept and refuses the rest."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running_plane import ControlPlane

from tensorfusion_iac.api.check import check_resource
from tensorfusion_iac.api.crd import crd_yaml, crds
from tensorfusion_iac.api.names import API_VERSION, GROUP, VERSION
from tensorfusion_iac.api.resources import KINDS
from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import Resource

pytestmark = pytest.mark.cluster

ROWS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "cases" / "resources.yaml").read_text("utf-8"))
RESOURCES = {model.KIND.kind: Resource(GROUP, VERSION, model.KIND.plural, model.KIND.kind) for model in KINDS}
NAMESPACED = {model.KIND.kind for model in KINDS if model.KIND.scope == "Namespaced"}
OWN_NAMESPACE = "crd-tests"
WITHOUT_KEEPING = {"dryRun": "All", "fieldValidation": "Strict"}


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with our CRDs, established."""
    control_plane.install_crds()
    return control_plane


def object_of(row: dict[str, Any]) -> dict[str, Any]:
    members = row["object"] if "object" in row else {"metadata": {"name": "a"}, "spec": row["spec"]}
    return {"apiVersion": API_VERSION, "kind": row["kind"], **members}


def as_sent(raw: dict[str, Any]) -> dict[str, Any]:
    """The object as kubectl and Pulumi send it: `10.0` in YAML or in a program is `10` in their JSON, and 10^20 a float."""

    def number(text: str) -> int | float:
        value = float(text)
        return int(value) if value.is_integer() and abs(value) < 2**63 else value

    sent: dict[str, Any] = json.loads(json.dumps(raw), parse_float=number, parse_int=number)
    return sent


async def refusal(client: Client, raw: dict[str, Any]) -> str | None:
    """What the server says against creating the object; None if nothing."""
    namespace = "default" if raw["kind"] in NAMESPACED else None
    try:
        await client.create(RESOURCES[raw["kind"]], as_sent(raw), namespace, query=WITHOUT_KEEPING)
    except ApiError as error:
        if error.status >= 500:
            raise
        return error.message
    return None


@pytest.fixture(scope="module")
def refusals(plane: ControlPlane) -> Mapping[str, str | None]:
    """What the server says against each row of the table."""

    async def ask(client: Client) -> list[str | None]:
        return await asyncio.gather(*(refusal(client, object_of(row)) for row in ROWS))

    return dict(zip((row["what"] for row in ROWS), plane.ask(ask), strict=True))


def test_the_server_finds_nothing_to_say_about_the_schemas(plane: ControlPlane) -> None:
    found = json.loads(plane.kubectl("get", "crd", "-o", "json"))["items"]
    ours = {item["metadata"]["name"]: item["status"]["conditions"] for item in found if item["spec"]["group"] == GROUP}
    assert set(ours) == {definition["metadata"]["name"] for definition in crds()}
    for name, conditions in ours.items():
        states = {condition["type"]: condition["status"] for condition in conditions}
        assert states.get("Established") == "True", (name, conditions)
        assert states.get("NamesAccepted") == "True", (name, conditions)
        assert "NonStructuralSchema" not in states, (name, conditions)


def test_the_same_crds_again_change_nothing(plane: ControlPlane) -> None:
    again = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-o", "json", "-f", "-")
    live = json.loads(plane.kubectl("get", "crd", "-o", "json"))["items"]
    generations = {item["metadata"]["name"]: item["metadata"]["generation"] for item in live}
    for item in json.loads(plane.kubectl(*again, stdin=crd_yaml()))["items"]:
        assert item["metadata"]["generation"] == generations[item["metadata"]["name"]], item["metadata"]["name"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["what"]))
def test_the_server_and_check_resource_agree(refusals: Mapping[str, str | None], row: dict[str, Any]) -> None:
    said = refusals[row["what"]]
    problems, _ = check_resource(object_of(row))
    assert bool(problems) == ("refused" in row), problems
    assert (said is not None) == (bool(problems) and not row.get("unseen")), said
    assert row.get("says", "") in (said or "")


INTERESTING = st.sampled_from([
    0, 1, 2, -1, 10, 100, 101, 128, 129, 10**5, 2**31, 2**63, 0.5, 2.0, None, True, [], {}, [None], "", "0", "10", "-1", "+1",
    "1.5", "5.", ".5", "1e3", "1e-3", "1e400", "500m", "1n", "4Gi", "8k", "10Ti", "9.99Ti", "1Ei", "9E", "99999.9999", "0x10",
    "１", "NaN", " 1", "1\n", "true", "low", "High", "soft", "NVIDIA", "mooreThreads", "ſoft", "A100", "A100 ", "1g.10gb",
    "30m", "1.5h", "8760h", "8761h", "1d", "-5m", "0.95", "95%", "0 9 * * 1-5", "@daily", "a.b", "A.b", "x" * 33, "9" * 32,
    "x" * 64, "https://a.b", "https://a b", "In", "Exists", "Gt", "Strict",
])  # fmt: skip
LIKELY = st.sampled_from([1, 5, 10, "10", "4Gi", "1.5Gi", 50, "0", "8", "500m"])


def values_of(node: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema accepts, more or less, with anything interesting thrown in."""
    if node.get("x-kubernetes-int-or-string"):
        return LIKELY | INTERESTING
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return st.dictionaries(st.sampled_from("ab"), INTERESTING, max_size=2)
    if "enum" in node:
        return st.sampled_from(node["enum"]) | INTERESTING
    if node["type"] == "object":
        parts = {name: values_of(part) for name, part in node.get("properties", {}).items()}
        required = {name: parts.pop(name) for name in node.get("required", ())}
        return st.fixed_dictionaries(required, optional=parts)
    if node["type"] == "array":
        return st.lists(values_of(node["items"]), max_size=3)
    return {"integer": st.integers(-1, 130), "boolean": st.booleans()}.get(node["type"], st.text(max_size=3)) | INTERESTING


OBJECTS = st.sampled_from(crds()).flatmap(
    lambda definition: st.fixed_dictionaries({
        "apiVersion": st.just(API_VERSION),
        "kind": st.just(definition["spec"]["names"]["kind"]),
        "metadata": st.just({"name": "a"}),
        "spec": values_of(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]),
    })
)  # fmt: skip


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(objects=st.lists(OBJECTS, min_size=8, max_size=24))
def test_both_agree_on_objects_made_at_random(plane: ControlPlane, objects: list[dict[str, Any]]) -> None:
    async def ask(client: Client) -> list[str | None]:
        return await asyncio.gather(*(refusal(client, raw) for raw in objects))

    for raw, said in zip(objects, plane.ask(ask), strict=True):
        fields = [problem.field for problem in check_resource(raw)[0]]
        assert fields if said is not None else all(map(_unseen, fields)), (raw, said, fields)


def _unseen(field: str) -> bool:
    """Whether the server has no rules at the field: amounts inside a list (api/crd/schema.py)."""
    return "cronScalingRules[" in field and ".desiredResources." in field


def test_rules_between_fields_speak_our_words_and_name_the_field(refusals: Mapping[str, str | None]) -> None:
    assert "spec.resources.limits.vram: Invalid value: limits.vram is below requests.vram; give at least as much" in (
        refusals["a VRAM limit below its request"] or ""
    )


@pytest.fixture
def one_of_each(plane: ControlPlane) -> Iterator[ControlPlane]:
    """One object of each kind, in a namespace of its own."""
    spec = {
        "WorkloadProfile": {"poolName": "demo", "qos": "high", "resources": {"requests": {"tflops": 10, "vram": "4Gi"}}},
        "TensorFusionWorkload": {"replicas": 2, "qos": "low", "resources": {"requests": {"tflops": "5", "vram": "1Gi"}}},
        "TensorFusionConnection": {"workloadName": "seen", "clientPod": "client-0"},
        "GPUNode": {"manageMode": "AutoSelect"},
        "GPUResourceQuota": {"total": {"requests": {"tflops": 100, "vram": "40Gi"}, "maxWorkers": 8}},
    }
    objects = [
        {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "seen"}, "spec": spec.get(kind, {})} for kind in RESOURCES
    ]
    text = yaml.safe_dump_all(objects)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN_NAMESPACE}}
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(namespace))
    plane.kubectl("apply", "--server-side", "-n", OWN_NAMESPACE, "-f", "-", stdin=text)
    yield plane
    plane.kubectl("delete", "--ignore-not-found", "-n", OWN_NAMESPACE, "-f", "-", stdin=text)


def test_kubectl_get_tensorfusion_lists_the_objects_of_all_kinds(one_of_each: ControlPlane) -> None:
    listed = one_of_each.kubectl("get", "tensorfusion", "-A", "-o", "name").split()
    assert {f"{model.KIND.singular}.{GROUP}/seen" for model in KINDS} <= set(listed)


def test_the_columns_show_numbers_and_text_alike(one_of_each: ControlPlane) -> None:
    profile = one_of_each.kubectl("get", "workloadprofile", "seen", "-n", OWN_NAMESPACE).splitlines()
    assert profile[0].split() == ["NAME", "POOL", "QOS", "TFLOPS", "VRAM", "GPUS", "AGE"]
    assert profile[1].split()[:5] == ["seen", "demo", "high", "10", "4Gi"]
    quota = one_of_each.kubectl("get", "gpuresourcequota", "seen", "-n", OWN_NAMESPACE).splitlines()
    assert "100" in quota[1]
    assert "40Gi" in quota[1]


def test_every_short_name_works(one_of_each: ControlPlane) -> None:
    for model in KINDS:
        for short in model.KIND.short_names:
            listed = one_of_each.kubectl("get", short, "-A", "-o", "name").split()
            assert f"{model.KIND.singular}.{GROUP}/seen" in listed, short


def test_a_workload_is_scaled_by_its_scale_subresource(one_of_each: ControlPlane) -> None:
    one_of_each.kubectl("scale", "tensorfusionworkload/seen", "-n", OWN_NAMESPACE, "--replicas=5")
    status = json.dumps({"status": {"replicas": 3, "selector": "tensor-fusion.ai/workload=seen"}})
    one_of_each.kubectl("patch", "tfw", "seen", "-n", OWN_NAMESPACE, "--subresource=status", "--type=merge", "-p", status)
    folder = f"/apis/{API_VERSION}/namespaces/{OWN_NAMESPACE}/tensorfusionworkloads/seen"
    scale = json.loads(one_of_each.kubectl("get", "--raw", f"{folder}/scale"))
    assert scale["spec"] == {"replicas": 5}
    assert scale["status"] == {"replicas": 3, "selector": "tensor-fusion.ai/workload=seen"}


def test_a_users_write_does_not_touch_the_status(one_of_each: ControlPlane) -> None:
    phase = json.dumps({"status": {"phase": "Running"}})
    one_of_each.kubectl("patch", "tfw", "seen", "-n", OWN_NAMESPACE, "--type=merge", "-p", phase)
    assert one_of_each.kubectl("get", "tfw", "seen", "-n", OWN_NAMESPACE, "-o", "jsonpath={.status.phase}") == ""


def test_conditions_of_different_writers_are_merged_by_type(one_of_each: ControlPlane) -> None:
    for writer, kind in (("one", "Ready"), ("two", "ProfileApplied")):
        applied = {
            "apiVersion": API_VERSION, "kind": "TensorFusionWorkload", "metadata": {"name": "seen", "namespace": OWN_NAMESPACE},
            "status": {"conditions": [{"type": kind, "status": "True", "reason": "A", "message": ""}]},
        }  # fmt: skip
        one_of_each.kubectl(
            "apply", "--server-side", "--subresource=status", f"--field-manager={writer}", "-f", "-", stdin=json.dumps(applied)
        )
    types = one_of_each.kubectl("get", "tfw", "seen", "-n", OWN_NAMESPACE, "-o", "jsonpath={.status.conditions[*].type}")
    assert types.split() == ["Ready", "ProfileApplied"]


def test_explain_describes_a_field(plane: ControlPlane) -> None:
    said = plane.kubectl("explain", "workloadprofile.spec.resources.limits.vram")
    assert "Bytes of GPU memory, below 10Ti." in said
