"""What `doctor` finds: nothing in a cluster in which nothing is wrong, and each thing that is, with what to do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import observed_cluster as cluster
import pytest
from observed_cluster import NOW, healthy

from tensorfusion_iac.kube.resource import (
    CRDS,
    GPU_NODES,
    GPU_POOLS,
    GPUS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from tensorfusion_iac.operations.diagnose import diagnose
from tensorfusion_iac.operations.nodes import reports
from tensorfusion_iac.operations.observed import Observed
from tensorfusion_iac.operations.observing import BINDINGS, OWN_DEPLOYMENTS, POLICIES

OLD = cluster.keys(NOW - timedelta(days=80))
ENDED = cluster.keys(NOW - timedelta(days=91))


def without(resource: Any, name: str) -> Observed:
    return healthy(objects={resource: [item for item in healthy().of(resource) if item["metadata"]["name"] != name]})


def other_schema() -> list[dict[str, Any]]:
    found = copy.deepcopy(cluster.definitions())
    found[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].pop("capacityConfig", None)
    found[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "of an earlier version"
    return found


def lease_aged(name: str, age_s: float) -> Observed:
    leases = [item for item in healthy().of(LEASES) if item["metadata"]["name"] != name]
    namespace = "kube-node-lease" if "agent" in name else "tensor-fusion-system"
    return healthy(objects={LEASES: [*leases, cluster.lease(namespace, name, age_s, life_s=90 if "agent" in name else 15)]})


@dataclass(frozen=True)
class Case:
    """`seen` makes a cluster in which exactly one thing is wrong: of `subject`, told in these words, with this to do."""

    name: str
    seen: Callable[[], Observed]
    subject: str
    problem: str
    remedy: str


REFUSED = "failed calling webhook: dial tcp 10.0.0.1:443: connect: connection refused"
UNTRUSTED = "failed calling webhook: tls: failed to verify certificate: x509: certificate signed by unknown authority"
CASES = (
    Case("a definition is missing", lambda: without(CRDS, "gpupools.tensor-fusion.ai"),
         "CustomResourceDefinition gpupools.tensor-fusion.ai", "it is missing", "tensorfusion crds"),
    Case("a definition of another version", lambda: healthy(objects={CRDS: other_schema()}),
         "CustomResourceDefinition", "its schema is not that of tensorfusion-iac", "pulumi up"),
    Case("a namespace is missing", lambda: without(NAMESPACES, "tensor-fusion-agent"),
         "Namespace tensor-fusion-agent", "it is missing", "deploy ControlPlane"),
    Case("a namespace without its label",
         lambda: healthy(objects={NAMESPACES: [
             {"metadata": {"name": "tensor-fusion-system"}}, *healthy().of(NAMESPACES)[1:],
         ]}), "Namespace tensor-fusion-system", "it has no label pod-security.kubernetes.io/enforce", "set it to restricted"),
    Case("a policy is missing", lambda: without(POLICIES, healthy().of(POLICIES)[0]["metadata"]["name"]),
         "ValidatingAdmissionPolicy tensor-fusion", "it is missing", "deploy ControlPlane again"),
    Case("a policy is not in force", lambda: without(BINDINGS, healthy().of(BINDINGS)[0]["metadata"]["name"]),
         "ValidatingAdmissionPolicyBinding tensor-fusion", "it is missing", "deploy ControlPlane again"),
    Case("no webhook configuration", lambda: healthy(objects={MUTATING_WEBHOOKS: []}),
         "MutatingWebhookConfiguration tensor-fusion-webhook", "no pod is given GPUs", "deploy ControlPlane"),
    Case("the API server trusts another authority",
         lambda: healthy(objects={VALIDATING_WEBHOOKS: [cluster.configuration("ValidatingWebhookConfiguration", OLD)]}),
         "ValidatingWebhookConfiguration", "is not the authority in Secret tensor-fusion-webhook-tls", "restart it"),
    Case("the API server trusts nobody",
         lambda: healthy(objects={MUTATING_WEBHOOKS: [
             {"metadata": {"name": "tensor-fusion-webhook"}, "webhooks": [{"name": "pods", "clientConfig": {"service": {}}}]},
         ], LEASES: [*healthy().of(LEASES)]}), "MutatingWebhookConfiguration", "pods has no caBundle", "webhook's log"),
    Case("the webhook is down", lambda: healthy(trial=REFUSED), "webhook", "connection refused", "webhook_host_network"),
    Case("the webhook is not trusted", lambda: healthy(trial=UNTRUSTED), "webhook", "unknown authority", "caBundle is wrong"),
    Case("the certificate ends soon", lambda: with_keys(OLD), "Secret tensor-fusion-system/tensor-fusion-webhook-tls",
         "its certificate ends at 2026-05-11", ["was", "not", "renewed"][0] and "log"),
    Case("the certificate has ended", lambda: with_keys(ENDED), "Secret tensor-fusion-system/tensor-fusion-webhook-tls",
         "its certificate ended at 2026-04-30", "restart the webhook"),
    Case("the certificate is none",
         lambda: healthy(objects={SECRETS: [{**cluster.secret(), "data": {"tls.crt": "bm8="}}]}),
         "Secret", "tls.crt is no certificate", "delete the Secret"),
    Case("nobody leads the schedulers", lambda: without(LEASES, "tensor-fusion-scheduler"),
         "Lease tensor-fusion-system/tensor-fusion-scheduler", "nobody ever held it: no pod is given GPUs", "the scheduler"),
    Case("the leader of the controllers is gone", lambda: lease_aged("tensor-fusion-controller", 31),
         "Lease tensor-fusion-system/tensor-fusion-controller", "nobody has renewed it for 31 s", "the controller"),
    Case("pods of a program are missing",
         lambda: healthy(objects={OWN_DEPLOYMENTS: [cluster.deployment("tensor-fusion-webhook", 2, 1, "no room")]}),
         "Deployment tensor-fusion-system/tensor-fusion-webhook", "1 of 2 pods are ready: no room", "kubectl describe pods"),
    Case("there is no pool", lambda: healthy(objects={GPU_POOLS: []}), "GPUPool", "there is none", "declare a GPUPool"),
    Case("a pool selects no node",
         lambda: healthy(objects={GPU_POOLS: [cluster.pool(selector={"gpu": "yes"}), cluster.pool("b", {"gpu": "no"})]}),
         "GPUPool b", "its node selector selects no node; nodes with GPUs: node-1", "nodeSelector"),
    Case("a pool selects nodes without an agent",
         lambda: healthy(objects={
             GPU_POOLS: [cluster.pool(selector={"gpu": "yes"}), cluster.pool("b", {"gpu": "b"})],
             NODES: [cluster.node(), {**cluster.node("bare"), "metadata": {"name": "bare", "labels": {"gpu": "b"}}}],
         }), "GPUPool b", "it selects bare, but no agent reports GPUs there", "DaemonSet"),
    Case("no namespace may use a pool",
         lambda: healthy(objects={GPU_POOLS: [
             cluster.pool(selector={"gpu": "yes"}, namespaceSelector={"matchLabels": {"team": "web"}}),
         ]}), "GPUPool default-pool", "its namespaceSelector selects no namespace", "label the namespaces"),
    Case("two pools claim a node",
         lambda: healthy(objects={GPU_POOLS: [{**cluster.pool(selector={"gpu": "yes"}), "status": {"conditions": [
             {"type": "NodeConflict", "status": "True", "message": "nodes a are claimed by b too"},
         ]}}]}), "GPUPool default-pool", "nodes a are claimed by b too", "selectors"),
    Case("a pool's only node is another's",
         lambda: healthy(objects={GPU_POOLS: [
             cluster.pool(selector={"gpu": "yes"}),
             {**cluster.pool("z", {"gpu": "yes"}), "status": {"conditions": [
                 {"type": "NodeConflict", "status": "True", "message": "pool default-pool has node node-1"},
             ]}},
         ]}), "GPUPool z", "pool default-pool has node node-1", "selectors"),
    Case("no policy is there", lambda: healthy(objects={POLICIES: [], BINDINGS: []}),
         "ValidatingAdmissionPolicy", "all of ours are missing", "deploy ControlPlane"),
    Case("an agent is silent", lambda: lease_aged("tensor-fusion-agent-node-1", 200),
         "node node-1", "its agent has not reported for 200 s: it takes no pods", "agent's pod"),
    Case("an agent never reported", lambda: without(LEASES, "tensor-fusion-agent-node-1"),
         "node node-1", "its agent never reported", "agent's pod"),
    Case("devices cannot reach containers",
         lambda: healthy(objects={GPU_NODES: [cluster.gpu_node(injectionTier="none", message="set it to true")]}),
         "node node-1", "devices cannot reach containers there", "set it to true"),
    Case("a node is cordoned",
         lambda: healthy(objects={NODES: [{**cluster.node(), "spec": {"unschedulable": True}}]}),
         "node node-1", "it is cordoned", "kubectl uncordon node-1"),
    Case("a node is not ready", lambda: healthy(objects={NODES: [cluster.node(conditions=[])]}),
         "node node-1", "it is not Ready", "kubectl describe node node-1"),
    Case("a node is gone",
         lambda: healthy(objects={GPUS: [cluster.gpu(0), cluster.gpu(0, "gone", usedBy="tensor-fusion")]}),
         "node gone", "there is no such node", "controller"),
    Case("the device plugin has the cards too",
         lambda: healthy(objects={NODES: [cluster.node(allocatable={"nvidia.com/gpu": "2"})]}),
         "node node-1", "NVIDIA's device plugin offers 2 nvidia.com/gpu there", "exclude the node"),
    Case("a card is sick",
         lambda: healthy(objects={GPUS: [cluster.gpu(0, health="Unhealthy", message="XID 79"), cluster.gpu(1)]}),
         "GPU gpu-node-1-0 (node node-1, index 0)", "it is Unhealthy: XID 79", "reset the card"),
    Case("somebody else is on a card", lambda: healthy(objects={GPUS: [cluster.gpu(0, usedBy="foreign")]}),
         "GPU gpu-node-1-0", "a process that is no pod's is on it", "end that process"),
    Case("a node without a freezer",
         lambda: healthy(objects={GPUS: [cluster.gpu(0, capabilities={"computeLimit": "none"})]}),
         "GPU gpu-node-1-0", "no compute limit can be held there", "docs/support.md"),
    Case("a kind may not be read", lambda: healthy(objects={SECRETS: []}, unreadable={SECRETS: "forbidden (403 Forbidden)"}),
         "Secret", "it cannot be looked at: forbidden (403 Forbidden)", "ask as somebody who may"),
)  # fmt: skip


def with_keys(keys: Any) -> Observed:
    return healthy(
        objects={
            SECRETS: [cluster.secret(keys)],
            MUTATING_WEBHOOKS: [cluster.configuration("MutatingWebhookConfiguration", keys)],
            VALIDATING_WEBHOOKS: [cluster.configuration("ValidatingWebhookConfiguration", keys)],
        }
    )


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert diagnose(healthy()) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_one_thing_that_is_wrong_is_found(case: Case) -> None:
    (finding,) = diagnose(case.seen())
    assert finding.subject.startswith(case.subject)
    assert case.problem in finding.problem
    assert case.remedy in finding.remedy
    assert ("node-1" in finding.subject) == (finding.node == "node-1")


def test_an_empty_cluster_is_one_finding() -> None:
    (finding,) = diagnose(Observed(NOW, {}, absent=frozenset({GPU_POOLS, GPUS, GPU_NODES})))
    assert "TensorFusion is not installed" in finding.problem


def test_a_running_cluster_of_local_programs_lives_by_the_lease_of_its_scheduler() -> None:
    hooks = [{"name": "pods", "clientConfig": {"url": "https://127.0.0.1", "caBundle": ""}}]
    seen = healthy(
        objects={
            MUTATING_WEBHOOKS: [{"metadata": {"name": "tensor-fusion-webhook"}, "webhooks": hooks}],
            OWN_DEPLOYMENTS: [],
            LEASES: [cluster.lease("kube-system", "kube-scheduler"), *healthy().of(LEASES)[1:]],
        }
    )
    assert [one.subject for one in diagnose(seen)] == ["MutatingWebhookConfiguration tensor-fusion-webhook"]


def test_clocks_may_differ_a_little() -> None:
    assert diagnose(lease_aged("tensor-fusion-controller", -20)) == []


def test_a_node_is_reported_with_what_it_can_do() -> None:
    (row,) = reports(healthy())
    assert row.record() == {
        "node": "node-1", "pool": "default-pool", "agentVersion": "1.0", "heartbeatSeconds": 3.0, "injectionTier": "env",
        "cgroups": "v2", "cards": 2, "driver": "615.10", "memoryLimits": "driver", "computeLimits": "freezer", "mps": "yes",
        "mig": "no", "usedBy": "tensor-fusion",
    }  # fmt: skip


def test_cards_that_differ_are_all_told_of() -> None:
    mixed = [cluster.gpu(0), cluster.gpu(1, usedBy="foreign", capabilities={"driverVersion": "550.1", "mps": False})]
    (row,) = reports(healthy(objects={GPUS: mixed}))
    assert (row.driver, row.mps, row.used_by) == ("550.1, 615.10", "no, yes", "foreign, tensor-fusion")


def test_ten_thousand_cards_are_looked_at_in_one_pass() -> None:
    """A look that took each node through all cards would be 12 million steps of it."""
    names = [f"n{number}" for number in range(1250)]
    seen = healthy(
        objects={
            NODES: [cluster.node(name) for name in names],
            GPU_NODES: [cluster.gpu_node(name) for name in names],
            GPUS: [cluster.gpu(index, name) for name in names for index in range(8)],
            LEASES: [*healthy().of(LEASES)[:2], *(cluster.lease("kube-node-lease", f"tensor-fusion-agent-{n}") for n in names)],
        }
    )
    assert diagnose(seen) == []
    assert len(reports(seen)) == 1250
