"""`ControlPlane` under Pulumi's mocks: what it declares in each runtime, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path
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
    assert line in ran.refusal
    assert any(line in text for text in ran.messages("error"))


CLUSTER: dict[str, Any] = {"kubernetes_version": "1.34.2", "image": "registry.example/tensorfusion:1"}


def kinds_of(ran: Any) -> list[str]:
    return [item.type.rpartition(":")[2] for item in ran.registered]


def test_in_a_cluster_all_programs_are_declared_and_the_webhook_is_reached_by_its_service(run: Run) -> None:
    ran = run(_declare(**CLUSTER))
    assert ran.error is None
    kinds = kinds_of(ran)
    counts = {"Deployment": 3, "DaemonSet": 1, "PodDisruptionBudget": 3, "NetworkPolicy": 6, "RuntimeClass": 1, "Service": 1}
    assert {kind: kinds.count(kind) for kind in counts} == counts
    assert ran.messages("warning") == []
    for hook in ran.one("MutatingWebhookConfiguration")["webhooks"]:
        assert hook["clientConfig"]["service"]["name"] == "tensor-fusion-webhook"
    names = [(item.type, item.name) for item in ran.registered]
    assert len(names) == len(set(names))


def test_an_image_that_is_only_known_later_is_handed_through(run: Run, unknown: Any) -> None:
    ran = run(_declare(**{**CLUSTER, "image": unknown()}), preview=True)
    assert ran.error is None
    assert kinds_of(ran).count("Deployment") == 3


def test_without_an_image_it_says_which_the_nodes_must_have(run: Run) -> None:
    ran = run(_declare(kubernetes_version="1.34"))
    assert ran.error is None
    assert any("tensorfusion-iac:" in text and "has to be on the nodes" in text for text in ran.messages("warning"))


def test_agents_can_be_left_out_and_their_rights_with_them(run: Run) -> None:
    ran = run(_declare(**CLUSTER, agents=False))
    assert not {"DaemonSet", "RuntimeClass"} & set(kinds_of(ran))
    granted = [item.name for item in ran.registered if item.type.endswith("RoleBinding")]
    assert not [name for name in granted if name.endswith("tensor-fusion-agent")]


def test_with_cert_manager_the_authority_is_injected_and_with_an_operator_programs_are_scraped(run: Run) -> None:
    ran = run(_declare(**CLUSTER, certificates="cert-manager", monitoring="prometheus-operator"))
    assert ran.error is None
    kinds = kinds_of(ran)
    assert (kinds.count("Issuer"), kinds.count("Certificate")) == (2, 2)
    assert (kinds.count("ServiceMonitor"), kinds.count("PrometheusRule")) == (4, 1)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert "cert-manager.io/inject-ca-from" in ran.one(kind)["metadata"]["annotations"]


def test_a_webhook_in_the_hosts_network_needs_a_namespace_that_allows_it(run: Run) -> None:
    for arguments, level in (({}, "restricted"), ({"webhook_host_network": True}, "privileged")):
        ran = run(_declare(**CLUSTER, **arguments))
        labels = ran.one("Namespace", "tensor-fusion-Namespace-tensor-fusion-system")["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == level


def test_another_operators_cluster_is_left_alone(run: Run) -> None:
    ran = run(_declare(runtime="external"))
    assert ran.error is None
    assert kinds_of(ran) == ["ControlPlane"]
    assert kinds_of(run(_declare(runtime="external", crds=True))).count("CustomResourceDefinitionPatch") == 7


def test_every_problem_is_told_at_once(run: Run) -> None:
    ran = run(
        _declare(
            kubernetes_version="1.32",
            replicas={"webhok": 2},
            certificates="own one",
            webhook_port=0,
            log_level="loud",
            external_scaler_hosts=["https://scaler.example/path"],
            api_server_cidrs=["10.0.0.1", "10.0.0.1/16"],
            resources={"webhok": {}},
            agents=False,
            agent_mps=True,
            tolerations="all",
            monitoring_labels={"a": "b"},
            webhook_host_network="yes",
            api_server_ports=443,
            node_selector={},
        )
    )
    said = ran.refusal
    for line in (
        'kubernetes_version: "1.32" is not 1.33 or newer',
        "replicas: an object is not a whole number from 1, or a mapping of controller, scheduler, webhook",
        'certificates: "own one" is not one of own, cert-manager',
        "webhook_port: 0 is not a port from 1 to 65535",
        'log_level: "loud" is not one of DEBUG, INFO, WARNING, ERROR',
        "external_scaler_hosts: a list is not a list of HOST or HOST:PORT",
        "api_server_cidrs: a list is not a list of networks, such as 10.0.0.0/16",
        "resources.webhok: no container has this name; did you mean webhook?",
        "agent_mps: it is only with agents; leave it out",
        'tolerations: "all" is not a list of tolerations',
        "monitoring_labels: it is only with monitoring; leave it out",
        'webhook_host_network: "yes" is not True or False',
        "api_server_ports: 443 is not a list of ports",
        "node_selector: an object is not a mapping of labels to texts that is not empty",
    ):
        assert line in said


INSTALL = (Path(__file__).parents[2] / "docs" / "install.md").read_text()


@pytest.mark.parametrize("program", re.findall(r"```python\n(.*?)```", INSTALL, re.DOTALL))
def test_the_programs_of_the_install_page_declare_a_platform(run: Run, program: str) -> None:
    ran = run(lambda: exec(program, {"tfi": tfi}))
    assert ran.error is None
    assert kinds_of(ran).count("DaemonSet") == 1
    assert ran.messages("warning") == []
