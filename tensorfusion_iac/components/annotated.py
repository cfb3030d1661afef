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
from tensorfusion_iac.components.camel import camel
from tensorfusion_iac.components.component import Component, of_metadata, root_urn
from tensorfusion_iac.components.gpupool import GPUPool
from tensorfusion_iac.components.inputs import already, is_deferred, never_known
from tensorfusion_iac.components.judge import Verdict
from tensorfusion_iac.components.late import finish
from tensorfusion_iac.components.manifest import Manifest, read_manifest
from tensorfusion_iac.components.plan import Plan, plan
from tensorfusion_iac.components.pods import Json, PodArguments
from tensorfusion_iac.components.requested import Requested
from tensorfusion_iac.components.shape import Shape, laid_over
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
    """A workload whose pods ask for vGPUs. `resource` is the child (None only where problems are being collected)."""

    resource: pulumi.CustomResource | None

    SHAPE: ClassVar[Shape]
    ARGUMENTS: ClassVar[tuple[str, ...]]

    def __init__(self, resource_name: str, arguments: Mapping[str, Any], opts: pulumi.ResourceOptions | None) -> None:
        planned = plan(self.SHAPE, self.ARGUMENTS, resource_name, arguments)
        super().__init__(resource_name, shown(arguments, planned.asked), opts)
        self.resource = None
        self._total: Requested | pulumi.Output[Requested] | None = None
        naming = planned.known.naming

        def report(verdict: Verdict) -> None:
            new = [warning for warning in verdict.warnings if warning not in planned.warnings]
            self._report_late(verdict.problems, new, naming)

        self._warn(planned.warnings, naming)
        if planned.problems:
            self._refuse(planned.problems, naming)
            return
        spec, self._total = finish(planned, report, self._registered)
        self.resource = self._create(resource_name, planned.metadata, spec, _child_opts(self, planned, opts))
        # No register_outputs: the engine writes the whole state once more for each call, in previews too, which is what a
        # program of many workloads then waits for (P7). Nothing reads a component's outputs from the state.

    # Made when they are asked for: an Output costs a program of many workloads more than all that is decided above (P7).

    @property
    def name(self) -> pulumi.Output[str]:
        """The object's name, from the object itself."""
        return of_metadata(self.resource, "name")

    @property
    def namespace(self) -> pulumi.Output[str]:
        """The object's namespace, from the object itself."""
        return of_metadata(self.resource, "namespace")

    @property
    def requested(self) -> pulumi.Output[Requested]:
        """What the whole workload asks for: demand x GPUs x replicas."""
        if self._total is None:
            return never_known()
        return self._total if isinstance(self._total, pulumi.Output) else already(self._total)

    def _create(self, name: str, metadata: Any, spec: Any, opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
        """Register the child. Each kind does."""
        raise TypeError(f"{type(self).__name__} has no kind of its own")

    @classmethod
    def _read(cls, manifest: Manifest, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments that say what the manifest says, and `arguments` over them."""
        read = read_manifest(manifest, cls.SHAPE.kind, cls.SHAPE.api_version)
        metadata = camel(arguments.get("metadata"), ObjectMetaArgs) or {}
        if "metadata" in read and not is_deferred(metadata):
            own = dict(read["metadata"])
            if arguments.get("namespace") is not None:
                own.pop("namespace", None)
            return {**read, **arguments, "metadata": laid_over(own, metadata)}
        return {**read, **arguments}


def _child_opts(component: AnnotatedWorkload, planned: Plan, opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions:
    named = is_deferred(planned.metadata) or "name" in planned.metadata
    return pulumi.ResourceOptions(
        parent=component,
        aliases=[root_urn(planned.shape.type_token, component.pulumi_resource_name)],
        # The provider asks for this itself where it replaces a named object; the engine's own replacements would collide.
        delete_before_replace=True if named else None,
        custom_timeouts=_timeouts(planned, opts.custom_timeouts if opts is not None else None),
        hooks=tell_why(component, planned.shape.kind) if planned.waits else None,
    )


def _timeouts(planned: Plan, given: pulumi.CustomTimeouts | None) -> pulumi.CustomTimeouts | None:
    """The component's own, which Pulumi hands to no child; `timeout_s` goes first."""
    if planned.timeout_s is None:
        return given
    timeout = f"{planned.timeout_s:g}s"
    return pulumi.CustomTimeouts(create=timeout, update=timeout, delete=given.delete if given is not None else None)
