"""What becomes of a pod in each mode, by the table of SPEC §2a."""

from __future__ import annotations

import json
from typing import Any

import pytest
from admission_objects import (
    FACTS,
    POOLS,
    POOLS_WITH_IMAGES,
    after,
    changed,
    container,
    env,
    find,
    paths,
    pod,
    pool,
)

from tensorfusion_iac.admission import AdmissionFacts, Grey, mutate
from tensorfusion_iac.api import GPUPool, Namespace, WorkloadProfile, key
from tensorfusion_iac.api.worker import from_json

VGPU = "tensor-fusion.ai/vgpu"
LOCAL = {"vram-request": "4Gi", "is-local-gpu": "true"}
STANDALONE = {**LOCAL, "standalone-worker-mode": "true"}
REMOTE = {"vram-request": "4Gi", "is-local-gpu": "false"}


def test_the_resolved_worker_is_stamped_on_the_pod() -> None:
    result = changed(pod({"vram-request": "4Gi", "tflops-request": "10"}))
    worker = from_json(result["metadata"]["annotations"][key("resolved")])
    assert (worker.vram_request_bytes, worker.pool, worker.workload) == (4 << 30, "default", "chat")


@pytest.mark.parametrize(
    ("annotations", "component"),
    [(LOCAL, "worker"), (STANDALONE, "worker"), (REMOTE, "client")],
    ids=["local", "standalone", "remote"],
)
def test_labels_say_component_pool_and_workload(annotations: dict[str, str], component: str) -> None:
    labels = changed(pod(annotations), pools=POOLS_WITH_IMAGES)["metadata"]["labels"]
    assert labels == {
        "tensor-fusion.ai/enabled": "true", "app": "chat",
        key("component"): component, key("gpupool"): "default", key("workload"): "chat",
    }  # fmt: skip


def test_a_long_owner_name_is_bounded_in_the_label_and_whole_in_resolved() -> None:
    from tensorfusion_iac.api import Owner

    facts = AdmissionFacts(FACTS.namespace, Owner("Deployment", "w" * 100))
    metadata = changed(pod(), facts=facts)["metadata"]
    assert len(metadata["labels"][key("workload")]) == 49
    assert from_json(metadata["annotations"][key("resolved")]).workload == "w" * 100


def test_local_pods_go_to_our_scheduler_and_hold_the_resource() -> None:
    spec = changed(pod(LOCAL))["spec"]
    assert spec["schedulerName"] == "tensor-fusion-scheduler"
    assert spec["containers"][0]["resources"] == {"limits": {VGPU: "0"}, "requests": {VGPU: "0"}}
    assert "initContainers" not in spec
    assert "volumes" not in spec


def test_injected_containers_read_their_devices_and_the_others_have_none() -> None:
    annotations = {**LOCAL, "inject-container": "main"}
    spec = changed(pod(annotations, container("main"), container("side"), initContainers=[container("setup")]))["spec"]
    assert env(find(spec["containers"], "main")) == {
        "NVIDIA_VISIBLE_DEVICES": f"<{key('visible-devices.main')}>",
        "TENSOR_FUSION_VRAM_FRACTION": f"<{key('vram-fraction.main')}>",
        "TENSOR_FUSION_VRAM_LIMIT_MIB": f"<{key('vram-limit-mib.main')}>",
    }
    assert env(find(spec["containers"], "side")) == {"NVIDIA_VISIBLE_DEVICES": "void"}
    assert env(find(spec["initContainers"], "setup")) == {"NVIDIA_VISIBLE_DEVICES": "void"}


def test_our_variables_stand_before_the_users_which_may_refer_to_them() -> None:
    own = {"name": "UTILISATION", "value": "$(TENSOR_FUSION_VRAM_FRACTION)"}
    entries = changed(pod(LOCAL, container(env=[own])))["spec"]["containers"][0]["env"]
    assert entries[-1] == own


def test_the_key_of_a_long_container_name_is_bounded() -> None:
    name = "x" * 63
    found = env(changed(pod(LOCAL, container(name)))["spec"]["containers"][0])["NVIDIA_VISIBLE_DEVICES"]
    assert len(found.strip("<>").removeprefix("tensor-fusion.ai/")) == 49


