"""One object as the call that declares it, with notes on what that can't carry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorfusion_iac.api.names import DEFAULT_POOL_ANNOTATION, ENABLED_LABEL, is_system_key
from tensorfusion_iac.cli.objects import Object
from tensorfusion_iac.cli.source.literals import Call, Name
from tensorfusion_iac.cli.source.server_defaults import drop_defaults, is_from_a_server
from tensorfusion_iac.cli.source.spec_fields import get, take, taken, without_nulls
from tensorfusion_iac.cli.source.spec_tables import POOL, PROFILE, TRANSFORMED, WORKLOADS, Workload
from tensorfusion_iac.cli.source.vgpu_source import take_annotations, take_profile_fields, vgpu_call
from tensorfusion_iac.cli.yaml_text import plain

_OF_THE_SERVER = (
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion",
    "selfLink", "uid",
)  # fmt: skip
_OF_OTHERS = (
    "deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation",
    "kubectl.kubernetes.io/last-applied-configuration",
)  # fmt: skip
_OF_PULUMI = "pulumi.com/"
_NOT_IN_A_CONTAINER_NAME = re.compile(r"[^a-z0-9-]+")
_ONE_CONTAINER = ("image", "command", "args", "env", "ports", "resources")


@dataclass(frozen=True, slots=True)
class References:
    """The variables of objects that others refer to: pools by name, profiles by namespace and name."""

    pools: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[tuple[str, str], str] = field(default_factory=dict)


@dataclass(slots=True)
class Declared:
    """A call that declares an object, and what it leaves out or adds."""

    call: Call
    notes: list[str]


def declare(item: Object, name: str, references: References) -> Declared | None:
    """The object as a call, under the resource name `name`; None if it is of no kind that we declare."""
    raw: dict[str, Any] = without_nulls(plain(item.raw))
    notes: list[str] = []
    from_a_server = is_from_a_server(raw.get("metadata") or {})
    metadata = _metadata(raw, notes)
    spec = raw.pop("spec", {})
    if from_a_server and isinstance(spec, dict) and (count := drop_defaults(item.kind, metadata, spec)):
        notes.append(f"{count} values that the API server fills in are left out: a defaulted field, or a mark of its own")
    kind = (item.api_version, item.kind)
    if "name" not in metadata and "generateName" not in metadata:
        notes.append(f"the manifest gives it no name; it is called {name}")
    if "status" in raw:
        notes.append("status is left out: the cluster writes it")
    workload = WORKLOADS.get(kind)
    if workload is not None and isinstance(get(spec, workload.template), dict):
        call = _workload(workload, item, name, metadata, spec, references, notes)
    elif kind in TRANSFORMED:
        call = _transformed(TRANSFORMED[kind], name, metadata, spec, notes)
    elif item.group == "tensor-fusion.ai":
        call = _own(item, name, metadata, spec, raw, references, notes)
    else:
        return None
    return Declared(call, notes)


def _metadata(raw: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """The metadata without what the server, kubectl and pulumi write."""
    metadata = raw.pop("metadata", None) or {}
    written = [key for key in _OF_THE_SERVER if metadata.pop(key, None) is not None]
    if written:
        is_left_out = "is left out: the cluster writes it" if len(written) == 1 else "are left out: the cluster writes them"
        notes.append(f"metadata.{', '.join(written)} {is_left_out}")
    annotations = metadata.get("annotations") or {}
    for key in list(annotations):
        if key in _OF_OTHERS or key.startswith(_OF_PULUMI):
            notes.append(f"the annotation {key} is left out: it is a tool's own")
            del annotations[key]
    for part in ("labels", "annotations"):
        if part in metadata and not metadata[part]:
            del metadata[part]
    return metadata


def _workload(
    workload: Workload,
    item: Object,
    name: str,
    metadata: dict[str, Any],
    spec: dict[str, Any],
    references: References,
    notes: list[str],
) -> Call:
    template = take(spec, workload.template)
    values = _take_vgpu(template, notes)
    words: dict[str, Any] = {}
    namespace = metadata.pop("namespace", None)
    if namespace is not None:
        words["namespace"] = namespace
    if workload.restart_policy is not None and "restartPolicy" not in (template.get("spec") or {}):
        notes.append(f"the pods get restartPolicy: {workload.restart_policy}, since a {item.kind} needs one")
    fields = taken(spec, workload.fields)
    simple = _simple_pods(workload, name, metadata, template, fields)
    if metadata.get("name") == name and workload.component != "AnnotatedJob":
        del metadata["name"]
    if metadata:
        words["metadata"] = metadata
    words |= fields
    words |= simple if simple is not None else {"pod_template": template}
    profile = references.profiles.get((item.namespace, str(values.get("workload-profile"))))
    if profile is not None:
        del values["workload-profile"]
        words["workload_profile"] = Name(profile)
    pool = references.pools.get(str(values.get("gpupool")))
    if pool is not None:
        del values["gpupool"]
        words["gpupool"] = Name(pool)
    if values:
        words["vgpu"] = vgpu_call(values)
    if spec:
        words["spec"] = spec
    return Call(f"tfi.{workload.component}", (name,), words)


def _take_vgpu(template: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Take the label and the annotations, which the component writes, out of a template; values by short key."""
    metadata = template.setdefault("metadata", {})
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    labels.pop(ENABLED_LABEL, None)
    values = take_annotations(annotations)
    for key in [key for key in annotations if is_system_key(key)]:
        notes.append(f"the pods' annotation {key} is left out: only the system writes it")
        del annotations[key]
    metadata.pop("creationTimestamp", None)
    for part in ("labels", "annotations"):
        if part in metadata and not metadata[part]:
            del metadata[part]
    if not metadata:
        del template["metadata"]
    return values


