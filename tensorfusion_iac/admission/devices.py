"""Which containers see which devices: visible-devices variables, the vGPU resource, MPS for isolation hard (SPEC §2a, §7).

The containers that hold the GPUs read what the scheduler wrote for them, through the downward API; every other container
is told that it has none.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tensorfusion_iac.admission import environment
from tensorfusion_iac.admission.draft import Container, Draft
from tensorfusion_iac.api import Feature, Isolation, Mode, Problem, Vendor, WorkerSpec, container_key
from tensorfusion_iac.api.names import MPS_DIRECTORY, RESOURCE, RESOURCE_AMOUNT, WORKER_CONTAINER
from tensorfusion_iac.api.pod import NATIVE_GPU
from tensorfusion_iac.api.vendors import vendor_of_resource, visible_devices

MPS_VOLUME = "tensor-fusion-mps"
_MEBIBYTE = 1024 * 1024


def holders(worker: WorkerSpec) -> tuple[str, ...]:
    """The containers of this pod that open the devices, in pod order: injected ones, the sidecar, or none if remote."""
    if worker.mode is Mode.LOCAL:
        return worker.containers
    return (WORKER_CONTAINER,) if worker.mode is Mode.STANDALONE else ()


def show_devices(draft: Draft, worker: WorkerSpec) -> None:
    """Give every container its visible-devices variable, and the holders what they need to keep to their share."""
    holding = holders(worker)
    empty = {name for name, count in (worker.container_gpus or {}).items() if count == 0}
    for container in draft.every_container():
        name = container["name"]
        if name in holding and name not in empty:
            environment.put(draft, container, _of_holder(worker, name))
            if uses_mps(worker):
                draft.mount(container, _MPS_MOUNT)
        elif name in worker.containers:
            environment.put(draft, container, [*_none(worker.vendor), *_amounts_of_client(worker)])
        else:
            environment.put(draft, container, _none(worker.vendor))
    if holding and uses_mps(worker):
        draft.add_volume({"name": MPS_VOLUME, "hostPath": {"path": MPS_DIRECTORY, "type": "Directory"}})


def uses_mps(worker: WorkerSpec) -> bool:
    """Whether the pod's compute is bounded by CUDA MPS, which needs a folder of the node."""
    return worker.isolation is Isolation.HARD and worker.vendor is Vendor.NVIDIA and worker.mode is not Mode.REMOTE


def ask_for_devices(draft: Draft, worker: WorkerSpec) -> None:
    """Put the vGPU resource on the first holder, and take the native GPU requests off the injected containers."""
    first = next(iter(holders(worker)), None)
    for container in draft.every_container():
        name = container["name"]
        _set_resource(container, RESOURCE, RESOURCE_AMOUNT if name == first else None)
        if name in worker.containers:
            _set_resource(container, NATIVE_GPU, None)
        _warn_of_native(draft, container, worker.containers)


def ask_for_none(draft: Draft) -> None:
    """Take the vGPU resource off a pod that runs without TensorFusion: nobody would hand it out, and it would never start."""
    for container in draft.every_container():
        resources = container.get("resources") or {}
        if any(RESOURCE in (resources.get(side) or {}) for side in ("limits", "requests")):
            _set_resource(container, RESOURCE, None)
            message = "{found} is removed, since TensorFusion asks for it where it is needed; {accepted}"
            draft.warnings.append(
                Problem(f"container {container['name']} resources {RESOURCE}", "a value", "leave it out", message)
            )


_MPS_MOUNT = {
    "name": MPS_VOLUME, "mountPath": MPS_DIRECTORY, "subPathExpr": f"$({environment.POD_UID})",
}  # fmt: skip


def _of_holder(worker: WorkerSpec, container: str) -> list[environment.Entry]:
    visible = visible_devices(worker.vendor)
    entries = []
    if visible is not None:
        entries.append(environment.from_annotation(visible.variable, container_key("visible-devices", container)))
    entries += _amounts_of(container)
    if uses_mps(worker):
        entries.append(environment.from_field(environment.POD_UID, "metadata.uid"))
        entries.append(environment.literal(environment.MPS_PIPE_DIRECTORY, MPS_DIRECTORY))
        if Feature.GPU_LIMITER not in worker.disable_features:
            key = container_key("sm-percent", container)
            entries.append(environment.from_annotation(environment.MPS_ACTIVE_THREAD_PERCENTAGE, key))
    return entries


def _amounts_of(container: str) -> list[environment.Entry]:
    return [
        environment.from_annotation(environment.VRAM_FRACTION, container_key("vram-fraction", container)),
        environment.from_annotation(environment.VRAM_LIMIT_MIB, container_key("vram-limit-mib", container)),
    ]


def _amounts_of_client(worker: WorkerSpec) -> list[environment.Entry]:
    """A client of the sidecar has the sidecar's amounts; a remote one sees its limit as the card's whole memory."""
    if worker.mode is Mode.LOCAL:
        return []
    if worker.mode is Mode.STANDALONE:
        return _amounts_of(WORKER_CONTAINER)
    entries = [environment.literal(environment.VRAM_FRACTION, "1")]
    if worker.vram_limit_bytes is not None:
        entries.append(environment.literal(environment.VRAM_LIMIT_MIB, str(worker.vram_limit_bytes // _MEBIBYTE)))
    return entries


def _none(vendor: Vendor) -> list[environment.Entry]:
    """What tells a container that it has no device, where the vendor's runtime knows a word for it."""
    visible = visible_devices(vendor)
    return [] if visible is None or not visible.none else [environment.literal(visible.variable, visible.none)]


def _set_resource(container: Container, resource: str, amount: str | None) -> None:
    """Set both sides of one resource of a container, or remove them; a side left empty goes too."""
    resources: dict[str, Any] = dict(container.get("resources") or {})
    for side in ("limits", "requests"):
        amounts: dict[str, Any] = dict(resources.get(side) or {})
        if amount is None:
            if resource not in amounts:
                continue
            del amounts[resource]
        elif str(amounts.get(resource)) == amount:
            continue
        else:
            amounts[resource] = amount
        resources[side] = amounts
        if not amounts:
            del resources[side]
        container["resources"] = dict(resources)


def _warn_of_native(draft: Draft, container: Container, injected: Collection[str]) -> None:
    """A whole device of a device plugin beside, or instead of, a vGPU is hardly what was meant."""
    resources = container.get("resources") or {}
    for resource in dict.fromkeys([*(resources.get("limits") or {}), *(resources.get("requests") or {})]):
        if vendor_of_resource(resource) is None:
            continue
        field = f"container {container['name']} resources {resource}"
        if container["name"] in injected:
            message = "{found} comes on top of the vGPU; remove it, or {accepted}"
            draft.warnings.append(Problem(field, "a whole device", "say gpu-count", message))
        else:
            message = "{found} is asked for by a container that is not injected and sees no device; add it to {accepted}"
            draft.warnings.append(Problem(field, "a whole device", "inject-container", message))
