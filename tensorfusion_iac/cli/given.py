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
from tensorfusion_iac.api.at_hand import pool_name, pools_at_hand, profile_name
from tensorfusion_iac.api.context import UNJUDGED, Namespace, NotJudged
from tensorfusion_iac.api.fields import AMOUNTS
from tensorfusion_iac.api.names import key
from tensorfusion_iac.api.problem import Problem
from tensorfusion_iac.api.resolve import Resolution, resolve
from tensorfusion_iac.api.resources import GPUPool, GPUResourceQuota, Model, ObjectMeta, WorkloadProfile
from tensorfusion_iac.api.worker import Source
from tensorfusion_iac.cli.objects import Object
from tensorfusion_iac.cli.pod_templates import Template

_NAME_LABEL = "kubernetes.io/metadata.name"
_DECIDES_MODE = ("is-local-gpu", "isolation")


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
        cluster = _Cluster(
            AdmissionFacts(Namespace(namespace, self.namespaces.get(namespace)), template.owner),
            profile,
            pools_at_hand(template.pod, profile, self.pools),
            self.quotas.get(namespace),
        )
        found = cluster.resolve(template.pod)
        problems = list(found.problems)
        if found.enabled:
            problems += cluster.nothing_asked(template.pod)
            problems += shape_problems(template.pod) if isinstance(template.pod, Mapping) else ()
            problems += cluster.refused_later(template.pod, found)
        return Judgement(found.enabled, tuple(dict.fromkeys(problems)), found.warnings)


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

    def nothing_asked(self, pod: Any) -> Iterator[Problem]:
        """A pod that asks for nothing is wrong even if its pool is not given: only a quota or a profile gives amounts."""
        if self.profile is UNJUDGED or self.pools is not UNJUDGED:
            return
        name = pool_name(pod, self.profile) or "default"
        plain_pool = GPUPool(metadata=ObjectMeta(name=name, annotations={key("is-default-pool"): "true"}))
        found = resolve(pod, profile=self.profile, pools={name: plain_pool}, quota=self.quota)
        yield from (problem for problem in found.problems if set(AMOUNTS) <= set(problem.lacking))

    def refused_later(self, pod: Any, found: Resolution) -> Iterator[Problem]:
        """What admission refuses beyond the resolution; nothing while the mode or the isolation is open."""
        sources = {found.sources.get(name) for name in _DECIDES_MODE}
        if self.profile is UNJUDGED and sources != {Source.ANNOTATION}:
            return
        if self.pools is UNJUDGED and Source.DEFAULT in sources:
            return
        decision = mutate(pod, self.facts, profile=self.profile, pools=self.pools, quota=self.quota)
        yield from (problem for problem in decision.problems if problem not in found.problems)


def _labels(raw: Mapping[str, Any]) -> Mapping[str, str]:
    metadata = raw.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return {name: value for name, value in labels.items() if isinstance(value, str)} if isinstance(labels, Mapping) else {}
