"""What a Pulumi stack declares, as the rules read it: Kubernetes objects, vGPU workloads and what they come to. Pure.

Objects arrive as Pulumi's properties of `kubernetes:*` resources. A workload is resolved with the profiles and pools of the
same stack (`api.resolve`); what the stack doesn't hold is not judged, and a value that is not known yet is never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from tensorfusion_iac.api import UNJUDGED, Namespace, Owner, Resolution, resolve
from tensorfusion_iac.api.at_hand import pools_at_hand, profile_name
from tensorfusion_iac.api.names import GROUP
from tensorfusion_iac.api.pod_templates import pods_at_once, template_of
from tensorfusion_iac.api.resources import GPUPool, WorkloadProfile

KUBERNETES = "kubernetes:"

M = TypeVar("M", WorkloadProfile, GPUPool)


@dataclass(frozen=True, slots=True)
class Declared:
    """A resource of the stack: its URN and type token, its Kubernetes object (raw JSON), and the types of its parents.

    `unknown` are the paths that are not known yet, which `raw` is without.
    """

    urn: str
    token: str
    raw: Mapping[str, Any]
    protected: bool = False
    parents: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """`Deployment`."""
        return self.token.rpartition(":")[2]

    @property
    def group(self) -> str:
        """The API group; `core` for the core group."""
        version = self.token.removeprefix(KUBERNETES).rpartition(":")[0]
        return version.partition("/")[0] if "/" in version else "core"

    @property
    def name(self) -> str:
        """The object's name; the resource's if that is not known yet."""
        return str(_metadata(self.raw).get("name") or self.urn.rpartition("::")[2])

    @property
    def namespace(self) -> str:
        """The object's namespace."""
        return str(_metadata(self.raw).get("namespace") or "default")

    @property
    def labels(self) -> Mapping[str, Any]:
        """The object's own labels."""
        return _mapping(_metadata(self.raw).get("labels"))

    @property
    def subject(self) -> str:
        """What messages call it."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def pod(self) -> Mapping[str, Any] | None:
        """The pod, or pod template, that it describes."""
        template = template_of(self.kind, self.name, self.raw)
        return template.pod if template is not None and isinstance(template.pod, Mapping) else None

    @property
    def replicas(self) -> int:
        """How many pods it runs at a time; a DaemonSet's are not known, and count as one."""
        count = pods_at_once(self.kind, self.raw)
        return 1 if count is None else count


@dataclass(frozen=True, slots=True)
class Workload:
    """An enabled vGPU workload of the stack, and what it was resolved to. `profile` is the one that it names."""

    declared: Declared
    resolution: Resolution
    profile: str | None

    @property
    def pod(self) -> Mapping[str, Any]:
        """Its pod template."""
        return self.declared.pod or {}

    @property
    def labels(self) -> Mapping[str, Any]:
        """Labels of the object and of its pods."""
        return {**_mapping(_metadata(self.pod).get("labels")), **self.declared.labels}

    @property
    def workers(self) -> int:
        """How many of its pods use GPUs at a time: fewer than its replicas in a grey release."""
        worker, replicas = self.resolution.worker, self.declared.replicas
        grey = worker.enabled_replicas if worker is not None else None
        return replicas if grey is None else min(replicas, grey)

    @property
    def images(self) -> tuple[str, ...]:
        """Images of its containers, init containers first."""
        return images(self.pod)


@dataclass(frozen=True, slots=True)
class Stack:
    """All that is declared, and the workloads among it. `deployed_images`: by URN, before this update; None if not known."""

    declared: tuple[Declared, ...]
    workloads: tuple[Workload, ...] = ()
    pools: Mapping[str, GPUPool] = field(default_factory=dict)
    profiles: frozenset[tuple[str, str]] = frozenset()
    deployed_images: Mapping[str, tuple[str, ...]] | None = None


def stack_of(declared: Iterable[Declared], deployed_images: Mapping[str, tuple[str, ...]] | None = None) -> Stack:
    """Read a stack: its profiles and pools first, then the workloads with them."""
    resources = tuple(declared)
    profiles = {(item.namespace, item.name): item for item in resources if item.group == GROUP and item.kind == "WorkloadProfile"}
    pools = {item.name: item for item in resources if item.group == GROUP and item.kind == "GPUPool"}
    known = {place: model for place, item in profiles.items() if (model := _read(WorkloadProfile, item)) is not None}
    models = {name: pool for name, item in pools.items() if (pool := _read(GPUPool, item)) is not None}
    workloads = [found for item in resources if (found := workload_of(item, known, models)) is not None]
    return Stack(resources, tuple(workloads), models, frozenset(profiles), deployed_images)


def workload_of(
    item: Declared, profiles: Mapping[tuple[str, str], WorkloadProfile], pools: Mapping[str, GPUPool]
) -> Workload | None:
    """The vGPU workload that an object declares; None if it declares none."""
    pod = item.pod
    if pod is None:
        return None
    named = profile_name(pod)
    profile = profiles.get((item.namespace, named), UNJUDGED) if named is not None else None
    found = resolve(
        pod, owner=Owner(item.kind, item.name), namespace=Namespace(item.namespace), profile=profile,
        pools=pools_at_hand(pod, profile, pools), quota=UNJUDGED,
    )  # fmt: skip
    return Workload(item, found, named) if found.enabled else None


def images(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Images of a pod's containers, init containers first. One that is not known yet is to be built, and so is another one."""
    return tuple(str(container.get("image") or "one that is not known yet") for container in containers(pod))


def containers(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All containers of a pod, init containers first."""
    spec = _mapping(pod.get("spec"))
    for group in ("initContainers", "containers"):
        listed = spec.get(group)
        yield from (one for one in (listed if isinstance(listed, list) else ()) if isinstance(one, Mapping))


def _read(kind: type[M], item: Declared) -> M | None:
    """The object as its model; None if it is wrong, for which it is refused itself."""
    try:
        return kind.model_validate(_object(item))
    except ValidationError:
        return None


def _object(item: Declared) -> dict[str, Any]:
    wanted = ("apiVersion", "kind", "metadata", "spec")
    metadata = {**_metadata(item.raw), "name": item.name}
    return {name: item.raw[name] for name in wanted if name in item.raw} | {"metadata": metadata}


def _metadata(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(raw.get("metadata"))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
