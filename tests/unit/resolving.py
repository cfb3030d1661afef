"""Pods, profiles, pools and quotas for the tests of `resolve`, as short as the tests need them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tensorfusion_iac.api import (
    PREFIX,
    UNJUDGED,
    GPUPool,
    GPUResourceQuota,
    Namespace,
    NotJudged,
    Owner,
    Problem,
    Resolution,
    WorkerSpec,
    WorkloadProfile,
    annotation_naming,
    resolve,
)

ENOUGH = {"vram-request": "4Gi"}
"""Asks for something, so that a test of another annotation has nothing else to say."""


def raw_pod(
    annotations: Mapping[str, object],
    containers: Iterable[str | Mapping[str, Any]] = ("python",),
    init: Iterable[str | Mapping[str, Any]] = (),
    **spec: object,
) -> dict[str, Any]:
    """An enabled pod; annotations by short key, containers by name or as they are."""
    return {
        "metadata": {
            "name": "chat-0",
            "labels": {f"{PREFIX}enabled": "true"},
            "annotations": {PREFIX + key: value for key, value in annotations.items()},
        },
        "spec": {"containers": _named(containers), "initContainers": _named(init), **spec},
    }


def container(name: str, gpus: object = None, *, sidecar: bool = False) -> dict[str, Any]:
    """A container with native GPUs; `sidecar` makes an init container a native sidecar."""
    found: dict[str, Any] = {"name": name}
    if gpus is not None:
        found["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    if sidecar:
        found["restartPolicy"] = "Always"
    return found


def a_profile(spec: Mapping[str, Any], name: str = "inference", generation: int = 7) -> WorkloadProfile:
    return WorkloadProfile.model_validate({"metadata": {"name": name, "generation": generation}, "spec": spec})


def a_pool(spec: Mapping[str, Any] | None = None, name: str = "main", default: object = True, **status: Any) -> GPUPool:
    """A pool with local GPUs, unless `spec` says otherwise."""
    annotations = {f"{PREFIX}is-default-pool": "true" if default is True else str(default)}
    metadata = {"name": name, "annotations": annotations}
    return GPUPool.model_validate(
        {"metadata": metadata, "spec": {"defaultUsingLocalGPU": True, **(spec or {})}, "status": status or None}
    )


def a_quota(single: Mapping[str, Any] | None = None, total: Mapping[str, Any] | None = None) -> GPUResourceQuota:
    return GPUResourceQuota.model_validate({"metadata": {"name": "team"}, "spec": {"single": single, "total": total}})


def ask(
    annotations: Mapping[str, object],
    *,
    pod: Mapping[str, Any] | None = None,
    containers: Iterable[str | Mapping[str, Any]] = ("python",),
    init: Iterable[str | Mapping[str, Any]] = (),
    profile: Mapping[str, Any] | WorkloadProfile | NotJudged | None = None,
    pools: Iterable[GPUPool] | NotJudged | None = None,
    quota: GPUResourceQuota | NotJudged | None = None,
    owner: Owner | None = None,
    namespace: Namespace | None = None,
) -> Resolution:
    """Resolve a pod with these annotations in a cluster with one local default pool; a profile given is also named."""
    if isinstance(profile, Mapping):
        profile = a_profile(profile)
    if profile is not None:
        annotations = {"workload-profile": "inference", **annotations}
    if pools is None:
        pools = (a_pool(),)
    return resolve(
        pod if pod is not None else raw_pod(annotations, containers, init),
        owner=owner,
        namespace=namespace,
        profile=profile,
        pools=pools if pools is UNJUDGED else {pool.metadata.name: pool for pool in pools},
        quota=quota,
    )


def accepted(resolution: Resolution) -> WorkerSpec:
    """The worker of a pod that must not be refused."""
    assert not problems(resolution)
    assert resolution.worker is not None
    return resolution.worker


def problems(resolution: Resolution) -> list[str]:
    """The problems as a manifest's reader sees them."""
    return texts(resolution.problems)


def warnings(resolution: Resolution) -> list[str]:
    return texts(resolution.warnings)


def texts(found: Iterable[Problem]) -> list[str]:
    return [problem.text(annotation_naming).replace(PREFIX, "") for problem in found]


def fields(found: Iterable[Problem]) -> list[str]:
    return [problem.field for problem in found]


def _named(containers: Iterable[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": item} if isinstance(item, str) else dict(item) for item in containers]
