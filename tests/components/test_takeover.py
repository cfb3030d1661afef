"""What is said of an object that is there already; tests/cluster/test_components.py has the engine's and the server's part."""

from __future__ import annotations

from typing import Any

import pytest

from tensorfusion_iac.components.takeover import is_of_pulumi, told


def found(*managers: str, namespace: str | None = None) -> dict[str, Any]:
    fields = [{"manager": manager} for manager in managers] + [{"manager": "controller", "subresource": "status"}]
    return {"metadata": {"name": "small", "managedFields": fields} | ({"namespace": namespace} if namespace else {})}


def test_the_object_its_managers_and_the_ways_out_are_named() -> None:
    said = told("WorkloadProfile", "mine", found("kubectl", "argocd", namespace="ml"))
    assert said.startswith(
        "WorkloadProfile ml/small is in the cluster already, managed by argocd, kubectl, and not in this stack."
    )
    assert "`pulumi import kubernetes:tensor-fusion.ai/v1:WorkloadProfile mine ml/small`" in said
    assert said.endswith('the annotation pulumi.com/patchForce: "true"')


@pytest.mark.parametrize(
    ("managers", "expected"), [(("kubectl",), False), (("pulumi-kubernetes-1a2b", "kubectl"), True), ((), False)]
)
def test_whether_a_stack_manages_it_is_read_of_its_managers(managers: tuple[str, ...], expected: bool) -> None:
    assert is_of_pulumi(found(*managers)) is expected
