"""Which profile and pool a pod means, for whoever has only some of the cluster's objects at hand: files, a stack, a preview.

What is surely meant is judged; for anything else `resolve` is told UNJUDGED, and refuses nothing that depends on it (SPEC §3).
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorfusion_iac.api.context import UNJUDGED, NotJudged
from tensorfusion_iac.api.names import key
from tensorfusion_iac.api.resources.gpupool import GPUPool
from tensorfusion_iac.api.resources.workload import WorkloadProfile


def profile_name(pod: object) -> str | None:
    """The WorkloadProfile that a pod (raw JSON) names, for the caller to look up."""
    return _annotation(pod, "workload-profile")


def pool_name(pod: object, profile: WorkloadProfile | NotJudged | None) -> str | None:
    """The GPUPool that a pod names, itself or by its profile."""
    named = _annotation(pod, "gpupool")
    return named or (profile.spec.pool_name if isinstance(profile, WorkloadProfile) else None) or None


def pools_at_hand(
    pod: object, profile: WorkloadProfile | NotJudged | None, pools: Mapping[str, GPUPool]
) -> Mapping[str, GPUPool] | NotJudged:
    """The pools, if the pod's is surely among them: the one that it names, or else one that is marked as the default."""
    named = pool_name(pod, profile)
    if named is not None:
        return pools if named in pools else UNJUDGED
    is_known = profile is not UNJUDGED and any(pool.is_default for pool in pools.values())
    return pools if is_known else UNJUDGED


def _annotation(pod: object, name: str) -> str | None:
    metadata = pod.get("metadata") if isinstance(pod, Mapping) else None
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    value = annotations.get(key(name)) if isinstance(annotations, Mapping) else None
    return value if isinstance(value, str) and value else None
