"""Whether an object that is to be created is in the cluster already: then it is somebody else's, and not taken over in silence.

The provider creates by server-side apply, which refuses only fields that somebody else set to another value. Where all agree, or
none is set by both, the object would become the stack's, and be deleted with it. So the cluster is asked before, in a preview
too; one that cannot be read is left to the provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.runtime import settings
from pulumi.runtime.proto import resource_pb2

from tensorfusion_iac.api.names import API_VERSION
from tensorfusion_iac.components.provider_access import UNREADABLE, credentials_of, get_json
from tensorfusion_iac.kube.resource import Resource

PATCH_FORCE = "pulumi.com/patchForce"
"""The provider's annotation by which an apply takes over what others manage."""


class TakeoverError(Exception):
    """An object of somebody else's stands where one is to be created."""


def refuse_takeover(component: pulumi.Resource, kind: Resource) -> pulumi.ResourceHookBinding | None:
    """Options for the child of `component` by which its creation over an object that exists fails; None for an older pulumi."""
    if not _has_hooks():
        return None
    name = component.pulumi_resource_name

    async def refuse(args: Any) -> None:
        metadata = (args.new_inputs or {}).get("metadata")
        found = await _existing(component, kind, metadata) if isinstance(metadata, Mapping) else None
        if found is not None and not (pulumi.runtime.is_dry_run() and is_of_pulumi(found)):
            raise TakeoverError(told(kind.kind, name, found))

    hook = pulumi.ResourceHook(f"takeover-{kind.kind}-{name}", refuse, pulumi.ResourceHookOptions(on_dry_run=True))
    return pulumi.ResourceHookBinding(before_create=[hook])


def told(kind: str, resource_name: str, found: Mapping[str, Any]) -> str:
    """What is wrong, and the ways out. `found` is the object in the cluster."""
    metadata = found["metadata"]
    identity = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
    managers = ", ".join(_managers(found)) or "somebody else"
    return (
        f"{kind} {identity} is in the cluster already, managed by {managers}, and not in this stack. Choose another name, or "
        "take it over: "
        f'`pulumi import kubernetes:{API_VERSION}:{kind} {resource_name} {identity}`, or the annotation {PATCH_FORCE}: "true"'
    )


def is_of_pulumi(found: Mapping[str, Any]) -> bool:
    """Whether a stack manages the object. It may be this one: a preview of a replacement sees what goes before its successor."""
    return any(manager.startswith("pulumi-") for manager in _managers(found))


def _managers(found: Mapping[str, Any]) -> list[str]:
    fields = (entry for entry in found["metadata"].get("managedFields") or () if entry.get("subresource") != "status")
    return sorted({str(entry.get("manager")) for entry in fields})


async def _existing(component: pulumi.Resource, kind: Resource, metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The object of that name; None if there is none, if it may be taken over, or if that cannot be known."""
    name, namespace = metadata.get("name"), metadata.get("namespace")
    annotations = metadata.get("annotations")
    if isinstance(annotations, Mapping) and annotations.get(PATCH_FORCE) == "true":
        return None
    if not isinstance(name, str) or not isinstance(namespace, str | None):
        return None
    try:
        credentials = await credentials_of(component, f"kubernetes:{API_VERSION}:{kind.kind}")
        found: Mapping[str, Any] = await asyncio.to_thread(get_json, credentials, kind.path(namespace, name))
    except UNREADABLE as error:  # there is none (404), or nobody knows
        pulumi.log.debug(f"whether {kind.kind} {name} exists already could not be read, or it does not: {error}")
        return None
    return found


def _has_hooks() -> bool:
    """Resource hooks are younger than the oldest pulumi that this package works with."""
    feature = getattr(resource_pb2, "RESOURCE_MONITOR_FEATURE_RESOURCE_HOOKS", None)
    return feature is not None and settings.monitor_supports_feature(feature)
