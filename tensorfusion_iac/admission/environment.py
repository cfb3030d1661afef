"""The environment variables that admission gives to containers: their names, their sources, and how they are put in.

The names are part of the contract with images and programs (SPEC §2, §2a); client libraries and workers read them. Ours
stand first, so that the user's own variables can refer to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tensorfusion_iac.admission.draft import Container, Draft
from tensorfusion_iac.api.problem import Problem

VRAM_FRACTION = "TENSOR_FUSION_VRAM_FRACTION"
"""VRAM limit / usable memory of the chosen card, for flags such as vLLM's --gpu-memory-utilization."""
VRAM_LIMIT_MIB = "TENSOR_FUSION_VRAM_LIMIT_MIB"
"""The VRAM limit, in MiB."""
DISABLE_FEATURES = "TENSOR_FUSION_DISABLE_FEATURES"
"""The features turned off, a comma list: gpu-limiter, mem-manager, gpu-opt. For workers; absent if none."""
POD_UID = "TENSOR_FUSION_POD_UID"
"""The pod's UID: the name of its folder below the MPS directory."""
WORKER_LISTEN = "TENSOR_FUSION_WORKER_LISTEN"
"""Where a worker waits for its clients, as a URL."""
CONNECTION_URL = "TENSOR_FUSION_CONNECTION_URL"
"""Standalone: where the client finds the worker of its own pod, as a URL."""
CONNECTION_NAME = "TENSOR_FUSION_CONNECTION_NAME"
"""Remote: the TensorFusionConnection of this pod; it has the pod's name."""
CONNECTION_NAMESPACE = "TENSOR_FUSION_CONNECTION_NAMESPACE"
"""Remote: the namespace of both."""
GET_CONNECTION_URL = "TENSOR_FUSION_OPERATOR_GET_CONNECTION_URL"
"""Remote: whom to ask for the connection."""
LIBRARY_DIRECTORY = "TENSOR_FUSION_LIBRARY_DIRECTORY"
"""The client image's entrypoint copies its libraries and `ld.so.preload` to this directory, and ends."""
MPS_PIPE_DIRECTORY = "CUDA_MPS_PIPE_DIRECTORY"
MPS_ACTIVE_THREAD_PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"

Entry = dict[str, Any]


@lru_cache(maxsize=4096)
def literal(name: str, value: str) -> Entry:
    """A variable with a fixed value. Entries are shared: nobody may change one."""
    return {"name": name, "value": value}


def from_annotation(name: str, key: str) -> Entry:
    """A variable with the value of the pod's annotation `key`, read when the container starts; empty if there is none."""
    return from_field(name, f"metadata.annotations['{key}']")


@lru_cache(maxsize=4096)
def from_field(name: str, path: str) -> Entry:
    """A variable from a field of the pod (the downward API)."""
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def put(draft: Draft, container: Container, entries: Sequence[Entry]) -> None:
    """Give a container these variables; a value that the user set for one of them is replaced with a warning."""
    present: list[Mapping[str, Any]] = container.get("env") or []
    ours = {entry["name"]: entry for entry in entries}
    same = [item for item in present if item.get("name") in ours]
    if len(same) == len({item["name"] for item in same}) == len(ours) and all(item == ours[item["name"]] for item in same):
        return
    for name in dict.fromkeys(item["name"] for item in same if item != ours[item["name"]]):
        message = "{found}, but {accepted}; the value is replaced"
        field = f"container {container['name']} env {name}"
        draft.warnings.append(Problem(field, "set by hand", "TensorFusion sets it", message))
    container["env"] = [*entries, *(item for item in present if item.get("name") not in ours)]
