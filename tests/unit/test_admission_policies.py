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


def test_a_system_annotation_that_was_absent_is_not_taken_for_an_empty_one() -> None:
    (check,) = spec("tensor-fusion-system-annotations")["validations"]
    assert "name in variables.before && variables.before[name] == variables.after[name]" in check["expression"]
    assert "orValue" not in check["expression"]