def _simple_pods(
    workload: Workload, name: str, metadata: dict[str, Any], template: dict[str, Any], fields: dict[str, Any]
) -> dict[str, Any] | None:
    """The pods by `image=` or `containers=`, if the component fills in exactly the rest; else None.

    Takes the labels out of `metadata`, and the selector out of `fields`, where the component writes them.
    """
    inside = template.get("metadata", {})
    labels, around = inside.get("labels") or {}, metadata.get("labels") or {}
    if set(inside) - {"labels", "annotations"} or set(template) - {"metadata", "spec"}:
        return None
    if workload.selects and fields.get("selector") != {"matchLabels": {"app": labels.get("app")}}:
        return None
    own = {"app": name} if workload.selects else {}
    if not (labels == around or (labels == own and not around)):
        return None
    words: dict[str, Any] = {}
    if labels == around and labels:
        words["labels"] = metadata.pop("labels")
    fields.pop("selector", None)
    if inside.get("annotations"):
        words["pod_annotations"] = inside["annotations"]
    spec = dict(template.get("spec") or {})
    if workload.restart_policy is not None and spec.get("restartPolicy") == workload.restart_policy:
        del spec["restartPolicy"]
    containers = spec.pop("containers", [])
    one = _one_container(name, containers)
    words |= one if one is not None else {"containers": containers}
    if spec:
        words["pod_spec"] = spec
    return words


def _one_container(name: str, containers: list[Any]) -> dict[str, Any] | None:
    """A single container by arguments, if it is called as the component would call it."""
    if len(containers) != 1 or not isinstance(containers[0], dict):
        return None
    container = dict(containers[0])
    if container.pop("name", None) != _container_name(name) or set(container) - set(_ONE_CONTAINER) or "image" not in container:
        return None
    if isinstance(container.get("ports"), list):
        container["ports"] = [_port(port) for port in container["ports"]]
    if _is_plain_env(container.get("env")):
        container["env"] = {entry["name"]: entry["value"] for entry in container["env"]}
    return {key: container[key] for key in _ONE_CONTAINER if key in container}


