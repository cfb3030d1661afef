"""One resolution in progress: every source of a field by precedence, and the problems and warnings so far (SPEC §3).

Per field: annotation, then profile, then the namespace quota's defaults, then pool, then the built-in default. A source may
exist and not be at hand; `unknown_fields` tells what it might have said, so that nothing is refused that depends on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tensorfusion_iac.api.annotations import Parsed, one_source_problems
from tensorfusion_iac.api.context import UNJUDGED, NotJudged
from tensorfusion_iac.api.fields import AMOUNTS, BY_KEY, FIELDS
from tensorfusion_iac.api.pod import Pod
from tensorfusion_iac.api.problem import Problem, quote
from tensorfusion_iac.api.resources.gpupool import GPUPool
from tensorfusion_iac.api.resources.quota import GPUResourceQuota
from tensorfusion_iac.api.resources.workload import WorkloadProfile
from tensorfusion_iac.api.worker import Source

PROFILE_FIELDS: Final = frozenset(row.key for row in FIELDS if row.profile)
"""Short keys of what a WorkloadProfile can give."""

POOL_FIELDS: Final[Mapping[str, str]] = {
    "is-local-gpu": "spec.defaultUsingLocalGPU",
    "qos": "spec.qosConfig.defaultQoS",
    "vendor": "spec.nodeManagerConfig.defaultVendor",
    "isolation": "spec.nodeManagerConfig.defaultIsolationMode",
}
"""Short keys of what a GPUPool can give, and where it does."""

_RANK: Final[Mapping[Source, int]] = {
    source: rank for rank, source in enumerate((Source.ANNOTATION, Source.PROFILE, Source.QUOTA, Source.POOL))
}

_SAME: Final[Mapping[str, tuple[str, str]]] = {
    key: (f"tflops-{side}", f"compute-percent-{side}")
    for side in ("request", "limit")
    for key in (f"tflops-{side}", f"compute-percent-{side}")
}
"""Compute is one field per side: either key gives it."""

_REPLACING: Final[Mapping[str, tuple[str, ...]]] = {
    "dedicated-gpu": ("dedicated-gpu", *AMOUNTS),
    **{key: (*_SAME.get(key, (key,)), "dedicated-gpu") for key in AMOUNTS},
}
"""Annotations that would replace the value of a lower source: amounts and a dedicated card replace each other."""


def set_aside(problems: Iterable[Problem], unknown: Collection[str]) -> tuple[Problem, ...]:
    """The problems that hold whatever the fields in `unknown` (short keys) turn out to be; each once.

    What an unknown `workload-profile` or `gpupool` could give is unknown too.
    """
    fields = set(unknown)
    if "workload-profile" in fields:
        fields |= PROFILE_FIELDS
    if "gpupool" in fields:
        fields |= POOL_FIELDS.keys()
    return tuple(dict.fromkeys(problem for problem in problems if fields.isdisjoint(problem.lacking)))


@dataclass(slots=True)
class Merge:
    """The sources, and what has been found so far.

    `profile` and `quota` are None where there is none, and UNJUDGED where there is one that cannot be read; so is `pool`,
    as long as it is not chosen. `broken` are the annotations that are there and cannot be read.
    """

    pod: Pod
    annotated: Mapping[str, Any]
    broken: frozenset[str]
    profile: WorkloadProfile | NotJudged | None
    quota: GPUResourceQuota | NotJudged | None
    problems: list[Problem]
    warnings: list[Problem]
    pool: GPUPool | NotJudged = UNJUDGED
    sources: dict[str, Source] = field(default_factory=dict)
    _offered: dict[str, tuple[Any, Source]] = field(default_factory=dict)

    def offer(self, source: Source, layer: Mapping[str, Any]) -> None:
        """Take the values of a further source, below all that were taken before."""
        offered = self._offered
        for key, value in layer.items():
            if key not in offered:
                offered[key] = (value, source)

    def pick(self, key: str, default: Any = None) -> Any:
        """The value of `key` by precedence; its source is noted."""
        offered = self._offered.get(key)
        if offered is not None:
            self.sources[key] = offered[1]
            return offered[0]
        if default is not None:
            self.sources[key] = Source.DEFAULT
        return default

    def pick_first(self, keys: Sequence[str]) -> tuple[str, Any] | None:
        """Of keys that mean the same, the one that the highest source gives (of one source, the first), and its value."""
        offered, found = self._offered, None
        for key in keys:
            if key in offered and (found is None or _RANK[offered[key][1]] < _RANK[offered[found][1]]):
                found = key
        return None if found is None else (found, self.pick(found))

    def use_pool(self, pool: GPUPool) -> None:
        """Take the defaults of the pool that was chosen."""
        self.pool = pool
        self.offer(Source.POOL, pool.layer())

    def refuse(self, key: str, found: str, accepted: str, message: str, *needs: str) -> None:
        """Note a problem of the value of `key`, wherever that came from; `needs` are other fields that it rests on."""
        self.problems.append(self._problem(key, found, accepted, message, needs))

    def warn(self, key: str, found: str, accepted: str, message: str, *needs: str) -> None:
        """Note something suspicious that refuses nothing."""
        self.warnings.append(self._problem(key, found, accepted, message, needs))

    def where(self, key: str, source: Source | None = None) -> str:
        """What the value of `key` is called where it came from: an annotation's short key, or an object and a path."""
        source = source or self.sources.get(key)
        row = BY_KEY.get(key)
        path = (row and row.profile) or key
        if source is Source.PROFILE and self.profile is not UNJUDGED and self.profile is not None:
            return f"WorkloadProfile {self.profile.metadata.name} spec.{path}"
        if source is Source.QUOTA and self.quota is not UNJUDGED and self.quota is not None:
            inside = path.replace("resources.requests", "defaultRequests").replace("resources.limits", "defaultLimits")
            return f"GPUResourceQuota {self.quota.metadata.name} spec.single.{inside}"
        if source is Source.POOL and self.pool is not UNJUDGED:
            return f"GPUPool {self.pool.metadata.name} {POOL_FIELDS[key]}"
        return key

    def may_change(self, key: str) -> bool:
        """Whether a broken annotation, or a profile not at hand, may give `key` another value."""
        return key in self.broken or (self.profile is UNJUDGED and key in PROFILE_FIELDS and not self._annotated(key))

    def may_differ_by_pool(self, key: str) -> bool:
        """Whether `key` has its built-in default only because the pool, which may say otherwise, is not at hand."""
        return self.pool is UNJUDGED and self.sources.get(key) is Source.DEFAULT and key in POOL_FIELDS

    def unknown_fields(self) -> set[str]:
        """Short keys of the fields that a broken annotation, or a source not at hand, may give another value."""
        unknown = set(self.broken)
        above = {key for key, source in self.sources.items() if source in (Source.ANNOTATION, Source.PROFILE)}
        if self.profile is UNJUDGED:
            unknown |= {key for key in PROFILE_FIELDS if not self._annotated(key)}
        if self.quota is UNJUDGED:
            unknown |= {key for key in AMOUNTS if above.isdisjoint(_SAME.get(key, (key,)))}
        if self.pool is UNJUDGED:
            unknown |= POOL_FIELDS.keys() - above
        return unknown

    def certain(self) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
        """The problems and the warnings that hold whatever is unknown."""
        if not self.problems and not self.warnings:
            return (), ()
        unknown = self.unknown_fields()
        return set_aside(self.problems, unknown), set_aside(self.warnings, unknown)

    def _problem(self, key: str, found: str, accepted: str, message: str, needs: Iterable[str]) -> Problem:
        lacking: dict[str, None] = {}  # in order, each once
        for name in (key, *needs):
            if name in self.broken or not self._annotated(name):
                lacking |= dict.fromkeys(_REPLACING.get(name, (name,)))
        return Problem(self.where(key), found, accepted, message, tuple(lacking))

    def _annotated(self, key: str) -> bool:
        return any(same in self.annotated for same in _SAME.get(key, (key,)))