def test_a_container_without_gpus_in_the_split_sees_none() -> None:
    annotations = {**LOCAL, "container-gpu-count": '{"a":2,"b":0}', "inject-container": "a,b"}
    spec = changed(pod(annotations, container("a"), container("b")))["spec"]
    assert env(spec["containers"][1]) == {"NVIDIA_VISIBLE_DEVICES": "void"}


@pytest.mark.parametrize(
    ("vendor", "variable", "none"),
    [
        ("NVIDIA", "NVIDIA_VISIBLE_DEVICES", "void"),
        ("AMD", "AMD_VISIBLE_DEVICES", "none"),
        ("Ascend", "ASCEND_VISIBLE_DEVICES", "void"),
        ("MThreads", "MTHREADS_VISIBLE_DEVICES", "none"),
        ("Enflame", "ENFLAME_VISIBLE_DEVICES", "none"),
        ("Intel", "HABANA_VISIBLE_DEVICES", None),
        ("Hygon", "HIP_VISIBLE_DEVICES", None),
        ("Cerebras", None, None),
    ],
)
def test_each_vendor_has_its_own_variable_and_word_for_none(vendor: str, variable: str | None, none: str | None) -> None:
    annotations = {**LOCAL, "inject-container": "main", "vendor": vendor}
    main, side = changed(pod(annotations, container("main"), container("side")))["spec"]["containers"]
    shown = {name: value for name, value in env(main).items() if name.endswith("_VISIBLE_DEVICES")}
    assert shown == ({variable: f"<{key('visible-devices.main')}>"} if variable else {})
    assert env(side) == ({variable: none} if none else {})


def test_devices_set_by_hand_are_replaced_with_a_warning() -> None:
    by_hand = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, {"name": "A", "value": "1"}]
    before = pod({**LOCAL, "inject-container": "main"}, container("main", env=by_hand), container("side", env=by_hand))
    decision = mutate(before, FACTS, pools=POOLS)
    assert [text for text in decision.warnings if "NVIDIA_VISIBLE_DEVICES" in text] == [
        f"container {name} env NVIDIA_VISIBLE_DEVICES: set by hand, but TensorFusion sets it; the value is replaced"
        for name in ("main", "side")
    ]
    main, side = changed(before)["spec"]["containers"]
    assert env(main)["NVIDIA_VISIBLE_DEVICES"] == f"<{key('visible-devices.main')}>"
    assert env(side) == {"NVIDIA_VISIBLE_DEVICES": "void", "A": "1"}


def test_standalone_puts_the_devices_in_the_sidecar_only() -> None:
    annotations = {**STANDALONE, "inject-container": "main"}
    before = pod(annotations, container("main"), container("side"), initContainers=[container("setup")])
    spec = changed(before, pools=POOLS_WITH_IMAGES)["spec"]
    assert [item["name"] for item in spec["initContainers"]] == ["tensor-fusion-client", "tensor-fusion-worker", "setup"]
    sidecar = spec["initContainers"][1]
    assert (sidecar["image"], sidecar["restartPolicy"]) == ("worker:1", "Always")
    assert sidecar["resources"]["limits"] == {VGPU: "0"}
    assert env(sidecar)["NVIDIA_VISIBLE_DEVICES"] == f"<{key('visible-devices.tensor-fusion-worker')}>"
    main = find(spec["containers"], "main")
    assert "resources" not in main
    assert env(main) == {
        "NVIDIA_VISIBLE_DEVICES": "void",
        "TENSOR_FUSION_VRAM_FRACTION": f"<{key('vram-fraction.tensor-fusion-worker')}>",
        "TENSOR_FUSION_VRAM_LIMIT_MIB": f"<{key('vram-limit-mib.tensor-fusion-worker')}>",
        "TENSOR_FUSION_CONNECTION_URL": "unix:///run/tensor-fusion/worker/worker.sock",
    }
    assert [item["mountPath"] for item in main["volumeMounts"]] == [
        "/tensor-fusion", "/etc/ld.so.preload", "/run/tensor-fusion/worker",
    ]  # fmt: skip
    assert spec["schedulerName"] == "tensor-fusion-scheduler"


