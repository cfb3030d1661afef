"""What the given files say about the cluster: pools, profiles, quotas, namespaces; and what they leave open (SPEC §3).

A file is never the whole cluster: what is not given is not judged, so that a manifest can be checked alone. An object that
is given but wrong counts as not given: it is reported itself, and nothing is concluded from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorfusion_iac.admission import AdmissionFacts, mutate
from tensorfusion_iac.admission.draft import shape_problems
from tensorfusion_iac.api.annotations import parse_annotations
from tensorfusion_iac.api.context import UNJUDGED, Namespace, NotJudged
from tensorfusion_iac.api.fields import BY_KEY
from tensorfusion_iac.api.names import PREFIX
from tensorfusion_iac.api.pod import read_pod
from tensorfusion_iac.api.problem import Problem
from tensorfusion_iac.api.resolve import Resolution, profile_name, resolve, set_aside
from tensorfusion_iac.api.resources import GPUPool, GPUResourceQuota, Model, WorkloadProfile
from tensorfusion_iac.api.worker import Source
from tensorfusion_iac.cli.objects import Object
from tensorfusion_iac.cli.pod_templates import Template

_NAME_LABEL = "kubernetes.io/metadata.name"
_POOL_DEFAULTS = ("isolation", "qos")
"""Fields that a pool gives a default, and that something can be refused for."""

_DECIDES_MODE = ("is-local-gpu", "isolation")
_WITH_PROFILE = frozenset(key for key, row in BY_KEY.items() if row.profile)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether the pods are enabled, what refuses them, and what only warns."""

    enabled: bool
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """The good objects of the files. Profiles and quotas by namespace; a namespace's first quota is the one that holds."""

    pools: Mapping[str, GPUPool] = field(default_factory=dict)
    profiles: Mapping[tuple[str, str], WorkloadProfile] = field(default_factory=dict)
    quotas: Mapping[str, GPUResourceQuota] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, objects: Iterable[tuple[Object, Model | None]]) -> Given:
        """From the files' objects, each with its model if it is one of ours and has no problem."""
        pools: dict[str, GPUPool] = {}
        profiles: dict[tuple[str, str], WorkloadProfile] = {}
        quotas: dict[str, GPUResourceQuota] = {}
        namespaces: dict[str, Mapping[str, str]] = {}
        for item, model in objects:
            if isinstance(model, GPUPool):
                pools[item.name] = model
            elif isinstance(model, WorkloadProfile):
                profiles[item.namespace, item.name] = model
            elif isinstance(model, GPUResourceQuota):
                quotas.setdefault(item.namespace, model)
            elif item.kind == "Namespace" and item.api_version == "v1":
                namespaces[item.name] = {**_labels(item.raw), _NAME_LABEL: item.name}
        return cls(pools, profiles, quotas, namespaces)

    def judge(self, template: Template, namespace: str) -> Judgement:
        """What is wrong with the pods of `template`, whatever is not given; the webhook's own decision if all is given."""
        named = profile_name(template.pod)
        profile = self.profiles.get((namespace, named), UNJUDGED) if named is not None else None
        quota = self.quotas.get(namespace)
        cluster = _Cluster(
            AdmissionFacts(Namespace(namespace, self.namespaces.get(namespace)), template.owner),
            profile,
            self._pools(template.pod, profile),
            _without_defaults(quota) if profile is UNJUDGED else quota,
        )
        found = cluster.resolve(template.pod)
        certain = set(parse_annotations(read_pod(template.pod).annotations).problems)
        problems = [item for item in found.problems if item in certain or not cluster.may_help(item, found)]
        if found.enabled:
            problems += shape_problems(template.pod) if isinstance(template.pod, Mapping) else ()
            problems += cluster.refused_later(template.pod, found)
        return Judgement(found.enabled, tuple(dict.fromkeys(problems)), found.warnings)

    def _pools(self, pod: Any, profile: WorkloadProfile | NotJudged | None) -> Mapping[str, GPUPool] | NotJudged:
        """The given pools, if the pod's is surely among them: the one it names, or one that is marked as the default."""
        named = _annotation(pod, "gpupool")
        if named is None and profile is UNJUDGED:
            return UNJUDGED
        if named is None and isinstance(profile, WorkloadProfile):
            named = profile.spec.pool_name or None
        if named is not None:
            return self.pools if named in self.pools else UNJUDGED
        return self.pools if any(pool.is_default for pool in self.pools.values()) else UNJUDGED


@dataclass(frozen=True, slots=True)
class _Cluster:
    """What is known to one pod: its profile, the pools, its namespace's quota; UNJUDGED for what is not at hand."""

    facts: AdmissionFacts
    profile: WorkloadProfile | NotJudged | None
    pools: Mapping[str, GPUPool] | NotJudged
    quota: GPUResourceQuota | None

    def resolve(self, pod: Any) -> Resolution:
        return resolve(
            pod, owner=self.facts.owner, namespace=self.facts.namespace, profile=self.profile, pools=self.pools, quota=self.quota
        )

    def may_help(self, problem: Problem, found: Resolution) -> bool:
        """Whether a profile or a pool that is not at hand could make it right by a value of its own."""
        if self.profile is UNJUDGED:
            unknown = [key for key in _WITH_PROFILE if found.sources.get(key) is not Source.ANNOTATION]
            if problem.field in unknown or not set_aside([problem], unknown):
                return True
        if self.pools is UNJUDGED and found.sources.get("isolation") is Source.DEFAULT and problem.lacking == ("isolation",):
            return True
        open_fields = [key for key in _POOL_DEFAULTS if found.sources.get(key) is Source.DEFAULT]
        return self.pools is UNJUDGED and problem.field in open_fields

    def refused_later(self, pod: Any, found: Resolution) -> Iterator[Problem]:
        """What admission refuses beyond the resolution; nothing while the mode or the isolation is open."""
        sources = {found.sources.get(key) for key in _DECIDES_MODE}
        if self.profile is UNJUDGED and sources != {Source.ANNOTATION}:
            return
        if self.pools is UNJUDGED and Source.DEFAULT in sources:
            return
        decision = mutate(pod, self.facts, profile=self.profile, pools=self.pools, quota=self.quota)
        for problem in decision.problems:
            about_images = self.pools is UNJUDGED and problem.field == "gpupool"
            if problem not in found.problems and not about_images:
                yield problem


def _without_defaults(quota: GPUResourceQuota | None) -> GPUResourceQuota | None:
    """The quota's ceilings alone: the profile may give what its defaults would."""
    if quota is None or quota.spec.single is None:
        return quota
    single = quota.spec.single.model_copy(update={"default_requests": None, "default_limits": None})
    return GPUResourceQuota(metadata=quota.metadata, spec=quota.spec.model_copy(update={"single": single}))


def _annotation(pod: Any, name: str) -> str | None:
    metadata = pod.get("metadata") if isinstance(pod, Mapping) else None
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    value = annotations.get(PREFIX + name) if isinstance(annotations, Mapping) else None
    return value if isinstance(value, str) else None


def _labels(raw: Mapping[str, Any]) -> Mapping[str, str]:
    metadata = raw.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return {key: value for key, value in labels.items() if isinstance(value, str)} if isinstance(labels, Mapping) else {}
