"""Whether objects have the shape in which they are read next: those of a dump by scheduling, manifests by `import`.

An API server has checked what it prints. A file may have been written or edited by hand, and what has another shape is named
with its field. Only fields that are read are judged, and only their shape: what they say is judged where they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from tensorfusion_iac.api.model_problems import Location, path_of, problems_of
from tensorfusion_iac.api.problem import Problem
from tensorfusion_iac.api.resources.base import Tflops, Vram
from tensorfusion_iac.api.values import MAX_INT32
from tensorfusion_iac.cli.objects import Object
from tensorfusion_iac.cli.pod_templates import template_of
from tensorfusion_iac.cli.yaml_text import plain

_Index = Annotated[int, Field(ge=-1, le=MAX_INT32)]
_AS_LIST = Field(strict=False)
_Slice = Annotated[int, Field(ge=0, le=MAX_INT32)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, alias_generator=to_camel)


class _Metadata(_Part):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    creation_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Named(_Part):
    metadata: _Metadata | None = None


class _Object(_Named):
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


class _Capacity(_Part):
    tflops: Tflops | None = None
    vram: Vram | None = None


class _Peer(_Part):
    peer_uuid: str | None = Field(default=None, alias="peerUUID")


class _Links(_Part):
    peers: Annotated[tuple[_Peer, ...], _AS_LIST] | None = None


class _Instance(_Part):
    template: str = ""
    start: _Slice = 0
    size: _Slice = 1
    uuid: str = ""
    pod_uid: str | None = Field(default=None, alias="podUID")


class _Card(_Part):
    uuid: str | None = None
    node_name: str | None = None
    model: str | None = None
    gpu_model: str | None = None
    vendor: str | None = None
    index: _Index = -1
    numa_node: _Index = -1
    capacity: _Capacity | None = None
    capabilities: dict[str, Any] | None = None
    nv_link: _Links | None = None
    partitions: Annotated[tuple[_Instance, ...], _AS_LIST] | None = None


class _Resources(_Part):
    limits: dict[str, Any] | None = None
    requests: dict[str, Any] | None = None


class _Container(_Part):
    resources: _Resources | None = None


class _GPU(_Object):
    status: _Card | None = None  # type: ignore[assignment]


class _NodeSpec(_Part):
    pool_name: str | None = None


class _NodeStatus(_Part):
    injection_tier: str | None = None


class _GPUNode(_Object):
    spec: _NodeSpec | None = None  # type: ignore[assignment]
    status: _NodeStatus | None = None  # type: ignore[assignment]


_OTHERS = ("GPUPool", "GPUResourceQuota", "WorkloadProfile", "Namespace", "Node", "Lease", "Pod")
_MODELS: Mapping[str, type[_Named]] = {"GPU": _GPU, "GPUNode": _GPUNode, **dict.fromkeys(_OTHERS, _Object)}


def problems_in_dump(raw: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with the shape of one object of a dump (plain values), by camelCase path."""
    yield from (problem for _, problem in _problems(_MODELS.get(str(raw.get("kind")), _Named), raw))


def problems_in_manifest(item: Object) -> Iterator[tuple[int, Problem]]:
    """What is wrong with the shape of an object that is to be taken apart: line (0: not known), and by camelCase path what."""
    for place, problem in _of_parts(item):
        yield item.line_of(place), problem


def _of_parts(item: Object) -> Iterator[tuple[Location, Problem]]:
    yield from _problems(_Named, plain(item.raw))
    template = template_of(item)
    if template is None or not isinstance(template.pod, Mapping):
        return
    if template.path:
        yield from _problems(_Named, plain(template.pod), template.path)
    spec = template.pod.get("spec")
    for group in ("initContainers", "containers"):
        listed = spec.get(group) if isinstance(spec, Mapping) else None
        for index, container in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(container, Mapping):
                yield from _problems(_Container, plain(container), (*template.path, "spec", group, index))


def _problems(model: type[BaseModel], raw: Any, inside: Location = ()) -> Iterator[tuple[Location, Problem]]:
    try:
        model.model_validate(raw)
    except ValidationError as error:
        for place, problem in problems_of(error):
            whole = (*inside, *place)
            yield whole, replace(problem, field=path_of(whole))