def test_remote_clients_get_a_connection_and_no_device() -> None:
    before = pod(REMOTE, container(resources={"limits": {"nvidia.com/gpu": "2"}}))
    spec = changed(before, pools={"default": pool(operatorEndpoint="https://operator.example/")})["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    main = spec["containers"][0]
    assert main["resources"] == {}
    assert env(main) == {
        "NVIDIA_VISIBLE_DEVICES": "void",
        "TENSOR_FUSION_VRAM_FRACTION": "1",
        "TENSOR_FUSION_VRAM_LIMIT_MIB": "4096",
        "TENSOR_FUSION_CONNECTION_NAME": "<metadata.name>",
        "TENSOR_FUSION_CONNECTION_NAMESPACE": "<metadata.namespace>",
        "TENSOR_FUSION_OPERATOR_GET_CONNECTION_URL": "https://operator.example/api/connection"
        "?name=$(TENSOR_FUSION_CONNECTION_NAME)&namespace=$(TENSOR_FUSION_CONNECTION_NAMESPACE)",
    }
    assert [item["name"] for item in spec["initContainers"]] == ["tensor-fusion-client"]
    assert "tolerations" not in spec


def test_local_pods_get_the_client_library_only_if_the_pool_has_an_image() -> None:
    assert [item["name"] for item in changed(pod(LOCAL), pools=POOLS_WITH_IMAGES)["spec"]["initContainers"]] == [
        "tensor-fusion-client"
    ]
    assert "initContainers" not in changed(pod(LOCAL))["spec"]


def test_the_controllers_own_workers_are_no_clients() -> None:
    spec = changed(pod(LOCAL, container("tensor-fusion-worker")), pools=POOLS_WITH_IMAGES)["spec"]
    assert "initContainers" not in spec


@pytest.mark.parametrize("annotations", [LOCAL, STANDALONE, REMOTE], ids=["local", "standalone", "remote"])
def test_disabled_features_reach_the_worker_in_every_mode(annotations: dict[str, str]) -> None:
    result = changed(pod({**annotations, "disable-features": "gpu-opt, mem-manager"}), pools=POOLS_WITH_IMAGES)
    assert json.loads(result["metadata"]["annotations"][key("resolved")])["disableFeatures"] == ["gpu-opt", "mem-manager"]
    spec = result["spec"]
    holder = find(spec["initContainers"], "tensor-fusion-worker") if annotations is STANDALONE else spec["containers"][0]
    assert env(holder)["TENSOR_FUSION_DISABLE_FEATURES"] == "gpu-opt,mem-manager"


@pytest.mark.parametrize("annotations", [LOCAL, STANDALONE], ids=["local", "standalone"])
def test_hard_isolation_gets_mps(annotations: dict[str, str]) -> None:
    spec = changed(pod({**annotations, "isolation": "hard"}), pools=POOLS_WITH_IMAGES)["spec"]
    holder = find(spec["initContainers"], "tensor-fusion-worker") if annotations is STANDALONE else spec["containers"][0]
    found = env(holder)
    assert found["TENSOR_FUSION_POD_UID"] == "<metadata.uid>"
    assert found["CUDA_MPS_PIPE_DIRECTORY"] == "/run/tensor-fusion/mps"
    assert found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == f"<{key('sm-percent.' + holder['name'])}>"
    assert {"name": "tensor-fusion-mps", "hostPath": {"path": "/run/tensor-fusion/mps", "type": "Directory"}} in spec["volumes"]
    mount = {"name": "tensor-fusion-mps", "mountPath": "/run/tensor-fusion/mps", "subPathExpr": "$(TENSOR_FUSION_POD_UID)"}
    assert mount in holder["volumeMounts"]


def test_hard_isolation_without_the_compute_limiter_has_no_thread_percentage() -> None:
    found = env(changed(pod({**LOCAL, "isolation": "hard", "disable-features": "gpu-limiter"}))["spec"]["containers"][0])
    assert "CUDA_MPS_PIPE_DIRECTORY" in found
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in found


@pytest.mark.parametrize(
    "annotations",
    [{**LOCAL, "isolation": "soft"}, {**REMOTE, "isolation": "hard"}, {**LOCAL, "isolation": "hard", "vendor": "AMD"}],
    ids=["soft", "remote", "not NVIDIA"],
)
def test_other_pods_get_no_mps(annotations: dict[str, str]) -> None:
    spec = changed(pod(annotations), pools=POOLS_WITH_IMAGES)["spec"]
    assert not [item for item in spec["volumes"] if "hostPath" in item]
    assert not any("MPS" in name for item in spec["containers"] for name in env(item))


@pytest.mark.parametrize(
    ("resources", "count"),
    [
        ([{"limits": {"nvidia.com/gpu": "2"}}], 2),
        ([{"limits": {"nvidia.com/gpu": 2, "cpu": "1"}, "requests": {"nvidia.com/gpu": 2}}], 2),
    ],
)
def test_native_gpu_requests_become_the_count_and_go(resources: list[Any], count: int) -> None:
    result = changed(pod(LOCAL, container(resources=resources[0])))
    assert from_json(result["metadata"]["annotations"][key("resolved")]).gpu_count == count
    assert "nvidia.com/gpu" not in json.dumps(result["spec"])


def test_native_requests_of_a_sidecar_and_a_container_are_summed() -> None:
    gpu = {"limits": {"nvidia.com/gpu": 1}}
    sidecar = container("cache", restartPolicy="Always", resources=gpu)
    before = pod({**LOCAL, "inject-container": "main,cache"}, container("main", resources=gpu), initContainers=[sidecar])
    assert from_json(changed(before)["metadata"]["annotations"][key("resolved")]).gpu_count == 2


def test_the_native_request_of_a_container_that_is_not_injected_stays_with_a_warning() -> None:
    before = pod(
        {**LOCAL, "inject-container": "main"}, container(), container("side", resources={"limits": {"nvidia.com/gpu": 1}})
    )
    decision = mutate(before, FACTS, pools=POOLS)
    assert changed(before)["spec"]["containers"][1]["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert any("container side resources nvidia.com/gpu" in text for text in decision.warnings)


def test_the_resource_set_by_hand_is_put_right() -> None:
    before = pod(
        {**LOCAL, "inject-container": "main"},
        container(resources={"limits": {VGPU: "4"}}),
        container("side", resources={"limits": {VGPU: "1"}}),
    )
    main, side = changed(before)["spec"]["containers"]
    assert main["resources"] == {"limits": {VGPU: "0"}, "requests": {VGPU: "0"}}
    assert side["resources"] == {}


@pytest.mark.parametrize(
    ("qos", "own", "global_default", "expected"),
    [
        ("high", None, None, "tensor-fusion-high"),
        ("high", "mine", None, "mine"),
        ("low", "cluster-default", "cluster-default", "tensor-fusion-low"),
        ("medium", "tensor-fusion-medium", "tensor-fusion-medium", "tensor-fusion-medium"),
    ],
)
def test_the_priority_class_follows_the_qos_unless_the_pod_names_one(
    qos: str, own: str | None, global_default: str | None, expected: str
) -> None:
    spec: dict[str, Any] = {"priority": 7, "preemptionPolicy": "Never"} | ({"priorityClassName": own} if own else {})
    result = changed(pod({**LOCAL, "qos": qos}, **spec), global_default_priority_class=global_default)["spec"]
    assert result["priorityClassName"] == expected
    assert ("priority" in result, "preemptionPolicy" in result) == ((True, True) if own == expected else (False, False))


@pytest.mark.parametrize(("annotations", "gated"), [(LOCAL, True), (STANDALONE, True), (REMOTE, False)])
def test_gang_members_that_hold_gpus_wait_at_a_gate(annotations: dict[str, str], gated: bool) -> None:
    result = changed(pod({**annotations, "gang-min-members": "2"}, schedulingGates=[{"name": "mine"}]), pools=POOLS_WITH_IMAGES)
    assert result["spec"]["schedulingGates"] == [{"name": "mine"}, *([{"name": "tensor-fusion.ai/gang"}] if gated else [])]


def test_the_pool_gives_runtime_class_and_tolerations_to_gpu_pods() -> None:
    pools = {
        "default": pool(images=False, runtimeClassName="nvidia", tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])
    }
    spec = changed(pod(LOCAL), pools=pools)["spec"]
    assert (spec["runtimeClassName"], spec["tolerations"]) == ("nvidia", [{"key": "nvidia.com/gpu", "operator": "Exists"}])
    own = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": ""}, {"key": "other", "operator": "Exists"}]
    kept = changed(pod(LOCAL, runtimeClassName="mine", tolerations=own), pools=pools)["spec"]
    assert (kept["runtimeClassName"], kept["tolerations"]) == ("mine", own)


def test_another_scheduler_is_replaced_with_a_warning() -> None:
    before = pod(LOCAL, schedulerName="volcano")
    assert changed(before)["spec"]["schedulerName"] == "tensor-fusion-scheduler"
    assert any(text.startswith('spec.schedulerName: "volcano"') for text in mutate(before, FACTS, pools=POOLS).warnings)


AFFINITY = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}]}}
PROFILE = WorkloadProfile.model_validate({"metadata": {"name": "p"}, "spec": {"nodeAffinity": AFFINITY}})


