"""The rules as a Pulumi policy pack: resources come in as Pulumi's properties, violations go out on the resource's URN.

A value that is not known at preview is left out of the object and the rule says so for that object; all others are judged.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError

from tensorfusion_iac.api.pod_templates import KINDS_WITH_TEMPLATE
from tensorfusion_iac.policy.declared import KUBERNETES, Declared, Stack, images, stack_of
from tensorfusion_iac.policy.rules import OBJECT_RULES, WORKLOAD_RULES, ObjectRule, Settings, WorkloadRule

NAME = "tensorfusion"
EXPORT_PATIENCE_S = 60.0

_JUDGED = ("Pod", *KINDS_WITH_TEMPLATE)
_HARMLESS = re.compile(
    r"^(status|id)\b|[cC]ontainers\[\]\.(image$|workingDir$|command|args|env\[\]\.value$)|^metadata\.(uid|resourceVersion)"
)
"""Unknown values that no rule reads: what runs in a container, and what the server alone writes."""


def policies(deployed: Callable[[], Mapping[str, tuple[str, ...]] | None]) -> list[Policy]:
    """All rules as policies, mandatory unless the pack's configuration says otherwise. `deployed`: images by URN, or None."""
    return [*(_of_object(rule) for rule in OBJECT_RULES), *(_of_workload(rule, deployed) for rule in WORKLOAD_RULES)]


def _of_object(rule: ObjectRule) -> Policy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        if not args.resource_type.startswith(KUBERNETES):
            return
        item = declared(args)
        _raise_unknown([item])
        for message in rule.judge(item, _settings(rule, args.get_config())):
            report(f"{item.subject}: {message}", None)

    return ResourceValidationPolicy(rule.name, rule.description, validate, EnforcementLevel.MANDATORY, _schema(rule))


def _of_workload(rule: WorkloadRule, deployed: Callable[[], Mapping[str, tuple[str, ...]] | None]) -> Policy:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        items = [declared(each) for each in args.resources if each.resource_type.startswith(KUBERNETES)]
        known: Stack = stack_of((item for item in items if not _open(item)), deployed() if rule.compares else None)
        for workload in known.workloads:
            for message in rule.judge(workload, known, _settings(rule, args.get_config())):
                report(f"{workload.declared.subject}: {message}", workload.declared.urn)
        _raise_unknown(items)

    return StackValidationPolicy(rule.name, rule.description, validate, EnforcementLevel.MANDATORY, _schema(rule))


def declared(resource: ResourceValidationArgs | PolicyResource) -> Declared:
    """A Kubernetes resource of Pulumi as what the rules read. Its URN names the types of its parents."""
    unknown: list[str] = []
    raw = _plain(resource.props, "", unknown)
    types = resource.urn.split("::")[2].split("$")
    return Declared(resource.urn, resource.resource_type, raw, bool(resource.opts.protect), tuple(types[:-1]), tuple(unknown))


def deployed_images() -> Mapping[str, tuple[str, ...]] | None:
    """The images of what the stack has deployed, by URN, from `pulumi stack export`; None if that can't be read."""
    pulumi, stack = shutil.which("pulumi"), os.environ.get("PULUMI_STACK")
    if pulumi is None or stack is None:
        return None
    parts = [os.environ.get("PULUMI_ORGANIZATION") or "organization", os.environ.get("PULUMI_PROJECT") or "", stack]
    try:
        run = subprocess.run(
            [pulumi, "stack", "export", "--stack", "/".join(parts), "--non-interactive"],
            capture_output=True, text=True, timeout=EXPORT_PATIENCE_S, check=True,
        )  # fmt: skip
        return images_of(json.loads(run.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def images_of(exported: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """Images by URN of an exported stack."""
    found = {}
    for resource in (exported.get("deployment") or {}).get("resources") or ():
        if str(resource.get("type")).startswith(KUBERNETES):
            pod = Declared(resource["urn"], resource["type"], resource.get("inputs") or {}).pod
            if pod is not None:
                found[resource["urn"]] = images(pod)
    return found


def _plain(value: Any, path: str, unknown: list[str]) -> Any:
    """Pulumi's proxies as plain values; what is not known yet is left out, and its path noted."""
    if isinstance(value, Mapping):
        return dict(_members(value, path, unknown))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_item(value, index, f"{path}[]", unknown) for index in range(len(value))]
    return value


def _item(value: Sequence[Any], index: int, path: str, unknown: list[str]) -> Any:
    try:
        return _plain(value[index], path, unknown)
    except UnknownValueError:
        unknown.append(path)
        return None


def _members(value: Mapping[str, Any], path: str, unknown: list[str]) -> Iterator[tuple[str, Any]]:
    for key in value:
        where = f"{path}.{key}" if path else key
        try:
            yield key, _plain(value[key], where, unknown)
        except UnknownValueError:
            unknown.append(where)


def _open(item: Declared) -> tuple[str, ...]:
    """What is unknown and may change what the rules say of the object."""
    return tuple(path for path in item.unknown if not _HARMLESS.search(path))


def _raise_unknown(items: list[Declared]) -> None:
    """Pulumi turns this into an advice: the rule could not be applied to that object."""
    for item in items:
        if (paths := _open(item)) and item.kind in _JUDGED:
            raise UnknownValueError(UNKNOWN_STRING_VALUE, [item.subject, *paths[0].split(".")])


def _settings(rule: ObjectRule | WorkloadRule, given: Settings) -> Settings:
    return {name: given.get(name, schema.get("default")) for name, schema in rule.settings.items()}


def _schema(rule: ObjectRule | WorkloadRule) -> PolicyConfigSchema | None:
    return PolicyConfigSchema({name: dict(schema) for name, schema in rule.settings.items()}) if rule.settings else None