def begin(
    pod: Pod,
    parsed: Parsed,
    profile: WorkloadProfile | NotJudged | None,
    quota: GPUResourceQuota | NotJudged | None,
) -> Merge:
    """Put the sources of one pod in order; see `resolve` for the arguments. The pool comes later: it is one of the fields."""
    name: str | None = parsed.values.get("workload-profile")
    broken = frozenset([problem.field for problem in parsed.problems if problem.field not in parsed.values])
    missing = name is not None and profile is None
    read = profile if name is not None else None
    if missing or "workload-profile" in broken:
        read = UNJUDGED  # it would have said something
    merge = Merge(pod, parsed.values, broken, read, quota, [*pod.problems, *parsed.problems], list(parsed.warnings))
    merge.offer(Source.ANNOTATION, parsed.values)
    merge.pick("workload-profile")
    if missing:
        message = "{found} does not exist in the pod's namespace; {accepted}"
        merge.refuse("workload-profile", quote(name), "create it there, or name another WorkloadProfile", message)
    if read is not UNJUDGED and read is not None:
        layer = read.spec.layer()
        merge.offer(Source.PROFILE, layer)
        for problem in one_source_problems(layer):
            merge.problems.append(problem.renamed(lambda key: merge.where(key, Source.PROFILE)))
    if quota is not UNJUDGED and quota is not None:
        merge.offer(Source.QUOTA, quota.layer())
    return merge
