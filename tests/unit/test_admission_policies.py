"""The policies as they are written: which requests they are asked about. What they decide is tried at a real API server."""

from __future__ import annotations

from typing import Any

from tensorfusion_iac.admission.policies import policy_objects


def spec(name: str) -> dict[str, Any]:
    """The policy's spec."""
    for item in policy_objects():
        if item["kind"] == "ValidatingAdmissionPolicy" and item["metadata"]["name"] == name:
            found: dict[str, Any] = item["spec"]
            return found
    raise AssertionError(name)


def test_a_binding_is_judged_whichever_resource_it_is_posted_to() -> None:
    (rule,) = spec("tensor-fusion-bindings")["matchConstraints"]["resourceRules"]
    assert set(rule["resources"]) == {"pods/binding", "bindings"}


def test_labels_and_system_annotations_are_judged_by_whatever_way_a_pod_is_changed() -> None:
    for name in ("tensor-fusion-labels", "tensor-fusion-system-annotations"):
        (rule,) = spec(name)["matchConstraints"]["resourceRules"]
        assert set(rule["resources"]) == {"pods", "pods/status", "pods/ephemeralcontainers", "pods/resize"}
        assert rule["operations"] == ["UPDATE"]


def test_every_policy_is_bound_and_leaves_the_systems_namespaces_alone() -> None:
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    policies, bindings = ([item for item in policy_objects() if item["kind"] == kind] for kind in kinds)
    assert [item["metadata"]["name"] for item in policies] == [item["spec"]["policyName"] for item in bindings]
    for policy in policies:
        (requirement,) = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
        assert (requirement["key"], requirement["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
        assert set(requirement["values"]) == {"kube-system", "kube-node-lease", "tensor-fusion-system", "tensor-fusion-agent"}


def test_a_system_annotation_that_was_absent_is_not_taken_for_an_empty_one() -> None:
    (check,) = spec("tensor-fusion-system-annotations")["validations"]
    assert "name in variables.before && variables.before[name] == variables.after[name]" in check["expression"]
    assert "orValue" not in check["expression"]
