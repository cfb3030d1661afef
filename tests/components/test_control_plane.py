"""`ControlPlane(runtime="local")` under Pulumi's mocks: what it declares, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from mocked import Run

import tensorfusion_iac as tfi

URL = "https://127.0.0.1:9443"


def _declare(**arguments: Any) -> Any:
    return lambda: tfi.ControlPlane("tensor-fusion", **arguments) and None


def test_the_webhook_configurations_are_awaited_until_they_are_trusted(run: Run) -> None:
    ran = run(_declare(runtime="local", webhook_url=URL))
    assert ran.error is None
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        made = ran.one(kind)
        assert made["metadata"]["annotations"]["pulumi.com/waitFor"] == "jsonpath={.webhooks[0].clientConfig.caBundle}"
        for hook in made["webhooks"]:
            assert hook["clientConfig"]["url"].startswith(f"{URL}/")
            assert "caBundle" not in hook["clientConfig"]


def test_all_that_a_cluster_needs_is_declared_once(run: Run) -> None:
    ran = run(_declare(runtime="local", webhook_url=URL))
    kinds = [item.type.rpartition(":")[2] for item in ran.registered]
    assert kinds.count("CustomResourceDefinitionPatch") == 7
    assert kinds.count("Namespace") == 2
    assert kinds.count("PriorityClass") == 4
    assert kinds.count("ServiceAccount") == 4
    names = [(item.type, item.name) for item in ran.registered]
    assert len(names) == len(set(names))


def test_definitions_that_are_managed_elsewhere_are_left_out(run: Run) -> None:
    ran = run(_declare(runtime="local", webhook_url=URL, crds=False))
    assert not [item for item in ran.registered if "CustomResourceDefinition" in item.type]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({}, "kubernetes_version: not given; give the cluster's Kubernetes version"),
        ({"runtime": "clusters"}, 'runtime: "clusters" is not one of cluster, local, external'),
        ({"kubernetes_version": "1.34", "webhook_url": URL}, 'webhook_url: it is only for runtime="local"; leave it out'),
        ({"runtime": "local", "webhook_url": URL, "replicas": 2}, 'replicas: it is only for runtime="cluster"'),
        ({"runtime": "local"}, "webhook_url: not given; give the https URL"),
        ({"runtime": "local", "webhook_url": "http://127.0.0.1"}, 'webhook_url: "http://127.0.0.1" is not an https URL'),
        ({"runtime": "local", "webhook_url": URL, "crd": False}, "crd"),
    ],
)
def test_what_cannot_be_is_refused_on_the_resource(run: Run, arguments: dict[str, Any], line: str) -> None:
    ran = run(_declare(**arguments))
    assert isinstance(ran.error, tfi.SpecError)
    assert line in str(ran.error)
    assert any(line in text for text in ran.messages("error"))