def test_the_profiles_node_affinity_holds_where_the_pod_has_none() -> None:
    annotations = {**LOCAL, "workload-profile": "p"}
    assert changed(pod(annotations), profile=PROFILE)["spec"]["affinity"] == {"nodeAffinity": AFFINITY}
    beside = {"podAntiAffinity": {"x": []}}
    assert changed(pod(annotations, affinity=beside), profile=PROFILE)["spec"]["affinity"] == {**beside, "nodeAffinity": AFFINITY}
    own = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    assert changed(pod(annotations, affinity=own), profile=PROFILE)["spec"]["affinity"] == own


def test_the_other_side_of_a_grey_release_runs_as_written() -> None:
    before = pod({**LOCAL, "enabled-replicas": "2", "resolved": "{}"}, container(resources={"limits": {"nvidia.com/gpu": 1}}))
    decision = mutate(before, FACTS, pools=POOLS, grey=Grey.OFF)
    assert decision.patch == (
        {"op": "remove", "path": "/metadata/annotations/tensor-fusion.ai~1resolved"},
        {"op": "add", "path": "/metadata/annotations/tensor-fusion.ai~1grey", "value": "off"},
    )


def test_the_other_side_of_a_grey_release_does_not_wait_for_the_resource() -> None:
    asking = {"limits": {VGPU: "1", "cpu": "1"}, "requests": {VGPU: "1"}}
    before = pod({**LOCAL, "inject-container": "main", "enabled-replicas": "2"}, container(resources=asking), container("side"))
    decision = mutate(before, FACTS, pools=POOLS, grey=Grey.OFF)
    assert decision.patch == (
        {"op": "add", "path": "/metadata/annotations/tensor-fusion.ai~1grey", "value": "off"},
        {"op": "remove", "path": "/spec/containers/0/resources/limits/tensor-fusion.ai~1vgpu"},
        {"op": "remove", "path": "/spec/containers/0/resources/requests"},
    )
    assert [text for text in decision.warnings if "container main resources tensor-fusion.ai/vgpu" in text]


