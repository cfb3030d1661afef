"""Each rule of the policy pack blocks its bad example and passes its good one, and reads its settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tensorfusion_iac.policy.declared import Declared, Stack, stack_of
from tensorfusion_iac.policy.rules import OBJECT_RULES, WORKLOAD_RULES, ObjectRule, WorkloadRule

RULES: Mapping[str, ObjectRule | WorkloadRule] = {rule.name: rule for rule in (*OBJECT_RULES, *WORKLOAD_RULES)}
FRACTION = {"tflops-request": "10", "tflops-limit": "20", "vram-request": "4Gi", "vram-limit": "8Gi"}


def deployment(
    annotations: Mapping[str, str] = FRACTION, *, namespace: str = "team", replicas: int = 2, image: str = "app:1",
    labels: Mapping[str, str] | None = None, env: list[dict[str, str]] | None = None, enabled: str = "true",
) -> Declared:  # fmt: skip
    template = {
        "metadata": {
            "labels": {"tensor-fusion.ai/enabled": enabled},
            "annotations": {f"tensor-fusion.ai/{name}": value for name, value in annotations.items()},
        },
        "spec": {"containers": [{"name": "main", "image": image, "env": env or []}]},
    }
    metadata = {"name": "chat", "namespace": namespace, "labels": labels or {}}
    raw = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": replicas, "template": template},
    }
    return Declared("urn:pulumi:dev::p::kubernetes:apps/v1:Deployment::chat", "kubernetes:apps/v1:Deployment", raw)


def crd(*, protected: bool = False, parents: tuple[str, ...] = (), name: str = "gpupools.tensor-fusion.ai") -> Declared:
    token = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
    return Declared(f"urn:pulumi:dev::p::{token}::crd", token, {"metadata": {"name": name}}, protected, parents)


def profile(**spec: Any) -> Declared:
    token = "kubernetes:tensor-fusion.ai/v1:WorkloadProfile"
    raw = {"metadata": {"name": "small", "namespace": "team"}, "spec": spec}
    return Declared(f"urn:pulumi:dev::p::{token}::small", token, raw)


def pool() -> Declared:
    token = "kubernetes:tensor-fusion.ai/v1:GPUPool"
    prices = [{"qos": "medium", "requests": {"perFP16TFlopsPerHour": "$1"}}]
    spec = {"defaultUsingLocalGPU": True, "qosConfig": {"pricing": prices}}
    return Declared(f"urn:pulumi:dev::p::{token}::p", token, {"metadata": {"name": "p"}, "spec": spec})


def asking(**changes: str) -> dict[str, str]:
    return {**FRACTION, **{name.replace("_", "-"): value for name, value in changes.items()}}


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in FRACTION.items() if name not in names}


VISIBLE = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
OURS = ("tensorfusion:index:CustomResourceDefinitions",)
WHOLE = {"dedicated-gpu": "true", "gpu-model": "A100"}
SHARED = asking(isolation="shared")
NAMED = asking(workload_profile="small")
NEW = deployment(image="app:2", namespace="prod")

EXAMPLES: list[tuple[str, dict[str, Any], list[Declared], list[Declared]]] = [
    ("no-visible-devices", {}, [deployment(env=VISIBLE)], [deployment(env=[{"name": "MODE", "value": "all"}])]),
    ("no-visible-devices", {}, [deployment(env=VISIBLE, enabled="false")], [deployment()]),
    ("valid-workloads", {}, [deployment(asking(qos="urgent"))], [deployment(asking(qos="high"))]),
    ("retained-crds", {}, [crd()], [crd(protected=True), crd(parents=OURS), crd(name="certificates.cert-manager.io")]),
    ("amounts-given", {}, [deployment(without("tflops-limit"))], [deployment()]),
    ("amounts-given", {"amounts": ["vram-limit"]}, [deployment({"tflops-limit": "1"})], [deployment(without("tflops-limit"))]),
    (
        "amounts-given", {},
        [deployment({"vram-request": "1Gi", "workload-profile": "small"}), profile(resources={"requests": {"tflops": "5"}})],
        [
            deployment({"vram-request": "1Gi", "vram-limit": "1Gi", "workload-profile": "small"}),
            profile(resources={"requests": {"tflops": "5"}, "limits": {"tflops": "5"}}),
        ],
    ),
    ("max-tflops", {"max": 39}, [deployment(asking(gpu_count="2"))], [deployment()]),
    ("max-tflops", {"max": 20}, [deployment(replicas=3)], [deployment(asking(enabled_replicas="2"), replicas=3)]),
    ("max-vram", {"max": "15Gi"}, [deployment(replicas=4)], [deployment(replicas=3)]),
    ("max-gpus", {"max": 4}, [deployment(asking(gpu_count="3"))], [deployment(asking(gpu_count="2"))]),
    ("max-cost-per-month", {"max_usd": 1700}, [deployment(WHOLE)], [deployment(asking(gpu_model="A100"))]),
    (
        "max-cost-per-month", {"max_usd": 14600},
        [deployment(asking(gpupool="p"), replicas=3), pool()], [deployment(asking(gpupool="p")), pool()],
    ),
    ("max-burst", {"max_ratio": 2}, [deployment(asking(tflops_limit="21"))], [deployment()]),
    ("max-burst", {"max_ratio": 2}, [deployment(asking(vram_limit="9Gi"))], [deployment(WHOLE)]),
    (
        "critical-only-in", {"namespaces": ["ml-*"]},
        [deployment(asking(qos="critical"))], [deployment(asking(qos="critical"), namespace="ml-core"), deployment()],
    ),
    (
        "no-shared-in-production", {},
        [deployment(SHARED, namespace="chat-prod")], [deployment(namespace="prod"), deployment(SHARED)],
    ),
    (
        "no-shared-in-production", {"production": ["live"]},
        [deployment(SHARED, namespace="live")], [deployment(SHARED, namespace="prod")],
    ),
    ("dedicated-has-owner", {}, [deployment(WHOLE)], [deployment(WHOLE, labels={"owner": "ml"}), deployment()]),
    (
        "dedicated-has-owner", {"labels": ["team"]},
        [deployment(WHOLE, labels={"owner": "ml"})], [deployment(WHOLE, labels={"team": "a"})],
    ),
    ("profile-exists", {}, [deployment(NAMED)], [deployment(NAMED), profile()]),
    ("profile-exists", {"elsewhere": ["team/sm*"]}, [deployment(asking(workload_profile="big"))], [deployment(NAMED)]),
    ("grey-image-changes", {}, [NEW], [deployment(asking(enabled_replicas="1"), image="app:2", namespace="prod")]),
    ("grey-image-changes", {"production": ["live"]}, [deployment(image="app:2", namespace="live")], [NEW]),
    ("grey-image-changes", {}, [NEW], [deployment(namespace="prod")]),
    ("grey-image-changes", {}, [NEW], [deployment(image="app:2", namespace="prod", replicas=1)]),
]  # fmt: skip


def judged(name: str, settings: dict[str, Any], items: list[Declared]) -> list[str]:
    rule = RULES[name]
    filled = {key: settings.get(key, schema.get("default")) for key, schema in rule.settings.items()}
    return list(_judged(rule, filled, stack_of(items, {items[0].urn: ("app:1",)})))


def _judged(rule: ObjectRule | WorkloadRule, settings: dict[str, Any], stack: Stack) -> Iterator[str]:
    if isinstance(rule, ObjectRule):
        for item in stack.declared:
            yield from rule.judge(item, settings)
    else:
        for workload in stack.workloads:
            yield from rule.judge(workload, stack, settings)


@pytest.mark.parametrize(("name", "settings", "bad", "good"), EXAMPLES, ids=[f"{each[0]}-{i}" for i, each in enumerate(EXAMPLES)])
def test_a_rule_blocks_its_bad_example_and_passes_its_good_one(
    name: str, settings: dict[str, Any], bad: list[Declared], good: list[Declared]
) -> None:
    assert len(judged(name, settings, bad)) == 1
    assert judged(name, settings, good) == []


def test_every_rule_has_an_example() -> None:
    assert {each[0] for each in EXAMPLES} == set(RULES)


@pytest.mark.parametrize("name", ["max-tflops", "max-vram", "max-gpus", "max-cost-per-month", "max-burst", "critical-only-in"])
def test_a_rule_without_its_setting_says_nothing(name: str) -> None:
    assert judged(name, {}, [deployment({**WHOLE, "qos": "critical", "gpu-count": "64"}, replicas=100)]) == []


def test_a_violation_says_what_was_found_and_what_is_allowed() -> None:
    assert judged("max-tflops", {"max": 30}, [deployment(asking(gpu_count="2"))]) == [
        "asks for 40 TFLOPS (10 x 2 GPU x 2 workers), above 30"
    ]
    assert judged("max-cost-per-month", {"max_usd": 10}, [deployment(asking(gpupool="p")), pool()]) == [
        "costs 14600 USD a month (GPUPool p, qosConfig.pricing of medium), above 10"
    ]
    assert judged("grey-image-changes", {}, [NEW]) == [
        "changes its image in production (app:1 -> app:2) on all 2 replicas at once; "
        "begin with tensor-fusion.ai/enabled-replicas below 2"
    ]


def test_without_the_deployed_state_no_image_is_taken_for_changed() -> None:
    stack = stack_of([NEW])
    rule = RULES["grey-image-changes"]
    assert list(_judged(rule, {"production": ["prod"]}, stack)) == []


def test_a_wrong_workload_is_judged_by_no_amount() -> None:
    wrong = deployment(asking(qos="urgent", vram_limit="1Gi"))
    assert len(judged("valid-workloads", {}, [wrong])) == 2
    assert judged("max-gpus", {"max": 0}, [wrong]) == []


@pytest.mark.parametrize("replicas", [2**31 - 1, 10**30, 10**300])
@pytest.mark.parametrize(
    ("rule", "settings"), [("max-tflops", {"max": 1}), ("max-vram", {"max": "1Gi"}), ("max-gpus", {"max": 1}),
                           ("max-cost-per-month", {"max_usd": 1})]
)  # fmt: skip
def test_an_absurd_number_of_replicas_is_above_every_maximum(rule: str, settings: dict[str, Any], replicas: int) -> None:
    (found,) = judged(rule, settings, [pool(), deployment(asking(gpu_model="A100"), replicas=replicas)])
    assert "above" in found
