"""The CustomResourceDefinitions as data: structural, complete, described, and such as every Kubernetes admits (SPEC §4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from pydantic import Field, WithJsonSchema

from tensorfusion_iac.api.crd import crd_yaml, crds
from tensorfusion_iac.api.crd.forms import FORMS
from tensorfusion_iac.api.crd.schema import structural
from tensorfusion_iac.api.resources import KINDS
from tensorfusion_iac.api.resources.base import FORM, Model

CHECKOUT = Path(__file__).parents[2]
GOLDEN = CHECKOUT / "tests" / "golden" / "crds.yaml"
PRESERVE, INT_OR_STRING = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"

BY_KIND = {definition["spec"]["names"]["kind"]: definition for definition in crds()}
SCHEMAS = {kind: definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for kind, definition in BY_KIND.items()}


def nodes(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every node of a schema with its path, lists as `[]` and maps as `{}`."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in node:
        yield from nodes(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), Mapping):
        yield from nodes(node["additionalProperties"], f"{path}{{}}")


ALL = [(path, node) for kind, schema in SCHEMAS.items() for path, node in nodes(schema, kind)]


def node_at(path: str) -> Mapping[str, Any]:
    return next(node for at, node in ALL if at == path)


def test_the_golden_file_is_what_is_generated() -> None:
    """`make docs` writes it anew; the diff is part of the review."""
    assert GOLDEN.read_text("utf-8") == crd_yaml()


def test_the_yaml_reads_back_to_the_manifests() -> None:
    assert tuple(yaml.safe_load_all(crd_yaml())) == crds()


def test_each_call_gives_manifests_of_its_own() -> None:
    first = crds()
    for _, node in nodes(first[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"], ""):
        assert isinstance(node, dict)
        node.clear()
    assert tuple(yaml.safe_load_all(crd_yaml())) == crds()


def test_every_node_has_a_type_or_says_why_not() -> None:
    for path, node in ALL:
        assert "type" in node or node.get(PRESERVE) is True or node.get(INT_OR_STRING) is True, path


def test_nothing_stands_in_a_schema_that_kubernetes_forbids_or_that_is_ours_alone() -> None:
    forbidden = {"$ref", "$defs", "title", "default", "const", "oneOf", "allOf", "nullable", "uniqueItems", "examples"}
    for path, node in ALL:
        assert not forbidden & set(node), path
        assert not [key for key in node if key.startswith("x-tensor-fusion")], path
        assert isinstance(node.get("additionalProperties", {}), Mapping), path
        assert ("anyOf" in node) == (node.get(INT_OR_STRING) is True), path


def test_every_field_is_described() -> None:
    for path, node in ALL:
        if not path.endswith((".metadata", "[]", "{}")):
            assert node.get("description", "").strip().endswith((".", ")")), path


def test_descriptions_do_not_cite_our_own_documents() -> None:
    assert not [path for path, node in ALL if "SPEC" in node.get("description", "")]


def test_every_amount_is_a_bounded_int_or_string() -> None:
    amounts = [(path, node) for path, node in ALL if node.get(INT_OR_STRING)]
    assert len(amounts) > 50
    for path, node in amounts:
        assert node["maxLength"] == 32, path
        assert node["minimum"] == 0, path
        assert node["pattern"].startswith("^(?:([0-9]+"), path
        assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}], path


def test_no_rule_reads_amounts_inside_a_list_or_in_a_status() -> None:
    """Kubernetes 1.33 would refuse the CRD: it takes an int-or-string for 3 MB whatever its maxLength."""
    for path, node in ALL:
        if "[]" in path or ".status" in path:
            assert not [rule for rule in node.get("x-kubernetes-validations", ()) if "uantity(" in rule["rule"]], path


def test_all_that_a_rule_reads_is_bounded() -> None:
    for path, node in ALL:
        if node.get("type") == "string" and "x-kubernetes-validations" in node:
            assert "maxLength" in node, path
        if "[]" in path and "x-kubernetes-validations" in node:
            holder, _, _ = path.rpartition("[]")
            assert "maxItems" in node_at(holder), path


def test_the_limits_of_lists_are_those_of_the_contract() -> None:
    spec = "TensorFusionWorkload.spec"
    assert node_at(f"{spec}.autoScalingConfig.cronScalingRules")["maxItems"] == 64
    assert node_at(f"{spec}.gpuIndices")["maxItems"] == 128


def test_every_rule_has_our_words_and_a_field() -> None:
    rules = [(path, node, rule) for path, node in ALL for rule in node.get("x-kubernetes-validations", ())]
    assert len(rules) > 40
    for path, node, rule in rules:
        assert rule["message"], path
        assert "\n" not in rule["message"], path
        if "fieldPath" in rule:
            assert f"{path}{rule['fieldPath']}" in {at for at, _ in ALL}, (path, rule)
        elif "properties" in node:
            assert "self.metadata." in rule["rule"], path


def test_lists_say_how_they_are_merged() -> None:
    for path, node in ALL:
        if node.get("type") == "array":
            kind = node["x-kubernetes-list-type"]
            assert kind == ("map" if path.endswith(".conditions") else kind), path
            assert (kind == "map") == ("x-kubernetes-list-map-keys" in node), path
            if kind == "set":
                assert node["items"]["type"] in ("string", "integer"), path


def test_nothing_is_required_of_a_spec_or_status_but_what_makes_no_sense_without() -> None:
    required = {f"{path}.{name}" for path, node in ALL for name in node.get("required", ()) if "[]" not in path}
    assert required == {
        "TensorFusionConnection.spec",
        "TensorFusionConnection.spec.workloadName",
        "WorkloadProfile.spec.autoScalingConfig.externalScaler.apiKeySecretRef.name",
        "TensorFusionWorkload.spec.autoScalingConfig.externalScaler.apiKeySecretRef.name",
    }


def test_the_root_leaves_metadata_to_kubernetes() -> None:
    for kind, schema in SCHEMAS.items():
        assert schema["properties"]["metadata"] == {"type": "object"}, kind
        assert {name: schema["properties"][name]["type"] for name in ("apiVersion", "kind")} == {
            "apiVersion": "string",
            "kind": "string",
        }


def test_names_scope_and_version_of_each_definition() -> None:
    assert [definition["metadata"]["name"] for definition in crds()] == [
        "workloadprofiles.tensor-fusion.ai",
        "tensorfusionworkloads.tensor-fusion.ai",
        "gpupools.tensor-fusion.ai",
        "gpus.tensor-fusion.ai",
        "gpunodes.tensor-fusion.ai",
        "tensorfusionconnections.tensor-fusion.ai",
        "gpuresourcequotas.tensor-fusion.ai",
    ]
    cluster_wide = {kind for kind, definition in BY_KIND.items() if definition["spec"]["scope"] == "Cluster"}
    assert cluster_wide == {"GPUPool", "GPU", "GPUNode"}
    for definition in crds():
        (version,) = definition["spec"]["versions"]
        assert (version["name"], version["served"], version["storage"]) == ("v1", True, True)
        assert definition["spec"]["names"]["categories"] == ["tensorfusion"]


def test_no_two_kinds_answer_to_one_name() -> None:
    names = [
        name
        for definition in crds()
        for names in [definition["spec"]["names"]]
        for name in [names["plural"], names["singular"], *names["shortNames"]]
    ]
    assert len(names) == len(set(names))


def test_every_column_points_at_a_field() -> None:
    for model in KINDS:
        for column in model.KIND.columns:
            path = column.json_path
            if not path.startswith(".metadata."):
                assert node_at(f"{model.KIND.kind}{path}"), column


def test_only_workloads_can_be_scaled() -> None:
    scaled = {}
    for kind, definition in BY_KIND.items():
        subresources = definition["spec"]["versions"][0]["subresources"]
        assert subresources["status"] == {}
        if "scale" in subresources:
            scaled[kind] = subresources["scale"]
    assert scaled == {
        "TensorFusionWorkload": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    }


def test_profile_and_workload_share_one_spec() -> None:
    assert SCHEMAS["WorkloadProfile"]["properties"]["spec"] == SCHEMAS["TensorFusionWorkload"]["properties"]["spec"]


def test_the_fields_of_the_public_operator_are_there_and_say_that_they_are_ignored() -> None:
    for path in (
        "WorkloadProfile.spec.sidecarWorker",
        "GPUPool.spec.schedulingConfigTemplate",
        "GPUPool.spec.nodeManagerConfig.nodeProvisioner.cpuNodeLabels",
        "GPUPool.spec.componentConfig.client.patchEmbeddedWorkerToPod",
        "GPUNode.status.virtualAvailableTFlops",
        "GPU.status.nvLink.totalBandwidthMBps",
    ):
        assert node_at(path)["description"].endswith("Accepted for manifests of the public operator and ignored."), path


class _Union(Model):
    """Has a field that is one thing or another."""

    either: Annotated[int, Field(description="A")] | bool = Field(description="Either.")


class _Untyped(Model):
    """Has a field of any type."""

    anything: Any = Field(default=None, description="Anything.")


class _Excluding(Model):
    """Has a bound that OpenAPI has and Kubernetes' schemas express otherwise."""

    above: Annotated[int, WithJsonSchema({"type": "integer", "exclusiveMinimum": 0})] = Field(description="Above.")


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (_Union, r"_Union\.either: no structural schema for \['anyOf'\]"),
        (_Untyped, r"_Untyped\.anything: no structural schema for a value of any type"),
        (_Excluding, r"_Excluding\.above: no structural schema for \['exclusiveMinimum'\]"),
    ],
)
def test_what_kubernetes_cannot_say_is_an_error_with_its_place(model: type[Model], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        structural(model)


def test_every_form_that_a_model_names_has_its_rules() -> None:
    marked = {
        form
        for model in KINDS
        for form in _marks(model.model_json_schema(by_alias=True))
    }  # fmt: skip
    assert marked == set(FORMS)


def _marks(schema: object) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if FORM in schema:
            yield schema[FORM]
        for value in schema.values():
            yield from _marks(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _marks(value)
