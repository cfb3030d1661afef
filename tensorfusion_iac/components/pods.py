"""A pod template from the usual arguments: image, args, command, env, ports, containers (API.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import pulumi
from pulumi_kubernetes.core.v1 import (
    ContainerArgs,
    ContainerArgsDict,
    ContainerPortArgs,
    EnvVarArgs,
    EnvVarSourceArgs,
    PodSpecArgs,
    PodSpecArgsDict,
    PodTemplateSpecArgs,
    PodTemplateSpecArgsDict,
    ResourceRequirementsArgs,
    ResourceRequirementsArgsDict,
)

from tensorfusion_iac.api.problem import Problem, quote
from tensorfusion_iac.components.camel import camel
from tensorfusion_iac.components.inputs import is_deferred, when_known

Json = Mapping[str, Any]
Strings = pulumi.Input[Sequence[pulumi.Input[str]]]


class PodArguments(TypedDict, total=False):
    """The pods: one container by `image` and what goes with it, or `containers`, or a whole `pod_template`."""

    image: pulumi.Input[str]
    command: Strings
    args: Strings
    env: pulumi.Input[Mapping[str, pulumi.Input[str] | Json] | Sequence[EnvVarArgs | Json]]
    ports: pulumi.Input[Sequence[pulumi.Input[int] | Json]]
    resources: pulumi.Input[ResourceRequirementsArgs | ResourceRequirementsArgsDict | Json]
    containers: pulumi.Input[Sequence[pulumi.Input[ContainerArgs | ContainerArgsDict | Json]]]
    pod_spec: pulumi.Input[PodSpecArgs | PodSpecArgsDict | Json]
    pod_template: pulumi.Input[PodTemplateSpecArgs | PodTemplateSpecArgsDict | Json]


_ONE_CONTAINER = ("command", "args", "env", "ports", "resources")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9-]+")


def pod_template(arguments: Mapping[str, Any], name: str, problems: list[Problem]) -> Any:
    """The template in manifest form, or an Output where the template as a whole is known later.

    `name` becomes the name of the container that `image` describes.
    """
    given = arguments.get("pod_template")
    shape = [part for part in ("image", "containers", "pod_template") if part in arguments]
    if not shape:
        problems.append(Problem("image", "not given", "image, containers or pod_template", "{found}; give {accepted}"))
    elif len(shape) > 1:
        beside = " and ".join(shape[1:])
        problems.append(Problem(shape[0], "stands beside " + beside, "one of them", "{found}; give {accepted}"))
    if "image" not in arguments:
        problems += [
            Problem(part, "without image", "it in the container itself", "{found} it says nothing; give {accepted}")
            for part in _ONE_CONTAINER
            if part in arguments
        ]
    if given is not None:
        if "pod_spec" in arguments:
            problems.append(Problem("pod_spec", "stands beside pod_template", "one of them", "{found}; give {accepted}"))
        return camel(given, PodTemplateSpecArgs)
    spec = camel(arguments.get("pod_spec"), PodSpecArgs) or {}
    if "containers" in arguments:
        containers = camel(arguments["containers"], Sequence[ContainerArgs])
    else:
        containers = [_container(arguments, name, problems)]
    if is_deferred(spec):
        return {"spec": when_known({"spec": spec, "containers": containers}, _whole_spec)}
    return {"spec": {**spec, "containers": containers}}


def _whole_spec(parts: Json) -> dict[str, Any]:
    return {**camel(parts["spec"], PodSpecArgs), "containers": parts["containers"]}


def _container(arguments: Mapping[str, Any], name: str, problems: list[Problem]) -> dict[str, Any]:
    container: dict[str, Any] = {"name": container_name(name)}
    for part in ("image", "command", "args"):
        if part in arguments:
            container[part] = arguments[part]
    problems += [
        Problem(part, quote(arguments[part]), "a list of text", "{found} is text; give {accepted}")
        for part in ("command", "args")
        if isinstance(arguments.get(part), str)
    ]
    if "env" in arguments:
        container["env"] = _env(arguments["env"])
    if "ports" in arguments:
        container["ports"] = _ports(arguments["ports"], problems)
    if "resources" in arguments:
        container["resources"] = camel(arguments["resources"], ResourceRequirementsArgs)
    return container


def container_name(name: str) -> str:
    """A container's name made from any name: its characters that are allowed, at most 63."""
    return _NOT_IN_A_NAME.sub("-", name.lower()).strip("-")[:63].strip("-") or "main"


def _env(env: Any) -> Any:
    if is_deferred(env):
        return when_known(env, _env)
    if not isinstance(env, Mapping):
        return camel(env, Sequence[EnvVarArgs])
    return [{"name": name, **_value(value)} for name, value in env.items()]


def _value(value: Any) -> dict[str, Any]:
    return {"valueFrom": camel(value, EnvVarSourceArgs)} if isinstance(value, Mapping) else {"value": value}


def _ports(ports: Any, problems: list[Problem]) -> Any:
    if is_deferred(ports):
        return when_known(ports, lambda known: _ports(known, problems))
    if isinstance(ports, (str, int)) or not isinstance(ports, Sequence):
        problems.append(Problem("ports", f"{ports}", "a list, such as [8000]", "{found} is not {accepted}"))
        return []
    return [_port(port) for port in ports]


def _port(port: Any) -> Any:
    return {"containerPort": port} if isinstance(port, int) or is_deferred(port) else camel(port, ContainerPortArgs)
