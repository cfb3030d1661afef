"""`annotate`: what AnnotatedDeployment does, for any workload resource of a program or a chart (API.md).

As `transformations=` it sees the arguments as the program gave them; as `transforms=`, which charts need since their
resources are made by the provider, it sees them as the engine does, in manifest form. It acts on workload kinds only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pulumi
import pulumi_kubernetes.apps.v1 as apps
import pulumi_kubernetes.batch.v1 as batch
import pulumi_kubernetes.core.v1 as core
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs

from tensorfusion_iac.api.annotations import one_source_problems
from tensorfusion_iac.api.fields import BY_KEY
from tensorfusion_iac.api.problem import Fault, Problem
from tensorfusion_iac.api.written import as_text
from tensorfusion_iac.components.camel import camel
from tensorfusion_iac.components.component import subject
from tensorfusion_iac.components.errors import SpecError
from tensorfusion_iac.components.inputs import is_deferred, is_known, when_known
from tensorfusion_iac.components.shape import Path, get_path, with_path
from tensorfusion_iac.components.template import annotated_template
from tensorfusion_iac.components.vgpu import VGPU, argument_naming

_WORKLOADS: Mapping[str, tuple[type, Path]] = {
    "kubernetes:apps/v1:Deployment": (apps.DeploymentSpecArgs, ("template",)),
    "kubernetes:apps/v1:StatefulSet": (apps.StatefulSetSpecArgs, ("template",)),
    "kubernetes:apps/v1:DaemonSet": (apps.DaemonSetSpecArgs, ("template",)),
    "kubernetes:apps/v1:ReplicaSet": (apps.ReplicaSetSpecArgs, ("template",)),
    "kubernetes:core/v1:ReplicationController": (core.ReplicationControllerSpecArgs, ("template",)),
    "kubernetes:batch/v1:Job": (batch.JobSpecArgs, ("template",)),
    "kubernetes:batch/v1:CronJob": (batch.CronJobSpecArgs, ("jobTemplate", "spec", "template")),
    "kubernetes:core/v1:Pod": (core.PodSpecArgs, ()),
}
"""Workload kinds by pulumi's type: what their spec is, and where in it the pod template is; a Pod is its own."""

Bag = pulumi.ResourceTransformationArgs | pulumi.ResourceTransformArgs
Result = pulumi.ResourceTransformationResult | pulumi.ResourceTransformResult


def annotate(vgpu: VGPU, *, only: Collection[str] | None = None) -> Callable[[Any], Any]:
    """A function for `transformations=` or `transforms=` that puts `vgpu` on the workloads it sees.

    `only` are names (of the resource, or of its object) to act on; None: all. Raises SpecError at once for values that no pod
    can have, and where it acts for what a pod template cannot have.
    """
    given: object = vgpu
    if not isinstance(given, VGPU):
        raise SpecError("annotate", [Problem("vgpu", type(given).__name__, "a tensorfusion_iac.VGPU")])
    problems = _problems(vgpu)
    if problems:
        raise SpecError("annotate", problems, lambda key: f"vgpu.{argument_naming(key)}")
    wanted = None if only is None else frozenset([only] if isinstance(only, str) else only)

    def act(bag: Bag) -> Result | None:
        if bag.type_ not in _WORKLOADS:
            return None
        props = dict(bag.props)
        if wanted is not None and not wanted & {bag.name, *_object_names(props)}:
            return None
        named = subject(bag.type_.rpartition(":")[2], bag.name)
        if isinstance(bag, pulumi.ResourceTransformationArgs):
            return pulumi.ResourceTransformationResult(_annotated(props, bag.type_, vgpu, named), bag.opts)
        try:
            return pulumi.ResourceTransformResult(_annotated(props, bag.type_, vgpu, named), bag.opts)
        except SpecError as error:
            _end_program(error)
            if pulumi.runtime.is_dry_run():
                return None
            raise

    return act


def _end_program(error: SpecError) -> None:
    """Make the program fail with this error. What a transform raises reaches the user only as the text of a failed call, with
    a traceback; it is raised all the same where the resource would be made.
    """

    def fail(_: None) -> None:
        raise error

    pulumi.Output.from_input(None).apply(fail)


def _problems(vgpu: VGPU) -> list[Problem]:
    """What is wrong with the known values by themselves, and with each other."""
    found: list[Problem] = []
    parsed: dict[str, Any] = {}
    for key, value in vgpu.values().items():
        if not is_known(value):
            continue
        try:
            parsed[key] = BY_KEY[key].parse(as_text(key, value))
        except Fault as fault:
            found.append(fault.at(key))
    return found + one_source_problems(parsed)


def _object_names(props: Mapping[str, Any]) -> set[str]:
    metadata = camel(props.get("metadata"), ObjectMetaArgs)
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return {name} if isinstance(name, str) else set()


def _annotated(props: Mapping[str, Any], kind: str, vgpu: VGPU, named: str) -> dict[str, Any]:
    spec_args, path = _WORKLOADS[kind]
    if not path:
        own = {key: props[key] for key in ("metadata", "spec") if props.get(key) is not None}
        pod = annotated_template(own, vgpu, subject=named)
        return {**props, "metadata": pod["metadata"], "spec": pod["spec"]}

    def in_spec(spec: Any) -> Any:
        tree = camel(spec, spec_args)
        template = get_path(tree, path)
        return spec if template is None else with_path(tree, path, annotated_template(template, vgpu, subject=named))

    spec = props.get("spec")
    return {**props, "spec": when_known(spec, in_spec) if is_deferred(spec) else in_spec(spec)}
