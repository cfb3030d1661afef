"""What each workload of a preview asks for, before and after, by the contract's own `resolve` (SPEC §3).

Where a value is known only at the deployment, the worker is not told: what could be told of it is kept apart, with the names
of the annotations that are not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tensorfusion_iac.api.annotations import annotation_naming
from tensorfusion_iac.api.at_hand import profile_name
from tensorfusion_iac.api.context import UNJUDGED
from tensorfusion_iac.api.names import ENABLED_LABEL, PREFIX
from tensorfusion_iac.api.pod_templates import Template, pod_from, pods_at_once, template_of
from tensorfusion_iac.api.resolve import resolve
from tensorfusion_iac.api.values import MAX_INT32
from tensorfusion_iac.api.worker import Source, WorkerSpec
from tensorfusion_iac.report.preview import Change, Manifest, Path
from tensorfusion_iac.report.world import World

ALL = "the pod template"
"""Stands among the unknown names for everything."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One side of a workload: how many pods run at once, and what each asks for.

    `pods`: None if unknown, or if nothing says it. `worker`: None if the pods ask for no GPU, are refused (`problems`), or
    if that is not known (`unknown`: annotations, `replicas`, a profile). `seen`: the worker as far as it is known.
    """

    manifest: Manifest
    template: Any
    pods: int | None
    enabled: bool
    worker: WorkerSpec | None = None
    seen: WorkerSpec | None = None
    sources: Mapping[str, Source] | None = None
    problems: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    unread_profile: str | None = None

    def workers(self, otherwise: int) -> int:
        """How many vGPU workers run; `otherwise` pods if the object does not say how many."""
        pods = otherwise if self.pods is None else self.pods
        limit = self.seen.enabled_replicas if self.seen is not None else None
        return pods if limit is None else min(pods, limit)


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload and its change. At least one side is there."""

    change: Change
    before: Asked | None
    after: Asked | None

    @property
    def kind(self) -> str:
        """Its kind."""
        return self.change.manifest.kind

    @property
    def namespace(self) -> str:
        """Its namespace, `default` where none is written."""
        return self.change.manifest.namespace or "default"

    @property
    def name(self) -> str:
        """Its name in the cluster, else the one in the program."""
        return self.change.manifest.name or self.change.resource

    @property
    def title(self) -> str:
        """What the report calls it: `ml/training`, with its kind unless that is the usual one."""
        kind = "" if self.kind == "Deployment" else f" ({self.kind})"
        return f"{self.namespace}/{self.name}{kind}"

    @property
    def refused(self) -> tuple[str, ...]:
        """Why admission would refuse its pods, in words."""
        return self.after.problems if self.after is not None else ()


def workloads_of(changes: Iterable[Change], before: World, after: World) -> tuple[Workload, ...]:
    """The workloads with pods that ask for GPUs, before or after, by namespace, name and kind."""
    found = []
    for change in changes:
        sides = (
            None if change.before is None else asked(change.before, before),
            None if change.after is None else asked(change.after, after),
        )
        if any(side is not None and (side.enabled or side.unknown) for side in sides):
            found.append(Workload(change, *sides))
    return tuple(sorted(found, key=lambda one: (one.namespace, one.name, one.kind, one.change.resource)))


def asked(manifest: Manifest, world: World) -> Asked | None:
    """What the pods of an object ask for; None if it describes no pods."""
    template = template_of(manifest.kind, manifest.name, manifest.raw)
    if template is None:
        return None
    pod = pod_from(manifest.kind, manifest.name, manifest.namespace, template.pod)
    namespace = manifest.namespace or "default"
    unknown = list(dict.fromkeys(_unknown(manifest, template)))
    named = profile_name(pod)
    profile = world.profile(namespace, named) if named is not None else None
    if named is not None and ("WorkloadProfile", namespace, named) in world.vague:
        unknown.append(f"WorkloadProfile {named}")
    resolution = resolve(
        pod,
        owner=template.owner,
        namespace=world.namespace(namespace),
        profile=profile,
        pools=world.pools_for(pod, profile),
        quota=world.quotas.get(namespace),
    )
    enabled = resolution.enabled or ENABLED_LABEL in unknown
    relevant = unknown if enabled else [name for name in unknown if name == ALL]
    problems = tuple(problem.text(annotation_naming) for problem in resolution.problems)
    pods = pods_at_once(manifest.kind, manifest.raw)
    if pods is not None and not 0 <= pods <= MAX_INT32:
        problems = (*problems, f"{pods} is no number of pods that Kubernetes takes; give 0 to {MAX_INT32}")
        pods = None
    return Asked(
        manifest,
        template.pod,
        pods,
        enabled,
        None if relevant or problems else resolution.worker,
        resolution.worker,
        resolution.sources,
        () if relevant else problems,
        tuple(relevant),
        named if profile is UNJUDGED and not relevant else None,
    )


def _unknown(manifest: Manifest, template: Template) -> Iterator[str]:
    """What of an object's demand is not known: short keys of annotations, `replicas`, or ALL."""
    metadata, spec = (*template.path, "metadata"), (*template.path, "spec")
    for path in manifest.unknown:
        if _covers(path, (*metadata, "annotations")) or _covers(path, (*spec, "containers")) or _is_item(path, spec):
            yield ALL
        elif path[:-1] == (*metadata, "annotations") and str(path[-1]).startswith(PREFIX):
            yield str(path[-1]).removeprefix(PREFIX)
        elif _covers(path, (*metadata, "labels", ENABLED_LABEL)):
            yield ENABLED_LABEL
        elif _covers(path, ("metadata", "namespace")):
            yield "namespace"
        elif path[-1] in ("replicas", "parallelism") and path[:-1] == template.path[:-1]:
            yield str(path[-1])


def _covers(path: Path, wanted: Path) -> bool:
    """Whether `wanted` is within what is unknown."""
    return wanted[: len(path)] == path


def _is_item(path: Path, spec: Path) -> bool:
    """Whether a whole container is unknown, or its name."""
    inside = path[len(spec) :] if path[: len(spec)] == spec else ()
    return inside[:1] == ("containers",) and (len(inside) == 2 or inside[2:] == ("name",))