def _container_name(name: str) -> str:
    return _NOT_IN_A_CONTAINER_NAME.sub("-", name.lower()).strip("-")[:63].strip("-") or "main"


def _port(port: Any) -> Any:
    number = port.get("containerPort") if isinstance(port, dict) and len(port) == 1 else None
    return number if type(number) is int else port


def _is_plain_env(env: Any) -> bool:
    if not isinstance(env, list) or not all(isinstance(entry, dict) and set(entry) == {"name", "value"} for entry in env):
        return False
    texts = all(isinstance(text, str) for entry in env for text in entry.values())
    return bool(env) and texts and len({entry["name"] for entry in env}) == len(env)


def _transformed(function: str, name: str, metadata: dict[str, Any], spec: dict[str, Any], notes: list[str]) -> Call:
    template = {"metadata": metadata, "spec": spec} if function.endswith(".Pod") else spec.get("template")
    values = _take_vgpu(template, notes) if isinstance(template, dict) else {}
    annotate = Call("tfi.annotate", (vgpu_call(values),))
    words = {"metadata": metadata, "spec": spec}
    return Call(function, (name,), {**words, "opts": Call("pulumi.ResourceOptions", (), {"transformations": [annotate]})})


def _own(
    item: Object,
    name: str,
    metadata: dict[str, Any],
    spec: dict[str, Any],
    raw: dict[str, Any],
    references: References,
    notes: list[str],
) -> Call:
    if item.kind not in ("GPUPool", "WorkloadProfile", "TensorFusionWorkload"):
        plainly = {"api_version": item.api_version, "kind": item.kind, "metadata": metadata}
        rest = {key: value for key, value in raw.items() if key not in ("apiVersion", "kind", "status")}
        return Call("k8s.apiextensions.CustomResource", (name,), plainly | ({"spec": spec} if spec else {}) | rest)
    words: dict[str, Any] = {}
    namespace = metadata.pop("namespace", None)
    if namespace is not None:
        words["namespace"] = namespace
    annotations = metadata.get("annotations") or {}
    if item.kind == "GPUPool" and annotations.get(DEFAULT_POOL_ANNOTATION) == "true":
        words["default"] = True
        del annotations[DEFAULT_POOL_ANNOTATION]
    if metadata.get("name") == name:
        del metadata["name"]
    words |= {part: metadata.pop(part) for part in ("labels", "annotations") if metadata.get(part)}
    metadata.pop("annotations", None)
    if metadata:
        words["metadata"] = metadata
    words |= _pool_words(spec, notes) if item.kind == "GPUPool" else _profile_words(spec, references)
    if spec:
        words["spec"] = spec
    return Call(f"tfi.{item.kind}", (name,), words)


def _pool_words(spec: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    words = taken(spec, POOL)
    if "default_using_local_gpu" not in words:
        notes.append("defaultUsingLocalGPU: false is written out, which it is by default")
        words = {"default_using_local_gpu": False, **words}
    if "node_selector" in words:
        words["node_selector"] = _plain_labels(words["node_selector"])
    return words


def _plain_labels(selector: Any) -> Any:
    """A node selector as a map of labels, if it is no more than that."""
    labels: dict[str, Any] = {}
    match selector:
        case {"nodeSelectorTerms": [{"matchExpressions": [*rules], **more}], **others} if rules and not more and not others:
            for rule in rules:
                match rule:
                    case {"key": key, "operator": "In", "values": [*values], **more} if values and not more and key not in labels:
                        labels[key] = values[0] if len(values) == 1 else values
                    case _:
                        return selector
            return selector if {"nodeSelectorTerms", "node_selector_terms"} & labels.keys() else labels
    return selector


def _profile_words(spec: dict[str, Any], references: References) -> dict[str, Any]:
    values = take_profile_fields(spec)
    words = taken(spec, PROFILE)
    pool = references.pools.get(str(words.get("gpupool")))
    if pool is not None:
        words["gpupool"] = Name(pool)
    return words | ({"vgpu": vgpu_call(values)} if values else {})