def test_enabled_pods_of_a_grey_release_are_given_up_last() -> None:
    annotations = changed(pod({**LOCAL, "enabled-replicas": "2"}), claim="6b1f")["metadata"]["annotations"]
    assert annotations["controller.kubernetes.io/pod-deletion-cost"] == "100"
    assert annotations[key("grey")] == "6b1f"
    assert "controller.kubernetes.io/pod-deletion-cost" not in changed(pod(LOCAL))["metadata"]["annotations"]


def test_a_deletion_cost_of_the_users_stays_with_a_warning() -> None:
    before = pod({**LOCAL, "enabled-replicas": "2", "controller.kubernetes.io/pod-deletion-cost": "5"})
    assert changed(before)["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] == "5"
    assert any("pod-deletion-cost" in text for text in mutate(before, FACTS, pools=POOLS).warnings)


def test_forged_system_annotations_go_with_a_warning() -> None:
    before = pod({**LOCAL, "gpu-ids": "GPU-1", "visible-devices.main": "all"})
    decision = mutate(before, FACTS, pools=POOLS)
    annotations = changed(before)["metadata"]["annotations"]
    assert key("gpu-ids") not in annotations
    assert key("visible-devices.main") not in annotations
    assert len([text for text in decision.warnings if "dropped" in text]) == 2


@pytest.mark.parametrize(
    "options", [{"claim": "other"}, {"claim": None}, {"claim": None, "grey": Grey.OFF}], ids=["another", "none", "other side"]
)
def test_nobody_is_blamed_for_a_claim_that_we_wrote_the_time_before(options: dict[str, Any]) -> None:
    before = changed(pod({**LOCAL, "enabled-replicas": "2"}), claim="first")
    decision = mutate(before, FACTS, pools=POOLS, **options)
    assert decision.warnings == ()
    assert after(before, decision)["metadata"]["annotations"].get(key("grey")) != "first"


def test_a_claim_written_by_hand_goes_with_a_warning() -> None:
    (warning,) = mutate(pod({**LOCAL, "grey": "first"}), FACTS, pools=POOLS).warnings
    assert warning.startswith(f"{key('grey')}: set by hand")


def test_a_forged_resolution_is_replaced_and_gives_no_gpus() -> None:
    honest = pod(LOCAL)
    forged = json.loads(
        changed(pod(LOCAL, container(resources={"limits": {"nvidia.com/gpu": 8}})))["metadata"]["annotations"][key("resolved")]
    )
    forged["vram"] = "anything"
    before = pod({**LOCAL, "resolved": json.dumps(forged)})
    assert (
        changed(before)["metadata"]["annotations"][key("resolved")] == changed(honest)["metadata"]["annotations"][key("resolved")]
    )
    assert any("resolved" in text for text in mutate(before, FACTS, pools=POOLS).warnings)


def test_what_other_webhooks_and_defaults_add_meanwhile_is_kept() -> None:
    once = changed(pod(STANDALONE), pools=POOLS_WITH_IMAGES)
    for item in once["spec"]["initContainers"]:
        item.update(imagePullPolicy="Always", terminationMessagePath="/dev/termination-log")
        item["volumeMounts"].append({"name": "kube-api-access", "mountPath": "/var/run/secrets"})
    once["spec"]["containers"].append(container("istio-proxy"))
    again = mutate(once, FACTS, pools=POOLS_WITH_IMAGES)
    assert paths(again.patch) == ["/spec/containers/1/env"]


def test_the_namespace_comes_from_the_request() -> None:
    decision = mutate(pod({"vram-request": "nothing"}), AdmissionFacts(Namespace("team-a")), pools=POOLS)
    assert decision.message.startswith("pod team-a/chat-5d9f-: 1 problem")


def test_the_patch_is_minimal() -> None:
    decision = mutate(pod(LOCAL), FACTS, pools=POOLS)
    assert paths(decision.patch) == [
        "/metadata/labels/tensor-fusion.ai~1component",
        "/metadata/labels/tensor-fusion.ai~1workload",
        "/metadata/labels/tensor-fusion.ai~1gpupool",
        "/metadata/annotations/tensor-fusion.ai~1resolved",
        "/spec/schedulerName",
        "/spec/containers/0/env",
        "/spec/containers/0/resources",
        "/spec/priorityClassName",
    ]


def test_pools_may_be_unknown_and_what_they_alone_name_is_then_left_out() -> None:
    assert mutate(pod(LOCAL), FACTS).allowed
    remote = mutate(pod(REMOTE), FACTS)
    assert remote.allowed
    assert "initContainers" not in str(remote.patch)


def test_a_pool_with_no_component_config_works() -> None:
    plain = GPUPool.model_validate({"metadata": {"name": "plain"}, "spec": {}})
    assert changed(pod({**LOCAL, "gpupool": "plain"}), pools={"plain": plain})["metadata"]["labels"][key("gpupool")] == "plain"
