"""The policies as they are written: which requests they are asked about. What they decide is tried at a real API server."""

from __future__ import annotations

from tensorfusion_iac.admission.policies import policy_objects


def test_a_binding_is_judged_whichever_resource_it_is_posted_to() -> None:
    (policy,) = [
        item
        for item in policy_objects()
        if item["metadata"]["name"] == "tensor-fusion-bindings" and "policyName" not in item["spec"]
    ]
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert set(rule["resources"]) == {"pods/binding", "bindings"}
