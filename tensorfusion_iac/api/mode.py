"""Where the GPU is: on the pod's node, in a sidecar there, or in remote worker pods (SPEC §2a)."""

from __future__ import annotations

from tensorfusion_iac.api.context import UNJUDGED
from tensorfusion_iac.api.levels import Mode
from tensorfusion_iac.api.merge import Merge
from tensorfusion_iac.api.problem import literal
from tensorfusion_iac.api.resources.gpupool import ClientComponent, ComponentConfig, WorkerComponent


def choose_mode(merge: Merge) -> Mode:
    """The mode, by `is-local-gpu` and `standalone-worker-mode`; a pool without the images that it needs is refused."""
    local: bool = merge.pick("is-local-gpu", False)
    standalone: bool = merge.pick("standalone-worker-mode", False)
    if local and not standalone:
        return Mode.LOCAL
    if local:
        _need_images(merge, "standalone-worker-mode", "a standalone worker", "{standalone-worker-mode} to false")
        return Mode.STANDALONE
    if standalone:
        message = "{found} says nothing without {is-local-gpu}: {accepted}; ignored"
        merge.warn("standalone-worker-mode", "true", "true", message, "is-local-gpu")
    _need_images(merge, "is-local-gpu", "a remote GPU", "{is-local-gpu} to true")
    return Mode.REMOTE


def _need_images(merge: Merge, key: str, what: str, instead: str) -> None:
    if merge.pool is UNJUDGED:
        return
    parts = merge.pool.spec.component_config or ComponentConfig()
    images = {
        "worker": (parts.worker or WorkerComponent()).image,
        "client": (parts.client or ClientComponent()).image,
    }
    missing = [f"spec.componentConfig.{part}.image" for part, image in images.items() if not image]
    if missing:
        accepted = f"{' and '.join(missing)} on GPUPool {merge.pool.metadata.name}"
        message = f"{{found}} needs {literal(accepted)}, or set {instead}"
        merge.refuse(key, what, accepted, message, "is-local-gpu", "standalone-worker-mode", "gpupool")
