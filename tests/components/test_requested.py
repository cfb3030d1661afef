"""`requested`: demand x GPUs x replicas; percent stays percent; nothing that only the cluster knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from declared import IMAGE, chat, pool, two_containers
from mocked import Run

import tensorfusion_iac as tfi

VGPU = tfi.VGPU


def _profile(**arguments: Any) -> tfi.WorkloadProfile:
    return tfi.WorkloadProfile("p", vgpu=VGPU(tflops_request=5, tflops_limit=10, vram_request="1Gi", **arguments))


CASES: list[tuple[str, Callable[[], Any], dict[str, Any]]] = [
    (
        "amounts times replicas, whatever is derived included",
        lambda: chat(replicas=6, vgpu=VGPU(tflops_request=10, vram_request="20Gi", qos="high")),
        {"workers": 6, "gpus_per_worker": 1, "gpus": 6, "qos": "high", "tflops_request": "60", "vram_request": "120Gi",
         "vram_limit": "120Gi"},
    ),
    (
        "exact fractions",
        lambda: chat(replicas=3, vgpu=VGPU(tflops_request="0.1", vram_request="1500Mi")),
        {"workers": 3, "gpus_per_worker": 1, "gpus": 3, "tflops_request": "0.3", "vram_request": "4500Mi",
         "vram_limit": "4500Mi"},
    ),
    (
        "times gpu-count, and percent stays percent",
        lambda: chat(replicas=2, vgpu=VGPU(compute_percent_request=25, gpu_count=4)),
        {"workers": 2, "gpus_per_worker": 4, "gpus": 8, "compute_percent_request": "25"},
    ),
    (
        "only the enabled replicas",
        lambda: chat(replicas=6, vgpu=VGPU(vram_request="1Gi", enabled_replicas=2)),
        {"workers": 2, "gpus_per_worker": 1, "gpus": 2, "vram_request": "2Gi", "vram_limit": "2Gi"},
    ),
    (
        "none of them",
        lambda: chat(replicas=6, vgpu=VGPU(vram_request="1Gi", enabled_replicas=0)),
        {"workers": 0, "gpus_per_worker": 1, "gpus": 0},
    ),
    (
        "replicas left to an autoscaler count as one",
        lambda: chat(vgpu=VGPU(vram_request="1Gi")),
        {"workers": 1, "gpus_per_worker": 1, "gpus": 1, "vram_request": "1Gi", "vram_limit": "1Gi"},
    ),
    (
        "a job's pods at a time",
        lambda: tfi.AnnotatedJob("t", image=IMAGE, parallelism=3, completions=9, vgpu=VGPU(vram_request="1Gi")),
        {"workers": 3, "gpus_per_worker": 1, "gpus": 3, "vram_request": "3Gi", "vram_limit": "3Gi"},
    ),
    (
        "whole cards, split among containers",
        lambda: tfi.AnnotatedJob("t", pod_template=two_containers(), gpupool=pool(), vgpu=VGPU(
            gpu_model="A100", dedicated_gpu=True, container_gpu_count={"trainer": 3, "evaluator": 1})),
        {"workers": 1, "gpus_per_worker": 4, "gpus": 4, "dedicated_gpu": True, "gpu_model": "A100", "gpupool": "default-pool"},
    ),
    (
        "what a profile of this program gives",
        lambda: chat(replicas=2, workload_profile=_profile(gpu_count=2), vgpu=VGPU(vram_request="4Gi")),
        {"workers": 2, "gpus_per_worker": 2, "gpus": 4, "tflops_request": "20", "tflops_limit": "40", "vram_request": "16Gi",
         "vram_limit": "16Gi"},
    ),
    (
        "nothing that a profile not declared here might say",
        lambda: chat(replicas=2, workload_profile="other", vgpu=VGPU(tflops_limit=20)),
        {"workers": 2, "workload_profile": "other"},
    ),
    (
        "but what is annotated beside it, if the number of GPUs is known",
        lambda: chat(replicas=2, workload_profile="other", vgpu=VGPU(tflops_limit=20, gpu_count=1)),
        {"workers": 2, "workload_profile": "other", "gpus_per_worker": 1, "gpus": 2, "tflops_limit": "40"},
    ),
    (
        "a class of service that the pool gives",
        lambda: chat(gpupool=pool(default_qos="low"), vgpu=VGPU(vram_request="1Gi")),
        {"workers": 1, "gpus_per_worker": 1, "gpus": 1, "qos": "low", "gpupool": "default-pool", "vram_request": "1Gi",
         "vram_limit": "1Gi"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("declare", "total"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_requested_is(run: Run, declare: Callable[[], Any], total: dict[str, Any]) -> None:
    ran = run(lambda: {"requested": declare().requested})
    assert ran.error is None
    assert ran.outputs["requested"] == total
