"""Why a workload did not become ready in time: the webhook's and the scheduler's reasons, shown on the component (API.md).

The provider reports the Deployment's own conditions only. So when its wait fails, the cluster is asked once for the pods'
conditions and the warnings about them, with the access that the provider has. Whatever cannot be read is not shown: the
provider's error stands by itself.
"""

from __future__ import annotations

import asyncio
import re
import urllib.parse
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.runtime import settings
from pulumi.runtime.proto import resource_pb2

from tensorfusion_iac.components.component import Component
from tensorfusion_iac.components.provider_access import UNREADABLE, credentials_of, get_json
from tensorfusion_iac.kube.credentials import Credentials

_POD = re.compile(r'"[^" ]+-[a-z0-9]{5}"')  # all that tells two pods of one refusal apart
_COMBINED = "(combined from similar events): "  # Kubernetes' own remark
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Workload:
    """The object that was waited for. `selector` is of its pods, in the form of a label query."""

    kind: str
    name: str
    namespace: str
    selector: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What the cluster holds about a workload, as raw JSON: its pods, its ReplicaSets, its namespace's warnings."""

    pods: tuple[Mapping[str, Any], ...]
    replica_sets: tuple[Mapping[str, Any], ...]
    warnings: tuple[Mapping[str, Any], ...]


def reasons(workload: Workload, seen: Seen) -> list[str]:
    """Why pods are missing or not ready, each reason once: refused creations first, then pods that were not scheduled."""
    ours = {item["metadata"]["uid"] for item in (*seen.pods, *seen.replica_sets)}
    refused = [
        f"{warning.get('reason')}: {warning.get('message')}"
        for warning in sorted(seen.warnings, key=_last_seen)
        if _is_about(warning.get("involvedObject") or {}, workload, ours) and warning.get("reason") != "FailedScheduling"
    ]
    unscheduled = [
        f"{condition.get('reason')}: {condition['message']}"
        for pod in seen.pods
        for condition in (pod.get("status") or {}).get("conditions") or []
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True" and condition.get("message")
    ]
    each_once: dict[str, str] = {}
    for reason in [*refused, *unscheduled]:
        plain = reason.replace(_COMBINED, "")
        each_once.setdefault(_POD.sub("", plain), plain)
    return list(each_once.values())[:_SHOWN]


def _is_about(involved: Mapping[str, Any], workload: Workload, ours: Container[object]) -> bool:
    return involved.get("uid") in ours or (involved.get("kind"), involved.get("name")) == (workload.kind, workload.name)


def _last_seen(event: Mapping[str, Any]) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def tell_why(component: Component, kind: str) -> pulumi.ResourceHookBinding | None:
    """Options for the child of `component` by which a failed wait is explained; None where nothing will be waited for."""
    if pulumi.runtime.is_dry_run() or not _has_error_hooks():
        return None

    async def explain(args: Any) -> bool:
        workload = _workload(kind, args.new_inputs or {})
        if workload is not None:
            await tell(component, await _reasons_in_cluster(component, workload))
        return False  # do not try again

    return pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(f"why-{kind}-{component.pulumi_resource_name}", explain)])


async def tell(component: pulumi.Resource, reasons: Iterable[str]) -> None:
    """Log the reasons on the component, and return when they are sent: the engine may interrupt the program at its next word."""
    for reason in reasons:
        pulumi.log.error(reason, component)
    await asyncio.ensure_future(component.urn.future())  # as each log does, which began before


def _has_error_hooks() -> bool:
    """Error hooks are younger than the oldest pulumi that this package works with."""
    feature = getattr(resource_pb2, "RESOURCE_MONITOR_FEATURE_ERROR_HOOKS", None)
    return feature is not None and settings.monitor_supports_feature(feature)


def _workload(kind: str, inputs: Mapping[str, Any]) -> Workload | None:
    metadata, spec = inputs.get("metadata") or {}, inputs.get("spec") or {}
    labels = (spec.get("selector") or {}).get("matchLabels") or {"batch.kubernetes.io/job-name": metadata.get("name")}
    if not metadata.get("name"):
        return None
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    return Workload(kind, metadata["name"], metadata.get("namespace") or "default", selector)


async def _reasons_in_cluster(component: Component, workload: Workload) -> list[str]:
    try:
        credentials = await credentials_of(component, "kubernetes:apps/v1:Deployment")
        return reasons(workload, await asyncio.to_thread(_see, credentials, workload))
    except UNREADABLE as error:
        pulumi.log.debug(f"why {workload.kind} {workload.name} is not ready could not be read: {error}", component)
        return []


def _see(credentials: Credentials, workload: Workload) -> Seen:
    namespace = urllib.parse.quote(workload.namespace)
    selected = urllib.parse.urlencode({"labelSelector": workload.selector})
    warnings = urllib.parse.urlencode({"fieldSelector": "type=Warning"})
    return Seen(
        _items(credentials, f"/api/v1/namespaces/{namespace}/pods?{selected}"),
        _items(credentials, f"/apis/apps/v1/namespaces/{namespace}/replicasets?{selected}"),
        _items(credentials, f"/api/v1/namespaces/{namespace}/events?{warnings}"),
    )


def _items(credentials: Credentials, path: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(get_json(credentials, path)["items"])
