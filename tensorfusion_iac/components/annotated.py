"""The base of AnnotatedDeployment, AnnotatedStatefulSet, AnnotatedJob and AnnotatedCronJob (API.md).

The child is an ordinary pulumi_kubernetes resource with the component's name, registered here and never inside an apply.
By its alias a plain resource of that name, already in the stack, moves in as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pulumi
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs, ObjectMetaArgsDict

from tensorfusion_iac.components.asking import shown
from tensorfusion_iac.components.component import Component, subject
from tensorfusion_iac.components.gpupool import GPUPool
from tensorfusion_iac.components.inputs import is_deferred, never_known
from tensorfusion_iac.components.judge import Verdict
from tensorfusion_iac.components.late import finish
from tensorfusion_iac.components.manifest import Manifest, read_manifest
from tensorfusion_iac.components.plan import Plan, plan
from tensorfusion_iac.components.pods import Json, PodArguments
from tensorfusion_iac.components.requested import Requested
from tensorfusion_iac.components.shape import Shape
from tensorfusion_iac.components.vgpu import VGPU
from tensorfusion_iac.components.waiting import tell_why
from tensorfusion_iac.components.workload_profile import WorkloadProfile


class WorkloadArguments(PodArguments, total=False):
    """What every workload component takes, beside the pods and the fields of its own kind."""

    vgpu: VGPU
    gpupool: pulumi.Input[str] | GPUPool
    workload_profile: pulumi.Input[str] | WorkloadProfile
    enabled: pulumi.Input[bool]
    wait: bool
    timeout_s: float
    namespace: pulumi.Input[str]
    metadata: pulumi.Input[ObjectMetaArgs | ObjectMetaArgsDict | Json]
    labels: pulumi.Input[Mapping[str, pulumi.Input[str]]]
    annotations: pulumi.Input[Mapping[str, pulumi.Input[str]]]
    pod_annotations: pulumi.Input[Mapping[str, pulumi.Input[str]]]


class AnnotatedWorkload(Component):
    """A workload whose pods ask for vGPUs.

    `name` and `namespace` come from the object itself; `requested` says what all of it asks for; `resource` is the child
    (None only where problems are being collected).
    """

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]
    requested: pulumi.Output[Requested]
    resource: pulumi.CustomResource | None

    SHAPE: ClassVar[Shape]
    ARGUMENTS: ClassVar[tuple[str, ...]]

    def __init__(self, resource_name: str, arguments: Mapping[str, Any], opts: pulumi.ResourceOptions | None) -> None:
        planned = plan(self.SHAPE, self.ARGUMENTS, resource_name, arguments)
        super().__init__(resource_name, {} if planned.problems else _inputs(arguments, planned), opts)
        self.resource = None
        naming = planned.known.naming

        def report(verdict: Verdict) -> None:
            new = [warning for warning in verdict.warnings if warning not in planned.warnings]
            self._report_late(verdict.problems, new, naming)

        self._warn(planned.warnings, naming)
        if planned.problems:
            self._refuse(planned.problems, naming)
            self.name, self.namespace, self.requested = never_known(), never_known(), never_known()
            return
        spec, self.requested = finish(planned, report, self._registered)
        self.resource = child = self._create(resource_name, planned.metadata, spec, _child_opts(self, planned))
        metadata: pulumi.Output[Mapping[str, Any]] = child.metadata  # type: ignore[attr-defined]
        self.name = metadata.apply(lambda known: known["name"])
        self.namespace = metadata.apply(lambda known: known["namespace"])
        self.register_outputs({"name": self.name, "namespace": self.namespace, "requested": self.requested})

    def _create(self, name: str, metadata: Any, spec: Any, opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
        """Register the child. Each kind does."""
        raise TypeError(f"{type(self).__name__} has no kind of its own")

    @classmethod
    def _read(cls, resource_name: str, manifest: Manifest, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments that say what the manifest says, and `arguments` over them."""
        read = read_manifest(manifest, cls.SHAPE.kind, cls.SHAPE.api_version, subject(cls.__name__, resource_name))
        return {**read, **arguments}


def _inputs(arguments: Mapping[str, Any], planned: Plan) -> dict[str, Any]:
    inputs = {**shown(arguments, planned.asked), "image": arguments.get("image"), "pods": planned.pods}
    return {name: value for name, value in inputs.items() if value is not None}


def _child_opts(component: AnnotatedWorkload, planned: Plan) -> pulumi.ResourceOptions:
    timeout = f"{planned.timeout_s:g}s" if planned.timeout_s is not None else None
    named = is_deferred(planned.metadata) or "name" in planned.metadata
    return pulumi.ResourceOptions(
        parent=component,
        aliases=[pulumi.Alias(name=component.pulumi_resource_name, parent=pulumi.ROOT_STACK_RESOURCE)],
        # The provider asks for this itself where it replaces a named object; the engine's own replacements would collide.
        delete_before_replace=True if named else None,
        custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout) if timeout else None,
        hooks=tell_why(component, planned.shape.kind) if planned.waits else None,
    )
