"""`AnnotatedStatefulSet`: a StatefulSet whose pods ask for vGPUs (API.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, Unpack

import pulumi
import pulumi_kubernetes as k8s
from pulumi_kubernetes.apps.v1 import StatefulSetSpecArgs, StatefulSetSpecArgsDict
from pulumi_kubernetes.meta.v1 import LabelSelectorArgs, LabelSelectorArgsDict

from tensorfusion_iac.components.annotated import AnnotatedWorkload, WorkloadArguments
from tensorfusion_iac.components.manifest import Manifest
from tensorfusion_iac.components.pods import Json
from tensorfusion_iac.components.shape import Shape


class StatefulSetArguments(WorkloadArguments, total=False):
    """Arguments of AnnotatedStatefulSet. `spec` is for whatever has no argument of its own."""

    replicas: pulumi.Input[int]
    strategy: pulumi.Input[k8s.apps.v1.StatefulSetUpdateStrategyArgs | k8s.apps.v1.StatefulSetUpdateStrategyArgsDict | Json]
    selector: pulumi.Input[LabelSelectorArgs | LabelSelectorArgsDict | Json]
    service_name: pulumi.Input[str]
    volume_claim_templates: pulumi.Input[Sequence[Json]]
    pod_management_policy: pulumi.Input[str]
    min_ready_seconds: pulumi.Input[int]
    revision_history_limit: pulumi.Input[int]
    spec: StatefulSetSpecArgs | StatefulSetSpecArgsDict | Json


class AnnotatedStatefulSet(AnnotatedWorkload):
    """A StatefulSet whose pods ask for vGPUs. Leave `replicas` out where an autoscaler sets them."""

    SHAPE = Shape(
        kind="StatefulSet",
        api_version="apps/v1",
        spec_args=StatefulSetSpecArgs,
        template=("template",),
        pods=("replicas",),
        spec_fields={
            "replicas": ("replicas",),
            "strategy": ("updateStrategy",),
            "selector": ("selector",),
            "service_name": ("serviceName",),
            "volume_claim_templates": ("volumeClaimTemplates",),
            "pod_management_policy": ("podManagementPolicy",),
            "min_ready_seconds": ("minReadySeconds",),
            "revision_history_limit": ("revisionHistoryLimit",),
        },
        required={},
        selects=True,
    )
    ARGUMENTS = tuple(StatefulSetArguments.__annotations__)

    def __init__(
        self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None, **arguments: Unpack[StatefulSetArguments]
    ) -> None:
        super().__init__(resource_name, arguments, opts)

    @classmethod
    def from_manifest(
        cls,
        resource_name: str,
        manifest: Manifest,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **arguments: Unpack[StatefulSetArguments],
    ) -> Self:
        """The StatefulSet of a manifest (a path, text or a mapping), with `arguments` over what it says."""
        return cls(resource_name, opts=opts, **cls._read(manifest, arguments))

    def _create(self, name: str, metadata: Any, spec: Any, opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
        return k8s.apps.v1.StatefulSet(name, metadata=metadata, spec=spec, opts=opts)
