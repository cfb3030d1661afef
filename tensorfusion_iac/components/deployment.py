"""`AnnotatedDeployment`: a Deployment whose pods ask for vGPUs (API.md)."""

from __future__ import annotations

from typing import Any, Self, Unpack

import pulumi
import pulumi_kubernetes as k8s
from pulumi_kubernetes.apps.v1 import DeploymentSpecArgs, DeploymentSpecArgsDict
from pulumi_kubernetes.meta.v1 import LabelSelectorArgs, LabelSelectorArgsDict

from tensorfusion_iac.components.annotated import AnnotatedWorkload, WorkloadArguments
from tensorfusion_iac.components.manifest import Manifest
from tensorfusion_iac.components.pods import Json
from tensorfusion_iac.components.shape import Shape


class DeploymentArguments(WorkloadArguments, total=False):
    """Arguments of AnnotatedDeployment. `spec` is for whatever has no argument of its own."""

    replicas: pulumi.Input[int]
    strategy: pulumi.Input[k8s.apps.v1.DeploymentStrategyArgs | k8s.apps.v1.DeploymentStrategyArgsDict | Json]
    selector: pulumi.Input[LabelSelectorArgs | LabelSelectorArgsDict | Json]
    min_ready_seconds: pulumi.Input[int]
    progress_deadline_seconds: pulumi.Input[int]
    revision_history_limit: pulumi.Input[int]
    paused: pulumi.Input[bool]
    spec: DeploymentSpecArgs | DeploymentSpecArgsDict | Json


class AnnotatedDeployment(AnnotatedWorkload):
    """A Deployment whose pods ask for vGPUs. Leave `replicas` out where an autoscaler sets them."""

    SHAPE = Shape(
        kind="Deployment",
        api_version="apps/v1",
        spec_args=DeploymentSpecArgs,
        template=("template",),
        pods=("replicas",),
        spec_fields={
            "replicas": ("replicas",),
            "strategy": ("strategy",),
            "selector": ("selector",),
            "min_ready_seconds": ("minReadySeconds",),
            "progress_deadline_seconds": ("progressDeadlineSeconds",),
            "revision_history_limit": ("revisionHistoryLimit",),
            "paused": ("paused",),
        },
        required={},
        selects=True,
    )
    ARGUMENTS = tuple(DeploymentArguments.__annotations__)

    def __init__(
        self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None, **arguments: Unpack[DeploymentArguments]
    ) -> None:
        super().__init__(resource_name, arguments, opts)

    @classmethod
    def from_manifest(
        cls,
        resource_name: str,
        manifest: Manifest,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **arguments: Unpack[DeploymentArguments],
    ) -> Self:
        """The Deployment of a manifest (a path, text or a mapping), with `arguments` over what it says."""
        return cls(resource_name, opts=opts, **cls._read(manifest, arguments))

    def _create(self, name: str, metadata: Any, spec: Any, opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
        return k8s.apps.v1.Deployment(name, metadata=metadata, spec=spec, opts=opts)
