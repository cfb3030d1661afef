"""Pieces of programs that several tests declare."""

from __future__ import annotations

from typing import Any

import tensorfusion_iac as tfi

P = "tensor-fusion.ai/"
IMAGE = "registry.example/app:1"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def pool(**arguments: Any) -> tfi.GPUPool:
    return tfi.GPUPool("default-pool", **{"default": True, "default_using_local_gpu": True, **arguments})


def chat(**arguments: Any) -> tfi.AnnotatedDeployment:
    return tfi.AnnotatedDeployment("chat", **{"image": IMAGE, **arguments})


def two_containers() -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "trainer", "image": IMAGE}, {"name": "evaluator", "image": IMAGE}]}}


def template_of(inputs: dict[str, Any]) -> dict[str, Any]:
    """The pod template of a workload's inputs."""
    spec = inputs["spec"]
    template: dict[str, Any] = spec["jobTemplate"]["spec"]["template"] if "jobTemplate" in spec else spec["template"]
    return template


def annotations_of(inputs: dict[str, Any]) -> dict[str, str]:
    """Our annotations on the pod template, by short key."""
    annotations = template_of(inputs).get("metadata", {}).get("annotations", {})
    return {key.removeprefix(P): value for key, value in annotations.items() if key.startswith(P)}
