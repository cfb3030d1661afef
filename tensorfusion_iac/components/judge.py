"""What can be said of a workload before it is sent: the webhook's own decision, on what the program knows (SPEC §3).

Calls `api.resolve` on the template's facts and the values asked for. What is not at hand (a profile that only the cluster
has, the namespace's quota, an Output) is not judged here: the webhook decides then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorfusion_iac.api.annotations import parse_annotations
from tensorfusion_iac.api.context import UNJUDGED, Owner
from tensorfusion_iac.api.fields import BY_KEY
from tensorfusion_iac.api.levels import Isolation
from tensorfusion_iac.api.names import ENABLED_LABEL, PREFIX
from tensorfusion_iac.api.problem import Fault, Problem
from tensorfusion_iac.api.resolve import resolve, set_aside
from tensorfusion_iac.api.resources import GPUPool, WorkloadProfile
from tensorfusion_iac.api.worker import Source, WorkerSpec
from tensorfusion_iac.api.written import as_text

_NOTHING = (
    "{found}: give {vram-request}, {tflops-request} or {compute-percent-request}; "
    "without one the pods start only if a GPUResourceQuota of the namespace gives defaults"
)


@dataclass(frozen=True, slots=True)
class Known:
    """What the program says beside the template: the top owner, the profile and pool if it declares them itself (None: not
    at hand), and what the program calls each annotation, by short key.
    """

    owner: Owner
    profile: WorkloadProfile | None = None
    pool: GPUPool | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    def naming(self, name: str) -> str:
        """A problem's field as the program calls it."""
        if name in self.names:
            return self.names[name]
        return f"vgpu.{BY_KEY[name].argument}" if name in BY_KEY else name


@dataclass(frozen=True, slots=True)
class Verdict:
    """Problems refuse, warnings do not. `worker` is None where it could not be resolved; `sources` say where its fields come
    from, `unread_profile` names a profile that is not at hand. `texts` are the annotations asked for, by short key.
    """

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    worker: WorkerSpec | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    unread_profile: str | None = None


def judge(
    facts: Mapping[str, Any],
    asked: Mapping[str, Any],
    known: Known,
    pods: int | None = None,
    unknown: Collection[str] | None = None,
) -> Verdict:
    """Judge a template. `asked` are values by short key, put over the template's annotations; `pods` is how many run at once.

    `unknown`: None if everything is known; else the short keys whose values come later, and the verdict says what holds
    whatever they turn out to be. `facts` and `asked` are without them, and containers are judged only if `facts` has them.
    """
    texts, problems = _texts(asked)
    annotations = _merged(facts, texts)
    absent = {*(unknown or ()), *(problem.field for problem in problems)}
    sources: Mapping[str, Source] = {}
    if unknown is not None and "spec" not in facts:
        parsed = parse_annotations(annotations)
        found, warnings, worker = parsed.problems, parsed.warnings, None
    else:
        pool = _pool(annotations, known)
        resolution = resolve(
            _pod(annotations, facts.get("spec") or {}),
            owner=known.owner,
            profile=known.profile or UNJUDGED,
            pools={pool.metadata.name: pool} if pool is not None else UNJUDGED,
            quota=UNJUDGED,
        )
        found, warnings, worker, sources = resolution.problems, resolution.warnings, resolution.worker, resolution.sources
    problems += set_aside(found, absent)
    problems += _too_many_enabled(annotations, pods)
    problems.sort(key=_place)
    doubts = list(set_aside(warnings, absent))
    if problems or unknown is not None:
        return Verdict(tuple(problems), tuple(doubts), None, texts)
    unread = annotations.get(PREFIX + "workload-profile") if known.profile is None else None
    if worker is not None and unread is None and _asks_nothing(worker):
        doubts.append(Problem("vram-request", "nothing asked for", "an amount of memory or compute", _NOTHING))
    return Verdict((), tuple(doubts), worker, texts, sources, unread)


def _place(problem: Problem) -> int:
    """The table's order; what is not an annotation comes last."""
    return _PLACES.get(problem.field, len(_PLACES))


_PLACES = {key: place for place, key in enumerate(BY_KEY)}


def _texts(asked: Mapping[str, Any]) -> tuple[dict[str, str], list[Problem]]:
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    for key, value in asked.items():
        try:
            texts[key] = as_text(key, value)
        except Fault as fault:
            problems.append(fault.at(key))
    return texts, problems


def _merged(facts: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    own = (facts.get("metadata") or {}).get("annotations") or {}
    return {**own, **{PREFIX + key: text for key, text in texts.items()}}


def _pod(annotations: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"labels": {ENABLED_LABEL: "true"}, "annotations": annotations}, "spec": spec}


def _pool(annotations: Mapping[str, Any], known: Known) -> GPUPool | None:
    """The pool, if the program declares the one that is named."""
    named = annotations.get(PREFIX + "gpupool")
    if named is None and known.profile is not None:
        named = known.profile.spec.pool_name
    return known.pool if known.pool is not None and named == known.pool.metadata.name else None


def _too_many_enabled(annotations: Mapping[str, Any], pods: int | None) -> list[Problem]:
    """More pods with TensorFusion than pods (SPEC §5: refused before anything is sent)."""
    text = annotations.get(PREFIX + "enabled-replicas")
    if pods is None or not isinstance(text, str):
        return []
    try:
        enabled: int = BY_KEY["enabled-replicas"].parse(text)
    except Fault:
        return []
    if enabled <= pods:
        return []
    message = f"{{found}} is above replicas {pods}; give {{accepted}}, or leave it out for all"
    return [Problem("enabled-replicas", str(enabled), f"at most {pods}", message)]


def _asks_nothing(worker: WorkerSpec) -> bool:
    if worker.dedicated or worker.isolation is Isolation.SHARED:
        return False
    if worker.isolation is Isolation.PARTITIONED and worker.partition_template is not None:
        return False
    compute = worker.compute_request
    return worker.vram_request_bytes is None and (compute is None or compute.value == 0)
