"""Pools, profiles, workloads and CRDs: what their arguments become."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pulumi
import pytest
from declared import IMAGE, annotations_of, chat, pool
from mocked import Run

import tensorfusion_iac as tfi
from tensorfusion_iac import api
from tensorfusion_iac.api import FIELDS, names
from tensorfusion_iac.api.resources import GPUPoolSpec
from tensorfusion_iac.components.gpupool import PATHS, GPUPoolArguments

POOL, PROFILE, WORKLOAD = (
    f"kubernetes:tensor-fusion.ai/v1:{kind}" for kind in ("GPUPool", "WorkloadProfile", "TensorFusionWorkload")
)


def test_a_pools_flat_arguments_stand_where_the_crd_has_them(run: Run) -> None:
    sent = run(
        lambda: (
            pool(
                node_selector={"nvidia.com/gpu.present": "true", "zone": ["a", "b"]},
                namespace_selector={"team": "ml"},
                provisioning_mode="AutoSelect",
                default_vendor="nvidia",
                default_isolation_mode=api.Isolation.HARD,
                default_qos="low",
                tflops_oversell_ratio=150,
                vram_expand_to_host_mem=20,
                vram_expand_to_host_disk=10,
                min_resources={"tflops": 100},
                max_resources={"vram": "1Ti"},
                warm_resources={"cpu": 8},
                placement_mode="CompactFirst",
                worker_image="w:1",
                client_image="c:1",
                runtime_class_name="nvidia",
                tolerations=[{"key": "gpu", "operator": "Exists", "toleration_seconds": 30}],
                operator_endpoint="https://operator.example",
                qos_definitions=[{"name": "low"}],
                qos_pricing=[{"qos": "low", "requests": {"perFP16TFlopsPerHour": "1"}}],
                node_provisioner={"node_class": "gpu"},
                node_compaction={"period": "5m"},
                rolling_update_policy={"batch_percentage": 25},
                labels={"a": "b"},
                annotations={"c": "d"},
            )
            and None
        )
    ).one(POOL)
    assert sent["metadata"] == {
        "name": "default-pool",
        "labels": {"a": "b"},
        "annotations": {"c": "d", names.DEFAULT_POOL_ANNOTATION: "true"},
    }
    assert sent["spec"] == {
        "defaultUsingLocalGPU": True,
        "namespaceSelector": {"matchLabels": {"team": "ml"}},
        "nodeManagerConfig": {
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]},
                            {"key": "zone", "operator": "In", "values": ["a", "b"]},
                        ]
                    }
                ]
            },
            "provisioningMode": "AutoSelect",
            "defaultVendor": "nvidia",
            "defaultIsolationMode": "hard",
            "nodeProvisioner": {"nodeClass": "gpu"},
            "nodeCompaction": {"period": "5m"},
            "rollingUpdatePolicy": {"batchPercentage": 25},
        },
        "qosConfig": {
            "defaultQoS": "low",
            "definitions": [{"name": "low"}],
            "pricing": [{"qos": "low", "requests": {"perFP16TFlopsPerHour": "1"}}],
        },
        "capacityConfig": {
            "oversubscription": {"tflopsOversellRatio": 150, "vramExpandToHostMem": 20, "vramExpandToHostDisk": 10},
            "minResources": {"tflops": 100},
            "maxResources": {"vram": "1Ti"},
            "warmResources": {"cpu": 8},
        },
        "placement": {"mode": "CompactFirst"},
        "componentConfig": {
            "worker": {"image": "w:1"},
            "client": {
                "image": "c:1",
                "runtimeClassName": "nvidia",
                "tolerations": [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 30}],
                "operatorEndpoint": "https://operator.example",
            },
        },
    }


def test_every_flat_argument_of_a_pool_has_its_place() -> None:
    other = {"default", "spec", "metadata", "labels", "annotations"}
    assert set(PATHS) == set(GPUPoolArguments.__annotations__) - other


@pytest.mark.parametrize(
    "selector",
    [
        [{"match_expressions": [{"key": "a", "operator": "Exists"}]}],
        {"node_selector_terms": [{"match_expressions": [{"key": "a", "operator": "Exists"}]}]},
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]},
        pulumi.Output,
    ],
    ids=["terms", "python form", "manifest form", "an Output of a plain map"],
)
def test_a_node_selector_may_have_terms(run: Run, selector: Any) -> None:
    def program() -> None:
        pool(node_selector=pulumi.Output.from_input({"a": "b"}) if selector is pulumi.Output else selector)

    given = run(program).one(POOL)["spec"]["nodeManagerConfig"]["nodeSelector"]["nodeSelectorTerms"][0]["matchExpressions"]
    assert given in ([{"key": "a", "operator": "Exists"}], [{"key": "a", "operator": "In", "values": ["b"]}])


@pytest.mark.parametrize(
    "spec",
    [
        {"node_manager_config": {"default_isolation_mode": "hard"}},
        {"nodeManagerConfig": {"defaultIsolationMode": "hard"}},
        GPUPoolSpec.model_validate({"nodeManagerConfig": {"defaultIsolationMode": "hard"}}),
    ],
    ids=["python names", "manifest", "model"],
)
def test_the_full_spec_is_taken_in_any_spelling_beside_the_arguments(run: Run, spec: Any) -> None:
    sent = run(lambda: pool(spec=spec, default_vendor="NVIDIA") and None).one(POOL)["spec"]
    assert sent == {
        "defaultUsingLocalGPU": True,
        "nodeManagerConfig": {"defaultIsolationMode": "hard", "defaultVendor": "NVIDIA"},
    }


def test_a_pool_that_is_not_the_default_has_no_annotation(run: Run) -> None:
    assert run(lambda: pool(default=False) and None).one(POOL)["metadata"] == {"name": "default-pool"}


def test_a_profile_holds_what_its_vgpu_says(run: Run) -> None:
    def program() -> None:
        tfi.WorkloadProfile(
            "inference",
            namespace="ml",
            gpupool=pool(),
            replicas=2,
            vgpu=tfi.VGPU(
                tflops_request=10, tflops_limit="20", vram_request="4Gi", compute_percent_limit=None, qos="medium",
                is_local_gpu=True, gpu_count=2, vendor="nvidia", gpu_model="A100", isolation="soft", gpu_indices=[0, 1],
                autoscale=True, autoscale_target="vram", disable_features=["gpu-opt"], gang_min_members=2,
                gang_timeout=timedelta(minutes=5),
            ),
            cron_scaling_rules=[{"name": "night", "start": "0 22 * * *", "end": "0 6 * * *"}],
        )  # fmt: skip

    sent = run(program).one(PROFILE)
    assert sent["metadata"] == {"name": "inference", "namespace": "ml"}
    assert sent["spec"] == {
        "poolName": "default-pool",
        "replicas": 2,
        "resources": {"requests": {"tflops": "10", "vram": "4Gi"}, "limits": {"tflops": "20"}},
        "qos": "medium",
        "isLocalGPU": True,
        "gpuCount": 2,
        "vendor": "NVIDIA",
        "gpuModel": "A100",
        "isolation": "soft",
        "gpuIndices": [0, 1],
        "autoScalingConfig": {
            "autoSetResources": {"enable": True, "targetResource": "vram"},
            "cronScalingRules": [{"name": "night", "start": "0 22 * * *", "end": "0 6 * * *"}],
        },
        "disableFeatures": ["gpu-opt"],
        "gangScheduling": {"minMembers": 2, "timeout": "5m"},
    }


SAMPLES: dict[str, Any] = {
    "tflops-request": "10", "tflops-limit": "20", "vram-request": "4Gi", "vram-limit": "8Gi", "compute-percent-request": "10",
    "compute-percent-limit": "20", "qos": "low", "is-local-gpu": "true", "gpu-count": "2", "gpupool": "p", "vendor": "AMD",
    "gpu-model": "A100", "dedicated-gpu": "false", "isolation": "partitioned", "gpu-indices": "0,1", "autoscale": "true",
    "autoscale-target": "vram", "standalone-worker-mode": "true", "disable-features": "gpu-opt",
    "partition-template": "1g.10gb", "gang-min-members": "2", "gang-timeout": "5m",
}  # fmt: skip


@pytest.mark.parametrize("row", [row for row in FIELDS if row.profile], ids=lambda row: row.key)
def test_a_profile_means_what_the_annotation_means(run: Run, row: api.Field) -> None:
    """The spec that a VGPU gives, read as the webhook reads it, is the annotation's value."""
    read: list[Any] = []

    def program() -> None:
        profile = tfi.WorkloadProfile("p", vgpu=tfi.VGPU(**{row.argument: SAMPLES[row.key]}))
        read.append(profile.model and profile.model.spec.layer().get(row.key))

    assert run(program).error is None
    assert read == [row.parse(SAMPLES[row.key])]


