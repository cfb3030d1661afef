"""What holds of every mutation: it is repeatable, applies cleanly, keeps the user's keys, and never fails."""

from __future__ import annotations

import copy
import json
from typing import Any

from admission_objects import FACTS, POOLS, after, json_values, junk_pods, pods, pool
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tensorfusion_iac.admission import AdmissionFacts, Grey, mutate
from tensorfusion_iac.api import FIELDS, Namespace, WorkloadProfile, key

PROFILE = WorkloadProfile.model_validate({
    "metadata": {"name": "p", "generation": 3},
    "spec": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}, "gangScheduling": {"minMembers": 2}},
})  # fmt: skip
pools = st.sampled_from([
    POOLS,
    {"default": pool()},
    {"default": pool(runtimeClassName="nvidia", tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "b"}])},
    {"default": pool(local=False, operatorEndpoint="https://operator.example/")},
])  # fmt: skip
options = st.fixed_dictionaries({
    "pools": pools,
    "grey": st.sampled_from(Grey),
    "claim": st.sampled_from([None, "6b1f"]),
    "global_default_priority_class": st.sampled_from([None, "cluster-default", "tensor-fusion-medium"]),
})  # fmt: skip


@given(pods(), options, st.booleans())
@settings(max_examples=400)
def test_a_second_mutation_changes_nothing(pod: dict[str, Any], options: dict[str, Any], profiled: bool) -> None:
    if profiled:
        pod["metadata"]["annotations"][key("workload-profile")] = "p"
    decision = mutate(pod, FACTS, profile=PROFILE, **options)
    assume(decision.allowed)
    again = mutate(after(pod, decision), FACTS, profile=PROFILE, **options)
    assert again.allowed, again.message
    assert again.patch == ()


@given(pods(), options)
@settings(max_examples=200)
def test_mutation_is_a_function_of_its_input_and_leaves_it_alone(pod: dict[str, Any], options: dict[str, Any]) -> None:
    before = copy.deepcopy(pod)
    decision = mutate(pod, FACTS, **options)
    assert pod == before
    assert mutate(before, FACTS, **options) == decision
    assert json.loads(decision.patch_json()) == list(decision.patch)


@given(pods(), options)
@settings(max_examples=200)
def test_the_users_keys_are_never_changed(pod: dict[str, Any], options: dict[str, Any]) -> None:
    decision = mutate(pod, FACTS, **options)
    assume(decision.allowed)
    annotations = after(pod, decision)["metadata"]["annotations"]
    for field in FIELDS:
        assert annotations.get(key(field.key)) == pod["metadata"]["annotations"].get(key(field.key))


@given(pods(), options)
@settings(max_examples=200)
def test_no_forged_system_annotation_survives(pod: dict[str, Any], options: dict[str, Any]) -> None:
    decision = mutate(pod, FACTS, **options)
    assume(decision.allowed and pod["metadata"]["labels"]["tensor-fusion.ai/enabled"] == "true")
    annotations = after(pod, decision)["metadata"]["annotations"]
    assert key("container-gpus") not in annotations
    assert key("visible-devices.main") not in annotations
    if options["grey"] is Grey.ON:
        assert json.loads(annotations[key("resolved")])["version"] == 1
        assert annotations.get(key("grey")) == options["claim"]
    else:
        assert key("resolved") not in annotations
        assert annotations[key("grey")] == "off"


@given(junk_pods() | json_values, options)
@settings(max_examples=600)
def test_no_pod_is_too_broken_to_decide(pod: Any, options: dict[str, Any]) -> None:
    facts = AdmissionFacts(Namespace("ml", {"pod-security.kubernetes.io/enforce": "restricted"}))
    decision = mutate(pod, facts, **options)
    if decision.allowed:
        after(pod, decision)
    else:
        assert decision.problems
        assert decision.status in (403, 422)
        assert decision.message


_NO_GPU = st.sampled_from([{"labels": {}}, {}, {"labels": {"tensor-fusion.ai/enabled": "false"}}, {"labels": None}])


@given(_NO_GPU, st.dictionaries(st.sampled_from([key(field.key) for field in FIELDS]), st.text()))
def test_a_pod_that_is_not_enabled_is_left_alone(metadata: dict[str, Any], annotations: dict[str, str]) -> None:
    pod = {"metadata": {**metadata, "annotations": annotations}, "spec": {"containers": [{"name": "main"}]}}
    decision = mutate(pod, FACTS, pools=POOLS)
    assert decision.allowed
    assert decision.patch == ()
