"""The public format's own examples (reference/), completed by a container and a namespace only, mean here what they say."""

from __future__ import annotations

from decimal import Decimal

from resolving import a_pool, a_profile, accepted, problems, raw_pod

from tensorfusion_iac.api import Compute, Isolation, Mode, Owner, QoS, Resolution, Unit, WorkloadProfile, resolve

POD = {
    "inject-container": "python",
    "tflops-limit": "20",
    "tflops-request": "10",
    "vram-limit": "4Gi",
    "vram-request": "4Gi",
    "qos": "medium",
    "workload-profile": "default-profile",
    "is-local-gpu": "true",
    "gpu-count": "1",
}
PROFILE = {
    "resources": {"requests": {"tflops": "5", "vram": "3Gi"}, "limits": {"tflops": "15", "vram": "3Gi"}},
    "replicas": 1,
    "isLocalGPU": True,
    "poolName": "default-pool",
    "qos": "medium",
    "gpuCount": 1,
    "gpuModel": "A100",
    "autoScalingConfig": {},
}


def decide(annotations: dict[str, str], profile: WorkloadProfile, containers: tuple[str, ...] = ("python",)) -> Resolution:
    pools = {"default-pool": a_pool({"defaultUsingLocalGPU": None}, name="default-pool")}
    return resolve(raw_pod(annotations, containers), owner=Owner("Deployment", "web"), profile=profile, pools=pools)


def test_the_example_pod_is_what_its_annotations_say() -> None:
    worker = accepted(decide(POD, a_profile({}, "default-profile")))
    assert worker.mode is Mode.LOCAL
    assert worker.containers == ("python",)
    assert worker.compute_request == Compute(Unit.TFLOPS, Decimal(10))
    assert worker.compute_limit == Compute(Unit.TFLOPS, Decimal(20))
    assert worker.vram_request_bytes == worker.vram_limit_bytes == 4 * 2**30
    assert worker.qos is QoS.MEDIUM
    assert worker.gpu_count == 1
    assert worker.isolation is Isolation.SOFT


def test_the_example_profile_alone_gives_all_that_it_says() -> None:
    worker = accepted(decide({"workload-profile": "example-workload-profile"}, a_profile(PROFILE, "example-workload-profile")))
    assert worker.mode is Mode.LOCAL
    assert worker.pool == "default-pool"
    assert worker.gpu_model == "A100"
    assert worker.compute_request == Compute(Unit.TFLOPS, Decimal(5))
    assert worker.compute_limit == Compute(Unit.TFLOPS, Decimal(15))
    assert worker.vram_limit_bytes == 3 * 2**30
    assert worker.autoscale is None


def test_where_both_say_something_the_annotation_wins() -> None:
    worker = accepted(decide(POD, a_profile(PROFILE, "default-profile")))
    assert worker.compute_request == Compute(Unit.TFLOPS, Decimal(10))
    assert worker.vram_request_bytes == 4 * 2**30
    assert worker.gpu_model == "A100"


def test_as_printed_the_example_is_refused_for_its_missing_container_alone() -> None:
    assert problems(decide(POD, a_profile({}, "default-profile"), containers=())) == [
        "spec.containers: no container; give at least one"
    ]
