"""Pods for which isolation hard would promise what it cannot keep, or which the namespace does not admit with it.

A pod that reaches the node's devices by itself escapes MPS (SPEC §6); MPS needs a folder of the node, which Pod Security
levels above `privileged` forbid (ENFORCEMENT, "Tiers").
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from tensorfusion_iac.admission.devices import uses_mps
from tensorfusion_iac.api import Isolation, Mode, Namespace, Problem, WorkerSpec
from tensorfusion_iac.api.problem import quote

POD_SECURITY_LABEL = "pod-security.kubernetes.io/enforce"
_FORBIDS_HOST_PATH = ("baseline", "restricted")
_INSTEAD = "isolation soft or shared"


def confinement_problems(worker: WorkerSpec, pod: Mapping[str, Any], namespace: Namespace | None) -> Iterator[Problem]:
    """Why this pod cannot be isolation hard; nothing for other pods."""
    if worker.isolation is not Isolation.HARD or worker.mode is Mode.REMOTE:
        return
    spec = pod.get("spec") or {}
    if spec.get("hostPID") is True:
        yield _open("spec.hostPID", "true")
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            if (container.get("securityContext") or {}).get("privileged") is True:
                yield _open(f"container {container['name']} securityContext.privileged", "true")
    for volume in spec.get("volumes") or ():
        host_path = volume.get("hostPath")
        path = host_path.get("path") if isinstance(host_path, Mapping) else None
        if isinstance(path, str) and _leads_to_devices(path):
            yield _open(f"volume {volume.get('name')} hostPath", quote(path))
    level = (namespace.labels or {}).get(POD_SECURITY_LABEL) if namespace is not None else None
    if uses_mps(worker) and level in _FORBIDS_HOST_PATH:
        name = namespace.name if namespace is not None else ""
        message = "{found} needs a folder of the node for MPS (a hostPath), which Pod Security level "
        message += f"{level} of namespace {name} forbids; use {{accepted}} here"
        yield Problem("isolation", "hard", _INSTEAD, message)


def _leads_to_devices(path: str) -> bool:
    # Of slashes in front, normpath keeps two, for POSIX gives them a meaning; a kubelet does not.
    whole = posixpath.normpath("/" + path.strip("/"))
    return whole == "/" or any(whole == root or whole.startswith(f"{root}/") for root in ("/dev", "/proc", "/sys"))


def _open(field: str, found: str) -> Problem:
    message = "{found} reaches the node's devices past MPS, so isolation hard cannot be kept; remove it, or use {accepted}"
    return Problem(field, found, _INSTEAD, message)
