"""`resolve`: from a pod and what the cluster says, the worker that it asks for, or every reason why not (SPEC §3).

Pure: no I/O, nothing changed, the same answer for the same input. The webhook, the command line and the components all
call this, and nothing else, to understand annotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import NamedTuple

from tensorfusion_iac.api.annotations import parse_annotations
from tensorfusion_iac.api.asked import ask
from tensorfusion_iac.api.cards import choose_card, choose_count, warn_of_size
from tensorfusion_iac.api.ceilings import quota_problems
from tensorfusion_iac.api.containers import inject, split_gpus
from tensorfusion_iac.api.context import UNJUDGED, Namespace, NotJudged, Owner
from tensorfusion_iac.api.levels import AutoscaleTarget, QoS
from tensorfusion_iac.api.merge import Merge, begin, set_aside
from tensorfusion_iac.api.mode import choose_mode
from tensorfusion_iac.api.names import ENABLED_LABEL, PRIORITY_CLASS_PREFIX
from tensorfusion_iac.api.pod import Pod, read_pod
from tensorfusion_iac.api.pools import take_pool
from tensorfusion_iac.api.problem import Problem, quote
from tensorfusion_iac.api.resources.gpupool import GPUPool
from tensorfusion_iac.api.resources.quota import GPUResourceQuota
from tensorfusion_iac.api.resources.workload import WorkloadProfile
from tensorfusion_iac.api.worker import Gang, ProfileRef, Source, WorkerSpec, canonical, to_json

__all__ = ["Resolution", "resolve", "set_aside"]


class Resolution(NamedTuple):
    """The answer. `worker` is None if the pod is not ours (`enabled` false) or is refused (`problems`).

    `forged` lists the full keys of system annotations that the user set: to be removed.
    """

    enabled: bool
    worker: WorkerSpec | None = None
    sources: Mapping[str, Source] = MappingProxyType({})
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    forged: tuple[str, ...] = ()

    def resolved(self) -> str:
        """The annotation `resolved`: canonical JSON of the worker and the sources."""
        if self.worker is None:
            raise ValueError("nothing was resolved")
        return canonical(to_json(self.worker, self.sources))


def resolve(
    pod: object,
    *,
    owner: Owner | None = None,
    namespace: Namespace | None = None,
    profile: WorkloadProfile | NotJudged | None = None,
    pools: Mapping[str, GPUPool] | NotJudged = UNJUDGED,
    quota: GPUResourceQuota | NotJudged | None = None,
) -> Resolution:
    """Resolve a pod or pod template (raw JSON).

    `profile` is the object that the pod's `workload-profile` names, None if there is no such object; `pools` are all pools by
    name; `quota` is the one of the pod's namespace. UNJUDGED says that an object is not at hand: then nothing is refused
    that depends on it. Malformed input gives problems, never an exception.
    """
    read = read_pod(pod)
    if read.enabled != "true":
        return Resolution(enabled=False, problems=read.illegible, warnings=_not_enabled(read))
    parsed = parse_annotations(read.annotations)
    merge = begin(read, parsed, profile, quota)
    worker = _worker(merge, owner, namespace, pools)
    if quota is not UNJUDGED and quota is not None:
        for over in quota_problems(worker, quota):
            merge.refuse(over.field, over.found, over.accepted, over.message, *over.lacking)
    problems, warnings = merge.certain()
    return Resolution(True, None if problems else worker, merge.sources, problems, warnings, parsed.forged)


def _not_enabled(pod: Pod) -> tuple[Problem, ...]:
    """What a pod that is not ours says about `enabled` in a way that turns nothing on (SPEC §1)."""
    warnings = []
    if pod.enabled not in (None, "true", "false"):
        message = "{found} turns nothing on; give {accepted}"
        warnings.append(Problem(f"label {ENABLED_LABEL}", quote(pod.enabled), '"true" or "false"', message))
    if pod.enabled is None and ENABLED_LABEL in pod.annotations:
        warnings += parse_annotations({ENABLED_LABEL: ""}).warnings
    return tuple(warnings)


def _worker(
    merge: Merge, owner: Owner | None, namespace: Namespace | None, pools: Mapping[str, GPUPool] | NotJudged
) -> WorkerSpec:
    """The worker as far as it can be told; it counts only if nothing is refused."""
    pool = take_pool(merge, namespace, pools)  # first, for its defaults
    mode = choose_mode(merge)
    qos: QoS = merge.pick("qos", QoS.MEDIUM)
    card = choose_card(merge)
    injected = inject(merge)
    container_gpus = split_gpus(merge, injected, mode)
    gpu_count, indices = choose_count(merge, injected)
    asked = ask(merge, card.isolation, card.template)
    warn_of_size(merge, card, asked)
    return WorkerSpec(
        mode=mode,
        pool=pool,
        workload=_workload(merge, owner),
        qos=qos,
        priority_class=merge.pod.priority_class or PRIORITY_CLASS_PREFIX + qos.value,
        isolation=card.isolation,
        vendor=card.vendor,
        gpu_count=gpu_count,
        containers=injected,
        compute_request=asked.compute_request,
        compute_limit=asked.compute_limit,
        vram_request_bytes=asked.vram_request,
        vram_limit_bytes=asked.vram_limit,
        container_gpus=container_gpus,
        gpu_model=card.model,
        gpu_indices=indices,
        dedicated=asked.dedicated,
        partition_template=card.template,
        profile=_profile_ref(merge),
        enabled_replicas=merge.pick("enabled-replicas"),
        autoscale=_autoscale(merge),
        disable_features=merge.pick("disable-features", ()),
        eviction_protection=merge.pick("eviction-protection"),
        gang=_gang(merge),
    )


def _workload(merge: Merge, owner: Owner | None) -> str:
    named: str | None = merge.pick("workload")
    if named is not None:
        return named
    merge.sources["workload"] = Source.OWNER if owner is not None else Source.POD
    return owner.name if owner is not None else merge.pod.name


def _profile_ref(merge: Merge) -> ProfileRef | None:
    profile = merge.profile
    if profile is UNJUDGED or profile is None:
        return None
    return ProfileRef(profile.metadata.name, profile.metadata.generation)


def _autoscale(merge: Merge) -> AutoscaleTarget | None:
    on: bool = merge.pick("autoscale", False)
    target: AutoscaleTarget = merge.pick("autoscale-target", AutoscaleTarget.ALL)
    if on:
        return target
    if merge.sources.pop("autoscale-target") is Source.ANNOTATION:
        message = "{found} says nothing without {autoscale}: {accepted}; ignored"
        merge.warn("autoscale-target", target.value, "true", message, "autoscale")
    return None


def _gang(merge: Merge) -> Gang | None:
    members: int | None = merge.pick("gang-min-members")
    timeout: timedelta | None = merge.pick("gang-timeout")
    if members:
        return Gang(members, timeout or None)
    if merge.sources.pop("gang-timeout", None) is Source.ANNOTATION:
        message = "{found} says nothing without {gang-min-members}; ignored"
        merge.warn("gang-timeout", "a timeout", "gang-min-members", message, "gang-min-members")
    return None
