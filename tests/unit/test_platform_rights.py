"""The rights of each program, against a written list: a new one is a decision, and shows in this file's diff (R9)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tensorfusion_iac.components import platform

READ = "get,list,watch"
WEBHOOK = {
    "cluster": {
        f"namespaces,pods: {READ}",
        f"replicasets.apps: {READ}",
        f"jobs.batch: {READ}",
        f"priorityclasses.scheduling.k8s.io: {READ}",
        f"gpupools,gpuresourcequotas,workloadprofiles.tensor-fusion.ai: {READ}",
        "mutatingwebhookconfigurations,validatingwebhookconfigurations.admissionregistration.k8s.io"
        f"[tensor-fusion-webhook]: {READ},patch",
    },
    "tensor-fusion-system": {
        f"secrets[tensor-fusion-webhook-tls]: {READ},patch",
        "secrets: create",
        "configmaps: create,delete,get,list,patch",
        "leases.coordination.k8s.io: create,delete,get,list,patch",
    },
}
SCHEDULER = {
    "cluster": {
        f"nodes: {READ}",
        f"pods: {READ},patch",
        "pods/status: patch",
        "pods/binding,pods/eviction: create",
        "events: create",
        f"poddisruptionbudgets.policy: {READ}",
        f"gpunodes,gpupools,gpuresourcequotas.tensor-fusion.ai: {READ}",
        f"gpus.tensor-fusion.ai: {READ},patch",
        "gpus/status.tensor-fusion.ai: patch",
    },
    "kube-system": {f"leases.coordination.k8s.io[kube-scheduler]: {READ}"},
    "kube-node-lease": {f"leases.coordination.k8s.io: {READ}"},
}
CONTROLLER = {
    "cluster": {
        f"nodes: {READ}",
        f"pods: {READ},patch",
        "pods/status: patch",
        "events,pods/eviction: create",
        f"replicasets.apps: {READ}",
        f"jobs.batch: {READ}",
        f"gpupools,gpuresourcequotas,workloadprofiles.tensor-fusion.ai: {READ}",
        f"gpunodes,gpus.tensor-fusion.ai: {READ},delete",
        f"tensorfusionworkloads.tensor-fusion.ai: {READ},create,delete,patch",
        "gpupools/status,gpuresourcequotas/status,tensorfusionworkloads/status.tensor-fusion.ai: patch",
    },
    "tensor-fusion-system": {
        "configmaps: create,delete,get,list,patch",
        "serviceaccounts/token[tensor-fusion-controller]: create",
        "leases.coordination.k8s.io: create",
        "leases.coordination.k8s.io[tensor-fusion-controller]: get,patch",
    },
    "kube-node-lease": {f"leases.coordination.k8s.io: {READ}"},
}
AGENT = {
    "cluster": {
        f"nodes,pods: {READ}",
        "events: create",
        "tokenreviews.authentication.k8s.io: create",
        f"gpus.tensor-fusion.ai: {READ},create,patch",
        "gpunodes.tensor-fusion.ai: create,patch",
        "gpunodes/status,gpus/status.tensor-fusion.ai: patch",
    },
    "kube-node-lease": {"leases.coordination.k8s.io: create,patch"},
}
PEOPLE = {
    "tensor-fusion-view": {f"tensorfusionworkloads,workloadprofiles.tensor-fusion.ai: {READ}"},
    "tensor-fusion-edit": {
        f"tensorfusionworkloads,workloadprofiles.tensor-fusion.ai: {READ},create,delete,deletecollection,patch,update",
        "tensorfusionworkloads/scale.tensor-fusion.ai: get,patch,update",
    },
    "tensor-fusion-admin": {
        f"gpupools,gpuresourcequotas.tensor-fusion.ai: {READ},create,delete,deletecollection,patch,update",
        f"gpunodes,gpus.tensor-fusion.ai: {READ}",
    },
}


def _rights(manifests: Iterable[dict[str, Any]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for manifest in manifests:
        if manifest["kind"].endswith("Role"):
            where = manifest["metadata"].get("namespace", "cluster")
            found[where] = {_words(rule) for rule in manifest["rules"]}
    return found


def _words(rule: dict[str, Any]) -> str:
    group = rule["apiGroups"][0]
    names = f"[{','.join(rule['resourceNames'])}]" if "resourceNames" in rule else ""
    verbs = [verb for verb in READ.split(",") if verb in rule["verbs"]] if set(READ.split(",")) <= set(rule["verbs"]) else []
    verbs += sorted(set(rule["verbs"]) - set(verbs))
    return f"{','.join(sorted(rule['resources']))}{'.' + group if group else ''}{names}: {','.join(verbs)}"


@pytest.mark.parametrize(
    ("manifests", "written"),
    [
        (platform.webhook_rights(), WEBHOOK),
        (platform.scheduler_rights(), SCHEDULER),
        (platform.controller_rights(), CONTROLLER),
        (platform.agent_rights(), AGENT),
    ],
    ids=["webhook", "scheduler", "controller", "agent"],
)
def test_a_program_has_the_rights_on_its_list_and_no_others(manifests: Any, written: dict[str, set[str]]) -> None:
    assert _rights(manifests) == written


def test_no_right_has_a_wildcard_and_every_binding_names_its_role_and_account() -> None:
    for rights, account in (
        (platform.webhook_rights(), "tensor-fusion-webhook"),
        (platform.scheduler_rights(), "tensor-fusion-scheduler"),
        (platform.controller_rights(), "tensor-fusion-controller"),
        (platform.agent_rights(), "tensor-fusion-agent"),
    ):
        for manifest in rights:
            assert "*" not in str(manifest)
            if manifest["kind"].endswith("Binding"):
                assert manifest["roleRef"]["name"] == manifest["metadata"]["name"] == account
                assert [subject["name"] for subject in manifest["subjects"]] == [account]


def test_our_namespaces_have_the_pod_security_level_that_their_programs_need() -> None:
    levels = {
        item["metadata"]["name"]: item["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        for item in platform.namespaces()
    }
    assert levels == {"tensor-fusion-system": "restricted", "tensor-fusion-agent": "privileged"}


def test_there_is_a_priority_class_for_each_qos() -> None:
    values = {item["metadata"]["name"]: item["value"] for item in platform.priority_classes()}
    assert values == {
        "tensor-fusion-low": -10,
        "tensor-fusion-medium": 0,
        "tensor-fusion-high": 10_000,
        "tensor-fusion-critical": 100_000,
    }


def test_the_scheduler_of_a_cluster_has_a_lease_of_its_own_and_the_clusters_own_roles() -> None:
    made = [*platform.scheduler_rights(platform.LEASE), *platform.kube_scheduler_rights(platform.LEASE)]
    assert "kube-scheduler" not in _rights(platform.scheduler_rights(platform.LEASE)).get("kube-system", set())
    roles = {item["roleRef"]["name"] for item in made if item["kind"].endswith("Binding")}
    assert roles == {
        "extension-apiserver-authentication-reader", "system:kube-scheduler", "system:volume-scheduler",
        "tensor-fusion-kube-scheduler", "tensor-fusion-scheduler",
    }  # fmt: skip
    names = [(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in made]
    assert len(names) == len(set(names))


def test_a_webhook_whose_certificate_is_cert_managers_reads_no_secret() -> None:
    rights = _rights(platform.webhook_rights("cert-manager"))
    assert not [words for words in rights["tensor-fusion-system"] if "secret" in words]
    assert not [words for words in rights["cluster"] if "webhookconfigurations" in words]


def test_people_have_roles_of_which_two_go_into_kubernetes_own() -> None:
    roles = {item["metadata"]["name"]: item for item in platform.user_roles()}
    assert {name: {_words(rule) for rule in role["rules"]} for name, role in roles.items()} == PEOPLE
    for name, role in roles.items():
        marks = {key for key in role["metadata"]["labels"] if key.startswith("rbac.authorization.k8s.io/")}
        level = name.removeprefix("tensor-fusion-")
        assert marks == (set() if level == "admin" else {f"rbac.authorization.k8s.io/aggregate-to-{level}"})