def test_a_workload_takes_the_same_arguments(run: Run) -> None:
    sent = run(
        lambda: tfi.TensorFusionWorkload("shared", namespace="ml", replicas=3, vgpu=tfi.VGPU(vram_request="4Gi")) and None
    ).one(WORKLOAD)
    assert sent["metadata"] == {"name": "shared", "namespace": "ml"}
    assert sent["spec"] == {"replicas": 3, "resources": {"requests": {"vram": "4Gi"}}}


def test_a_resource_that_others_name_is_named_by_text_so_that_it_can_be_judged(run: Run) -> None:
    def program() -> dict[str, Any]:
        local, profile = (
            pool(),
            tfi.WorkloadProfile("p", namespace=pulumi.Output.from_input("ml"), vgpu=tfi.VGPU(vram_request="1Gi")),
        )
        chat(gpupool=local, workload_profile=profile)
        return {"name": local.name, "profile": profile.name, "namespace": profile.namespace}

    ran = run(program)
    assert ran.outputs == {"name": "default-pool", "profile": "p", "namespace": "ml"}
    deployment = next(item.inputs for item in ran.registered if item.type.endswith("Deployment") and "spec" in item.inputs)
    assert annotations_of(deployment) == {"gpupool": "default-pool", "workload-profile": "p"}


def test_the_crds_are_patches_that_take_over_and_are_waited_for(run: Run) -> None:
    ran = run(lambda: tfi.CustomResourceDefinitions("crds") and None)
    sent = [item for item in ran.registered if item.type.endswith("CustomResourceDefinitionPatch")]
    assert {item.inputs["spec"]["names"]["kind"] for item in sent} == {kind.__name__ for kind in api.KINDS}
    for item in sent:
        assert item.name == "crds-" + item.inputs["spec"]["names"]["plural"]
        assert item.inputs["metadata"]["annotations"] == {
            "pulumi.com/patchForce": "true",
            "pulumi.com/waitFor": "condition=Established",
        }


def test_an_unknown_model_in_a_profile_is_warned_of(run: Run) -> None:
    ran = run(lambda: tfi.WorkloadProfile("p", vgpu=tfi.VGPU(vram_request="1Gi", gpu_model="A100x")) and None)
    assert ran.error is None
    assert len(ran.messages("warning")) == 1
    assert "vgpu.gpu_model" in ran.messages("warning")[0]


def test_image_is_a_name_of_a_workload_and_not_of_a_pool(run: Run) -> None:
    ran = run(lambda: pool(image=IMAGE) and None)
    assert "image: no such argument" in ran.refusal
